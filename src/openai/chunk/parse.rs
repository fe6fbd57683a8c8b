//! Parses a chunk in one pass, and tolerates the mistakes of providers.
//!
//! Every token of an answer passes through here. A tree of values for each would cost more than
//! all the rest of passing it on.

mod members;

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{Error, IgnoredAny, MapAccess};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::finish_reason::{FinishReason, FinishWord};
use super::{BadChunk, CallDelta, CallKind, Chunk, Delta, MAX_USAGE, RawMembers, carried_error};
use crate::json;
use crate::openai::error_object::ErrorObject;
use crate::openai::usage::Usage;
use members::{Content, Entries, Filled, Listed, MAX_MEMBERS, Members, Scalar};

const REFUSAL: &str = "refusal";

/// Parses one payload.
pub(super) fn chunk(payload: &str) -> Result<Chunk, BadChunk> {
    let Filled(mut envelope) = serde_json::from_str::<Filled<Envelope>>(payload)
        .map_err(|error| BadChunk::Malformed(error.to_string()))?;
    if let Some(error) = envelope.carried_error() {
        return Err(BadChunk::Error(error));
    }
    if !envelope.has_choices && envelope.chunk.usage.is_none() {
        return Err(
            carried_error::remark(&envelope.members()).map_or(BadChunk::Nothing, BadChunk::Remark)
        );
    }
    let mut chunk = envelope.chunk;
    if !envelope.unknown.is_empty() {
        chunk.unknown = Some(Arc::new(envelope.unknown));
    }
    let Some(choice) = envelope.choice else { return Ok(chunk) };
    chunk.has_choice = true;
    chunk.finish_reason = finish_reason(&choice)?;
    chunk.delta = choice.delta;
    chunk.logprobs = choice.logprobs;
    Ok(chunk)
}

/// How a choice ends its answer, if it does. A word that is not known to be a good end is an
/// error.
fn finish_reason(choice: &Choice) -> Result<Option<FinishReason>, BadChunk> {
    if let Some(error) = &choice.error {
        return Err(BadChunk::Error(ErrorObject { is_inferred: true, ..error.clone() }));
    }
    let Some(word) = &choice.finish_reason else { return Ok(None) };
    match FinishWord::read(word) {
        FinishWord::Reason(reason) => Ok(Some(reason)),
        FinishWord::Nothing => Ok(None),
        ended @ (FinishWord::Failure | FinishWord::Unknown) => {
            let error = carried_error::inferred(format!("finish_reason is {word:?}"));
            let is_inferred = ended == FinishWord::Unknown;
            Err(BadChunk::Error(ErrorObject { is_inferred, ..error }))
        }
    }
}

/// The top level of a chunk.
#[derive(Default)]
struct Envelope {
    chunk: Chunk,
    /// Whether `choices` is a list, even an empty one.
    has_choices: bool,
    /// Choice 0.
    choice: Option<Choice>,
    error: Option<ErrorObject>,
    /// Whether `object` says that it is an error.
    is_error: bool,
    unknown: RawMembers,
}

impl Envelope {
    /// The error that the object carries in the place of a chunk, or beside one.
    fn carried_error(&mut self) -> Option<ErrorObject> {
        if let Some(error) = self.error.take() {
            return Some(error);
        }
        let may_tell = || self.unknown.keys().any(|name| carried_error::may_tell(name));
        let has_answer = self.choice.is_some();
        if has_answer && !self.is_error && !may_tell() {
            return None;
        }
        let members = self.members();
        if has_answer {
            carried_error::beside_an_answer(&members)
        } else {
            carried_error::find(&members)
        }
    }

    /// The members that tell of an error, if any do.
    fn members(&self) -> Map<String, Value> {
        let value = |raw: &RawValue| serde_json::from_str(raw.get()).ok();
        let members =
            self.unknown.iter().filter_map(|(name, raw)| Some((name.clone(), value(raw)?)));
        let mut members: Map<String, Value> = members.collect();
        if self.is_error {
            members.insert("object".to_owned(), "error".into());
        }
        members
    }
}

