//! Tests the client against a server on loopback that answers from a script.

use bytes::Bytes;
use std::net::SocketAddr;

use reqwest::header::{CONTENT_LENGTH, HOST};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::*;
use crate::upstream::RequestBody;
use crate::upstream::stream::StreamEvent;

/// The answers of one connection, one for each request. After the last one the server waits
/// until the client closes.
type Script = Vec<&'static str>;

struct Upstream {
    settings: UpstreamSettings,
    /// The head and body of each request. `None` when the client closed a connection.
    heard: mpsc::UnboundedReceiver<Option<String>>,
    tasks: JoinSet<()>,
}

/// An answer after which the server closes the connection.
const CLOSE: &str = "(close)";
const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const HI: &str =
    "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn piece(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// An answer in pieces that does not end.
fn open_stream(pieces: &[&str]) -> &'static str {
    leak(pieces.iter().fold(HEAD.to_owned(), |answer, text| answer + &piece(text)))
}

fn stream(pieces: &[&str]) -> &'static str {
    leak(open_stream(pieces).to_owned() + "0\r\n\r\n")
}

fn answer(status: &str, headers: &str, body: &str) -> &'static str {
    leak(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
}

async fn upstream(connections: Vec<Script>) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (told, heard) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        for script in connections {
            let (connection, _) = listener.accept().await.unwrap();
            open.spawn(serve(connection, script, told.clone()));
        }
        open.join_all().await;
    });
    let settings = UpstreamSettings { url: url.parse().unwrap(), ..UpstreamSettings::default() };
    Upstream { settings, heard, tasks }
}

async fn serve(
    mut connection: TcpStream,
    script: Script,
    told: mpsc::UnboundedSender<Option<String>>,
) {
    for answer in script {
        if answer == CLOSE {
            return;
        }
        let Some(request) = request(&mut connection).await else { break };
        told.send(Some(request)).ok();
        connection.write_all(answer.as_bytes()).await.ok();
    }
    while request(&mut connection).await.is_some() {}
    told.send(None).ok();
}

/// Reads one request by its `content-length` or up to its last chunk. `None` at the end of the
/// connection.
async fn request(connection: &mut TcpStream) -> Option<String> {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let is_whole = length.is_none_or(|length| length.parse() == Ok(body.len()));
            if is_whole && (!head.contains("chunked") || body.ends_with("0\r\n\r\n")) {
                return Some(text);
            }
        }
        match connection.read(&mut bytes).await {
            Ok(count) if count > 0 => text.push_str(str::from_utf8(&bytes[..count]).unwrap()),
            _ => return None,
        }
    }
}

fn client(settings: &UpstreamSettings, key: Option<&Secret>) -> Result<Client, String> {
    let limits = Limits::default();
    Client::new(settings, &limits, key, MemoryBudget::new(limits.buffers))
}

impl Upstream {
    fn client(&self) -> Client {
        let key = Secret::new("sk-key");
        client(&self.settings, Some(&key)).unwrap()
    }

    async fn open(&self) -> Result<ChunkStream, Fault> {
        self.client().open(Bytes::from_static(b"{}"), &TraceHeaders::default()).await
    }
}

/// The texts of a stream, and the event or fault that ended it.
async fn read(stream: &mut ChunkStream) -> (String, Result<StreamEvent, Fault>) {
    let mut text = String::new();
    loop {
        match stream.next().await {
            Ok(StreamEvent::Chunk(chunk)) => {
                text.push_str(chunk.delta.content.as_deref().unwrap_or_default());
            }
            end => return (text, end),
        }
    }
}

async fn heard(upstream: &Upstream) -> (String, Result<StreamEvent, Fault>) {
    read(&mut upstream.open().await.unwrap()).await
}

