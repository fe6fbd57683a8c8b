//! Serialises one round for upstream: the assistant's message and the answers to its calls.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::{Value, json};

use super::Exchange;
use crate::agent::compaction::Size;
use crate::agent::message;
use crate::agent::pictures;
use crate::agent::record::RecordedRound;
use crate::agent::settings::{AskedModel, ImageRule};
use crate::openai::chunk::is_reasoning;

/// The length of an id that replaces another model's. Mistral takes exactly nine letters and
/// digits, OpenAI at most forty characters.
const REPLACED_ID_CHARS: usize = 9;

/// One serialised round. Only one form is kept: a turn never returns to a model it has left,
/// and a model that has refused reasoning is sent none again, so what is removed is never
/// needed later. Empty reasoning that was filled in can go again.
#[derive(Debug)]
pub(super) struct WrittenRound {
    /// The messages, with a leading comma unless they are the first of the request.
    bytes: Bytes,
    /// The model that wrote the round; `None` for messages of the client's and notes of ours.
    model: Option<String>,
    form: Form,
    has_reasoning: bool,
    has_calls: bool,
    pictures: Option<Pictures>,
    /// The `reasoning_content` that was filled in where there was none.
    filler: Option<&'static str>,
    /// Whether an empty text was written for a content that is null.
    fills_content: bool,
}

/// A round that holds pictures.
#[derive(Debug)]
struct Pictures {
    /// The messages as they are recorded, without a leading comma.
    recorded: Bytes,
    /// Where the pictures stand now.
    rule: ImageRule,
    /// The size of the round, with each picture counted as it counts for a model.
    counted: usize,
}

/// How much of what the model sent is kept. The order matters: a round only moves down this
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// With every member that its deltas brought.
    Whole,
    WithoutReasoning,
    /// For another model, which knows neither the ids nor the members that belong to them.
    Foreign,
}

impl Form {
    /// The form in which `model` is sent what `writer` wrote.
    pub(super) fn of(writer: &str, model: &AskedModel) -> Self {
        match () {
            () if writer != model.name => Self::Foreign,
            () if model.takes_reasoning() => Self::Whole,
            () => Self::WithoutReasoning,
        }
    }
}

/// What a round is changed to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) images: ImageRule,
    /// As in [`AskedModel::reasoning_filler`].
    pub(super) filler: Option<&'static str>,
    /// Whether an empty text stands for a content that is null.
    pub(super) fills_content: bool,
}

impl Exchange {
    /// The round as it is kept, and sent to the model that wrote it.
    pub(crate) fn to_record(&self) -> RecordedRound {
        let mut messages = String::from("[");
        messages.push_str(&self.assistant.to_string());
        for answer in &self.answers {
            messages.push(',');
            messages.push_str(answer.get());
        }
        if let Some(pictures) = &self.pictures {
            let _ = write!(messages, ",{pictures}");
        }
        messages.push(']');
        let Self { model, has_reasoning, .. } = self;
        RecordedRound { messages, model: model.clone(), has_reasoning: *has_reasoning }
    }
}

impl WrittenRound {
    pub(super) fn new(round: &RecordedRound, is_first: bool) -> Self {
        let messages = without_brackets(&round.messages);
        let pictures = pictures::are_among(messages).then(|| Pictures {
            recorded: Bytes::copy_from_slice(messages.as_bytes()),
            rule: ImageRule::UserMessage,
            counted: Size::counted(messages.as_bytes()),
        });
        Self {
            bytes: with_comma(messages, is_first),
            model: Some(round.model.clone()),
            form: Form::Whole,
            has_reasoning: round.has_reasoning,
            has_calls: has_calls(messages),
            pictures,
            filler: None,
            fills_content: false,
        }
    }

