//! Deserialises a type from a JSON object member by member, without a tree of values.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The most members of one object, and entries of one list of calls: many times more than any
/// provider sends. In memory each takes far more than its few bytes of JSON.
pub(super) const MAX_MEMBERS: usize = 1 << 16;

/// A type that is filled from a JSON object, one member at a time.
pub(super) trait Members: Default {
    /// The type's name in errors.
    const EXPECTED: &'static str;

    /// Reads the value of one member from `map`.
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Deserialises any [`Members`]. Names of members are borrowed where possible.
pub(super) struct Filled<T>(pub(super) T);

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
        let mut count = 0;
        while let Some(name) = map.next_key::<Key<'_>>()? {
            count += 1;
            if count > MAX_MEMBERS {
                return Err(A::Error::custom("too many members"));
            }
            match name {
                Key::Borrowed(name) => filled.member(name, &mut map)?,
                Key::Owned(name) => filled.member(&name, &mut map)?,
            }
        }
        Ok(Filled(filled))
    }
}

/// A type that is filled from a JSON list, one entry at a time.
pub(super) trait Entries: Default {
    type Entry;

    /// Takes the next entry; `None` is a `null`.
    fn entry(&mut self, entry: Option<Self::Entry>) -> Result<(), &'static str>;
}

/// Deserialises any [`Entries`].
pub(super) struct Listed<T>(pub(super) T);

impl<'de, T: Entries<Entry: Deserialize<'de>>> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(ListedVisitor(PhantomData))
    }
}

struct ListedVisitor<T>(PhantomData<T>);

impl<'de, T: Entries<Entry: Deserialize<'de>>> Visitor<'de> for ListedVisitor<T> {
    type Value = Listed<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Listed<T>, A::Error> {
        let mut listed = T::default();
        while let Some(entry) = seq.next_element()? {
            listed.entry(entry).map_err(A::Error::custom)?;
        }
        Ok(Listed(listed))
    }
}

/// A member's name, borrowed unless it contains an escape.
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

/// A string or a count. Any other value is skipped.
pub(super) enum Scalar {
    Text(String),
    Count(u64),
    Other,
}

impl Scalar {
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn non_empty(self) -> Option<String> {
        self.text().filter(|text| !text.is_empty())
    }

    pub(super) fn count(self) -> Option<u64> {
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

/// The `content` of a message: a text or a list of parts.
pub(super) enum Content {
    Text(String),
    Parts(Vec<Box<RawValue>>),
    Other,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element::<Box<RawValue>>()? {
            if part.get() != "null" {
                parts.push(part);
            }
        }
        Ok(Content::Parts(parts))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Content, E> {
        Ok(Content::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Content, E> {
        Ok(Content::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Content, E> {
        Ok(Content::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Content, E> {
        Ok(Content::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::Other)
    }
}
