//! Refuses fields that could steer routing, spend someone's key, let a provider act by itself or
//! change what the model is told.

mod names;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use self::names::{Extent, NameList, NamePart, RefusalReason};
use super::strict_json;
use crate::errors::{ApiError, ErrorCode};
use crate::json::{self, Key, Kind, Object};
use crate::text;

/// All rules in one automaton, so that each name is scanned once.
struct Rules {
    patterns: AhoCorasick,
    /// The list of each pattern, by its number.
    lists: Vec<&'static NameList>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let mut texts = Vec::new();
    let mut lists = Vec::new();
    for list in &names::LISTS {
        for text in list.names {
            texts.push(*text);
            lists.push(list);
        }
    }
    let patterns = AhoCorasick::builder().ascii_case_insensitive(true).build(texts);
    Rules { patterns: patterns.expect("some hundred short patterns"), lists }
});

/// Where a name stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A field of a chat completion.
    Chat,
    /// A field of another body, of a form or of a query.
    Forwarded,
    /// A member of `metadata`, at any depth.
    Metadata,
}

impl Place {
    fn is_within(self, extent: Extent) -> bool {
        match extent {
            Extent::WithMetadata => true,
            Extent::TopLevel => self != Self::Metadata,
            Extent::Forwarded => self == Self::Forwarded,
            Extent::Chat => self == Self::Chat,
        }
    }
}

/// Why a name is refused in this place. Case and surrounding spaces do not matter.
fn reason(name: &str, place: Place) -> Option<RefusalReason> {
    let name = name.trim();
    RULES.patterns.find_overlapping_iter(name).find_map(|found| {
        let list = RULES.lists[found.pattern().as_usize()];
        let fits = match list.part {
            NamePart::Whole => found.range() == (0..name.len()),
            NamePart::Start => found.start() == 0,
            NamePart::Anywhere => true,
            NamePart::End => found.end() == name.len(),
        };
        (fits && place.is_within(list.extent)).then_some(list.reason)
    })
}

/// Refuses a body of a forwarded route that has such a field, or `metadata` such a member.
pub(crate) fn check(fields: &Object<'_>) -> Result<(), ApiError> {
    check_in(fields, Place::Forwarded)
}

/// Refuses a chat completion that has such a field, or `metadata` such a member.
pub(crate) fn check_chat(fields: &Object<'_>) -> Result<(), ApiError> {
    check_in(fields, Place::Chat)?;
    fields.get(TEMPLATE_ARGUMENTS).map_or(Ok(()), check_template_arguments)
}

fn check_in(fields: &Object<'_>, place: Place) -> Result<(), ApiError> {
    for name in fields.keys() {
        if let Some(reason) = reason(name, place) {
            return Err(refusal(name, reason));
        }
    }
    let Some(metadata) = fields.get("metadata") else { return Ok(()) };
    match json::string(metadata) {
        None => check_metadata(metadata.get()),
        Some(text) => check_metadata_text(&text),
    }
}

/// The arguments of a chat template, such as `enable_thinking`.
const TEMPLATE_ARGUMENTS: &str = "chat_template_kwargs";

/// Servers put these arguments over their own, so a list or an object here replaces the messages
/// or the tools, and `chat_template` the template itself. Switches, numbers and texts pass.
fn check_template_arguments(arguments: &RawValue) -> Result<(), ApiError> {
    if json::kind(arguments) == Kind::Null {
        return Ok(());
    }
    let Some(arguments) = Object::from_raw(arguments) else {
        return Err(refusal(TEMPLATE_ARGUMENTS, RefusalReason::PromptChange));
    };
    for (name, value) in arguments.members() {
        let is_plain = !matches!(json::kind(value), Kind::Array | Kind::Object);
        if !is_plain || reason(name, Place::Chat).is_some() {
            return Err(refusal(
                &format!("{TEMPLATE_ARGUMENTS}.{name}"),
                RefusalReason::PromptChange,
            ));
        }
    }
    Ok(())
}

fn check_metadata(metadata: &str) -> Result<(), ApiError> {
    let mut names = Names { path: vec![Cow::Borrowed("metadata")], found: None };
    // A denied name stops the deserializer. Nothing else can: the JSON was checked
    // before.
    let _ended = names.deserialize(&mut serde_json::Deserializer::from_str(metadata));
    names.found.map_or(Ok(()), |reason| Err(refusal(&place(&names.path), reason)))
}

/// LiteLLM reads a text in place of `metadata` as JSON. It accepts more than we do, so a text
/// that may be an object must be JSON that both read alike.
fn check_metadata_text(text: &str) -> Result<(), ApiError> {
    match strict_json::check(text.as_bytes()) {
        Ok(()) => check_metadata(text),
        Err(_) if text.contains('{') => Err(refusal("metadata", RefusalReason::Routing)),
        Err(_) => Ok(()),
    }
}

/// Refuses a field of a form or a query: by its name, or by what stands before the first
/// bracket, since LiteLLM makes lists and objects of `name[]` and `name[member]`. So is
/// `metadata`, which LiteLLM reads as JSON. No form of OpenAI's has it.
pub(crate) fn check_form_field(name: &str) -> Result<(), ApiError> {
    let base = name.split('[').next().unwrap_or_default();
    let is_metadata = base.trim().eq_ignore_ascii_case("metadata");
    let reason = reason(name, Place::Forwarded)
        .or_else(|| reason(base, Place::Forwarded))
        .or(is_metadata.then_some(RefusalReason::Routing));
    reason.map_or(Ok(()), |reason| Err(refusal(name, reason)))
}

/// Visits the names of all members at any depth, because LiteLLM may read nested
/// metadata. Reads the text once and keeps only the names on the current path.
struct Names<'de> {
    path: Vec<Cow<'de, str>>,
    /// Why the last name of `path` is refused.
    found: Option<RefusalReason>,
}

impl<'de> DeserializeSeed<'de> for &mut Names<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Names<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(Key(name)) = members.next_key()? {
            self.found = reason(&name, Place::Metadata);
            self.path.push(name);
            if self.found.is_some() {
                return Err(serde::de::Error::custom("a refused name"));
            }
            members.next_value_seed(&mut *self)?;
            self.path.pop();
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Writes `metadata.a.b`, with `…` for the middle of a long path.
fn place(path: &[Cow<'_, str>]) -> String {
    /// How many names are written at each end.
    const TOLD: usize = 2;
    /// Longer than any denied name.
    const MAX_NAME: usize = 60;
    let names = |names: &[Cow<'_, str>]| {
        names.iter().map(|name| text::shortened(name, MAX_NAME)).collect::<Vec<_>>().join(".")
    };
    if path.len() <= 2 * TOLD {
        return names(path);
    }
    format!("{}.….{}", names(&path[..TOLD]), names(&path[path.len() - TOLD..]))
}

/// The error that names the field.
fn refusal(name: &str, reason: RefusalReason) -> ApiError {
    /// Longer than any shortened path.
    const MAX_PLACE: usize = 280;
    let name = text::shortened(name, MAX_PLACE);
    let why = match reason {
        RefusalReason::Routing => "it could change where requests go, or who pays for them",
        RefusalReason::ProviderAction => "it could let the provider act by itself",
        RefusalReason::PromptChange => "it changes what the model is told, beside the messages",
    };
    ApiError::new(ErrorCode::RefusedField, format!("The field {name:?} is not accepted: {why}."))
        .param(name)
}
