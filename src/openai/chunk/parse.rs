//! Reads a chunk in one pass, forgiving what providers get wrong.
//!
//! Visitors by hand: every token of an answer comes through here, and a tree of
//! values for each would cost more than all the rest of passing it on.

use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexMap;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{BadChunk, CallDelta, Chunk, Delta};
use crate::openai::error_object::ErrorObject;
use crate::openai::usage::Usage;

pub(super) fn chunk(payload: &str) -> Result<Chunk, BadChunk> {
    let envelope: Envelope =
        serde_json::from_str(payload).map_err(|error| BadChunk::Malformed(error.to_string()))?;
    if let Some(error) = envelope.error {
        return Err(BadChunk::Error(error));
    }
    if envelope.choice.is_none() && envelope.chunk.usage.is_none() {
        return Err(BadChunk::Malformed("neither choices nor usage in it".into()));
    }
    let mut chunk = envelope.chunk;
    if let Some(choice) = envelope.choice {
        chunk.delta = choice.delta;
        chunk.finish_reason = choice.finish_reason;
        chunk.logprobs = choice.logprobs;
    }
    Ok(chunk)
}

/// The top level of a chunk.
#[derive(Default)]
struct Envelope {
    chunk: Chunk,
    /// `None` where `choices` is missing; an empty list is an empty choice.
    choice: Option<Choice>,
    error: Option<ErrorObject>,
}

#[derive(Default)]
struct Choice {
    index: Option<u64>,
    delta: Delta,
    finish_reason: Option<String>,
    logprobs: Option<Box<RawValue>>,
}

/// A type that is filled member by member, from a JSON object.
trait Members: Default {
    const EXPECTED: &'static str;

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

impl Members for Envelope {
    const EXPECTED: &'static str = "a chunk";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "model" => self.chunk.model = map.next_value::<Scalar>()?.text(),
            "choices" => self.choice = map.next_value::<Option<Vec<_>>>()?.map(first_choice),
            "usage" => self.chunk.usage = usage(map.next_value()?),
            "error" => self.error = map.next_value()?,
            _ => ignore(map)?,
        }
        Ok(())
    }
}

impl Members for Choice {
    const EXPECTED: &'static str = "a choice";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "index" => self.index = map.next_value::<Scalar>()?.count(),
            "delta" => self.delta = or_default(map.next_value()?),
            "message" => self.delta = message(or_default(map.next_value()?)),
            "finish_reason" => self.finish_reason = map.next_value::<Scalar>()?.non_empty(),
            "logprobs" => self.logprobs = map.next_value::<Option<Box<RawValue>>>()?,
            _ => ignore(map)?,
        }
        Ok(())
    }
}

impl Members for Delta {
    const EXPECTED: &'static str = "a delta";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "content" => self.content = map.next_value::<Scalar>()?.text(),
            "tool_calls" => {
                let calls: Option<Vec<Option<Filled<_>>>> = map.next_value()?;
                self.tool_calls =
                    calls.into_iter().flatten().flatten().map(|filled| filled.0).collect();
            }
            "role" | "function_call" => ignore(map)?,
            _ => {
                let value: Box<RawValue> = map.next_value()?;
                if value.get() != "null" {
                    self.members.insert(name.to_owned(), value);
                }
            }
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
                let function: Function = or_default(map.next_value()?);
                self.name = function.name;
                self.arguments = function.arguments;
                self.function_members = function.members;
            }
            "type" => ignore(map)?,
            _ => keep(&mut self.members, name, map.next_value()?),
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
            _ => keep(&mut self.members, name, map.next_value()?),
        }
        Ok(())
    }
}

/// A whole message's calls are told apart by position: some providers give all of
/// them the index 0.
fn message(mut delta: Delta) -> Delta {
    for (position, call) in (0..).zip(&mut delta.tool_calls) {
        call.index = Some(position);
    }
    delta
}

fn first_choice(choices: Vec<Filled<Choice>>) -> Choice {
    let mut choices = choices.into_iter().map(|filled| filled.0);
    choices.find(|choice| choice.index.unwrap_or(0) == 0).unwrap_or_default()
}

/// Counts that cannot be read are no counts, and no reason to end a stream.
fn usage(raw: &RawValue) -> Option<Usage> {
    serde_json::from_str::<Map<String, Value>>(raw.get()).ok().and_then(Usage::read)
}

/// A text as it stands, an object as its bytes; anything else adds nothing.
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

fn keep(members: &mut IndexMap<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        members.insert(name.to_owned(), value);
    }
}

fn ignore<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(drop)
}

