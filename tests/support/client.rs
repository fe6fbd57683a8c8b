//! Sends requests and checks every byte of the answers: whole answers, streams and bare sockets.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http::{Framing, Head, Reader};
use super::stream::{Stream, Transcript};
use super::watch;
use super::wire_rules::check_error;

const CHAT: &str = "/v1/chat/completions";

/// Sends requests with one key, each over a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    key: Option<String>,
    headers: Vec<(String, String)>,
}

/// An answer that is not a stream.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

/// A stream or a whole answer.
#[derive(Debug)]
pub(crate) enum Reply {
    Stream(Stream),
    Answer(Answer),
}

/// The smallest valid request.
pub(crate) fn ask(question: &str) -> Value {
    json!({ "model": "scripted", "messages": [{ "role": "user", "content": question }] })
}

/// The smallest valid request for a stream.
pub(crate) fn ask_streamed(question: &str) -> Value {
    with(ask(question), json!({ "stream": true }))
}

/// `body` with further members.
pub(crate) fn with(mut body: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members of an object") };
    body.as_object_mut().expect("an object").extend(members);
    body
}

impl Client {
    pub(crate) fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, key: Some(key.to_owned()), headers: Vec::new() }
    }

    pub(crate) fn key(mut self, key: Option<&str>) -> Self {
        self.key = key.map(str::to_owned);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(body.to_string().as_bytes())).await
    }

    /// Requests an unstreamed chat completion.
    pub(crate) async fn chat(&self, body: &Value) -> Answer {
        self.post(CHAT, body).await
    }

    /// An unstreamed chat completion of a server that may be killed meanwhile; `None` if its
    /// answer did not come whole.
    pub(crate) async fn try_chat(&self, body: &Value) -> Option<Value> {
        let answer = self.try_post(body).await?;
        (answer.status() == 200).then(|| serde_json::from_slice(&answer.body).ok())?
    }

    /// The same for any answer, also a stream, as its bytes.
    pub(crate) async fn try_post(&self, body: &Value) -> Option<Answer> {
        let mut stream = TcpStream::connect(self.address).await.ok()?;
        let request = self.request("POST", CHAT, Some(body.to_string().as_bytes()));
        stream.write_all(&request).await.ok()?;
        let answer = watch("an answer or its end", Answer::read(&mut Reader::new(stream))).await;
        answer.ok()?
    }

    /// Requests a streamed chat completion, and returns when its head has come. A refusal
    /// has no stream: see [`Client::chat`].
    pub(crate) async fn stream(&self, body: &Value) -> Stream {
        match self.ask(body).await {
            Reply::Stream(stream) => stream,
            Reply::Answer(answer) => {
                panic!("no stream: {:?} {}", answer.head, String::from_utf8_lossy(&answer.body))
            }
        }
    }

    /// Requests a chat completion. Returns its stream once the head has come, or the
    /// whole answer.
    pub(crate) async fn ask(&self, body: &Value) -> Reply {
        let mut reader = self.open("POST", CHAT, Some(body.to_string().as_bytes())).await;
        let head = watch("the head of an answer", reader.head()).await;
        let head = head.expect("a readable head").expect("an answer");
        let framing = head.framing(Framing::ToEnd);
        if head.header("content-type") == Some("text/event-stream") {
            assert_eq!(head.status(), 200, "{head:?}");
            return Reply::Stream(Stream::new(head, reader, framing));
        }
        let body = watch("the rest of an answer", reader.body(framing)).await;
        Reply::Answer(Answer { head, body: body.expect("a readable answer") })
    }

    /// Requests a streamed chat completion and reads it to its end.
    pub(crate) async fn streamed(&self, body: &Value) -> Transcript {
        self.stream(body).await.finish().await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Answer {
        let mut reader = self.open(method, path, body).await;
        let what = format!("an answer to {method} {path}");
        let answer = watch(&what, Answer::read(&mut reader)).await;
        answer.expect("a readable answer").expect("an answer")
    }

    /// Opens a bare connection to the server.
    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream
    }

    /// Sends `bytes` unchanged and reads every answer until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Vec<Answer> {
        let mut stream = self.connect().await;
        // The server may refuse and close before it has read everything.
        let _refused_early = stream.write_all(bytes).await;
        let mut reader = Reader::new(stream);
        let mut answers = Vec::new();
        while let Ok(Some(answer)) = watch("an answer", Answer::read(&mut reader)).await {
            answers.push(answer);
        }
        answers
    }

    /// Requests a chat completion on a connection of its own, and leaves the answer
    /// unread.
    pub(crate) async fn start(&self, body: &Value) -> Reader<TcpStream> {
        self.open("POST", CHAT, Some(body.to_string().as_bytes())).await
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Reader<TcpStream> {
        let mut stream = self.connect().await;
        let request = self.request(method, path, body);
        // The server may refuse before it has read everything.
        let _refused_early = stream.write_all(&request).await;
        Reader::new(stream)
    }

    /// The bytes of a request. Headers of [`Client::header`] replace the default ones.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&[u8]>) -> Vec<u8> {
        let mut headers = vec![("host".to_owned(), self.address.to_string())];
        if let Some(key) = &self.key {
            headers.push(("authorization".to_owned(), format!("Bearer {key}")));
        }
        if let Some(body) = body {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
            headers.push(("content-length".to_owned(), body.len().to_string()));
        }
        headers.push(("connection".to_owned(), "close".to_owned()));
        headers.retain(|(name, _)| self.headers.iter().all(|(ours, _)| ours != name));
        headers.extend_from_slice(&self.headers);
        let head = format!("{method} {path} HTTP/1.1\r\n{}\r\n", Head::lines(&headers));
        [head.as_bytes(), body.unwrap_or_default()].concat()
    }
}

impl Answer {
    async fn read(reader: &mut Reader<TcpStream>) -> io::Result<Option<Self>> {
        let Some(head) = reader.head().await? else { return Ok(None) };
        let body = reader.body(head.framing(Framing::ToEnd)).await?;
        Ok(Some(Self { head, body }))
    }

    pub(crate) fn status(&self) -> u16 {
        self.head.status()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The text of a completion.
    pub(crate) fn text(&self) -> String {
        let body = self.json();
        let text = body["choices"][0]["message"]["content"].as_str();
        text.unwrap_or_else(|| panic!("no text: {body:#}")).to_owned()
    }

    /// The JSON events of a stream that was read whole; of another answer its body.
    pub(crate) fn events(&self) -> Vec<Value> {
        if self.header("content-type") != Some("text/event-stream") {
            return vec![self.json()];
        }
        let text = String::from_utf8_lossy(&self.body);
        let data = text.split("\n\n").flat_map(str::lines);
        let data = data.filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// How often the answer ends: with a `finish_reason` or an error.
    pub(crate) fn ends(&self) -> usize {
        let is_end = |event: &&Value| {
            event.get("error").is_some() || !event["choices"][0]["finish_reason"].is_null()
        };
        self.events().iter().filter(is_end).count()
    }

    /// `(status, code)` of a refusal, after checking its form.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let body = self.json();
        check_error(&body);
        assert_eq!(self.header("content-type"), Some("application/json"), "{:?}", self.head);
        (self.status(), body["error"]["code"].as_str().expect("a code").to_owned())
    }
}

/// Reads the rest of a bare connection until the server closes it.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _reset_is_an_end_too = watch("the end", stream.read_to_end(&mut bytes)).await;
    bytes
}
