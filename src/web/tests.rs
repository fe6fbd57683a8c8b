//! Fetches from servers of the tests' own, by a resolver of their own, and counts the connections.

mod spellings;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either, Ready, ready};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tower::{BoxError, Layer, Service};

use super::*;
use crate::sync;

/// Where `upstream` is in these tests.
const UPSTREAM: &str = "http://127.0.0.1:4000/v1";

/// Answers of a name service: one list after the other, the last one again and again.
#[derive(Clone, Debug, Default)]
struct Names(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Names {
    fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let parsed = |list: &&[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect();
        let answers = answers.iter().map(parsed).collect();
        sync::lock(&self.0).insert(name.to_owned(), answers);
        self
    }
}

impl Resolver for Names {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut names = sync::lock(&self.0);
        let answer = names
            .get_mut(host)
            .map(|answers| if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() });
        Box::pin(async move { answer.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// Counts what asks for a connection.
#[derive(Clone, Debug, Default)]
struct Connections {
    made: Arc<AtomicUsize>,
    /// Whether none is let through.
    are_refused: bool,
}

impl Connections {
    fn refused() -> Self {
        Self { are_refused: true, ..Self::default() }
    }
}

#[derive(Clone, Debug)]
struct Counted<S>(S, Connections);

impl<S> Layer<S> for Connections {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted(inner, self.clone())
    }
}

impl<R, S: Service<R, Error = BoxError>> Service<R> for Counted<S> {
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Ready<Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.1.made.fetch_add(1, Ordering::Relaxed);
        if self.1.are_refused {
            return Either::Right(ready(Err("counted, and not made".into())));
        }
        Either::Left(self.0.call(request))
    }
}

struct Fixture {
    web: Web,
    connections: Connections,
}

impl Fixture {
    fn new(settings: &str, names: Names) -> Self {
        let settings: WebSettings = toml::from_str(settings).unwrap();
        let connections = Connections::default();
        let layer = connections.clone();
        let destinations = Destinations::new(Arc::new(names), &UPSTREAM.parse().unwrap());
        let fetcher =
            Fetcher::new(&settings, destinations, |builder| builder.connector_layer(layer.clone()))
                .unwrap();
        // Text needs no worker.
        let workers = Workers::new(std::path::Path::new("/bin/false"));
        let trusted = settings.trusted_hosts.clone();
        let web = Web { fetcher, workers, trusted, cache: cache(settings.cache) };
        web.listens_on("127.0.0.1:8787".parse().unwrap());
        Self { web, connections }
    }

    /// What a fetch tells the model.
    async fn fetch(&self, url: &str) -> String {
        let url = match self.web.parse(url) {
            Ok(url) => url,
            Err(error) => return format!("Error: {error}"),
        };
        match self.web.read(&KeyId::new("key"), &url, &CancellationToken::new()).await {
            Ok(Read::Page { page, is_cached }) => {
                let cached = if is_cached { " (cached)" } else { "" };
                format!("{} {}{cached}", page.status.as_u16(), page.text)
            }
            Ok(Read::Redirect { target, .. }) => format!("to {target}"),
            Err(error) => format!("Error: {error}"),
        }
    }

    fn connections(&self) -> usize {
        self.connections.made.load(Ordering::Relaxed)
    }
}

/// Answers each connection with the next of these bytes, and says where.
#[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
async fn server(answers: Vec<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(&answer).await;
        }
    });
    port
}

fn response(head: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let length = body.as_ref().len();
    let mut bytes = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    bytes.extend_from_slice(body.as_ref());
    bytes
}

fn text(body: &str) -> Vec<u8> {
    response("200 OK\r\ncontent-type: text/plain", body)
}

/// A fixture that trusts `wiki.local` at a port where these answers come.
async fn wiki(answers: Vec<Vec<u8>>, settings: &str) -> (Fixture, String) {
    let port = server(answers).await;
    let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]\n{settings}");
    let fixture = Fixture::new(&settings, Names::default().with("wiki.local", &[&["127.0.0.1"]]));
    (fixture, format!("http://wiki.local:{port}/"))
}

#[tokio::test]
async fn w1_w13_literals_and_names_of_inner_hosts_are_not_connected_to() {
    let names = Names::default().with("localhost", &[&["127.0.0.1", "::1"]]);
    let fixture = Fixture::new("", names);
    for url in [
        "http://127.0.0.1/",
        "http://0.0.0.0/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:0:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://192.0.0.192/",
        "http://10.0.0.1/",
        "http://192.168.1.1:80/",
        "http://localhost./",
        "http://LOCALHOST/",
        "http://ⓛocalhost/",
    ] {
        let answer = fixture.fetch(url).await;
        assert!(answer.contains("not public"), "{url}: {answer}");
    }
    assert_eq!(fixture.connections(), 0);
}

