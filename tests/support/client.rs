//! A client that looks at every byte: unstreamed answers, streams event by event,
//! bare sockets, and the rules that every stream keeps.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http::{Framing, Head, Reader};
use super::watch;

const CHAT: &str = "/v1/chat/completions";

/// Sends requests with one key, each over a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    key: Option<String>,
    headers: Vec<(String, String)>,
}

/// An answer that is no stream.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

/// A streamed answer while it comes. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) head: Head,
    reader: Reader<TcpStream>,
    framing: Framing,
    text: Vec<u8>,
    seen: Vec<Event>,
}

/// Whatever comes of a question.
#[derive(Debug)]
pub(crate) enum Reply {
    Stream(Stream),
    Answer(Answer),
}

/// What a stream brings, comments included.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Comment(String),
    Chunk(Value),
    Error(Value),
    Done,
}

/// A stream that has ended and kept all the rules.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) head: Head,
    pub(crate) events: Vec<Event>,
    /// The pieces put together, as an SDK would.
    pub(crate) message: Value,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Value>,
    /// The `toolhand` object.
    pub(crate) toolhand: Value,
    /// The error object of the frame that ended it.
    pub(crate) error: Option<Value>,
}

/// The least that asks for an answer.
pub(crate) fn ask(question: &str) -> Value {
    json!({ "model": "scripted", "messages": [{ "role": "user", "content": question }] })
}

/// The same, streamed.
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

    /// An unstreamed chat completion.
    pub(crate) async fn chat(&self, body: &Value) -> Answer {
        self.post(CHAT, body).await
    }

    /// A chat completion that is streamed, once its head is there. A refusal has no
    /// stream: see [`Client::chat`].
    pub(crate) async fn stream(&self, body: &Value) -> Stream {
        match self.ask(body).await {
            Reply::Stream(stream) => stream,
            Reply::Answer(answer) => {
                panic!("no stream: {:?} {}", answer.head, String::from_utf8_lossy(&answer.body))
            }
        }
    }

    /// A chat completion: its stream once the head is there, or the whole answer.
    pub(crate) async fn ask(&self, body: &Value) -> Reply {
        let mut reader = self.open("POST", CHAT, Some(body.to_string().as_bytes())).await;
        let head = watch("the head of an answer", reader.head()).await;
        let head = head.expect("a readable head").expect("an answer");
        let framing = head.framing(Framing::ToEnd);
        if head.header("content-type") == Some("text/event-stream") {
            assert_eq!(head.status(), 200, "{head:?}");
            return Reply::Stream(Stream {
                head,
                reader,
                framing,
                text: Vec::new(),
                seen: Vec::new(),
            });
        }
        let body = watch("the rest of an answer", reader.body(framing)).await;
        Reply::Answer(Answer { head, body: body.expect("a readable answer") })
    }

    /// A streamed chat completion to its end.
    pub(crate) async fn streamed(&self, body: &Value) -> Transcript {
        self.stream(body).await.finish().await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Answer {
        let mut reader = self.open(method, path, body).await;
        let what = format!("an answer to {method} {path}");
        let answer = watch(&what, Answer::read(&mut reader)).await;
        answer.expect("a readable answer").expect("an answer")
    }

    /// A bare connection to the server.
    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream
    }

    /// Sends `bytes` as they are and reads every answer until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Vec<Answer> {
        let mut stream = self.connect().await;
        // The server may refuse and close before it has read it all.
        let _refused_early = stream.write_all(bytes).await;
        let mut reader = Reader::new(stream);
        let mut answers = Vec::new();
        while let Ok(Some(answer)) = watch("an answer", Answer::read(&mut reader)).await {
            answers.push(answer);
        }
        answers
    }

    /// A connection on which a chat completion has been asked for, its answer unread.
    pub(crate) async fn start(&self, body: &Value) -> Reader<TcpStream> {
        self.open("POST", CHAT, Some(body.to_string().as_bytes())).await
    }

    /// A connection on which a request has been sent.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Reader<TcpStream> {
        let mut stream = self.connect().await;
        let request = self.request(method, path, body);
        // The server may refuse before it has read it all.
        let _refused_early = stream.write_all(&request).await;
        Reader::new(stream)
    }

    /// The bytes of a request. A header of [`Client::header`] replaces ours.
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

    /// `(status, code)` of a refusal, whose shape is checked.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let body = self.json();
        check_error(&body);
        assert_eq!(self.header("content-type"), Some("application/json"), "{:?}", self.head);
        (self.status(), body["error"]["code"].as_str().expect("a code").to_owned())
    }
}

