//! Keeps the members of an unstreamed completion as upstream wrote them, so that the answer can
//! pass as it is.

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::{MAX_USAGE, RawMembers, first_byte_of};

/// A whole completion, but for the text of its answer, which the chunk holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct WholeAnswer {
    pub(crate) created: Option<u64>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Box<RawValue>>,
    /// The further top-level members.
    pub(crate) members: RawMembers,
    pub(crate) logprobs: Option<Box<RawValue>>,
    /// The further members of choice 0.
    pub(crate) choice: RawMembers,
    pub(crate) content: ContentKind,
    /// The further members of the message, also those that streams withhold.
    pub(crate) message: RawMembers,
    /// The entries of `tool_calls`.
    pub(crate) calls: Vec<Box<RawValue>>,
}

/// What the `content` of a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContentKind {
    #[default]
    Null,
    Text,
    List,
}

/// The members that this server writes itself and so does not keep: beside the choices, in the
/// choice and in the message. A client takes `toolhand` for what this server did.
const OWN_MEMBERS: [&[&str]; 3] = [
    &["id", "object", "choices", "toolhand", "error", "obfuscation"],
    &["index", "message", "delta", "finish_reason", "toolhand"],
    &["role", "refusal", "function_call", "toolhand"],
];

/// The members of known type that may be null. Elsewhere a null is not kept, because LiteLLM
/// writes it for what is missing.
const NULLABLE: [&str; 3] = ["service_tier", "images", "audio"];

/// A parsed object that borrows its values.
type Members<'a> = IndexMap<String, &'a RawValue>;

impl WholeAnswer {
    /// Parses a completion; `None` if it is none.
    pub(super) fn parse(body: &str) -> Option<Self> {
        let [beside, in_choice, in_message] = OWN_MEMBERS;
        let mut top: Members<'_> = serde_json::from_str(body).ok()?;
        let choice = top.get("choices").and_then(|choices| first(choices)).unwrap_or_default();
        let message = choice.get("message").or(choice.get("delta"));
        let mut message: Members<'_> =
            message.and_then(|message| object(message)).unwrap_or_default();
        let content = message.shift_remove("content").map_or(ContentKind::Null, kind);
        let calls = message.shift_remove("tool_calls").and_then(list);
        let created = top.shift_remove("created").and_then(|created| created.get().parse().ok());
        let model = top.shift_remove("model");
        let mut members = kept(top, beside);
        let mut choice = kept(choice, in_choice);
        Some(Self {
            created,
            model: model.and_then(|model| serde_json::from_str(model.get()).ok()),
            usage: members.shift_remove("usage").filter(|raw| raw.get().len() <= MAX_USAGE),
            logprobs: choice.shift_remove("logprobs").filter(|raw| has_lists(raw)),
            members,
            choice,
            content,
            message: kept(message, in_message),
            calls: calls.unwrap_or_default(),
        })
    }

    /// Leaves out the members whose value `is_kept` refuses.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&RawValue) -> bool) {
        for members in [&mut self.members, &mut self.choice, &mut self.message] {
            members.retain(|_, value| is_kept(value));
        }
        for value in [&mut self.usage, &mut self.logprobs] {
            *value = value.take().filter(|value| is_kept(value));
        }
    }

    /// The estimated memory, in bytes.
    pub(crate) fn size_estimate(&self) -> usize {
        /// The overhead of a member beside its texts.
        const MEMBER: usize = 96;
        let members = [&self.members, &self.choice, &self.message].into_iter().flatten();
        let members = members.map(|(name, value)| MEMBER + name.len() + value.get().len());
        let values = self.calls.iter().chain(&self.usage).chain(&self.logprobs);
        size_of::<Self>()
            + members.sum::<usize>()
            + values.map(|value| MEMBER + value.get().len()).sum::<usize>()
    }
}

/// The entry with index 0, which is also assumed where there is none.
fn first(choices: &RawValue) -> Option<Members<'_>> {
    let choices: Vec<&RawValue> = serde_json::from_str(choices.get()).ok()?;
    let index = |choice: &Members<'_>| {
        choice.get("index").and_then(|index| index.get().parse().ok()).unwrap_or(0_u64)
    };
    choices.into_iter().filter_map(object).find(|choice| index(choice) == 0)
}

fn object(value: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(value.get()).ok()
}

fn list(value: &RawValue) -> Option<Vec<Box<RawValue>>> {
    serde_json::from_str(value.get()).ok()
}

