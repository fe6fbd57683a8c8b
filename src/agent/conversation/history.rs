//! Keeps the client's messages as they are sent upstream.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::joined;
use crate::agent::message;

/// The client's messages, serialised once. They are serialised a second time without reasoning
/// when a model is asked that takes none.
#[derive(Debug)]
pub(super) struct History {
    /// The array with its brackets.
    whole: Bytes,
    /// The same array without reasoning; shares the bytes of `whole` where there is none.
    without_reasoning: Option<Bytes>,
}

impl History {
    pub(super) fn new(messages: &[Box<RawValue>]) -> Self {
        let mut whole = vec![b'['];
        whole.extend(joined(messages.iter().map(|message| message.get())));
        whole.push(b']');
        Self { whole: whole.into(), without_reasoning: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        without_brackets(&self.whole).is_empty()
    }

    /// The messages with commas between them, without the brackets.
    pub(super) fn written(&mut self, with_reasoning: bool) -> Bytes {
        without_brackets(if with_reasoning { &self.whole } else { self.without_reasoning() })
    }

    pub(super) fn has_reasoning(&mut self) -> bool {
        self.without_reasoning().len() < self.whole.len()
    }

    /// The bytes that it keeps in memory.
    pub(super) fn size(&self) -> usize {
        let other = self.without_reasoning.as_ref();
        // Without reasoning to remove, both share one allocation, which counts once.
        let other = other.filter(|other| other.as_ptr() != self.whole.as_ptr());
        self.whole.len() + other.map_or(0, Bytes::len)
    }

    fn without_reasoning(&mut self) -> &Bytes {
        let whole = &self.whole;
        self.without_reasoning.get_or_insert_with(|| without_reasoning(whole))
    }
}

/// The array without its brackets.
fn without_brackets(array: &Bytes) -> Bytes {
    array.slice(1..array.len() - 1)
}

/// Removes reasoning from each message. Returns the same bytes where there is none.
fn without_reasoning(array: &Bytes) -> Bytes {
    let Ok(messages) = serde_json::from_slice::<Vec<&RawValue>>(array) else {
        return array.clone();
    };
    let stripped: Vec<_> =
        messages.iter().map(|message| message::without_reasoning(message)).collect();
    if stripped.iter().all(Option::is_none) {
        return array.clone();
    }
    let texts = messages.iter().zip(&stripped);
    let texts = texts.map(|(whole, stripped)| stripped.as_deref().unwrap_or(whole).get());
    let mut written = vec![b'['];
    written.extend(joined(texts));
    written.push(b']');
    written.into()
}
