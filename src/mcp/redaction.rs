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
        let quoted: Vec<Secret> = secrets.iter().flat_map(quoted_forms).collect();
        secrets.extend(quoted);
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
            Value::Number(number) => self.is_in(&number.to_string()),
            Value::Null | Value::Bool(_) => false,
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
        // Cut afterwards: the beginning of a key is not found.
        text::first_chars(&self.text(line), MAX_LINE_CHARS).to_owned()
    }

    /// The same as [`Self::text`] for each text of a value.
    pub(super) fn value(&self, value: Value) -> Value {
        changed(value, &|text| self.text(text))
    }
}

/// How a key may be written inside of JSON that is a text, where that differs.
fn quoted_forms(secret: &Secret) -> impl Iterator<Item = Secret> {
    let written = Value::from(secret.expose()).to_string();
    let quoted = written[1..written.len() - 1].to_owned();
    let for_html = ["&", "<", ">"].into_iter().fold(quoted.clone(), |text, sign| {
        text.replace(sign, &format!("\\u{:04x}", u32::from(sign.as_bytes()[0])))
    });
    let slashes = quoted.replace('/', "\\/");
    let plain = secret.expose().to_owned();
    let forms = [quoted, for_html, slashes].into_iter();
    forms.filter(move |form| *form != plain).map(|form| Secret::new(&form))
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
        Value::Number(number) => {
            let written = number.to_string();
            let changed = change(&written);
            if changed == written { Value::Number(number) } else { Value::String(changed) }
        }
        Value::Null | Value::Bool(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redaction(key: &str) -> Redaction {
        Redaction::new(vec![Secret::new(key)])
    }

    #[test]
    fn m13_a_key_is_taken_out_wherever_a_line_is_cut() {
        for (key, text) in [
            ("k".repeat(1_350), format!("{0} {0}", "k".repeat(1_350))),
            ("s".repeat(55), format!("{} ", "s".repeat(55)).repeat(40)),
            ("t".repeat(20), format!("{}{}", "\u{1b}[31m".repeat(236), "t".repeat(20))),
        ] {
            let line = redaction(&key).line(&text);
            assert!(!line.contains(&key[..3]) && line.starts_with(REDACTED), "{line}");
        }
    }

    #[test]
    fn m13_a_key_is_taken_out_of_json_in_a_text_and_of_numbers() {
        let key = "pa\"ss\\wo/rd<9&9>";
        let redaction = redaction(key);
        let json = json!({ "k": key }).to_string();
        let escaped = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        for text in [key.to_owned(), json.clone(), escaped, json.replace('/', "\\/")] {
            let shown = redaction.text(&text);
            assert!(!shown.contains("ss") && shown.contains(REDACTED), "{shown}");
        }
        let pin = self::redaction("98765432101234");
        let value = json!({ "pin": 98_765_432_101_234_u64, "n": 7 });
        assert!(pin.is_in_value(&value));
        assert_eq!(pin.value(value), json!({ "pin": REDACTED, "n": 7 }));
    }
}
