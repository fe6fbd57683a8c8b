//! Serves scripted providers that each speak their own format, behind LiteLLM, and captures
//! the requests that arrive.

mod anthropic;
mod gemini;
mod ollama;
mod openai;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

use super::faults::{Asked, FaultUpstream, Faults, Step, answer, framed, head};
use super::sync;

/// A provider's own format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Anthropic,
    OpenAi,
    Gemini,
    Ollama,
}

/// What the model says in one answer.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Text(&'static str),
    /// Calls, each `(name, arguments)`.
    Calls(Vec<(&'static str, Value)>),
}

/// A call in a request and its answer, paired as the provider pairs them.
#[derive(Debug, PartialEq)]
pub(crate) struct Exchange {
    pub(crate) name: String,
    pub(crate) arguments: Value,
    pub(crate) answer: String,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) provider: Provider,
    body: String,
}

/// The running providers, on one port. They answer in the order of the script.
pub(crate) struct Providers {
    upstream: FaultUpstream,
    script: Arc<Script>,
}

#[derive(Debug, Default)]
struct Script {
    answers: Mutex<VecDeque<Said>>,
    captured: Mutex<Vec<Captured>>,
}

/// A streamed answer in a provider's format.
struct NativeStream {
    content_type: &'static str,
    pieces: Vec<String>,
}

impl Provider {
    pub(crate) const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAi, Self::Gemini, Self::Ollama];

    /// The name of its model in LiteLLM's configuration.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "scripted-anthropic",
            Self::OpenAi => "scripted-openai",
            Self::Gemini => "scripted-gemini",
            Self::Ollama => "scripted-ollama",
        }
    }

    /// Its entry in LiteLLM's `model_list`.
    fn entry(self, base: &str) -> String {
        // Models that LiteLLM knows: what it sends depends on what a model can do.
        let (model, path) = match self {
            Self::Anthropic => ("anthropic/claude-sonnet-5-5", ""),
            Self::OpenAi => ("openai/gpt-5.4-mini", "/v1"),
            Self::Gemini => ("gemini/gemini-3.1-pro-preview", ""),
            Self::Ollama => ("ollama_chat/qwen3", ""),
        };
        format!(
            "  - model_name: {}\n    litellm_params:\n      model: {model}\n      \
             api_base: {base}{path}\n      api_key: none-needed\n",
            self.model()
        )
    }

    /// The provider whose format has this path for requests that are streamed.
    fn for_path(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Anthropic),
            "/v1/chat/completions" => Some(Self::OpenAi),
            "/api/chat" => Some(Self::Ollama),
            path if path.ends_with(":streamGenerateContent?alt=sse") => Some(Self::Gemini),
            _ => None,
        }
    }

    fn stream(self, said: &Said) -> NativeStream {
        match self {
            Self::Anthropic => anthropic::stream(said),
            Self::OpenAi => openai::stream(said),
            Self::Gemini => gemini::stream(said),
            Self::Ollama => ollama::stream(said),
        }
    }
}

impl Providers {
    pub(crate) fn start() -> Self {
        let script = Arc::new(Script::default());
        Self { upstream: FaultUpstream::start(Arc::clone(&script)), script }
    }

    /// LiteLLM's `model_list` with a model of each provider.
    pub(crate) fn model_list(&self) -> String {
        let url = self.upstream.url();
        let base = url.strip_suffix("/v1").expect("a base URL");
        let entries = Provider::ALL.map(|provider| provider.entry(base)).concat();
        format!("model_list:\n{entries}")
    }

    /// Scripts the next answers.
    pub(crate) fn say(&self, answers: impl IntoIterator<Item = Said>) {
        sync::lock(&self.script.answers).extend(answers);
    }

    /// Takes the requests that have arrived since the last time.
    pub(crate) fn take(&self) -> Vec<Captured> {
        std::mem::take(&mut *sync::lock(&self.script.captured))
    }
}

