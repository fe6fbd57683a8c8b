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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
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

fn own_endpoints(upstream: &str) -> OwnEndpoints {
    let own = OwnEndpoints::new(&upstream.parse().unwrap());
    own.listens_on("127.0.0.1:8787".parse().unwrap());
    own
}

impl Fixture {
    fn new(settings: &str, names: Names) -> Self {
        Self::with_upstream(settings, Arc::new(names), UPSTREAM)
    }

    fn with_upstream(settings: &str, resolver: Arc<dyn Resolver>, upstream: &str) -> Self {
        let settings: WebSettings = toml::from_str(settings).unwrap();
        let connections = Connections::default();
        let layer = connections.clone();
        let destinations = Destinations::new(resolver, own_endpoints(upstream));
        let fetcher =
            Fetcher::new(&settings, destinations, |builder| builder.connector_layer(layer.clone()))
                .unwrap();
        // Text needs no worker.
        let workers = Workers::new(std::path::Path::new("/bin/false"));
        let trusted = settings.trusted_hosts.clone();
        let web = Web { fetcher, workers, trusted, cache: cache(settings.cache) };
        Self { web, connections }
    }

    /// What a fetch tells the model.
    async fn fetch(&self, url: &str) -> String {
        let url = match self.web.parse(url) {
            Ok(url) => url,
            Err(error) => return format!("Error: {error}"),
        };
        match self.web.fetch(&KeyId::new("key"), &url, &CancellationToken::new()).await {
            Ok(FetchOutcome::Page { page, is_cached }) => {
                let cached = if is_cached { " (cached)" } else { "" };
                format!("{} {}{cached}", page.status.as_u16(), page.text)
            }
            Ok(FetchOutcome::Redirect { target, .. }) => format!("to {target}"),
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
async fn w23_fetches_of_one_name_keep_to_their_own_addresses() {
    let port = server(vec![text("mine")]).await;
    // The one that looks last finds an address where nobody listens.
    let names = Names::default().with("wiki.local", &[&["127.0.0.1"], &["127.9.9.9"]]);
    let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]");
    let fixture = Fixture::new(&settings, names);
    let url = format!("http://wiki.local:{port}/");
    let (first, second) = (fixture.fetch(&url), format!("{url}other"));
    let (first, second) = tokio::join!(first, fixture.fetch(&second));
    assert_eq!(first, "200 mine");
    assert_eq!(second, "Error: the host could not be connected to");
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
async fn w26_a_public_upstream_is_reached_under_no_other_name() {
    let names = Names::default()
        .with("llm.example", &[&["93.184.216.34", "93.184.216.35"]])
        .with("other.example", &[&["93.184.216.35"]])
        .with("six.example", &[&["64:ff9b::5db8:d823"]])
        .with("slow.example", &[&["93.184.216.36"]]);
    let upstream = "https://llm.example/v1";
    let fixture = Fixture::with_upstream("", Arc::new(names), upstream);
    for url in [
        "https://llm.example/v1/models",
        "https://LLM.example./",
        "https://93.184.216.34/",
        "https://other.example/",
        "https://six.example/",
        "https://[::ffff:93.184.216.35]/",
        "https://[64:ff9b::5db8:d822]/",
        "https://[2002:5db8:d822::]/",
    ] {
        let answer = fixture.fetch(url).await;
        assert!(answer.contains("not public"), "{url}: {answer}");
    }
    assert_eq!(fixture.connections(), 0);
    let page = fixture.web.parse("https://slow.example/").unwrap();
    let found = fixture.web.fetcher.destinations.allowed_addresses(&page).await;
    assert_eq!(found, Ok(vec!["93.184.216.36:443".parse().unwrap()]));
}

#[tokio::test]
async fn what_cannot_be_read_is_known_before_anyone_is_asked() {
    let names = Names::default().with("a.example", &[&["10.0.0.1"]]);
    let settings = "trusted_hosts = ['10.0.0.7:80', '127.0.0.1:8787', '127.0.0.1:4000']";
    let fixture = Fixture::new(settings, names);
    let refused = |url: &str| fixture.web.refuse_known(&fixture.web.parse(url).unwrap()).is_err();
    for url in [
        "https://10.1.2.3/",
        "https://[::1]/",
        "http://169.254.169.254/",
        "http://127.0.0.1:8787/",
        "http://127.0.0.1:4000/",
    ] {
        assert!(refused(url), "{url}");
    }
    // Of a name only the name service could tell.
    for url in ["http://10.0.0.7/", "https://93.184.216.34/", "https://a.example/"] {
        assert!(!refused(url), "{url}");
    }
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
        (
            "https://nowhere.example/secret",
            "Error: the page redirects to a host whose name could not be resolved",
        ),
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

/// What a server does with the connections that come to it.
#[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
async fn served<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.read(&mut [0; 4096]).await;
            tokio::spawn(serve(socket));
        }
    });
    port
}

