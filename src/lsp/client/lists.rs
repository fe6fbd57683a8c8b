//! Reads lists that servers send: each item by itself, and at most as many as anybody looks at.
//!
//! What is derived for lists keeps all items before anybody counts them, and one malformed item
//! loses the others.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The longest item of a list that is read. A class of twenty thousand members fits.
const MAX_ITEM_BYTES: usize = 4 << 20;

/// At most `MAX` items of a list. A server may also leave the list out, or send one item alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed<T, const MAX: usize> {
    pub(super) items: Vec<T>,
    /// How many of the first `MAX` are none of the protocol's.
    pub(super) malformed: usize,
}

impl<T, const MAX: usize> Default for Listed<T, MAX> {
    fn default() -> Self {
        Self { items: Vec::new(), malformed: 0 }
    }
}

impl<T, const MAX: usize> Listed<T, MAX> {
    /// Whether there was something, and none of it could be read.
    pub(super) fn is_unreadable(&self) -> bool {
        self.items.is_empty() && 0 < self.malformed
    }
}

impl<'de, T: DeserializeOwned, const MAX: usize> Deserialize<'de> for Listed<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get().trim_start();
        let read = match json.as_bytes().first() {
            Some(b'[') => {
                let mut list = serde_json::Deserializer::from_str(json);
                list.deserialize_seq(Items(PhantomData))
            }
            _ => serde_json::from_str::<Option<T>>(json)
                .map(|one| Self { items: one.into_iter().collect(), malformed: 0 }),
        };
        read.map_err(D::Error::custom)
    }
}

struct Items<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: DeserializeOwned, const MAX: usize> Visitor<'de> for Items<T, MAX> {
    type Value = Listed<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut listed = Listed::default();
        for _ in 0..MAX {
            let Some(json) = list.next_element::<&RawValue>()? else { return Ok(listed) };
            match item(json.get()) {
                Some(item) => listed.items.push(item),
                None => listed.malformed += 1,
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(listed)
    }
}

fn item<T: DeserializeOwned>(json: &str) -> Option<T> {
    if MAX_ITEM_BYTES < json.len() {
        return None;
    }
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn read(json: &str) -> Option<(Vec<u8>, usize)> {
        let listed: Listed<u8, 3> = serde_json::from_str(json).ok()?;
        Some((listed.items, listed.malformed))
    }

    #[test]
    fn a_malformed_item_is_counted_and_loses_no_other() {
        assert_eq!(read("[1, -2, 3]"), Some((vec![1, 3], 1)));
        assert_eq!(read(r#"["x", {"a": [1]}]"#), Some((vec![], 2)));
        assert_eq!((read("[]"), read("null")), (Some((vec![], 0)), Some((vec![], 0))));
        assert_eq!((read("7"), read(" 7 ")), (Some((vec![7], 0)), Some((vec![7], 0))));
        for wrong in ["\"x\"", "{}", "[1", "[1,]"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let long = format!("[\"{}\"]", "x".repeat(MAX_ITEM_BYTES));
        let listed: Listed<String, 3> = serde_json::from_str(&long).unwrap();
        assert!(listed.is_unreadable());
    }

    #[test]
    fn no_more_items_are_read_than_are_kept() {
        static READ: AtomicUsize = AtomicUsize::new(0);

        struct Counted;

        impl<'de> Deserialize<'de> for Counted {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                READ.fetch_add(1, Ordering::Relaxed);
                IgnoredAny::deserialize(deserializer).map(|_| Self)
            }
        }

        let many = format!("[{}0]", "0,".repeat(10_000));
        let listed: Listed<Counted, 100> = serde_json::from_str(&many).unwrap();
        assert_eq!((listed.items.len(), READ.load(Ordering::Relaxed)), (100, 100));
    }
}
