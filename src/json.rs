//! Reads parts of a JSON text and keeps everything else as the bytes it came as. Only for
//! bodies that `api::strict_json` has accepted.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The kind of a value, known from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

pub(crate) fn kind(value: &RawValue) -> Kind {
    match value.get().as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

pub(crate) fn is_null(value: &RawValue) -> bool {
    kind(value) == Kind::Null
}

pub(crate) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Key<'_>>(value.get()).ok().map(|Key(text)| text)
}

pub(crate) fn boolean(value: &RawValue) -> Option<bool> {
    serde_json::from_str(value.get()).ok()
}

pub(crate) fn number(value: &RawValue) -> Option<f64> {
    serde_json::from_str(value.get()).ok()
}

/// The member of an object with this name, unless it is `null`. Keeps nothing of the others.
pub(crate) fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let member = serde_json::Deserializer::from_str(object.get()).deserialize_map(Member(name));
    member.ok().flatten().filter(|value| !is_null(value))
}

/// Reads one member of an object.
struct Member<'n>(&'n str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Key(key)) = members.next_key()? {
            if key == self.0 {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// The items of a list, at most one more than `most`, so that the caller sees when there
/// are too many. `None` if the value is no list.
pub(crate) fn items(value: &RawValue, most: usize) -> Option<Vec<&RawValue>> {
    let mut items = Vec::new();
    for_each_item(value, |item| {
        items.push(item);
        if items.len() > most { Err(()) } else { Ok(()) }
    })?
    .unwrap_or_default();
    Some(items)
}

/// Passes the items of a list to the function one by one and stops at the first error.
/// Keeps none of them, however many there are. `None` if the value is no list.
pub(crate) fn for_each_item<'a, E>(
    value: &'a RawValue,
    mut each: impl FnMut(&'a RawValue) -> Result<(), E>,
) -> Option<Result<(), E>> {
    if kind(value) != Kind::Array {
        return None;
    }
    let mut outcome = Ok(());
    let items = Items(|item| {
        outcome = each(item);
        outcome.is_ok()
    });
    let _ended = serde_json::Deserializer::from_str(value.get()).deserialize_seq(items);
    Some(outcome)
}

/// Reads a list until the function returns an error.
struct Items<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> bool> Visitor<'de> for Items<F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            if !(self.0)(item) {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

/// Wraps JSON that was built from JSON.
pub(crate) fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("put together from JSON")
}

/// The deepest nesting of a value that is kept: where it is stored, sent upstream or sent back by
/// a client, further levels stand around it, and parsers take 127 in all.
const MAX_KEPT_DEPTH: usize = 100;

/// Whether the value is nested so little that it can be kept. It must be JSON.
pub(crate) fn can_be_kept(json: &str) -> bool {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_KEPT_DEPTH {
                    return false;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

/// The value, if it can be kept and every number in it can be read.
pub(crate) fn kept_value(value: &RawValue) -> Option<Value> {
    can_be_kept(value.get()).then(|| serde_json::from_str(value.get()).ok())?
}

/// Writes `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> Box<RawValue> {
    serde_json::value::to_raw_value(text).expect("text is JSON")
}

/// Writes a JSON list of these values.
pub(crate) fn array(items: &[impl serde::Serialize]) -> Box<RawValue> {
    serde_json::value::to_raw_value(items).expect("raw values are JSON")
}

/// The most members of an object whose members are read. More than any request needs, and
/// few enough for linear search. Objects that are only forwarded may have any number.
pub(crate) const MAX_MEMBERS: usize = 4096;

/// The members of an object, in order.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// `None` if `json` is another kind of value, or has more than [`MAX_MEMBERS`].
    pub(crate) fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    pub(crate) fn from_raw(value: &'a RawValue) -> Option<Self> {
        Self::parse(value.get())
    }

    /// The member with this name, unless it is `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        (!is_null(value)).then_some(*value)
    }

    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        string(self.get(name)?)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), *value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_ref())
    }

    /// The same object with some members replaced or removed. New members come last.
    pub(crate) fn with(&self, changes: &[(&str, Option<&RawValue>)]) -> Box<RawValue> {
        let change = |name: &str| changes.iter().find(|(changed, _)| *changed == name);
        let kept = self.members().filter_map(|(name, value)| match change(name) {
            Some((_, new)) => new.map(|new| (name, new)),
            None => Some((name, value)),
        });
        let is_new = |name: &str| self.keys().all(|key| key != name);
        let added = changes
            .iter()
            .filter(|(name, _)| is_new(name))
            .filter_map(|(name, new)| new.map(|new| (*name, new)));
        // A large value is given its room at once.
        let sizes = self.members().map(|(name, value)| name.len() + value.get().len());
        let new_sizes = changes.iter().filter_map(|(_, new)| new.map(|new| new.get().len()));
        let largest = sizes.chain(new_sizes).max().unwrap_or_default();
        let mut json = String::with_capacity(largest + largest / 8);
        json.push('{');
        for (name, value) in kept.chain(added) {
            let comma = if json.len() > 1 { "," } else { "" };
            write!(json, "{comma}{}:{value}", quoted(name)).expect("a string takes all");
        }
        json.push('}');
        raw(json)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry()? {
                    if members.len() == MAX_MEMBERS {
                        return Err(A::Error::custom("too many members"));
                    }
                    members.push((key, value));
                }
                Ok(members)
            }
        }

        from.deserialize_map(Members).map(Self)
    }
}