#[tokio::test]
async fn w22_a_name_must_have_public_addresses_alone() {
    let names = Names::default()
        .with("127.0.0.1.nip.io", &[&["127.0.0.1"]])
        .with("six.example", &[&["::1"]])
        .with("mixed.example", &[&["93.184.216.34", "10.0.0.1"]])
        .with("meta.example", &[&["169.254.169.254"]])
        .with("none.example", &[&[]]);
    let fixture = Fixture::new("", names);
    for host in ["127.0.0.1.nip.io", "six.example", "mixed.example", "meta.example"] {
        let answer = fixture.fetch(&format!("https://{host}/")).await;
        assert!(answer.contains("not public"), "{host}: {answer}");
        assert!(!answer.contains("10.0.0.1") && !answer.contains("169.254"), "{answer}");
    }
    for host in ["none.example", "unknown.example"] {
        let answer = fixture.fetch(&format!("https://{host}/")).await;
        assert!(answer.contains("could not be resolved"), "{host}: {answer}");
    }
    assert_eq!(fixture.connections(), 0);
}

#[tokio::test]
async fn w23_the_connection_goes_to_the_addresses_that_were_looked_at() {
    let port = server(vec![text("one")]).await;
    // A second answer would lead to another machine.
    let names = Names::default().with("wiki.local", &[&["127.0.0.1"], &["127.9.9.9"]]);
    let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]");
    let fixture = Fixture::new(&settings, names.clone());
    assert_eq!(fixture.fetch(&format!("http://wiki.local:{port}/")).await, "200 one");
    assert_eq!(
        names.resolve("wiki.local").await.unwrap(),
        ["127.9.9.9".parse::<IpAddr>().unwrap()]
    );
    // The next fetch looks again.
    let names = Names::default().with("a.example", &[&["10.0.0.1"], &["93.184.216.34"]]);
    let rebinding = Fixture::new("", names);
    assert!(rebinding.fetch("https://a.example/").await.contains("not public"));
    assert_eq!(rebinding.connections(), 0);
}

#[tokio::test]
async fn w26_our_own_address_and_upstream_are_refused_even_when_trusted() {
    let names = Names::default()
        .with("wiki.local", &[&["127.0.0.1"]])
        .with("meta.local", &[&["169.254.169.254"]])
        .with("link.local", &[&["fe80::1"]]);
    let settings =
        "trusted_hosts = ['wiki.local:8787', '127.0.0.1:8787', '[::ffff:127.0.0.1]:8787',
        'wiki.local:4000', '127.0.0.1:4000', 'meta.local:80', 'link.local:80', '0.0.0.0:8787']";
    let fixture = Fixture::new(settings, names);
    for url in [
        "http://wiki.local:8787/",
        "http://127.0.0.1:8787/",
        "http://[::ffff:127.0.0.1]:8787/",
        "http://0.0.0.0:8787/",
        "http://wiki.local:4000/v1/models",
        "http://127.0.0.1:4000/",
        "http://meta.local/",
        "http://link.local/",
    ] {
        let answer = fixture.fetch(url).await;
        assert!(answer.contains("not public"), "{url}: {answer}");
    }
    assert_eq!(fixture.connections(), 0);
}

#[tokio::test]
async fn w24_redirects_are_looked_at_one_by_one() {
    let moved = |to: &str| response(&format!("302 Found\r\nlocation: {to}"), "");
    let (fixture, url) = wiki(vec![moved("/b?c"), text("there")], "").await;
    assert_eq!(fixture.fetch(&url).await, "200 there");
    let (fixture, url) = wiki(vec![moved("/x"); 7], "").await;
    assert!(fixture.fetch(&url).await.contains("more than 5 times"));
    assert_eq!(fixture.connections(), 6);
    let names = Names::default()
        .with("wiki.local", &[&["127.0.0.1"]])
        .with("public.example", &[&["93.184.216.34"]])
        .with("inner.example", &[&["10.1.2.3"]]);
    for (to, expected) in [
        ("https://public.example/x", "to https://public.example/x"),
        ("http://public.example/x", "to https://public.example/x"),
        ("http://169.254.169.254/secret", "Error: the page redirects to an address"),
        ("https://inner.example/secret", "Error: the page redirects to an address"),
        ("https://u:p@public.example/secret", "Error: the page redirects to an address"),
        ("file:///secret", "Error: the page redirects to an address"),
        ("//127.1/secret", "Error: the page redirects to an address"),
        ("http://wiki.local:22/secret", "Error: the page redirects to an address"),
    ] {
        let port = server(vec![moved(to)]).await;
        let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]");
        let fixture = Fixture::new(&settings, names.clone());
        let answer = fixture.fetch(&format!("http://wiki.local:{port}/")).await;
        assert!(answer.starts_with(expected), "{to}: {answer}");
        assert!(!answer.contains("secret"), "{answer}");
        assert_eq!(fixture.connections(), 1, "{to}");
    }
    let (fixture, url) = wiki(vec![response("301 Moved", "")], "").await;
    assert!(fixture.fetch(&url).await.contains("HTTP 301 without a target"));
}

