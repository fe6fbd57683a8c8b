//! Splits a byte stream into server-sent events: [`guard`] cuts them, [`Event::data`] decodes
//! them.

pub(crate) mod guard;
mod pieces;

use std::borrow::Cow;
use std::convert::Infallible;
use std::iter;

use bytes::Bytes;
use eventsource_stream::EventStream;
use futures::{FutureExt as _, StreamExt as _, stream};

use crate::openai::chunk::{BadChunk, Chunk, names_a_failure};

/// The bytes of one event, from its first line to the empty line that ends it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    bytes: Bytes,
    /// The number of lines that are not empty.
    lines: usize,
}

impl Event {
    /// `bytes` must be whole lines that end with LF.
    fn new(bytes: Bytes, lines: usize) -> Self {
        Self { bytes, lines }
    }

    /// The payload, borrowed in the usual case. `None` for a comment or for fields other than
    /// `data`. Invalid UTF-8 is replaced.
    pub(crate) fn data(&self) -> Option<Cow<'_, str>> {
        match str::from_utf8(&self.bytes) {
            Ok(text) => self.single_line(text).map(Cow::Borrowed).or_else(|| decode(text)),
            Err(_) => decode(&String::from_utf8_lossy(&self.bytes)),
        }
    }

    /// The text of an event that reports a failure, by its name (`event: error`), by its field
    /// (`error: …`), or by an object that stands there without any field. `None` for any other
    /// event.
    pub(crate) fn failure(&self) -> Option<String> {
        let is_usual = self.lines == 1 && self.bytes.starts_with(b"data:");
        if is_usual {
            return None;
        }
        let text = String::from_utf8_lossy(&self.bytes);
        let mut is_failure = false;
        for line in text.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.trim();
            match field {
                _ if field.eq_ignore_ascii_case("error") => return Some(value.to_owned()),
                "event" => is_failure = names_a_failure(value),
                _ if is_error_object(line) => return Some(line.to_owned()),
                _ => {}
            }
        }
        is_failure.then(|| self.data().unwrap_or_default().into_owned())
    }

    /// Decodes the usual event, a single `data:` line, without copying it. Every token comes in
    /// such an event, and the decoder would copy it three times.
    fn single_line<'a>(&self, text: &'a str) -> Option<&'a str> {
        let data = text.strip_prefix("data:").filter(|_| self.lines == 1)?;
        Some(data.strip_prefix(' ').unwrap_or(data).trim_end_matches('\n'))
    }
}

/// Whether a line that has no field is an object with an error, as a server writes it that has
/// forgotten the stream.
fn is_error_object(line: &str) -> bool {
    line.starts_with('{') && matches!(Chunk::parse(line), Err(BadChunk::Error(_)))
}

/// Decodes an event of any form with the library. The library gets one line at a time, because
/// it copies everything it holds with each piece. It gets an empty line first, because it
/// panics at a leading byte order mark.
fn decode(event: &str) -> Option<Cow<'static, str>> {
    let lines = iter::once("\n").chain(event.split_inclusive('\n'));
    let mut events = EventStream::new(stream::iter(lines.map(Ok::<_, Infallible>)));
    let event = events.next().now_or_never().flatten()?.ok()?;
    Some(Cow::Owned(event.data))
}

#[cfg(test)]
mod tests;
