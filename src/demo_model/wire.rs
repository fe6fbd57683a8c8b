//! Reads the demo model's requests, and writes its completions and chunks.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::MODEL;
use super::messages::Message;
use super::reply::{self, Asked, OfferedTool, Reply, TextFormat};
use crate::ids::CompletionId;

#[derive(Debug, Deserialize)]
pub(super) struct Request {
    messages: Vec<Message>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    tool_choice: Value,
    #[serde(default)]
    response_format: Value,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Tool {
    function: Option<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    parameters: Value,
}

impl Request {
    pub(super) fn wants_stream(&self) -> bool {
        self.stream == Some(true)
    }

    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true)
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            messages: &self.messages,
            tools: self.offered(),
            forced: self.tool_choice["function"]["name"].as_str(),
            format: self.format(),
        }
    }

    fn offered(&self) -> Vec<OfferedTool<'_>> {
        if self.tool_choice == "none" {
            return Vec::new();
        }
        let functions = self.tools.iter().flatten().filter_map(|tool| tool.function.as_ref());
        let offered =
            functions.map(|Function { name, parameters }| OfferedTool { name, parameters });
        offered.collect()
    }

    fn format(&self) -> TextFormat<'_> {
        match self.response_format["type"].as_str() {
            Some("json_object") => TextFormat::Object,
            Some("json_schema") => {
                TextFormat::Schema(&self.response_format["json_schema"]["schema"])
            }
            _ => TextFormat::Text,
        }
    }
}

/// One answer, which can be written whole or in chunks.
pub(super) struct Completion {
    id: CompletionId,
    created: u64,
    text: String,
    calls: Vec<WireCall>,
    usage: Value,
}

struct WireCall {
    id: String,
    name: String,
    arguments: String,
}

impl Completion {
    pub(super) fn answering(request: &Request) -> Self {
        let (text, calls) = match reply::next(&request.asked()) {
            Reply::Text(text) => (text, Vec::new()),
            Reply::Calls { lead, calls } => (lead, calls),
        };
        let calls: Vec<WireCall> = calls
            .into_iter()
            .map(|call| WireCall {
                id: format!("call_{}", Uuid::new_v4().simple()),
                name: call.tool,
                arguments: call.arguments.to_string(),
            })
            .collect();
        let usage = usage(request, &text, &calls);
        Self { id: CompletionId::random(), created: now(), text, calls, usage }
    }

    fn finish_reason(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    pub(super) fn whole(&self) -> String {
        let mut message = json!({ "role": "assistant", "content": self.text, "refusal": null });
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(WireCall::whole).collect();
        }
        let choice =
            json!({ "index": 0, "message": message, "finish_reason": self.finish_reason() });
        let mut completion = self.envelope("chat.completion", &json!([choice]));
        completion["usage"] = self.usage.clone();
        completion.to_string()
    }

    /// Server-sent events: the role, the words, the head and pieces of each call, the
    /// finish reason, and the usage if wanted.
    pub(super) fn events(&self, with_usage: bool) -> Vec<String> {
        let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
        deltas.extend(words(&self.text).into_iter().map(|words| json!({ "content": words })));
        for (index, call) in self.calls.iter().enumerate() {
            deltas.extend(call.deltas(index));
        }
        let mut events: Vec<String> = deltas.iter().map(|delta| self.chunk(delta, None)).collect();
        events.push(self.chunk(&json!({}), Some(self.finish_reason())));
        if with_usage {
            let mut last = self.envelope("chat.completion.chunk", &json!([]));
            last["usage"] = self.usage.clone();
            events.push(event(&last));
        }
        events.push("data: [DONE]\n\n".to_owned());
        events
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> String {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish_reason });
        event(&self.envelope("chat.completion.chunk", &json!([choice])))
    }

    fn envelope(&self, object: &str, choices: &Value) -> Value {
        json!({
            "id": self.id.to_string(),
            "object": object,
            "created": self.created,
            "model": MODEL,
            "system_fingerprint": "toolhand-demo",
            "choices": choices,
        })
    }
}

impl WireCall {
    fn whole(&self) -> Value {
        json!({
            "id": self.id,
            "type": "function",
            "function": { "name": self.name, "arguments": self.arguments },
        })
    }

    fn deltas(&self, index: usize) -> Vec<Value> {
        let mut head = self.whole();
        head["index"] = index.into();
        head["function"]["arguments"] = "".into();
        let piece = |piece: String| json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] });
        let mut deltas = vec![json!({ "tool_calls": [head] })];
        deltas.extend(pieces(&self.arguments).into_iter().map(piece));
        deltas
    }
}

fn event(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

/// Splits a text into a word or a few at a time. A long quotation has fewer chunks than
/// words.
fn words(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    words.chunks(words.len().div_ceil(64).max(1)).map(<[&str]>::concat).collect()
}

/// Splits arguments into pieces of some characters, as models send them.
fn pieces(arguments: &str) -> Vec<String> {
    let characters: Vec<char> = arguments.chars().collect();
    characters.chunks(characters.len().div_ceil(64).max(8)).map(String::from_iter).collect()
}

/// Estimates the usage at four bytes for each token.
fn usage(request: &Request, text: &str, calls: &[WireCall]) -> Value {
    let prompt: usize = request.messages.iter().map(|message| message.content.len()).sum();
    let completion: usize =
        text.len() + calls.iter().map(|call| call.arguments.len()).sum::<usize>();
    let (prompt, completion) = (prompt.div_ceil(4).max(1), completion.div_ceil(4).max(1));
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    })
}

fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// Answers `GET /v1/models`.
pub(super) fn models() -> String {
    let demo = json!({
        "id": MODEL, "object": "model", "created": 0, "owned_by": "toolhand-demo",
    });
    json!({ "object": "list", "data": [demo] }).to_string()
}

/// An error in OpenAI's form.
pub(super) fn error(message: &str) -> String {
    json!({ "error": {
        "message": format!("demo model: {message}"),
        "type": "invalid_request_error",
        "param": null,
        "code": null,
    }})
    .to_string()
}