#[tokio::test]
async fn asks_for_a_stream_and_sends_only_what_may_go_upstream() {
    let mut upstream = upstream(vec![vec![stream(&[HI, STOP, DONE])]]).await;
    let mut from = HeaderMap::new();
    for name in ["traceparent", "tracestate", "x-request-id", "x-litellm-tags", "cookie", "accept"]
    {
        from.insert(name, HeaderValue::from_static("client"));
    }
    let headers = TraceHeaders::new(&from, HeaderValue::from_static("ours"));
    let mut body = RequestBody::default();
    for piece in [r#"{"stream""#, "", ":true}"] {
        body.push(Bytes::from_static(piece.as_bytes()));
    }

    let mut stream = upstream.client().open(body, &headers).await.unwrap();

    let (text, end) = read(&mut stream).await;
    assert_eq!(text, "hi");
    assert!(matches!(end, Ok(StreamEvent::Done)));
    assert!(matches!(stream.next().await, Ok(StreamEvent::End)));
    let request = upstream.heard.recv().await.unwrap().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, r#"{"stream":true}"#);
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
    assert!(head.contains("authorization: Bearer sk-key\r\n"));
    for line in ["content-length: 15", "x-request-id: ours"] {
        assert!(head.lines().any(|sent| sent == line), "{head}");
    }
    let mut names: Vec<_> =
        head.lines().skip(1).map(|line| line.split_once(':').unwrap().0).collect();
    names.sort_unstable();
    let expected = [
        ACCEPT.as_str(),
        AUTHORIZATION.as_str(),
        CONTENT_LENGTH.as_str(),
        CONTENT_TYPE.as_str(),
        HOST.as_str(),
        "traceparent",
        "tracestate",
        "x-request-id",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_connection_whose_answer_ended_is_used_again() {
    let answer = stream(&[HI, STOP, DONE]);
    // The server accepts only one connection.
    let upstream = upstream(vec![vec![answer, answer, answer]]).await;
    let client = upstream.client();
    for _ in 0..3 {
        let mut stream = client.open(Bytes::new(), &TraceHeaders::default()).await.unwrap();
        assert!(matches!(read(&mut stream).await.1, Ok(StreamEvent::Done)));
        // The connection returns to the pool in tasks of this one thread.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

/// The socket of this process between these two addresses.
fn socket_between(local: SocketAddr, peer: SocketAddr) -> Result<std::net::TcpStream, Errno> {
    let us = pidfd_open(getpid(), PidfdFlags::empty())?;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let number = entry.file_name().to_str().unwrap().parse().unwrap();
        let socket = match pidfd_getfd(&us, number, PidfdGetfdFlags::empty()) {
            Err(Errno::BADF) => continue,
            descriptor => std::net::TcpStream::from(descriptor?),
        };
        if socket.local_addr().ok() == Some(local) && socket.peer_addr().ok() == Some(peer) {
            return Ok(socket);
        }
    }
    Err(Errno::NOTCONN)
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that proves nothing says so")]
async fn what_is_sent_upstream_is_sent_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = UpstreamSettings {
        url: format!("http://{address}/v1").parse().unwrap(),
        ..UpstreamSettings::default()
    };
    let client = client(&settings, None).unwrap();
    let headers = TraceHeaders::default();
    let mut asking = std::pin::pin!(client.open(Bytes::from_static(b"{}"), &headers));
    let asked = async {
        let (mut connection, peer) = listener.accept().await.unwrap();
        assert!(request(&mut connection).await.is_some());
        (connection, peer)
    };
    let (_connection, peer) = tokio::select! {
        asked = asked => asked,
        _ = &mut asking => unreachable!("nobody answers"),
    };
    match socket_between(peer, address) {
        // Some containers forbid looking at the process's own descriptors.
        Err(Errno::PERM | Errno::NOSYS) => eprintln!("skipped: this needs pidfd_getfd"),
        socket => assert!(socket.unwrap().nodelay().unwrap()),
    }
}

#[tokio::test]
async fn dropping_a_stream_closes_its_connection() {
    let mut upstream = upstream(vec![vec![open_stream(&[HI])]]).await;
    let mut stream = upstream.open().await.unwrap();
    assert!(matches!(stream.next().await, Ok(StreamEvent::Chunk(_))));
    assert!(upstream.heard.recv().await.unwrap().is_some());
    drop(stream);
    assert_eq!(upstream.heard.recv().await, Some(None));
}

#[tokio::test]
async fn u1_a_refused_connection_and_bad_tls_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let settings = UpstreamSettings {
        url: format!("http://{address}/v1").parse().unwrap(),
        ..UpstreamSettings::default()
    };
    let client = client(&settings, None).unwrap();
    let fault = client.probe().await.unwrap_err();
    assert!(matches!(fault, Fault::Unreachable(_)), "{fault:?}");

    let mut upstream = upstream(vec![vec![]]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    upstream.tasks.spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).await.ok();
    });
    upstream.settings.url = url.parse().unwrap();
    let fault = upstream.open().await.unwrap_err();
    assert!(matches!(fault, Fault::Tls(_)), "{fault:?}");
}

#[tokio::test]
async fn a_connection_that_closes_before_the_head_is_a_reset() {
    let upstream = upstream(vec![vec![CLOSE]]).await;
    let fault = upstream.open().await.unwrap_err();
    assert!(matches!(fault, Fault::Reset(_)), "{fault:?}");
}