/// A key or string, borrowed from the body unless it has escapes.
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }

        from.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_bytes_and_order() {
        let object = Object::parse(r#"{"b": 1.10, "a": {"x":  1}, "n": null, "é": "\u00e9"}"#);
        let object = object.unwrap();

        assert_eq!(object.get("b").unwrap().get(), "1.10");
        assert_eq!(object.get("a").unwrap().get(), r#"{"x":  1}"#);
        assert!(object.get("n").is_none());
        assert_eq!(object.string("é").unwrap(), "é");
        assert_eq!(object.keys().collect::<Vec<_>>(), ["b", "a", "n", "é"]);
    }

    #[test]
    fn one_member_is_read_alone() {
        let object = raw(r#"{"n": null, "a": {"b": 1}, "b": "c", "\u00e9": [2]}"#.to_owned());
        let read = |name: &str| member(&object, name).map(RawValue::get);
        assert_eq!(read("a"), Some(r#"{"b": 1}"#));
        assert_eq!(read("é"), Some("[2]"));
        assert_eq!((read("n"), read("c")), (None, None));
        assert!(member(&raw("[1]".to_owned()), "a").is_none());
    }

    #[test]
    fn changes_members_and_keeps_the_others() {
        let object = Object::parse(r#"{"a": 1.10, "b": 2, "c": 3}"#).unwrap();
        let new = quoted("new");

        let changed = object.with(&[("b", Some(&new)), ("c", None), ("d", Some(&new))]);

        assert_eq!(changed.get(), r#"{"a":1.10,"b":"new","d":"new"}"#);
    }

    #[test]
    fn of_a_list_no_more_is_read_than_is_asked_for() {
        let list = raw("[1, [2], 3, 4]".to_owned());
        let read = |most| {
            let items = items(&list, most).unwrap();
            items.iter().map(|item| item.get()).collect::<Vec<_>>()
        };
        assert_eq!(read(9), ["1", "[2]", "3", "4"]);
        assert_eq!(read(2), ["1", "[2]", "3"]);
        assert!(items(&raw("{}".to_owned()), 9).is_none());
        let mut seen = 0;
        let stopped = for_each_item(&list, |item| {
            seen += 1;
            if item.get() == "[2]" { Err("stop") } else { Ok(()) }
        });
        assert_eq!((stopped, seen), (Some(Err("stop")), 2));
    }

    #[test]
    fn an_object_of_very_many_members_is_not_looked_into() {
        let object = |members: usize| {
            let members: Vec<_> = (0..members).map(|n| format!("\"{n}\":1")).collect();
            Object::parse(&format!("{{{}}}", members.join(","))).is_some()
        };
        assert!(object(MAX_MEMBERS));
        assert!(!object(MAX_MEMBERS + 1));
    }

    #[test]
    fn what_is_nested_deeply_is_not_kept() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(can_be_kept(&nested(MAX_KEPT_DEPTH)) && !can_be_kept(&nested(MAX_KEPT_DEPTH + 1)));
        assert!(!can_be_kept(&r#"{"a":"#.repeat(MAX_KEPT_DEPTH + 1)));
        assert!(can_be_kept(&format!(r#"["\"{}"]"#, nested(200))));
        assert!(can_be_kept(&format!("[{}]", vec!["[]"; 200].join(","))));
    }

    #[test]
    fn other_values_are_no_object() {
        for json in ["[]", "1", "null", r#""{}""#] {
            assert!(Object::parse(json).is_none());
        }
    }
}
