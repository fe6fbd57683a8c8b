//! Reads a streamed answer event by event, and checks and joins it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::http::{Framing, Head, Reader};
use super::watch;
use super::wire_rules::check_events;

/// A streamed answer that is still coming. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) head: Head,
    reader: Reader<TcpStream>,
    framing: Framing,
    text: Vec<u8>,
    seen: Vec<Event>,
}

/// An event of a stream, or a comment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Comment(String),
    Chunk(Value),
    Error(Value),
    Done,
}

/// A stream that has ended and kept all rules.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) head: Head,
    pub(crate) events: Vec<Event>,
    /// The pieces joined as an SDK joins them.
    pub(crate) message: Value,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Value>,
    /// The `toolhand` object.
    pub(crate) toolhand: Value,
    /// The error object of the frame that ended the stream.
    pub(crate) error: Option<Value>,
}

impl Stream {
    pub(super) fn new(head: Head, reader: Reader<TcpStream>, framing: Framing) -> Self {
        Self { head, reader, framing, text: Vec::new(), seen: Vec::new() }
    }

    /// Leaves, and waits until the server has noticed: it closes the connection in its turn.
    pub(crate) async fn leave(self) {
        let mut socket = self.reader.into_inner();
        socket.shutdown().await.expect("an open connection");
        let mut rest = Vec::new();
        // How it closes does not matter.
        let _ = watch("the server to close", socket.read_to_end(&mut rest)).await;
    }

    /// The next event; `None` at the end of the answer.
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

    /// Reads up to an event for which `wanted` is true.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        while let Some(event) = self.next().await {
            if wanted(&event) {
                return event;
            }
        }
        panic!("the stream ended without it: {:#?}", self.seen);
    }

    /// Reads up to a chunk with text, and returns the text.
    pub(crate) async fn until_text(&mut self) -> String {
        let event = self.until(|event| !event.text().is_empty()).await;
        event.text().to_owned()
    }

    /// Reads up to a progress event of this type.
    pub(crate) async fn until_progress(&mut self, kind: &str) -> Value {
        let event = self.until(|event| event.progress()["type"] == kind).await;
        event.progress().clone()
    }

    /// The events so far.
    pub(crate) fn seen(&self) -> &[Event] {
        &self.seen
    }

    /// Reads to the end and checks the whole stream.
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
        assert!(!data.contains(['\n', '\r']), "an event of several lines: {text:?}");
        if data == "[DONE]" {
            return Self::Done;
        }
        let value: Value = serde_json::from_str(data).unwrap_or_else(|_| panic!("no JSON: {data}"));
        if value.get("error").is_some() { Self::Error(value) } else { Self::Chunk(value) }
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        self.delta()["content"].as_str().unwrap_or_default()
    }

    /// Its reasoning: progress lines or the model's own.
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

    pub(crate) fn refusal(&self) -> String {
        let refusals = self.events.iter().map(|event| event.delta()["refusal"].as_str());
        refusals.map(Option::unwrap_or_default).collect()
    }

    /// The progress events of this type.
    pub(crate) fn progress(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().map(Event::progress).filter(|event| event["type"] == kind).collect()
    }

    /// The items of cards, in order.
    pub(crate) fn card_items(&self) -> Vec<&Value> {
        let chunks = self.events.iter().filter_map(|event| match event {
            Event::Chunk(chunk) if chunk["type"] == "response.output_item.added" => Some(chunk),
            _ => None,
        });
        let items = chunks.map(|chunk| {
            assert_eq!(chunk["choices"][0]["delta"], json!({}), "an otherwise empty chunk");
            &chunk["item"]
        });
        items.collect()
    }

    /// The outputs of cards with their status. Fails unless each card has exactly one.
    #[track_caller]
    pub(crate) fn card_outputs(&self) -> Vec<(String, String)> {
        let items = self.card_items();
        let id = |item: &Value| item["call_id"].as_str().expect("an id").to_owned();
        let (outputs, calls): (Vec<&Value>, Vec<&Value>) =
            items.iter().partition(|item| item["type"] == "function_call_output");
        let called: BTreeSet<String> = calls.into_iter().map(id).collect();
        let closed: BTreeSet<String> = outputs.iter().copied().map(id).collect();
        assert_eq!((outputs.len(), &closed), (called.len(), &called), "{items:#?}");
        assert!(called.iter().all(|id| id.starts_with("card_") && id.len() == 37), "{called:?}");
        let told = outputs.into_iter().map(|item| {
            let text = item["output"][0]["text"].as_str().expect("a list of parts");
            (text.to_owned(), item["status"].as_str().expect("a status").to_owned())
        });
        told.collect()
    }

    /// The code of the error frame that ended the stream.
    pub(crate) fn code(&self) -> &str {
        let error = self.error.as_ref().unwrap_or_else(|| panic!("no error: {:#?}", self.events));
        error["code"].as_str().expect("a code")
    }
}

/// Joins the deltas as an SDK does.
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
