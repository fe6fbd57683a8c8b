//! Takes out of a server's words what nobody is to read: its keys, escape sequences and hidden
//! characters.

use memchr::memmem;
use serde_json::Value;

use crate::processes;
use crate::secret::Secret;
use crate::text;

/// Shorter values are no keys, and would hit ordinary words.
const MIN_SECRET_BYTES: usize = 6;

/// What stands in the place of a key.
const REDACTED: &str = "[secret]";

/// The longest line that an error tells.
const MAX_LINE_CHARS: usize = 300;

/// The keys of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redaction {
    secrets: Vec<Secret>,
}

impl Redaction {
    pub(super) fn new(mut secrets: Vec<Secret>) -> Self {
        secrets.retain(|secret| MIN_SECRET_BYTES <= secret.expose().len());
        // One may be the beginning of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self { secrets }
    }

    pub(super) fn text(&self, text: &str) -> String {
        let shown = processes::without_escapes(text);
        self.keys_taken_out(&text::without_hidden(&shown))
    }

    fn keys_taken_out(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for secret in &self.secrets {
            if shown.contains(secret.expose()) {
                shown = shown.replace(secret.expose(), REDACTED);
            }
        }
        shown
    }

    /// Whether a text, once it is shown, shows a key.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let shown = processes::without_escapes(text);
        let shown = text::without_hidden(&shown);
        self.secrets.iter().any(|secret| shown.contains(secret.expose()))
    }

    /// The same for each text of a value, names of members among them.
    pub(super) fn is_in_value(&self, value: &Value) -> bool {
        match value {
            _ if self.secrets.is_empty() => false,
            Value::String(text) => self.is_in(text),
            Value::Array(values) => values.iter().any(|value| self.is_in_value(value)),
            Value::Object(members) => {
                members.iter().any(|(name, value)| self.is_in(name) || self.is_in_value(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The bytes of a file without the keys.
    pub(super) fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.secrets.iter().fold(bytes, |bytes, secret| {
            let key = secret.expose().as_bytes();
            let places: Vec<usize> = memmem::find_iter(&bytes, key).collect();
            let (mut kept, mut from) = (Vec::new(), 0);
            for place in &places {
                kept.extend_from_slice(&bytes[from..*place]);
                kept.extend_from_slice(REDACTED.as_bytes());
                from = place + key.len();
            }
            if places.is_empty() {
                return bytes;
            }
            kept.extend_from_slice(&bytes[from..]);
            kept
        })
    }

    /// The first line, short: what follows in an error is for who wrote the server.
    pub(super) fn line(&self, text: &str) -> String {
        let line = text.trim().lines().next().unwrap_or_default();
        text::first_chars(&self.text(text::first_chars(line, 4 * MAX_LINE_CHARS)), MAX_LINE_CHARS)
            .to_owned()
    }

    /// The same as [`Self::text`] for each text of a value.
    pub(super) fn value(&self, value: Value) -> Value {
        changed(value, &|text| self.text(text))
    }
}

/// The value with each of its texts changed so.
fn changed(value: Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(values) => values.into_iter().map(|value| changed(value, change)).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (change(&name), changed(value, change)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}
