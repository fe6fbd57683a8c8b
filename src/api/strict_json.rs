//! Checks a whole JSON body strictly before anything is read from it.
//!
//! `serde_json` keeps raw values without checking their contents. Without this pass,
//! duplicate keys, `1e999`, lone surrogates and any depth would go through, and upstream
//! could read them differently than we do.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasher;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::errors::{ApiError, ErrorCode};
use crate::json::{Key, MAX_MEMBERS, Object};
use crate::text;

/// Up to this many keys, searching a list is faster than filling a set.
const FEW_KEYS: usize = 16;

/// How much of a key an error repeats.
const MAX_NAMED: usize = 200;

/// Checks that `body` is one JSON value, at most 127 levels deep, in which every key,
/// number and string has one possible reading.
pub(crate) fn check(body: &[u8]) -> Result<(), ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    Strict.deserialize(&mut deserializer).and_then(|()| deserializer.end()).map_err(|error| {
        ApiError::new(ErrorCode::InvalidJson, format!("The body is not valid JSON: {error}."))
    })
}

/// The members of `body`, which must be a JSON object that passes [`check`].
pub(crate) fn object(body: &[u8]) -> Result<Object<'_>, ApiError> {
    check(body)?;
    str::from_utf8(body).ok().and_then(Object::parse).ok_or_else(|| {
        let message = if body.trim_ascii_start().starts_with(b"{") {
            format!("The body has more than {MAX_MEMBERS} fields.")
        } else {
            "The body must be a JSON object.".to_owned()
        };
        ApiError::new(ErrorCode::InvalidValue, message)
    })
}

/// Visits any value and keeps nothing of it.
#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = SeenKeys::default();
        while let Some(Key(key)) = members.next_key()? {
            if let Some(twice) = seen.add(key) {
                let twice = text::shortened(&twice, MAX_NAMED);
                return Err(de::Error::custom(format_args!(
                    "the key {twice:?} stands there twice"
                )));
            }
            members.next_value_seed(Self)?;
        }
        Ok(())
    }
}

/// The keys of one object. If there are many, only a hash of each is kept: a body of two
/// million keys would otherwise take five times its size. No client knows the hash seed.
/// A collision among that many keys happens once in ten million such bodies.
#[derive(Default)]
struct SeenKeys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<u64>,
}

impl<'de> SeenKeys<'de> {
    /// Returns `key` if it was seen before.
    fn add(&mut self, key: Cow<'de, str>) -> Option<Cow<'de, str>> {
        if self.few.contains(&key) {
            return Some(key);
        }
        if self.few.len() < FEW_KEYS {
            self.few.push(key);
            return None;
        }
        let is_new = self.many.insert(self.many.hasher().hash_one(&key));
        (!is_new).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(body: impl AsRef<[u8]>, reason: &str) {
        let error = check(body.as_ref()).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidJson);
        assert!(error.message.contains(reason), "{}", error.message);
        assert!(error.message.contains("line "), "{}", error.message);
    }

    #[track_caller]
    fn takes(body: impl AsRef<[u8]>) {
        assert_eq!(check(body.as_ref()), Ok(()));
    }

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn takes_whatever_is_json() {
        takes(r#"{"a": [1, -2.5e3, true, null, "é\n\u00e9\ud83d\ude00\u0000"], "b": {"a": 1}}"#);
        takes("123456789012345678901234567890");
        takes(" [] \n");
        takes(nested(127));
    }

    #[test]
    fn refuses_what_is_not() {
        refuses("", "EOF");
        refuses("{", "EOF");
        refuses(r#"{"a":1} x"#, "trailing characters at line 1 column 9");
        refuses(r#"{"a":1,}"#, "trailing comma at line 1 column 8");
        refuses("\u{feff}{}", "expected value at line 1 column 1");
        refuses("[NaN]", "expected value");
        refuses("{'a': 1}", "key must be a string");
        refuses("[\n\"a\nb\"]", "control character");
        refuses(b"[\"\xff\"]", "invalid unicode");
    }

    #[test]
    fn refuses_numbers_that_are_none() {
        refuses("[1e999]", "number out of range");
        refuses("[-1e999]", "number out of range");
        refuses("[01]", "invalid number");
    }

    #[test]
    fn refuses_half_a_character() {
        refuses(r#"["\ud83d"]"#, "hex escape");
        refuses(r#"["\ude00"]"#, "surrogate");
        refuses(r#"{"\ud83d": 1}"#, "hex escape");
    }

    #[test]
    fn refuses_a_key_twice_and_names_it() {
        refuses(r#"{"model": "a", "model": "b"}"#, r#""model" stands there twice"#);
        refuses(r#"{"model": "a", "mod\u0065l": "b"}"#, r#""model""#);
        refuses(r#"{"a": [{"b": {"c": 1, "c": 2}}]}"#, r#""c""#);
        let many: Vec<_> = (0..40).map(|n| format!(r#""k{n}": 1, "#)).collect();
        let many = many.concat();
        refuses(format!(r#"{{{many}"k39": 1}}"#), r#""k39""#);
        refuses(format!(r#"{{{many}"k3": 1}}"#), r#""k3""#);
    }

    #[test]
    fn refuses_what_is_too_deep() {
        refuses(nested(128), "recursion limit exceeded");
        refuses("[".repeat(1_000_000), "recursion limit exceeded");
        refuses(r#"{"a":"#.repeat(128), "recursion limit exceeded");
    }
}