#[tokio::test]
async fn u2_no_head_in_time_is_a_timeout() {
    let mut upstream = upstream(vec![vec![""]]).await;
    upstream.settings.first_byte_timeout = Duration::from_millis(20);
    assert_eq!(upstream.open().await.unwrap_err(), Fault::FirstByte(Duration::from_millis(20)));
}

#[tokio::test]
async fn u3_silence_in_the_stream_is_a_timeout() {
    let mut upstream = upstream(vec![vec![open_stream(&[HI])]]).await;
    upstream.settings.idle_timeout = Duration::from_millis(20);
    let (text, end) = heard(&upstream).await;
    assert_eq!(text, "hi");
    assert_eq!(end.unwrap_err(), Fault::Idle(Duration::from_millis(20)));
}

#[tokio::test]
async fn u4_comments_alone_are_a_timeout() {
    let mut upstream = upstream(vec![vec![open_stream(&[": ping\n\n"])]]).await;
    upstream.settings.comment_timeout = Duration::from_millis(20);
    let (_, end) = heard(&upstream).await;
    assert_eq!(end.unwrap_err(), Fault::Comment(Duration::from_millis(20)));
}

#[tokio::test]
async fn u5_a_rate_limit_keeps_upstreams_wait() {
    let answer =
        answer("429 Too Many", "llm_provider-retry-after: 7\r\n", r#"{"error":{"message":"m"}}"#);
    let upstream = upstream(vec![vec![answer]]).await;
    let fault = upstream.open().await.unwrap_err();
    assert_eq!(fault.retry_after(), Some(Duration::from_secs(7)));
    assert!(matches!(fault, Fault::Status(Refusal { status: 429, .. })));
}

#[test]
fn u5_a_wait_is_seconds_or_a_date_or_nothing() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
    let wait = |text: &'static str| {
        let headers = [(RETRY_AFTER, HeaderValue::from_static(text))].into_iter().collect();
        retry_after(&headers, now).map(|wait| wait.as_millis())
    };
    assert_eq!(wait("7"), Some(7000));
    assert_eq!(wait("0.5"), Some(500));
    assert_eq!(wait("Sun, 06 Nov 1994 08:49:47 GMT"), Some(10_000));
    assert_eq!(wait("Sun, 06 Nov 1994 08:49:27 GMT"), Some(0));
    for garbage in ["-1", "soon", "", "NaN", "inf", "1e300"] {
        assert_eq!(wait(garbage), None, "{garbage}");
    }
}

#[tokio::test]
async fn u8_a_redirect_is_not_followed() {
    let answer = answer("302 Found", "location: http://169.254.169.254/\r\n", "");
    let upstream = upstream(vec![vec![answer]]).await;
    assert_eq!(upstream.open().await.unwrap_err(), Fault::Redirect(302));
}

#[tokio::test]
async fn u9_html_is_no_completion() {
    let answer =
        answer("200 OK", "content-type: Text/HTML; charset=utf-8\r\n", "<html>login</html>");
    let upstream = upstream(vec![vec![answer]]).await;
    let fault = upstream.open().await.unwrap_err();
    assert_eq!(fault, Fault::NotACompletion("<html>login</html>".into()));
}

#[tokio::test]
async fn u10_a_json_body_or_an_odd_content_type_is_an_answer_all_the_same() {
    let whole = r#"{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let events = leak([HI, STOP, DONE].concat());
    for answer in [
        answer("200 OK", "content-type: application/json\r\n", whole),
        answer("200 OK", "", whole),
        answer("200 OK", "", events),
        answer("200 OK", "content-type: text/event-stream; charset=utf-8; x\r\n", events),
        answer("200 OK", "content-type: application/octet-stream\r\n", events),
    ] {
        let upstream = upstream(vec![vec![answer]]).await;
        let (text, end) = heard(&upstream).await;
        assert_eq!(text, "hi");
        assert!(matches!(end, Ok(StreamEvent::Done)), "{end:?}");
    }
}

