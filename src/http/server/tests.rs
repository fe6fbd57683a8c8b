//! Tests connections over an in-memory pipe, under a paused clock.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::io::DuplexStream;
use tokio::time::Instant;

use super::*;

impl Socket for DuplexStream {}

const HEAD: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Sends events as long as the client takes them.
async fn endless_stream() -> Response {
    let event = || async { Ok::<_, Infallible>(((), "data: 1\n\n".repeat(1000))) };
    let events = futures::stream::repeat_with(event).then(|event| event);
    let body = Body::from_stream(events.map_ok(|((), event)| event));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

struct Connection {
    client: DuplexStream,
    server: JoinSet<()>,
    started: Instant,
}

fn connect() -> Connection {
    connect_until(CancellationToken::new())
}

fn connect_until(shutdown: CancellationToken) -> Connection {
    connect_through(1 << 18, shutdown)
}

/// Connects over a pipe that holds this many bytes.
fn connect_through(pipe: usize, shutdown: CancellationToken) -> Connection {
    let (client, server) = tokio::io::duplex(pipe);
    let router = Router::new()
        .route("/", get(|| async { ([("x-request-id", "r")], "hello") }))
        .route("/wait", get(std::future::pending::<()>))
        .route("/large", get(|| async { "x".repeat(4 << 20) }))
        .route("/stream", get(endless_stream))
        .route("/body", post(|body: String| async move { ([("x-request-id", "r")], body) }));
    let admissions = Admissions::new(&Limits::default());
    let admission = admissions.admit([127, 0, 0, 1].into()).unwrap();
    let handler = Handler { router, admission };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        serve_on(server, handler, &Limits::default(), shutdown, Arc::default()).await;
    });
    Connection { client, server: tasks, started: Instant::now() }
}

