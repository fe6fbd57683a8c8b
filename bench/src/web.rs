//! Measures `WebFetch` of a page of 1 MB beside fetching and converting it by hand, and of one that is
//! kept. The time of a turn with a tool that does nothing is subtracted.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, ask, milliseconds_since};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{CALLS, STEPS, Upstream};

const PAGE_BYTES: usize = 1_000_000;
const RUNS: usize = 9;
/// Fetches of a page that is kept.
const KEPT_RUNS: usize = 51;

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let page = page();
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("page.html");
    fs::write(&file, &page).expect("a new file");
    let site = Site::start(page).await;
    upstream.calls(&[("WebFetch", json!({ "url": site.url() }))]);

    let mut fetching = Fetching::start(upstream, &site, "0s").await;
    let (mut fetches, mut by_hand) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        fetches.push(fetching.time().await);
        by_hand.push(site.fetch().await + convert(&file, &site.url()).await);
    }
    let (fetch, by_hand) = (median(fetches), median(by_hand));
    let detail = format!("{fetch:.1} ms, by hand {by_hand:.1} ms");
    let what = "WebFetch of 1 MB to a plain fetch and the conversion";
    report.ratio(what, fetch / by_hand, Bound::AtMost(3.0), detail);

    let mut fetching = Fetching::start(upstream, &site, "15m").await;
    let mut fetches = Vec::new();
    for _ in 0..KEPT_RUNS {
        fetches.push(fetching.time().await);
    }
    let detail = "the text of the page goes upstream with it".to_owned();
    report.milliseconds("WebFetch of a kept page", median(fetches), Bound::AtMost(2.0), detail);
}

/// A server whose turns fetch a page, and clients of it.
struct Fetching {
    plain: Client,
    client: Client,
    _server: Process,
}

impl Fetching {
    /// The server keeps pages so long. It has fetched the page once.
    async fn start(upstream: &Upstream, site: &Site, cache: &str) -> Self {
        let settings = format!(
            "permissions.allow = [\"WebFetch(domain:127.0.0.1)\"]\n\
             web.trusted_hosts = [\"{}\"]\nweb.cache = \"{cache}\"\n",
            site.address
        );
        let server = process::server(&upstream.url(), &settings).await;
        let plain = Client::connect(server.address, &ask(STEPS, true, "none")).await;
        let client = Client::connect(server.address, &ask(CALLS, true, "none")).await;
        let mut fetching = Self { plain, client, _server: server };
        fetching.time().await;
        fetching
    }

    /// What the call adds to a turn, in milliseconds.
    async fn time(&mut self) -> f64 {
        let turn = self.plain.time().await;
        self.client.time().await - turn
    }
}

/// Serves the page.
struct Site {
    address: SocketAddr,
    client: reqwest::Client,
    _serving: JoinSet<()>,
}

impl Site {
    async fn start(page: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/", get(move || async move { Html(page) }));
        let mut serving = JoinSet::new();
        serving.spawn(async { axum::serve(listener, router).await.expect("serves") });
        // Cannot fail: no other provider was installed.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { address, client, _serving: serving }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// How long a plain fetch of it takes, in milliseconds.
    async fn fetch(&self) -> f64 {
        let start = Instant::now();
        let response = self.client.get(self.url()).send().await.expect("it answers");
        let page = response.bytes().await.expect("a body");
        assert!(PAGE_BYTES <= page.len(), "{} bytes", page.len());
        milliseconds_since(start)
    }
}

/// How long the worker takes for it, in milliseconds.
async fn convert(page: &Path, url: &str) -> f64 {
    let start = Instant::now();
    let mut worker = Command::new(process::this_path());
    worker.args(["__worker", "html", url]).env_clear().env("MIMALLOC_ARENA_RESERVE", "0");
    worker.stdin(File::open(page).expect("our own file")).stderr(Stdio::null());
    let output = worker.output().await.expect("our own program");
    assert!(output.status.success() && !output.stdout.is_empty(), "{:?}", output.status);
    milliseconds_since(start)
}

/// An article of 1 MB, with headings, links and emphasis.
fn page() -> String {
    let mut page = "<!doctype html><title>Quinces</title><article><h1>Quinces</h1>".to_owned();
    let mut number = 0;
    while page.len() < PAGE_BYTES {
        number += 1;
        let _ = write!(
            page,
            "<h2>Part {number}</h2><p>A quince is <em>hard</em> and sour until it is cooked, and \
             <a href=\"/part/{number}\">part {number}</a> says how long that takes. Some people \
             put one between their clothes, for its smell.</p><ul><li>Peel it.<li>Cook it.</ul>"
        );
    }
    page + "</article>"
}