/// One entry of `choices`.
#[derive(Default)]
struct Choice {
    index: Option<u64>,
    delta: Delta,
    finish_reason: Option<String>,
    error: Option<ErrorObject>,
    logprobs: Option<Box<RawValue>>,
}

impl Members for Envelope {
    const EXPECTED: &'static str = "a chunk";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "model" => self.chunk.model = map.next_value::<Scalar>()?.text(),
            "choices" => {
                let choices: Option<Listed<FirstChoice>> = map.next_value()?;
                self.has_choices = choices.is_some();
                self.choice = choices.and_then(|Listed(FirstChoice(choice))| choice);
            }
            "usage" => self.chunk.usage = usage(map.next_value()?),
            "error" => self.error = error(map.next_value()?),
            "object" => {
                let object = map.next_value::<Scalar>()?.text().unwrap_or_default();
                self.is_error = carried_error::names_a_failure(&object);
            }
            // The server writes these itself; `obfuscation` is OpenAI's padding.
            "id" | "created" | "toolhand" | "obfuscation" => ignore(map)?,
            _ => keep_raw(&mut self.unknown, name, map.next_value()?),
        }
        Ok(())
    }
}

impl Members for Choice {
    const EXPECTED: &'static str = "a choice";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "index" => self.index = map.next_value::<Scalar>()?.count(),
            "delta" => {
                self.delta = or_default(map.next_value()?);
                let told = self.delta.members.shift_remove("error");
                let told = told.and_then(|raw| serde_json::from_str(raw.get()).ok());
                self.error = self.error.take().or_else(|| error(told?));
            }
            "message" => self.delta = message(or_default(map.next_value()?)),
            "finish_reason" => self.finish_reason = map.next_value::<Scalar>()?.non_empty(),
            "logprobs" => self.logprobs = map.next_value::<Option<Box<RawValue>>>()?,
            "error" => self.error = error(map.next_value()?),
            _ => ignore(map)?,
        }
        Ok(())
    }
}

impl Members for Delta {
    const EXPECTED: &'static str = "a delta";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "content" => {
                (self.content, self.parts) = match map.next_value()? {
                    Content::Text(text) => (Some(text), Vec::new()),
                    Content::Parts(parts) => (None, parts),
                    Content::Other => (None, Vec::new()),
                }
            }
            "tool_calls" => {
                let calls: Option<Listed<CallDeltas>> = map.next_value()?;
                self.tool_calls = calls.map(|Listed(CallDeltas(calls))| calls).unwrap_or_default();
            }
            // `toolhand` is ours: a client takes it for what this server did.
            "role" | "function_call" | "toolhand" => ignore(map)?,
            _ => keep_raw(&mut self.members, name, map.next_value()?),
        }
        Ok(())
    }
}

impl Members for CallDelta {
    const EXPECTED: &'static str = "a tool call";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "index" => self.index = map.next_value::<Scalar>()?.count(),
            "id" => self.id = map.next_value::<Scalar>()?.non_empty(),
            "function" => {
                if let Some(Filled(Function { name, arguments, members })) = map.next_value()? {
                    (self.name, self.arguments) = (name, arguments);
                    self.function_members = members;
                }
            }
            "custom" => {
                if let Some(Filled(Custom { name, input })) = map.next_value()? {
                    (self.kind, self.name, self.arguments) = (CallKind::Custom, name, input);
                }
            }
            "type" => ignore(map)?,
            _ => keep(&mut self.members, name, &map.next_value::<Box<RawValue>>()?),
        }
        Ok(())
    }
}

/// The `function` of a call's delta.
#[derive(Default)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
    members: IndexMap<String, Value>,
}

impl Members for Function {
    const EXPECTED: &'static str = "a function";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "name" => self.name = map.next_value::<Scalar>()?.non_empty(),
            "arguments" => {
                self.arguments = arguments(map.next_value()?).map_err(A::Error::custom)?;
            }
            _ => keep(&mut self.members, name, &map.next_value::<Box<RawValue>>()?),
        }
        Ok(())
    }
}

/// The `custom` of a call's delta.
#[derive(Default)]
struct Custom {
    name: Option<String>,
    input: Option<String>,
}