/// The one visitor of all [`Members`]: keys are looked at where they lie.
struct Filled<T>(T);

impl<'de, T: Members> Deserialize<'de> for Filled<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(FilledVisitor(PhantomData))
    }
}

struct FilledVisitor<T>(PhantomData<T>);

impl<'de, T: Members> Visitor<'de> for FilledVisitor<T> {
    type Value = Filled<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Filled<T>, A::Error> {
        let mut filled = T::default();
        while let Some(name) = map.next_key::<Key<'_>>()? {
            match name {
                Key::Borrowed(name) => filled.member(name, &mut map)?,
                Key::Owned(name) => filled.member(&name, &mut map)?,
            }
        }
        Ok(Filled(filled))
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Filled::deserialize(from).map(|filled| filled.0)
    }
}

/// A member's name, borrowed unless it holds an escape.
enum Key<'a> {
    Borrowed(&'a str),
    Owned(String),
}

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Key<'de>, E> {
                Ok(Key::Borrowed(name))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Key<'de>, E> {
                Ok(Key::Owned(name.to_owned()))
            }
        }

        from.deserialize_str(KeyVisitor)
    }
}

/// A text or a count; whatever else comes in their place is read over.
enum Scalar {
    Text(String),
    Count(u64),
    Other,
}

impl Scalar {
    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn non_empty(self) -> Option<String> {
        self.text().filter(|text| !text.is_empty())
    }

