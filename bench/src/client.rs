//! Sends requests at the lowest cost: over one kept connection, searching the answer's
//! bytes instead of parsing them.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::process::KEY;

#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// A request for an answer of this model.
pub(crate) fn ask(model: &str, stream: bool, progress: &str) -> Value {
    json!({
        "model": model,
        "stream": stream,
        "messages": [{ "role": "user", "content": "Say twenty words." }],
        "toolhand": { "progress": progress },
    })
}

impl Client {
    /// Opens a connection that sends the same request repeatedly.
    pub(crate) async fn connect(address: SocketAddr, body: &Value) -> Self {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let body = body.to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {KEY}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body.as_bytes()].concat();
        Self { stream, request, answer: Vec::with_capacity(16 << 10) }
    }

    /// Sends the request and reads the whole answer.
    pub(crate) async fn ask(&mut self) {
        self.send().await;
        self.finish().await;
    }

    /// How long the whole answer takes, in milliseconds.
    pub(crate) async fn time(&mut self) -> f64 {
        let start = Instant::now();
        self.ask().await;
        milliseconds_since(start)
    }

    /// The same for so many answers, one after the other.
    pub(crate) async fn times(&mut self, count: usize) -> Vec<f64> {
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(self.time().await);
        }
        times
    }

    /// How long the answer takes up to `mark`, in milliseconds. Reads the whole answer.
    pub(crate) async fn time_until(&mut self, mark: &str) -> f64 {
        let start = Instant::now();
        self.begin(mark).await;
        let time = milliseconds_since(start);
        self.finish().await;
        time
    }

    /// The same for so many answers, one after the other.
    pub(crate) async fn times_until(&mut self, mark: &str, count: usize) -> Vec<f64> {
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(self.time_until(mark).await);
        }
        times
    }

    /// Sends the request and reads until `mark` comes.
    pub(crate) async fn begin(&mut self, mark: &str) {
        self.send().await;
        while !contains(&self.answer, mark.as_bytes()) {
            self.fill().await;
        }
    }

    async fn send(&mut self) {
        self.answer.clear();
        self.stream.write_all(&self.request).await.expect("a connection");
    }

    async fn finish(&mut self) {
        while !is_whole(&self.answer) {
            self.fill().await;
        }
        let told = String::from_utf8_lossy(&self.answer);
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        assert!(!told.contains("\"error\":{"), "{told}");
    }

    async fn fill(&mut self) {
        let read = self.stream.read_buf(&mut self.answer).await.expect("a connection");
        assert!(read > 0, "closed: {}", String::from_utf8_lossy(&self.answer));
    }
}

pub(crate) fn milliseconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1000.0
}

pub(crate) fn contains(answer: &[u8], mark: &[u8]) -> bool {
    memchr::memmem::find(answer, mark).is_some()
}

/// Whether the answer is complete: its last chunk has come, or all of its length.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    match head.split("content-length: ").nth(1) {
        Some(length) => {
            let length = length.split("\r\n").next().and_then(|length| length.parse().ok());
            answer.len() >= end + 4 + length.unwrap_or(0)
        }
        None => answer.ends_with(b"0\r\n\r\n"),
    }
}