impl Members for Custom {
    const EXPECTED: &'static str = "a custom tool";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "name" => self.name = map.next_value::<Scalar>()?.non_empty(),
            "input" => self.input = map.next_value::<Scalar>()?.text(),
            _ => ignore(map)?,
        }
        Ok(())
    }
}

/// Numbers the calls of a whole message by position, because some providers give all of them
/// index 0, and finds its refusal.
fn message(mut delta: Delta) -> Delta {
    adopt_refusal(&mut delta);
    for (position, call) in (0..).zip(&mut delta.tool_calls) {
        call.index = Some(position);
    }
    delta
}

/// Takes the refusal from where LiteLLM puts it: among the provider's own members of a message
/// without content.
fn adopt_refusal(delta: &mut Delta) {
    #[derive(Deserialize)]
    struct Fields {
        refusal: Option<Box<RawValue>>,
    }
    let is_text = |raw: &RawValue| raw.get().starts_with('"') && raw.get() != r#""""#;
    let has_content = delta.content.as_ref().is_some_and(|content| !content.is_empty())
        || !delta.parts.is_empty();
    if has_content || delta.members.get(REFUSAL).is_some_and(|refusal| is_text(refusal)) {
        return;
    }
    let fields = delta.members.get("provider_specific_fields");
    let fields = fields.and_then(|fields| serde_json::from_str::<Fields>(fields.get()).ok());
    if let Some(refusal) = fields.and_then(|fields| fields.refusal).filter(|raw| is_text(raw)) {
        delta.members.insert(REFUSAL.to_owned(), refusal);
    }
}

/// The entry of `choices` with index 0, which is also assumed where there is none. The others
/// are dropped one by one.
#[derive(Default)]
struct FirstChoice(Option<Choice>);

impl Entries for FirstChoice {
    type Entry = Filled<Choice>;

    fn entry(&mut self, entry: Option<Filled<Choice>>) -> Result<(), &'static str> {
        let entry = entry.map(|Filled(choice)| choice);
        if self.0.is_none() {
            self.0 = entry.filter(|choice| choice.index.unwrap_or(0) == 0);
        }
        Ok(())
    }
}

/// The entries of `tool_calls`.
#[derive(Default)]
struct CallDeltas(Vec<CallDelta>);

impl Entries for CallDeltas {
    type Entry = Filled<CallDelta>;

    fn entry(&mut self, entry: Option<Filled<CallDelta>>) -> Result<(), &'static str> {
        if self.0.len() == MAX_MEMBERS {
            return Err("too many tool calls");
        }
        self.0.extend(entry.map(|Filled(call)| call));
        Ok(())
    }
}

/// The value of a member `error`, unless it tells none.
fn error(value: Value) -> Option<ErrorObject> {
    carried_error::is_something(&value).then(|| ErrorObject::from_value(value))
}

/// The usage, or `None` where it cannot be read: that is no reason to end a stream.
fn usage(raw: &RawValue) -> Option<Usage> {
    if raw.get().len() > MAX_USAGE {
        return None;
    }
    serde_json::from_str::<Map<String, Value>>(raw.get()).ok().and_then(Usage::read)
}

/// A string's text, or an object's bytes. Any other value adds nothing.
fn arguments(raw: &RawValue) -> serde_json::Result<Option<String>> {
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get()).map(Some),
        Some(b'{') => Ok(Some(raw.get().to_owned())),
        _ => Ok(None),
    }
}

fn or_default<T: Default>(filled: Option<Filled<T>>) -> T {
    filled.map(|filled| filled.0).unwrap_or_default()
}

fn keep(members: &mut IndexMap<String, Value>, name: &str, value: &RawValue) {
    if value.get() != "null"
        && let Some(value) = json::kept_value(value)
    {
        members.insert(name.to_owned(), value);
    }
}

fn keep_raw(members: &mut RawMembers, name: &str, value: Box<RawValue>) {
    if value.get() != "null" && json::can_be_kept(value.get()) {
        members.insert(name.to_owned(), value);
    }
}

fn ignore<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(drop)
}

#[cfg(test)]
mod tests;
