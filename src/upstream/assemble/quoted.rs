//! Reads arguments that came as a JSON text in JSON: some models quote them once too often.

use std::borrow::Cow;

use crate::openai::chunk::surrogates;

/// A JSON string, as far as it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct QuotedText {
    raw: String,
    after_backslash: bool,
}

impl QuotedText {
    /// Takes the next piece, the first of which begins with the quote. Returns what stands behind
    /// the closing quote, once that has come.
    pub(super) fn push<'a>(&mut self, piece: &'a str) -> Option<&'a str> {
        let start = usize::from(self.raw.is_empty());
        for (at, byte) in piece.bytes().enumerate().skip(start) {
            if self.after_backslash {
                self.after_backslash = false;
            } else if byte == b'\\' {
                self.after_backslash = true;
            } else if byte == b'"' {
                let (own, rest) = piece.split_at(at + 1);
                self.raw.push_str(own);
                return Some(rest);
            }
        }
        self.raw.push_str(piece);
        None
    }

    pub(super) fn size(&self) -> usize {
        self.raw.len()
    }

    /// The text as it came, quotes included.
    pub(super) fn raw(&self) -> &str {
        &self.raw
    }

    /// The object that the text stands for; `None` if it is something else.
    pub(super) fn object(&self) -> Option<QuotedObject> {
        let raw = surrogates::repaired(&self.raw);
        let text: String = serde_json::from_str(&raw).ok()?;
        let object = text.trim();
        let is_object = object.starts_with('{')
            && serde_json::from_str::<serde_json::Value>(&surrogates::repaired(object)).is_ok();
        let is_repaired = matches!(raw, Cow::Owned(_));
        is_object.then(|| QuotedObject { text: object.to_owned(), is_repaired })
    }
}

/// An object that was quoted.
#[derive(Debug)]
pub(super) struct QuotedObject {
    pub(super) text: String,
    /// Whether the quoted text had halves of surrogate pairs, which were replaced.
    pub(super) is_repaired: bool,
}