impl Faults for Script {
    fn asked(&self, request: &Asked) -> Vec<Step> {
        let json = ["content-type: application/json"];
        // LiteLLM asks for lists of models, and works without them.
        if request.head.method() == "GET" {
            return vec![Step::Bytes(answer("404 N", &json, b"{}"))];
        }
        let path = request.head.path();
        let provider = Provider::for_path(path);
        let provider = provider.unwrap_or_else(|| panic!("no provider streams at {path}"));
        let body = String::from_utf8(request.body.clone()).expect("JSON is UTF-8");
        sync::lock(&self.captured).push(Captured { provider, body });
        let Some(said) = sync::lock(&self.answers).pop_front() else {
            return vec![Step::Bytes(answer("400 B", &json, b"{\"error\": \"nothing scripted\"}"))];
        };
        let native = provider.stream(&said);
        let kind = format!("content-type: {}", native.content_type);
        let mut steps = vec![Step::Bytes(head("200 OK", &[&kind, "transfer-encoding: chunked"]))];
        let pieces = native.pieces.iter().map(|piece| Step::Bytes(framed(piece.as_bytes())));
        steps.extend(pieces);
        steps.push(Step::Bytes(b"0\r\n\r\n".to_vec()));
        steps
    }
}

/// The mark up to which Anthropic caches a prompt, as LiteLLM writes it.
const MARK: &str = r#", "cache_control": {"type": "ephemeral"}"#;

impl Captured {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    /// The exact bytes of each member, without cache marks.
    pub(crate) fn unmarked(&self) -> IndexMap<String, Box<RawValue>> {
        let body = self.body.replace(MARK, "");
        assert!(!body.contains("cache_control"), "a mark of another form: {body}");
        serde_json::from_str(&body).expect("the body is an object")
    }

    /// The member with the conversation.
    pub(crate) fn conversation(&self) -> &'static str {
        if self.provider == Provider::Gemini { "contents" } else { "messages" }
    }

    /// The places of every member with this name, as JSON pointers.
    pub(crate) fn places_of(&self, name: &str) -> Vec<String> {
        let mut places = Vec::new();
        find(&self.json(), name, "", &mut places);
        places
    }

    /// The definitions of the tools, each with `name`, `description` and `parameters`.
    pub(crate) fn tools(&self) -> Vec<Value> {
        let body = self.json();
        match self.provider {
            Provider::Anthropic => anthropic::tools(&body),
            Provider::OpenAi | Provider::Ollama => functions(&body),
            Provider::Gemini => gemini::tools(&body),
        }
    }

    /// The calls of the conversation with their answers.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        let body = self.json();
        match self.provider {
            Provider::Anthropic => anthropic::exchanges(&body),
            Provider::OpenAi => openai::exchanges(&body),
            Provider::Gemini => gemini::exchanges(&body),
            Provider::Ollama => ollama::exchanges(&body),
        }
    }
}

/// The tools of a request that lists them as OpenAI does.
fn functions(body: &Value) -> Vec<Value> {
    list(body, "tools").map(|tool| tool["function"].clone()).collect()
}

fn find(value: &Value, name: &str, place: &str, places: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(key, it)| (key.clone(), it)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(at, it)| (at.to_string(), it)).collect()
        }
        _ => Vec::new(),
    };
    for (key, value) in inner {
        let place = format!("{place}/{key}");
        find(value, name, &place, places);
        if key == name {
            places.push(place);
        }
    }
}

/// An event of a stream, as all but Ollama send it.
fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The messages of a conversation, or the contents.
fn list<'v>(body: &'v Value, member: &str) -> impl Iterator<Item = &'v Value> {
    body[member].as_array().expect("a list").iter()
}

/// Pairs calls, each `(name, arguments)`, with answers in the same order, as the formats
/// without ids do.
fn by_position(calls: Vec<(Value, Value)>, answers: Vec<Value>) -> Vec<Exchange> {
    assert_eq!(calls.len(), answers.len(), "each call has an answer: {calls:?} {answers:?}");
    let paired = calls.into_iter().zip(answers);
    paired.map(|((name, arguments), answer)| Exchange::new(&name, arguments, &answer)).collect()
}

impl Exchange {
    fn new(name: &Value, arguments: Value, answer: &Value) -> Self {
        let name = name.as_str().expect("a name").to_owned();
        let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
        Self { name, arguments, answer }
    }
}