    /// A message that is the same for every model.
    pub(super) fn message(message: &str, is_first: bool) -> Self {
        Self {
            bytes: with_comma(message, is_first),
            model: None,
            form: Form::Whole,
            has_reasoning: false,
            has_calls: false,
            pictures: None,
            filler: None,
            fills_content: false,
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The bytes that it counts for in the size of a request.
    pub(super) fn counted(&self) -> usize {
        self.pictures.as_ref().map_or(self.bytes.len(), |pictures| pictures.counted)
    }

    /// The bytes that it keeps in memory.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.pictures.as_ref().map_or(0, |pictures| pictures.recorded.len())
    }

    pub(super) fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Whether it holds pictures of tools, wherever the model is sent them.
    pub(super) fn has_pictures(&self) -> bool {
        self.pictures.is_some()
    }

    pub(super) fn has_reasoning(&self) -> bool {
        self.has_reasoning && self.form == Form::Whole
    }

    /// The messages as they are now, for a record. `model` is the one they are adapted to.
    pub(super) fn to_record(&self, model: &str) -> RecordedRound {
        let messages = match &self.pictures {
            Some(pictures) if self.form == Form::Whole => &pictures.recorded[..],
            _ => self.bytes.strip_prefix(b",").unwrap_or(&self.bytes),
        };
        let messages = if self.filler.is_some() || self.fills_content {
            // What was filled in for one model is nothing that was said.
            Cow::Owned(filled(messages, None, false))
        } else {
            Cow::Borrowed(messages)
        };
        let writer = self.model.as_deref().filter(|_| self.form != Form::Foreign);
        RecordedRound {
            messages: format!("[{}]", String::from_utf8_lossy(&messages)),
            model: writer.unwrap_or(model).to_owned(),
            has_reasoning: self.has_reasoning(),
        }
    }

    /// Removes what `model` must not be sent. `number` is the round's number among those with
    /// calls; it keeps replaced ids of different rounds apart.
    pub(super) fn adapt_to(&mut self, model: &AskedModel, number: usize) {
        let filler = model.reasoning_filler();
        let fills_content = !model.takes_null_content();
        let fills = self.filler != filler || self.fills_content != fills_content;
        self.filler = filler;
        self.fills_content = fills_content;
        let Some(writer) = &self.model else {
            if fills {
                self.replace(|text| filled(text, filler, fills_content));
            }
            return;
        };
        // What was removed cannot be brought back.
        let form = self.form.max(Form::of(writer, model));
        let moves = self.pictures.as_ref().is_some_and(|pictures| pictures.rule != model.images);
        let strips = form > self.form && (form == Form::Foreign || self.has_reasoning);
        self.form = form;
        if !strips && !moves && !fills {
            return;
        }
        let shape = Shape { form, images: model.images, filler, fills_content };
        let recorded = self.pictures.as_mut().map(|pictures| {
            pictures.rule = model.images;
            pictures.recorded.clone()
        });
        self.replace(|text| in_shape(recorded.as_deref().unwrap_or(text), shape, number));
    }

    /// Replaces the messages by what `change` makes of them.
    fn replace(&mut self, change: impl FnOnce(&[u8]) -> Vec<u8>) {
        let text = self.bytes.strip_prefix(b",").unwrap_or(&self.bytes);
        let is_first = text.len() == self.bytes.len();
        let changed = String::from_utf8(change(text)).expect("JSON is UTF-8");
        self.bytes = with_comma(&changed, is_first);
    }
}

fn with_comma(messages: &str, is_first: bool) -> Bytes {
    let comma = if is_first { "" } else { "," };
    [comma, messages].concat().into()
}

/// The messages of an array, without its brackets.
pub(super) fn without_brackets(array: &str) -> &str {
    let inner = array.strip_prefix('[').and_then(|array| array.strip_suffix(']'));
    inner.unwrap_or_default()
}

/// Whether calls with answers are among the messages.
pub(super) fn has_calls(messages: &str) -> bool {
    static CALLS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(br#""tool_calls""#));
    CALLS.find(messages.as_bytes()).is_some()
}

/// Writes messages of a record, which stand with commas between them, in another shape.
pub(super) fn in_shape(messages: &[u8], shape: Shape, number: usize) -> Vec<u8> {
    let mut parsed = parsed(messages);
    for message in parsed.iter_mut().filter(|message| message["role"] == "assistant") {
        if shape.form != Form::Whole {
            drop_reasoning(message);
            let content = message["content"].take();
            message["content"] = message::content_without_reasoning(content);
        }
        if shape.filler.is_some() {
            message::fill_reasoning(message, shape.filler);
        }
        message::fill_content(message, shape.fills_content);
    }
    if shape.form == Form::Foreign {
        rename_calls(&mut parsed, number);
    }
    pictures::put(&mut parsed, shape.images);
    joined_messages(&parsed)
}

/// Writes messages with this text where reasoning is missing, and with an empty one where content
/// is; `None` and `false` take them out again.
fn filled(messages: &[u8], filler: Option<&str>, fills_content: bool) -> Vec<u8> {
    let mut parsed = parsed(messages);
    for message in parsed.iter_mut().filter(|message| message["role"] == "assistant") {
        message::fill_reasoning(message, filler);
        message::fill_content(message, fills_content);
    }
    joined_messages(&parsed)
}

fn parsed(messages: &[u8]) -> Vec<Value> {
    let parsed: Result<Vec<Value>, _> = serde_json::from_slice(&[b"[", messages, b"]"].concat());
    parsed.expect("they are valid JSON")
}

fn joined_messages(messages: &[Value]) -> Vec<u8> {
    let mut written = Vec::new();
    for message in messages {
        if !written.is_empty() {
            written.push(b',');
        }
        serde_json::to_writer(&mut written, message).expect("writing to memory does not fail");
    }
    written
}

/// The message that answers a call.
pub(crate) fn answer_message(id: &str, answer: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": answer })
}

fn drop_reasoning(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| !is_reasoning(name));
    }
}

/// Gives the calls fresh ids. The answers follow their message in the order of its calls.
fn rename_calls(messages: &mut [Value], round: usize) {
    let Some(at) = messages.iter().position(|message| message["tool_calls"].is_array()) else {
        return;
    };
    let (assistant, answers) = messages[at..].split_first_mut().expect("it was found there");
    let Some(calls) = assistant["tool_calls"].as_array_mut() else { return };
    for (slot, (call, answer)) in calls.iter_mut().zip(answers).enumerate() {
        let mut id = blake3::hash(format!("{round}/{slot}").as_bytes()).to_hex().to_string();
        id.truncate(REPLACED_ID_CHARS);
        drop_reasoning(call);
        call["id"] = json!(id);
        answer["tool_call_id"] = json!(id);
    }
}
