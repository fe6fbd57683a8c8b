//! The events in a byte stream: [`guard`] cuts them out, [`Event::data`] reads them.

pub(crate) mod guard;
mod pieces;

use std::borrow::Cow;
use std::convert::Infallible;
use std::iter;

use bytes::Bytes;
use eventsource_stream::EventStream;
use futures::{FutureExt as _, StreamExt as _, stream};

/// One event as it came, from its first line to the empty line that ends it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    bytes: Bytes,
    /// How many of its lines are not empty.
    lines: usize,
}

impl Event {
    /// `bytes` must be whole lines that end with LF.
    fn new(bytes: Bytes, lines: usize) -> Self {
        Self { bytes, lines }
    }

    /// The payload, borrowed in the usual case. `None` where there is none: a
    /// comment, or fields that nobody asked for. Invalid UTF-8 is replaced.
    pub(crate) fn data(&self) -> Option<Cow<'_, str>> {
        match str::from_utf8(&self.bytes) {
            Ok(text) => self.single_line(text).map(Cow::Borrowed).or_else(|| decode(text)),
            Err(_) => decode(&String::from_utf8_lossy(&self.bytes)),
        }
    }

    /// The usual event is one `data:` line. A decoder would copy it three times,
    /// and every token comes this way.
    fn single_line<'a>(&self, text: &'a str) -> Option<&'a str> {
        let data = text.strip_prefix("data:").filter(|_| self.lines == 1)?;
        Some(data.strip_prefix(' ').unwrap_or(data).trim_end_matches('\n'))
    }
}

/// Reads an event of any shape. The decoder gets it line by line, as it copies
/// all it holds at every line, and an empty line first, as it panics at a byte
/// order mark in front.
fn decode(event: &str) -> Option<Cow<'static, str>> {
    let lines = iter::once("\n").chain(event.split_inclusive('\n'));
    let mut events = EventStream::new(stream::iter(lines.map(Ok::<_, Infallible>)));
    let event = events.next().now_or_never().flatten()?.ok()?;
    Some(Cow::Owned(event.data))
}

#[cfg(test)]
mod tests;