/// Sends `head`, and then `piece` after `piece` without an end.
async fn trickle(mut socket: TcpStream, head: &'static str, piece: &'static str) {
    // Slow enough to stay below the limits of size, and quick enough for any limit of one read.
    let mut pace = tokio::time::interval(Duration::from_millis(2));
    let mut sent = socket.write_all(head.as_bytes()).await;
    while sent.is_ok() && !piece.is_empty() {
        pace.tick().await;
        sent = socket.write_all(piece.as_bytes()).await;
    }
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn w28_a_page_has_a_time_limit() {
    for (head, piece) in [
        // Accepts and says nothing.
        ("", ""),
        ("HTTP/1.1 200 OK\r\nx: ", "y"),
        ("HTTP/1.1 200 OK\r\n", "x: y\r\n"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1", ";x"),
    ] {
        let port = served(move |socket| trickle(socket, head, piece)).await;
        let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]\ntimeout = '60ms'");
        let names = Names::default().with("wiki.local", &[&["127.0.0.1"]]);
        let fixture = Fixture::new(&settings, names);
        let answer = fixture.fetch(&format!("http://wiki.local:{port}/")).await;
        assert!(answer.contains("did not come whole within 60 ms"), "{head} {piece}: {answer}");
    }
}

/// Answers after a time, or never.
#[derive(Debug)]
struct Late(Option<Duration>);

impl Resolver for Late {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let wait = self.0;
        Box::pin(async move {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
            Ok(vec!["93.184.216.34".parse().unwrap()])
        })
    }
}

/// Connects to nothing, ever.
#[derive(Clone, Debug)]
struct Stuck<S>(S);

impl<R, S: Service<R>> Service<R> for Stuck<S>
where
    S::Response: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, _: R) -> Self::Future {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn w28_finding_a_host_and_connecting_to_it_share_one_limit() {
    let settings: WebSettings = toml::from_str("connect_timeout = '10s'\ntimeout = '30s'").unwrap();
    let url = PageUrl::parse("https://a.example/", &TrustedHosts::default()).unwrap();
    for wait in [None, Some(Duration::ZERO), Some(Duration::from_secs(7))] {
        let destinations = Destinations::new(Arc::new(Late(wait)), own_endpoints(UPSTREAM));
        let fetcher = Fetcher::new(&settings, destinations, |builder| {
            builder.connector_layer(tower::layer::layer_fn(Stuck))
        });
        let fetcher = fetcher.unwrap();
        let began = tokio::time::Instant::now();
        let error = fetcher.fetch(&url).await.unwrap_err();
        assert_eq!(error.to_string(), "no connection to the host within 10 s");
        // The clock of the test stands still but for what is waited for.
        assert_eq!(began.elapsed().as_secs(), 10, "{wait:?}");
    }
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
async fn the_status_of_an_error_is_told_whatever_comes_with_it() {
    let of_type = |status: &str, kind: &str, body: &[u8]| {
        response(&format!("{status}\r\ncontent-type: {kind}"), body)
    };
    let small = "max_bytes = '10KiB'";
    for (answer, expected) in [
        (of_type("404 Not Found", "text/plain", b"gone"), "404 gone"),
        (of_type("404 Not Found", "application/octet-stream", b"\0\x01"), "404 "),
        (of_type("500 Internal Server Error", "image/png", b"\x89PNG"), "500 "),
        (of_type("500 Internal Server Error", "text/plain", b"a\0b"), "500 "),
        // No worker can be started in these tests.
        (of_type("403 Forbidden", "text/html", b"<p>No."), "403 "),
        (of_type("403 Forbidden", "application/pdf", b"no PDF"), "403 no PDF"),
        (of_type("404 Not Found\r\ncontent-encoding: zstd", "text/plain", b"x"), "404 "),
        (of_type("404 Not Found\r\ncontent-encoding: br", "text/plain", b"no br"), "404 "),
        (of_type("503 Busy", "text/plain", &[b'x'; 11 << 10]), "503 "),
        // Announces more than it sends.
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 9\r\n\r\nx".to_vec(), "502 "),
        (of_type("304 Not Modified", "image/png", b""), "304 "),
    ] {
        let (fixture, url) = wiki(vec![answer], small).await;
        assert_eq!(fixture.fetch(&url).await, expected);
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
async fn the_status_of_an_error_is_told_when_its_body_never_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let stalled = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await;
        let _ = socket.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nx").await;
        std::future::pending::<()>().await;
    });
    let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]\ntimeout = '500ms'");
    let fixture = Fixture::new(&settings, Names::default().with("wiki.local", &[&["127.0.0.1"]]));
    assert_eq!(fixture.fetch(&format!("http://wiki.local:{port}/")).await, "404 ");
    stalled.abort();
}