impl Stream {
    /// The next event; `None` when the answer has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.take_event() {
                self.seen.push(event.clone());
                return Some(event);
            }
            let piece = watch("the next event", self.reader.piece(&mut self.framing)).await;
            let Some(piece) = piece.expect("a stream whose framing holds") else {
                assert!(self.text.is_empty(), "the last event is not whole");
                return None;
            };
            self.text.extend(piece);
        }
    }

    /// Reads on until an event that `wanted` likes.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        while let Some(event) = self.next().await {
            if wanted(&event) {
                return event;
            }
        }
        panic!("the stream ended without it: {:#?}", self.seen);
    }

    /// Reads on until a chunk brings text, and gives the text.
    pub(crate) async fn until_text(&mut self) -> String {
        let event = self.until(|event| !event.text().is_empty()).await;
        event.text().to_owned()
    }

    /// Reads on until a progress event of this type.
    pub(crate) async fn until_progress(&mut self, kind: &str) -> Value {
        let event = self.until(|event| event.progress()["type"] == kind).await;
        event.progress().clone()
    }

    /// The events so far.
    pub(crate) fn seen(&self) -> &[Event] {
        &self.seen
    }

    /// Reads to the end and checks the whole.
    pub(crate) async fn finish(mut self) -> Transcript {
        while self.next().await.is_some() {}
        Transcript::new(self.head, self.seen)
    }

    fn take_event(&mut self) -> Option<Event> {
        let end = self.text.windows(2).position(|window| window == b"\n\n")?;
        let event: Vec<u8> = self.text.drain(..end + 2).collect();
        let event = String::from_utf8(event).expect("a stream is UTF-8");
        Some(Event::parse(event.trim_end_matches('\n')))
    }
}

impl Event {
    fn parse(text: &str) -> Self {
        if let Some(comment) = text.strip_prefix(':') {
            return Self::Comment(comment.trim().to_owned());
        }
        let data = text.strip_prefix("data: ").unwrap_or_else(|| panic!("no data event: {text:?}"));
        if data == "[DONE]" {
            return Self::Done;
        }
        let value: Value = serde_json::from_str(data).unwrap_or_else(|_| panic!("no JSON: {data}"));
        if value.get("error").is_some() { Self::Error(value) } else { Self::Chunk(value) }
    }

    /// The text it brings.
    pub(crate) fn text(&self) -> &str {
        self.delta()["content"].as_str().unwrap_or_default()
    }

    /// The reasoning it brings, ours or the model's.
    pub(crate) fn reasoning(&self) -> &str {
        self.delta()["reasoning_content"].as_str().unwrap_or_default()
    }

    /// `delta.toolhand`.
    pub(crate) fn progress(&self) -> &Value {
        &self.delta()["toolhand"]
    }

    pub(crate) fn delta(&self) -> &Value {
        match self {
            Self::Chunk(chunk) => &chunk["choices"][0]["delta"],
            _ => &Value::Null,
        }
    }
}

impl Transcript {
    fn new(head: Head, events: Vec<Event>) -> Self {
        let broken = check_events(&events);
        assert!(broken.is_empty(), "{broken:#?} in {events:#?}");
        let mut transcript = Self {
            head,
            message: joined(&events),
            finish_reason: None,
            usage: None,
            toolhand: Value::Null,
            error: None,
            events,
        };
        for event in &transcript.events {
            match event {
                Event::Chunk(chunk) => {
                    let reason = chunk["choices"][0]["finish_reason"].as_str();
                    transcript.finish_reason =
                        reason.map(str::to_owned).or(transcript.finish_reason);
                    transcript.usage =
                        chunk.get("usage").filter(|usage| usage.is_object()).cloned();
                    if let Some(toolhand) = chunk.get("toolhand") {
                        transcript.toolhand = toolhand.clone();
                    }
                }
                Event::Error(error) => transcript.error = Some(error["error"].clone()),
                Event::Comment(_) | Event::Done => {}
            }
        }
        transcript
    }

    /// The text of the answer.
    pub(crate) fn text(&self) -> &str {
        self.message["content"].as_str().unwrap_or_default()
    }

    pub(crate) fn reasoning(&self) -> String {
        self.events.iter().map(Event::reasoning).collect()
    }

    /// The progress events of this type.
    pub(crate) fn progress(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().map(Event::progress).filter(|event| event["type"] == kind).collect()
    }

    /// The code of the error frame that ended it.
    pub(crate) fn code(&self) -> &str {
        let error = self.error.as_ref().unwrap_or_else(|| panic!("no error: {:#?}", self.events));
        error["code"].as_str().expect("a code")
    }
}

