//! The client's messages as they go upstream.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::joined;
use crate::agent::message;

/// Written once; once more without reasoning where a model is asked that takes none.
#[derive(Debug)]
pub(super) struct History {
    /// An array, brackets included.
    whole: Bytes,
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
        inside(&self.whole).is_empty()
    }

    /// The messages with commas between them.
    pub(super) fn written(&mut self, with_reasoning: bool) -> Bytes {
        inside(if with_reasoning { &self.whole } else { self.without_reasoning() })
    }

    pub(super) fn has_reasoning(&mut self) -> bool {
        self.without_reasoning().len() < self.whole.len()
    }

    /// Bytes that it keeps.
    pub(super) fn size(&self) -> usize {
        let other = self.without_reasoning.as_ref();
        let other = other.filter(|other| other.as_ptr() != self.whole.as_ptr());
        self.whole.len() + other.map_or(0, Bytes::len)
    }

    fn without_reasoning(&mut self) -> &Bytes {
        let whole = &self.whole;
        self.without_reasoning.get_or_insert_with(|| without_reasoning(whole))
    }
}

fn inside(array: &Bytes) -> Bytes {
    array.slice(1..array.len() - 1)
}

/// The same bytes where there is none.
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