#[tokio::test]
async fn pages_are_kept_by_their_url_and_client() {
    let (fixture, url) = wiki(vec![text("first"), text("second"), text("third")], "").await;
    assert_eq!(fixture.fetch(&format!("{url}#a")).await, "200 first");
    assert_eq!(fixture.fetch(&format!("{url}#b")).await, "200 first (cached)");
    assert_eq!(fixture.fetch(&format!("{url}?q")).await, "200 second");
    let other = KeyId::new("other");
    let page = fixture.web.parse(&url).unwrap();
    let fetched = fixture.web.fetch(&other, &page, &CancellationToken::new()).await.unwrap();
    assert!(
        matches!(fetched, FetchOutcome::Page { page, is_cached: false } if page.text == "third")
    );
    let (fixture, url) = wiki(vec![response("404 Not Found", "gone"), text("back")], "").await;
    assert_eq!(fixture.fetch(&url).await, "404 gone");
    assert_eq!(fixture.fetch(&url).await, "200 back");
    let (fixture, url) = wiki(vec![text("a"), text("b")], "cache = '0s'").await;
    assert_eq!(fixture.fetch(&url).await, "200 a");
    assert_eq!(fixture.fetch(&url).await, "200 b");
}

#[tokio::test]
async fn calls_that_want_one_page_at_once_share_its_fetch() {
    let (fixture, url) = wiki(vec![text("one"), text("two")], "").await;
    let both = tokio::join!(fixture.fetch(&url), fixture.fetch(&url));
    assert_eq!(both, ("200 one".to_owned(), "200 one (cached)".to_owned()));
    assert_eq!(fixture.connections(), 1);
    let (fixture, url) = wiki(vec![response("404 Not Found", "gone"), text("back")], "").await;
    let both = tokio::join!(fixture.fetch(&url), fixture.fetch(&url));
    assert_eq!(both, ("404 gone".to_owned(), "404 gone".to_owned()));
    assert_eq!(fixture.fetch(&url).await, "200 back");
    let (fixture, url) = wiki(vec![text("a"), text("b")], "cache = '0s'").await;
    tokio::join!(fixture.fetch(&url), fixture.fetch(&url));
    assert_eq!(fixture.connections(), 2);
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_no_other_one() {
    let asked = Arc::new(Notify::new());
    let (told, count) = (Arc::clone(&asked), Arc::new(AtomicUsize::new(0)));
    // The first request is never answered.
    let port = served(move |mut socket| {
        let (told, number) = (Arc::clone(&told), count.fetch_add(1, Ordering::Relaxed));
        async move {
            told.notify_one();
            if number == 0 {
                std::future::pending::<()>().await;
            }
            let _ = socket.write_all(&text("here")).await;
        }
    });
    let port = port.await;
    let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]");
    let fixture = Fixture::new(&settings, Names::default().with("wiki.local", &[&["127.0.0.1"]]));
    let url = fixture.web.parse(&format!("http://wiki.local:{port}/")).unwrap();
    let (key, stop, goes_on) =
        (KeyId::new("key"), CancellationToken::new(), CancellationToken::new());
    let first = fixture.web.fetch(&key, &url, &stop);
    let second = fixture.web.fetch(&key, &url, &goes_on);
    let stopping = async {
        asked.notified().await;
        stop.cancel();
    };
    let (first, second, ()) = tokio::join!(first, second, stopping);
    assert_eq!(first.unwrap_err(), FetchError::Cancelled);
    assert!(matches!(second, Ok(FetchOutcome::Page { page, .. }) if page.text == "here"));
    assert_eq!(fixture.connections(), 2);
}