impl Connection {
    async fn send(&mut self, bytes: &str) {
        self.client.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Reads until the server closes. Returns what came, and after how many seconds it
    /// closed.
    async fn read_to_end(mut self) -> (String, u64) {
        /// More than any answer here. An answer without an end fails the test.
        const MOST: u64 = 8 << 20;
        let mut all = Vec::new();
        (&mut self.client).take(MOST).read_to_end(&mut all).await.unwrap();
        (String::from_utf8(all).unwrap(), self.started.elapsed().as_secs())
    }

    async fn read_some(&mut self) -> String {
        let mut some = vec![0; 65_536];
        let read = self.client.read(&mut some).await.unwrap();
        String::from_utf8_lossy(&some[..read]).into_owned()
    }
}

#[tokio::test]
async fn what_is_written_to_a_connection_is_sent_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (connected, accepted) = tokio::join!(connecting, accept(&listener));
    assert!(connected.is_ok());
    assert!(accepted.unwrap().0.nodelay().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_is_closed_after_the_head_time() {
    assert_eq!(connect().read_to_end().await, (String::new(), 10));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_closed_after_the_head_time() {
    let mut connection = connect();
    for byte in ["G", "E", "T", " "] {
        connection.send(byte).await;
        sleep(Duration::from_secs(2)).await;
    }

    assert_eq!(connection.read_to_end().await, (String::new(), 10));
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_is_closed_after_the_idle_time() {
    let mut connection = connect();
    sleep(Duration::from_secs(5)).await;
    connection.send(HEAD).await;
    let (answer, seconds) = connection.read_to_end().await;

    assert!(answer.ends_with("hello"), "{answer}");
    assert_eq!(seconds, 80);
}

#[tokio::test(start_paused = true)]
async fn h32_a_client_that_reads_a_little_is_never_too_slow() {
    let mut connection = connect();
    connection.send("GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut some = vec![0; 60_000];
    for _ in 0..100 {
        sleep(Duration::from_secs(59)).await;
        connection.client.read_exact(&mut some).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn h32_a_client_that_reads_nothing_is_told_and_closed() {
    let mut connection = connect();
    connection.send("GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    sleep(Duration::from_millis(60_500)).await;

    let (answer, seconds) = connection.read_to_end().await;

    assert_eq!(answer.matches("slow_client").count(), 1);
    assert!(answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{answer}");
    assert_eq!(seconds, 60);
}

#[tokio::test(start_paused = true)]
async fn h32_a_client_that_never_reads_is_closed_all_the_same() {
    for path in ["/stream", "/large"] {
        let mut connection = connect();
        connection.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;

        let ended = timeout(Duration::from_hours(1), connection.server.join_next()).await;

        assert!(ended.expect("it ends").unwrap().is_ok());
        let seconds = connection.started.elapsed().as_secs();
        assert!((60..=61).contains(&seconds), "{path}: {seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_body_is_sent_as_it_is_taken() {
    let mut connection = connect();
    connection.send("GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let (answer, _) = connection.read_to_end().await;

    assert!(answer.contains("content-length: 4194304\r\n"));
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), 4 << 20);
}

#[tokio::test(start_paused = true)]
async fn the_head_time_counts_anew_for_each_request() {
    let mut connection = connect();
    for _ in 0..3 {
        connection.send(HEAD).await;
        assert!(connection.read_some().await.ends_with("hello"));
        sleep(Duration::from_secs(60)).await;
    }
    connection.send("GET").await;

    assert_eq!(connection.read_to_end().await, (String::new(), 190));
}

#[tokio::test(start_paused = true)]
async fn a_request_may_take_longer_than_any_of_these_times() {
    let mut connection = connect();
    connection.send("GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n").await;

    let wait = timeout(Duration::from_hours(1), connection.read_some());

    assert!(wait.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_head_may_have_its_limit_and_no_byte_more() {
    let mut connection = connect();
    connection.send(&head_of_length(64 << 10)).await;
    assert!(connection.read_some().await.starts_with("HTTP/1.1 200"));
    connection.send(&head_of_length((64 << 10) + 1)).await;

    let (answer, _) = connection.read_to_end().await;

    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(answer.contains("headers_too_large"), "{answer}");
}

fn head_of_length(length: usize) -> String {
    let head = "GET / HTTP/1.1\r\nhost: localhost\r\na: ";
    format!("{head}{}\r\n\r\n", "x".repeat(length - head.len() - 4))
}

#[tokio::test(start_paused = true)]
async fn a_head_behind_a_request_is_counted_from_its_own_first_byte() {
    let chunked = "POST /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\na: trailer\r\n\r\n";
    let counted = "POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
    for first in [HEAD, chunked, counted] {
        let fits = head_of_length(64 << 10);
        let too_long = head_of_length((64 << 10) + 1);
        let mut connection = connect();
        connection.send(&[first, &fits, first, &too_long].concat()).await;

        let (answers, _) = connection.read_to_end().await;

        assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{first} {answers}");
        assert_eq!(answers.matches("HTTP/1.1 431").count(), 1, "{first} {answers}");
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_head_behind_a_request_has_the_head_time() {
    let mut connection = connect();
    connection.send(&format!("{HEAD}GET / HTTP/1.1\r\nhost:")).await;

    let (answers, seconds) = connection.read_to_end().await;

    assert_eq!((answers.matches("HTTP/1.1 200").count(), seconds), (1, 10));
}

#[tokio::test(start_paused = true)]
async fn a_request_behind_one_that_waits_is_not_read_far() {
    let mut connection = connect_through(1024, CancellationToken::new());
    connection.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;

    let flood = vec![b'x'; 1 << 20];
    let flooding = timeout(Duration::from_secs(60), connection.client.write_all(&flood));

    assert!(flooding.await.is_err());
    assert!(connection.server.try_join_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_body_does_not_count_as_head() {
    let mut connection = connect();
    let body = "x".repeat(200_000);
    let head = format!("POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.send(&format!("{head}{body}{HEAD}")).await;

    let (answer, _) = connection.read_to_end().await;

    assert!(answer.contains(&body) && answer.ends_with("hello"));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_http_is_told_so_in_our_words() {
    for (sent, status, code) in [
        ("nonsense\r\n\r\n".to_owned(), "400", "invalid_value"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101)), "431", "headers_too_large"),
    ] {
        let mut connection = connect();
        connection.send(&sent).await;
        let (answer, _) = connection.read_to_end().await;

        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains(code) && answer.contains("x-request-id: "), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn h30_http_2_is_told_so_and_closed() {
    let mut connection = connect();
    connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;

    let (answer, seconds) = connection.read_to_end().await;

    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(seconds, 0);
}

#[tokio::test(start_paused = true)]
async fn a_half_closed_connection_is_a_client_that_left() {
    let mut connection = connect();
    connection.send("GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    connection.client.shutdown().await.unwrap();

    assert_eq!(connection.read_to_end().await, (String::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_connection_that_waits() {
    let shutdown = CancellationToken::new();
    let mut connection = connect_until(shutdown.clone());
    connection.send(HEAD).await;
    connection.read_some().await;

    shutdown.cancel();

    assert_eq!(connection.read_to_end().await, (String::new(), 0));
}