#[tokio::test]
async fn u17_a_stream_that_breaks_is_a_death_unless_it_was_finished() {
    let broken = |pieces: &[&str]| upstream(vec![vec![open_stream(pieces), CLOSE]]);
    let upstream = broken(&[HI]).await;
    let (text, end) = heard(&upstream).await;
    assert_eq!(text, "hi");
    assert!(matches!(end, Err(Fault::Died(_))), "{end:?}");
    let upstream = broken(&[HI, STOP]).await;
    assert!(matches!(heard(&upstream).await.1, Ok(StreamEvent::End)));
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_told_however_its_stream_ends() {
    let half = HI.replace("hi", r"hi\ud83d");
    for (pieces, is_broken) in [
        (vec![&*half, STOP, DONE], false),
        (vec![&*half, DONE], false),
        (vec![STOP, &*half], false),
        (vec![&*half, "data: nonsense\n\n"], false),
        (vec![&*half], true),
        (vec![STOP, &*half], true),
    ] {
        let answer = if is_broken { open_stream(&pieces) } else { stream(&pieces) };
        let upstream = upstream(vec![vec![answer, CLOSE]]).await;
        let mut stream = upstream.open().await.unwrap();
        let (text, end) = read(&mut stream).await;
        assert_eq!(text, "hi\u{fffd}", "{pieces:?}");
        let is_death = !pieces.contains(&STOP) && !pieces.contains(&DONE);
        assert_eq!(end.is_err(), is_death, "{end:?}");
        assert!(matches!(stream.next().await, Ok(StreamEvent::End)));
    }
}

#[tokio::test]
async fn u19_a_missing_done_is_not_waited_for() {
    let mut upstream = upstream(vec![vec![open_stream(&[HI, STOP])]]).await;
    upstream.settings.end_timeout = Duration::from_millis(20);
    assert!(matches!(heard(&upstream).await.1, Ok(StreamEvent::End)));
    assert!(upstream.heard.recv().await.unwrap().is_some());
    assert_eq!(upstream.heard.recv().await, Some(None));
}

#[tokio::test]
async fn u37_a_huge_head_and_a_compressed_body_are_bounded_errors() {
    let huge = leak(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)));
    let upstream_huge = upstream(vec![vec![huge]]).await;
    assert!(matches!(upstream_huge.open().await, Err(Fault::Reset(_))));
    let zipped = answer("200 OK", "content-encoding: gzip\r\n", "zip");
    let upstream = upstream(vec![vec![zipped]]).await;
    assert!(matches!(upstream.open().await, Err(Fault::NotACompletion(_))));
}

#[tokio::test]
async fn the_list_of_models_comes_as_it_is() {
    let list = r#"{"data":[ {"id":"demo"} ]}"#;
    let mut upstream =
        upstream(vec![vec![answer("200 OK", "", list), answer("200 OK", "", "<x>")]]).await;
    let client = upstream.client();
    assert_eq!(client.models().await.unwrap().get(), list);
    let request = upstream.heard.recv().await.unwrap().unwrap();
    assert!(request.starts_with("GET /v1/models HTTP/1.1\r\n"));
    assert_eq!(client.probe().await, Err(Fault::NotACompletion("<x>".into())));
}

#[tokio::test]
async fn another_route_is_handed_on_with_its_body() {
    let mut upstream =
        upstream(vec![vec![answer("200 OK", "content-type: audio/mpeg\r\n", "sound")]]).await;
    let content_type = HeaderValue::from_static("multipart/form-data; boundary=x");
    let response = upstream
        .client()
        .forward(
            Method::POST,
            "/audio/speech?a=%20b",
            Some(content_type),
            &TraceHeaders::default(),
            reqwest::Body::from("--x--"),
        )
        .await
        .unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], "audio/mpeg");
    assert_eq!(response.bytes().await.unwrap(), "sound");
    let request = upstream.heard.recv().await.unwrap().unwrap();
    assert!(request.starts_with("POST /v1/audio/speech?a=%20b HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("content-type: multipart/form-data; boundary=x\r\n"));
    assert!(request.ends_with("\r\n\r\n--x--"));
}

#[test]
fn a_client_can_be_made_without_certificates_of_the_system() {
    rustls::crypto::ring::default_provider().install_default().ok();
    assert!(http_client::with_bundled_roots(Vec::new(), Ok).is_ok());
}

#[test]
fn what_is_wrong_with_the_settings_is_said_in_one_line() {
    let make = |settings: UpstreamSettings| client(&settings, None).unwrap_err();
    let missing = UpstreamSettings {
        ca_file: Some("/nonexistent.pem".into()),
        ..UpstreamSettings::default()
    };
    assert!(make(missing).starts_with("upstream.ca_file /nonexistent.pem: "));
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty =
        UpstreamSettings { ca_file: Some(empty.path().into()), ..UpstreamSettings::default() };
    assert!(make(empty).ends_with("it holds no certificate"));
    let proxy = UpstreamSettings { proxy: Some("::".into()), ..UpstreamSettings::default() };
    assert!(make(proxy).starts_with("upstream.proxy: "));
    let key = Secret::new("a\nb");
    let error = client(&UpstreamSettings::default(), Some(&key)).unwrap_err();
    assert!(error.contains("key") && !error.contains('a') || !error.contains("a\nb"));
}
