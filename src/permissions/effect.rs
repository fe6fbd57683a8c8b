//! Hashes an effect so that no two different effects have the same hash.

use serde_json::Value;

use crate::workspace::ContentState;

/// A keyless hash of an exact effect, or of what a grant covers.
pub(crate) type EffectDigest = [u8; 32];

/// Each part is hashed with its length, so that no text can pass for two parts.
pub(super) struct EffectHasher(blake3::Hasher);

impl EffectHasher {
    pub(super) fn new(context: &str) -> Self {
        Self(blake3::Hasher::new_derive_key(context))
    }

    pub(super) fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }

    pub(super) fn contents(&mut self, contents: Option<&ContentState>) {
        match contents {
            None => self.part(b"any"),
            Some(ContentState::Missing) => self.part(b"missing"),
            Some(ContentState::Hash(hash)) => {
                self.part(b"hash");
                self.part(hash.as_bytes());
            }
        }
    }

    /// Hashes JSON without regard to the order of members.
    pub(super) fn json(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                self.part(b"{");
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(name, _)| *name);
                self.part(&(members.len() as u64).to_le_bytes());
                for (name, value) in members {
                    self.part(name.as_bytes());
                    self.json(value);
                }
            }
            Value::Array(items) => {
                self.part(b"[");
                self.part(&(items.len() as u64).to_le_bytes());
                for item in items {
                    self.json(item);
                }
            }
            Value::String(text) => {
                self.part(b"\"");
                self.part(text.as_bytes());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.part(value.to_string().as_bytes());
            }
        }
    }

    pub(super) fn finish(self) -> EffectDigest {
        *self.0.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digest(value: &Value) -> EffectDigest {
        let mut hasher = EffectHasher::new("test");
        hasher.json(value);
        hasher.finish()
    }

    #[test]
    fn the_order_of_members_does_not_matter_and_all_else_does() {
        let values = [
            json!({ "a": 1, "b": [2] }),
            json!({ "a": 1, "b": ["2"] }),
            json!({ "a": 1, "b": 2 }),
            json!({ "a": "1", "b": [2] }),
            json!({ "ab": 1, "": [2] }),
            json!([{ "a": 1, "b": [2] }]),
            json!([["a", "b"], []]),
            json!([["a"], ["b"]]),
            json!("null"),
            json!(null),
        ];
        for (index, value) in values.iter().enumerate() {
            for (other_index, other) in values.iter().enumerate() {
                assert_eq!(digest(value) == digest(other), index == other_index, "{value} {other}");
            }
        }
        assert_eq!(digest(&values[0]), digest(&json!({ "b": [2], "a": 1 })));
    }
}