/// What an SDK makes of the deltas.
fn joined(events: &[Event]) -> Value {
    let text: String = events.iter().map(Event::text).collect();
    let mut calls: BTreeMap<u64, Value> = BTreeMap::new();
    for piece in events.iter().filter_map(|event| event.delta()["tool_calls"].as_array()).flatten()
    {
        let index = piece["index"].as_u64().expect("an index");
        let call = calls.entry(index).or_insert_with(|| {
            json!({ "id": piece["id"], "type": piece["type"],
                    "function": { "name": piece["function"]["name"], "arguments": "" } })
        });
        let more = piece["function"]["arguments"].as_str().unwrap_or_default();
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
        call["function"]["arguments"] = Value::String(arguments + more);
    }
    assert!(calls.keys().copied().eq(0..calls.len() as u64), "indexes from 0: {calls:#?}");
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls.into_values().collect());
    }
    message
}

/// Which rules of the wire a stream breaks.
fn check_events(events: &[Event]) -> Vec<String> {
    let mut broken = Vec::new();
    let told = events.iter().filter(|event| !matches!(event, Event::Comment(_)));
    let told: Vec<&Event> = told.collect();
    if told.last() != Some(&&Event::Done) {
        broken.push("does not end with [DONE]".to_owned());
    }
    if told.iter().filter(|event| ***event == Event::Done).count() != 1 {
        broken.push("[DONE] is not said once".to_owned());
    }
    let errors = told.iter().filter(|event| matches!(event, Event::Error(_))).count();
    let error_is_last = matches!(told.iter().rev().nth(1), Some(Event::Error(_)));
    if errors > 1 || (errors == 1) != error_is_last {
        broken.push("an error that is not the one last event".to_owned());
    }
    for error in &told {
        if let Event::Error(error) = error {
            check_error(error);
        }
    }
    let chunks = told.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    broken.extend(check_chunks(&chunks.collect::<Vec<_>>(), errors == 1));
    broken
}

/// OpenAI's rules for the chunks of one answer.
fn check_chunks(chunks: &[&Value], failed: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let mut finished = 0;
    for chunk in chunks {
        check_envelope(chunk, chunks[0], &mut broken);
        let choices = chunk["choices"].as_array().map_or(&[][..], Vec::as_slice);
        match choices {
            [] if finished == 1 && chunk["usage"].is_object() => {}
            [choice] if finished == 0 => {
                check_choice(choice, &mut broken);
                finished += usize::from(choice["finish_reason"].is_string());
            }
            _ => broken.push(format!("not the one choice, or too late: {chunk}")),
        }
    }
    let role = |chunk: &&Value| chunk["choices"][0]["delta"].get("role").is_some();
    let roles: Vec<bool> = chunks.iter().map(role).collect();
    if !roles.is_empty() && (!roles[0] || roles[1..].contains(&true)) {
        broken.push("not the role once, at the start".to_owned());
    }
    if finished != usize::from(!failed) {
        broken.push(format!("{finished} finish reasons, {}", if failed { "failed" } else { "ok" }));
    }
    broken
}

/// What stays the same over all chunks.
fn check_envelope(chunk: &Value, first: &Value, broken: &mut Vec<String>) {
    for member in ["id", "created", "model", "object"] {
        if chunk[member] != first[member] || chunk[member].is_null() {
            broken.push(format!("{member} is not the first one: {chunk}"));
        }
    }
    if chunk["object"] != "chat.completion.chunk" || !chunk["created"].is_u64() {
        broken.push(format!("no chunk: {chunk}"));
    }
}

fn check_choice(choice: &Value, broken: &mut Vec<String>) {
    let Some(delta) = choice["delta"].as_object().filter(|_| choice["index"] == 0) else {
        return broken.push(format!("not choice 0, or no delta: {choice}"));
    };
    if !matches!(delta.get("role").map(Value::as_str), None | Some(Some("assistant"))) {
        broken.push(format!("not our role: {choice}"));
    }
    if !matches!(delta.get("content"), None | Some(Value::Null | Value::String(_))) {
        broken.push(format!("content that is no text: {choice}"));
    }
    if delta.iter().any(|(name, value)| value.is_array() && name != "tool_calls") {
        broken.push(format!("a list that breaks the SDK's helper: {choice}"));
    }
    let reasons = ["stop", "length", "tool_calls", "content_filter"];
    let reason = &choice["finish_reason"];
    if !reason.is_null() && !reason.as_str().is_some_and(|reason| reasons.contains(&reason)) {
        broken.push(format!("a reason OpenAI does not know: {choice}"));
    }
}

/// `{"error": {message, type, param, code}}` and nothing else.
fn check_error(body: &Value) {
    let error = body["error"].as_object().unwrap_or_else(|| panic!("no error: {body}"));
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{body}");
    let members: Vec<&str> = error.keys().map(String::as_str).collect();
    assert_eq!(members, ["message", "type", "param", "code"], "{body}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert!(error["type"].is_string() && error["code"].is_string(), "{body}");
    assert!(error["param"].is_string() || error["param"].is_null(), "{body}");
}

/// Reads what is left on a bare connection, until the server closes it.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _reset_is_an_end_too = watch("the end", stream.read_to_end(&mut bytes)).await;
    bytes
}