#[tokio::test]
async fn w27_bodies_have_limits_as_sent_and_as_decompressed() {
    let small = "max_bytes = '10KiB'\nmax_decoded = '100KiB'";
    let (fixture, url) = wiki(vec![text(&"x".repeat(11 << 10))], small).await;
    assert!(fixture.fetch(&url).await.contains("more than 10240 bytes as it is sent"));
    // Of a length that is not announced.
    let mut endless = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
    endless.extend(vec![b'x'; 20 << 10]);
    let (fixture, url) = wiki(vec![endless], small).await;
    assert!(fixture.fetch(&url).await.contains("as it is sent"));
    let bomb = |encoding: &str, bytes: &[u8]| {
        response(
            &format!("200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: {encoding}"),
            bytes,
        )
    };
    for (encoding, bytes) in
        [("gzip", gzip(&vec![b'x'; 5 << 20]).await), ("br", brotli(&vec![b'x'; 5 << 20]).await)]
    {
        assert!(bytes.len() < 10 << 10, "{encoding}");
        let (fixture, url) = wiki(vec![bomb(encoding, &bytes)], small).await;
        assert!(fixture.fetch(&url).await.contains("when it is decompressed"), "{encoding}");
    }
    let (fixture, url) = wiki(vec![bomb("gzip", &gzip(b"packed").await)], small).await;
    assert_eq!(fixture.fetch(&url).await, "200 packed");
    let (fixture, url) = wiki(vec![bomb("br", &brotli(b"packed").await)], small).await;
    assert_eq!(fixture.fetch(&url).await, "200 packed");
    let (fixture, url) = wiki(vec![bomb("gzip", b"not gzip at all")], small).await;
    assert!(fixture.fetch(&url).await.contains("cannot be decompressed"));
    let (fixture, url) = wiki(vec![bomb("gzip, br", b"x")], small).await;
    assert!(fixture.fetch(&url).await.contains("compressed in a way"));
}

async fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = async_compression::tokio::bufread::GzipEncoder::new(bytes);
    encoder.read_to_end(&mut packed).await.unwrap();
    packed
}

async fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = async_compression::tokio::bufread::BrotliEncoder::new(bytes);
    encoder.read_to_end(&mut packed).await.unwrap();
    packed
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
async fn w28_a_page_has_a_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // Accepts and says nothing.
    let silent = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.unwrap());
        }
    });
    let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]\ntimeout = '50ms'");
    let fixture = Fixture::new(&settings, Names::default().with("wiki.local", &[&["127.0.0.1"]]));
    let answer = fixture.fetch(&format!("http://wiki.local:{port}/")).await;
    assert!(answer.contains("did not come whole within 50 ms"), "{answer}");
    silent.abort();
}

#[tokio::test]
async fn w30_what_is_no_text_is_refused() {
    let typed =
        |kind: &str, body: &[u8]| response(&format!("200 OK\r\ncontent-type: {kind}"), body);
    let (fixture, url) = wiki(vec![typed("image/png", b"\x89PNG")], "").await;
    assert!(fixture.fetch(&url).await.contains("of the type image/png"));
    let (fixture, url) = wiki(vec![typed("text/plain", b"a\0b")], "").await;
    assert!(fixture.fetch(&url).await.contains("binary"));
    let (fixture, url) = wiki(vec![typed("text/plain; charset=latin1", b"f\xfcr")], "").await;
    assert_eq!(fixture.fetch(&url).await, "200 für");
}

#[tokio::test]
async fn pages_are_kept_by_their_url_and_client() {
    let (fixture, url) = wiki(vec![text("first"), text("second"), text("third")], "").await;
    assert_eq!(fixture.fetch(&format!("{url}#a")).await, "200 first");
    assert_eq!(fixture.fetch(&format!("{url}#b")).await, "200 first (cached)");
    assert_eq!(fixture.fetch(&format!("{url}?q")).await, "200 second");
    let other = KeyId::new("other");
    let page = fixture.web.parse(&url).unwrap();
    let read = fixture.web.read(&other, &page, &CancellationToken::new()).await.unwrap();
    assert!(matches!(read, Read::Page { page, is_cached: false } if page.text == "third"));
    let (fixture, url) = wiki(vec![response("404 Not Found", "gone"), text("back")], "").await;
    assert_eq!(fixture.fetch(&url).await, "404 gone");
    assert_eq!(fixture.fetch(&url).await, "200 back");
    let (fixture, url) = wiki(vec![text("a"), text("b")], "cache = '0s'").await;
    assert_eq!(fixture.fetch(&url).await, "200 a");
    assert_eq!(fixture.fetch(&url).await, "200 b");
}
