//! Numbers the entries of lists in deltas.
//!
//! The OpenAI SDK's stream helper joins the lists of one member by the `index` of their
//! entries. It throws on a list with objects that have no index, and on a list that mixes
//! objects with other values. Providers omit the index, or restart it in each chunk.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// More lists than any provider's deltas have. Further lists are dropped.
const MAX_LISTS: usize = 64;

/// State of the lists of one stream, by their path in a delta.
#[derive(Debug, Default)]
pub(super) struct Lists(HashMap<String, List>);

#[derive(Clone, Copy, Debug)]
enum List {
    /// Objects. This index and all higher ones are free.
    Objects(u64),
    /// Strings, numbers and booleans: the helper appends these as they are.
    Scalars,
}

impl Lists {
    /// Returns `value` with an `index` in every list entry, or `None` if nothing of it
    /// can be forwarded.
    pub(super) fn number(&mut self, place: &str, value: Value) -> Option<Value> {
        match value {
            Value::Array(entries) => self.entries(place, entries).map(Value::Array),
            Value::Object(members) => Some(Value::Object(self.members(place, members))),
            scalar => Some(scalar),
        }
    }

    fn members(&mut self, place: &str, members: Map<String, Value>) -> Map<String, Value> {
        let numbered = members.into_iter().filter_map(|(name, value)| {
            if !(value.is_array() || value.is_object()) {
                return Some((name, value));
            }
            let value = self.number(&format!("{place}/{name}"), value)?;
            Some((name, value))
        });
        numbered.collect()
    }

    fn entries(&mut self, place: &str, entries: Vec<Value>) -> Option<Vec<Value>> {
        let is_known = self.0.contains_key(place);
        if !is_known && self.0.len() == MAX_LISTS {
            return None;
        }
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            let (kind, is_object) = match &entry {
                Value::Object(_) => (List::Objects(0), true),
                Value::Null | Value::Array(_) => continue,
                _ => (List::Scalars, false),
            };
            if !self.0.contains_key(place) {
                self.0.insert(place.to_owned(), kind);
            }
            let list = self.0.get_mut(place).expect("just put there");
            match (list, entry) {
                (List::Objects(next), Value::Object(entry)) => {
                    kept.push(Value::Object(numbered(entry, next)));
                }
                (List::Scalars, entry) if !is_object => kept.push(entry),
                _ => {}
            }
        }
        Some(kept)
    }
}

/// Keeps the entry's own index if that is free.
fn numbered(mut entry: Map<String, Value>, next: &mut u64) -> Map<String, Value> {
    let own = entry.get("index").and_then(Value::as_u64).filter(|own| own >= next);
    let index = own.unwrap_or(*next);
    *next = index.saturating_add(1);
    entry.insert("index".to_owned(), index.into());
    entry
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(deltas: &[(Value, Value)]) {
        let mut lists = Lists::default();
        for (delta, expected) in deltas {
            assert_eq!(lists.number("m", delta.clone()).as_ref(), Some(expected), "{delta}");
        }
    }

    #[test]
    fn objects_are_numbered_over_all_deltas() {
        check(&[
            (json!([{"a": 1}]), json!([{"a": 1, "index": 0}])),
            (json!([{"index": 0}, {"index": 5}]), json!([{"index": 1}, {"index": 5}])),
            (json!([{"index": "x"}, {"index": -1}]), json!([{"index": 6}, {"index": 7}])),
        ]);
    }

    #[test]
    fn a_list_holds_one_kind_of_entries() {
        check(&[
            (json!([]), json!([])),
            (json!(["a", null, [1], {}]), json!(["a"])),
            (json!([{}, 1, true]), json!([1, true])),
        ]);
        check(&[(json!([{}, "a", null]), json!([{"index": 0}])), (json!(["a"]), json!([]))]);
    }

    #[test]
    fn lists_in_objects_are_lists_of_their_own() {
        check(&[
            (
                json!({"l": [{}], "o": {"l": ["x"]}}),
                json!({"l": [{"index": 0}], "o": {"l": ["x"]}}),
            ),
            (json!({"l": [{}], "n": 1}), json!({"l": [{"index": 1}], "n": 1})),
        ]);
    }

    #[test]
    fn there_are_not_too_many_lists() {
        let mut lists = Lists::default();
        for at in 0..1000 {
            let value = lists.number(&format!("m{at}"), json!([{}]));
            assert_eq!(value.is_some(), at < MAX_LISTS);
        }
        assert_eq!(lists.number("m0", json!([{}])), Some(json!([{"index": 1}])));
    }
}