    fn count(self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Scalar, E> {
        Ok(Scalar::Count(count))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(payload: &str) -> Chunk {
        Chunk::parse(payload).expect(payload)
    }

    fn delta(delta: &str) -> Delta {
        read(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)).delta
    }

    fn call(call: &str) -> CallDelta {
        delta(&format!(r#"{{"tool_calls":[{call}]}}"#)).tool_calls.remove(0)
    }

    fn fault(payload: &str) -> BadChunk {
        Chunk::parse(payload).expect_err(payload)
    }

    #[test]
    fn reads_an_ordinary_chunk() {
        let chunk = read(
            r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m",
                "choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},
                "logprobs":{"content":[]},"finish_reason":"stop"}]}"#,
        );
        assert_eq!(chunk.model.as_deref(), Some("m"));
        assert_eq!(chunk.delta.content.as_deref(), Some("hi"));
        assert_eq!(chunk.finish_reason.as_deref(), Some("stop"));
        assert_eq!(chunk.logprobs.unwrap().get(), r#"{"content":[]}"#);
        assert!(chunk.usage.is_none());
        assert!(chunk.delta.members.is_empty());
    }

    #[test]
    fn keeps_members_it_does_not_know_as_the_bytes_they_came_as() {
        let delta = delta(
            r#"{"content":null,"reasoning_content":"a\u00e4","thinking_blocks":[ {"n":1.10} ],
                "refusal":null,"function_call":{"name":"old"}}"#,
        );
        let members: Vec<_> = delta.members.iter().map(|(k, v)| (k.as_str(), v.get())).collect();
        assert_eq!(
            members,
            [("reasoning_content", r#""a\u00e4""#), ("thinking_blocks", r#"[ {"n":1.10} ]"#)]
        );
        assert_eq!(delta.content, None);
    }

    #[test]
    fn reads_a_call_and_what_stands_beside_it() {
        let call = call(
            r#"{"index":2,"id":"c","type":"function","extra_content":{"signature":"s"},
                "function":{"name":"Read","arguments":"{\"a\"","provider_specific_fields":{"t":1}}}"#,
        );
        assert_eq!(call.index, Some(2));
        assert_eq!(call.id.as_deref(), Some("c"));
        assert_eq!(call.name.as_deref(), Some("Read"));
        assert_eq!(call.arguments.as_deref(), Some(r#"{"a""#));
        assert_eq!(call.members["extra_content"], json!({"signature": "s"}));
        assert_eq!(call.function_members["provider_specific_fields"], json!({"t": 1}));
    }

    #[test]
    fn forgives_whatever_is_missing_in_a_call() {
        for empty in [
            "{}",
            r#"{"index":null,"id":null,"function":null}"#,
            r#"{"index":-1,"id":"","function":{"name":"","arguments":null}}"#,
            r#"{"index":"0","id":7,"function":{"name":[],"arguments":7}}"#,
            r#"{"index":1e30}"#,
        ] {
            assert_eq!(call(empty), CallDelta::default(), "{empty}");
        }
    }

    #[test]
    fn arguments_that_came_as_an_object_are_serialised() {
        let call = call(r#"{"function":{"arguments":{"b":1.10, "a":[]}}}"#);
        assert_eq!(call.arguments.as_deref(), Some(r#"{"b":1.10, "a":[]}"#));
    }

    #[test]
    fn usage_counts_without_choices_and_beside_an_empty_delta() {
        let bare = read(r#"{"choices":[],"usage":{"prompt_tokens":3}}"#);
        assert_eq!(bare.usage.unwrap().prompt_tokens(), 3);
        let missing = read(r#"{"usage":{"prompt_tokens":3}}"#);
        assert_eq!(missing.usage.unwrap().prompt_tokens(), 3);
        let litellm =
            read(r#"{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":3,"cost":0.1}}"#);
        assert_eq!(litellm.usage.unwrap().prompt_tokens(), 3);
        assert_eq!(litellm.finish_reason, None);
    }

    #[test]
    fn weird_usage_is_never_an_error() {
        for usage in [
            "null",
            "7",
            r#""12""#,
            "[]",
            r#"{"prompt_tokens":-1}"#,
            r#"{"prompt_tokens":"12"}"#,
            r#"{"prompt_tokens":1e999}"#,
        ] {
            let chunk = read(&format!(r#"{{"choices":[],"usage":{usage}}}"#));
            assert!(chunk.usage.is_none(), "{usage}");
        }
    }

    #[test]
    fn other_choices_than_the_first_are_ignored() {
        let chunk = read(
            r#"{"choices":[{"index":1,"delta":{"content":"no"}},{"delta":{"content":"yes"}}]}"#,
        );
        assert_eq!(chunk.delta.content.as_deref(), Some("yes"));
        let chunk = read(r#"{"choices":[{"index":1,"delta":{"content":"no"}}]}"#);
        assert_eq!(chunk.delta.content, None);
    }

    #[test]
    fn an_error_member_wins_over_everything() {
        let BadChunk::Error(error) = fault(
            r#"{"choices":[{"index":0,"delta":{"content":"x"}}],
                "error":{"message":"gone","type":null,"code":"None"}}"#,
        ) else {
            panic!("an error")
        };
        assert_eq!((error.message.as_str(), error.code.as_deref()), ("gone", Some("None")));
        read(r#"{"choices":[],"error":null}"#);
    }

    #[test]
    fn what_is_no_chunk_is_malformed() {
        for payload in [
            "",
            "{",
            "nonsense",
            "[]",
            "{}",
            r#"{"choices":null}"#,
            r#"{"choices":7}"#,
            r#"{"choices":[7]}"#,
            r#"{"choices":[{"delta":{"tool_calls":7}}]}"#,
            r#"{"choices":[]} x"#,
        ] {
            assert!(matches!(fault(payload), BadChunk::Malformed(_)), "{payload}");
        }
    }

    #[test]
    fn a_lone_surrogate_is_read_as_a_replacement_character() {
        let delta = delta(r#"{"content":"a\ud83d","reasoning_content":"\ude00"}"#);
        assert_eq!(delta.content.as_deref(), Some("a\u{fffd}"));
        assert_eq!(delta.members["reasoning_content"].get(), r#""\ufffd""#);
    }

    #[test]
    fn a_whole_completion_is_one_chunk_and_its_calls_stand_by_position() {
        let chunk = read(
            r#"{"object":"chat.completion","model":"m","choices":[{"index":0,
                "finish_reason":"tool_calls","message":{"role":"assistant","content":"so",
                "tool_calls":[{"index":0,"id":"a","function":{"name":"A","arguments":"{}"}},
                {"index":0,"id":"b","function":{"name":"B","arguments":"{}"}}]}}],
                "usage":{"prompt_tokens":1}}"#,
        );
        assert_eq!(chunk.delta.content.as_deref(), Some("so"));
        let indexes: Vec<_> = chunk.delta.tool_calls.iter().map(|call| call.index).collect();
        assert_eq!(indexes, [Some(0), Some(1)]);
        assert_eq!(chunk.finish_reason.as_deref(), Some("tool_calls"));
    }

    #[test]
    fn empty_and_null_finish_reasons_are_none() {
        for reason in ["null", r#""""#, "7"] {
            let payload = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":{reason}}}]}}"#);
            assert_eq!(read(&payload).finish_reason, None);
        }
    }

    #[test]
    fn reads_every_recorded_payload() {
        let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams");
        for file in std::fs::read_dir(streams).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for payload in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
                match Chunk::parse(payload) {
                    Ok(_) | Err(BadChunk::Error(_)) => {}
                    Err(BadChunk::Malformed(_)) => assert_eq!(payload, "[DONE]", "{path:?}"),
                }
            }
        }
    }
}