/// Whether log-probabilities are lists or null, as clients expect.
fn has_lists(logprobs: &RawValue) -> bool {
    let is_list = |value: &&RawValue| value.get().starts_with(['[', 'n']);
    let lists = ["content", "refusal"];
    object(logprobs)
        .is_some_and(|members| lists.iter().all(|name| members.get(*name).is_none_or(is_list)))
}

fn kind(content: &RawValue) -> ContentKind {
    match content.get().as_bytes().first() {
        Some(b'"') => ContentKind::Text,
        Some(b'[') => ContentKind::List,
        _ => ContentKind::Null,
    }
}

/// Whether the value has the type that OpenAI's schema tells, if it tells one.
fn has_known_type(name: &str, value: &RawValue) -> bool {
    let expected = match name {
        "system_fingerprint" | "service_tier" => Some(b'"'),
        "usage" | "logprobs" => Some(b'{'),
        name => first_byte_of(name),
    };
    let first = value.get().as_bytes().first().copied();
    expected.is_none() || first == expected || first == Some(b'n') && NULLABLE.contains(&name)
}

/// The members that are not our own and have a type that clients expect.
fn kept(members: Members<'_>, own: &[&str]) -> RawMembers {
    members
        .into_iter()
        .filter(|(name, value)| !own.contains(&name.as_str()) && has_known_type(name, value))
        .map(|(name, value)| (name, value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> WholeAnswer {
        WholeAnswer::parse(body).unwrap()
    }

    fn text(members: &RawMembers) -> String {
        serde_json::to_string(members).unwrap()
    }

    #[test]
    fn keeps_each_member_as_it_was_written() {
        let whole = parse(
            r#"{"id":"x","created":7,"object":"o","model":"m","citations":["u"],"toolhand":1,
                "usage":{"cost":1.10},"choices":[{"index":0,"stop_reason":null,"toolhand":2,
                "logprobs":{"content":[]},"finish_reason":"stop","message":{"role":"assistant",
                "content":"hi","reasoning_content":"a\u0021","thinking_blocks":[{}],"toolhand":3,
                "mood":null,"refusal":null,"tool_calls":[{"id":"c"}]}}]}"#,
        );

        assert_eq!((whole.created, whole.model.as_deref()), (Some(7), Some("m")));
        assert_eq!(text(&whole.members), r#"{"citations":["u"]}"#);
        assert_eq!(text(&whole.choice), r#"{"stop_reason":null}"#);
        assert_eq!(
            text(&whole.message),
            r#"{"reasoning_content":"a\u0021","thinking_blocks":[{}],"mood":null}"#
        );
        assert_eq!(whole.usage.unwrap().get(), r#"{"cost":1.10}"#);
        assert_eq!(whole.logprobs.unwrap().get(), r#"{"content":[]}"#);
        assert_eq!((whole.content, whole.calls.len()), (ContentKind::Text, 1));
    }

    #[test]
    fn leaves_out_what_no_client_expects() {
        let whole = parse(
            r#"{"created":"now","model":null,"system_fingerprint":null,"usage":"none","error":null,
                "choices":[null,{"index":1,"a":1},{"logprobs":[],"message":{"annotations":null,
                "audio":null,"function_call":{"name":"f"},"content":[],"tool_calls":null}}]}"#,
        );

        assert_eq!((whole.created, whole.model), (None, None));
        assert_eq!(text(&whole.members) + &text(&whole.choice), "{}{}");
        assert_eq!(text(&whole.message), r#"{"audio":null}"#);
        assert!(whole.usage.is_none() && whole.logprobs.is_none() && whole.calls.is_empty());
        assert_eq!(whole.content, ContentKind::List);
    }

    #[test]
    fn of_a_member_that_comes_twice_the_last_one_counts() {
        let whole = parse(r#"{"a":1,"a":2,"choices":7,"choices":[{"message":null}]}"#);
        assert_eq!(text(&whole.members), r#"{"a":2}"#);
    }

    #[test]
    fn members_can_be_left_out_and_count() {
        let mut whole = parse(r#"{"a":[1],"b":2,"usage":{},"choices":[{"message":{"c":[]}}]}"#);
        let before = whole.size_estimate();
        whole.retain(|value| !value.get().starts_with(['[', '{']));
        assert_eq!(text(&whole.members) + &text(&whole.message), r#"{"b":2}{}"#);
        assert!(whole.usage.is_none() && whole.size_estimate() < before);
    }
}
