//! Decodes the reads of an answer into chunks, whatever its format. Pure.

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::StreamEvent;
use crate::openai::chunk::{BadChunk, Chunk, ChunkReader, error_in_text};
use crate::openai::error_object::ErrorObject;
use crate::text::BYTE_ORDER_MARK;
use crate::upstream::fault::{Fault, MAX_EXCERPT};
use crate::upstream::sse::Event;
use crate::upstream::sse::guard::{SseGuard, SseLimits, TooLarge};

/// Decodes one answer. [`push`](Self::push) one read, then take [`next`](Self::next) until it
/// returns `None`.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    caps: SseLimits,
    shape: Shape,
    chunks: ChunkReader,
    /// Whether the body has ended.
    is_closed: bool,
    /// Whether a `finish_reason` came.
    is_finished: bool,
    /// Words outside of the answer that nothing of it has followed.
    remark: Option<ErrorObject>,
    /// The bytes after the last event, which are not looked at.
    pub(super) ignored: usize,
}

/// The format of the body. It is recognised by its first bytes, since the content type is too
/// often missing or wrong.
#[derive(Clone, Debug)]
enum Shape {
    /// Not known yet: only white space, or part of a byte order mark, has come.
    Unknown(Vec<u8>),
    /// Server-sent events.
    Events(Box<SseGuard>),
    /// A JSON body instead of a stream.
    Whole(Vec<u8>),
    /// Neither; its first bytes.
    Other(Vec<u8>),
    /// The unstreamed completion was returned; its end was not.
    Done,
    /// The end was returned.
    Ended,
}

impl Decoder {
    pub(super) fn new(caps: SseLimits) -> Self {
        let shape = Shape::Unknown(Vec::new());
        let chunks = ChunkReader::default();
        Self { caps, shape, chunks, is_closed: false, is_finished: false, remark: None, ignored: 0 }
    }

    /// Adds one read. [`next`](Self::next) must have returned `None` before.
    pub(super) fn push(&mut self, read: Bytes) {
        match &mut self.shape {
            Shape::Unknown(held) => {
                let read = joined(std::mem::take(held), read);
                self.shape = self.shape_of(read);
            }
            Shape::Events(guard) => guard.push(read),
            Shape::Whole(body) => body.extend_from_slice(&read),
            Shape::Other(body) if body.len() < MAX_EXCERPT => body.extend_from_slice(&read),
            Shape::Other(_) | Shape::Done | Shape::Ended => {}
        }
    }

    /// Notes the end of the body.
    pub(super) fn finish(&mut self) {
        self.is_closed = true;
    }

    /// The most JSON values that an unstreamed completion can have; 0 for a stream.
    pub(super) fn values_in_whole_answer(&self) -> usize {
        let Shape::Whole(body) = &self.shape else { return 0 };
        body.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count()
    }

    /// The bytes that the decoder holds.
    pub(super) fn held(&self) -> usize {
        match &self.shape {
            Shape::Events(guard) => guard.held(),
            Shape::Unknown(bytes) | Shape::Whole(bytes) | Shape::Other(bytes) => bytes.len(),
            Shape::Done | Shape::Ended => 0,
        }
    }

    /// Stops decoding: nothing more is wanted.
    pub(super) fn end(&mut self) {
        if let Shape::Events(guard) = &self.shape {
            self.ignored = guard.left();
        }
        self.shape = Shape::Ended;
    }

    /// What waited for more of the stream, which has ended.
    pub(super) fn rest(&mut self) -> Option<Chunk> {
        self.chunks.rest()
    }

    pub(super) fn next(&mut self) -> Option<Result<StreamEvent, Fault>> {
        let event = self.find()?;
        match &event {
            Ok(StreamEvent::Chunk(chunk)) => self.is_finished |= chunk.finish_reason.is_some(),
            Ok(StreamEvent::Done | StreamEvent::End) | Err(_) => self.end(),
        }
        Some(event)
    }

    /// The next event, by the format of the body.
    fn find(&mut self) -> Option<Result<StreamEvent, Fault>> {
        match &mut self.shape {
            Shape::Events(_) => self.find_in_events(),
            Shape::Whole(body) if body.len() > self.caps.response => {
                Some(Err(TooLarge::Response(self.caps.response).into()))
            }
            Shape::Whole(body) if self.is_closed => {
                let body = std::mem::take(body);
                self.shape = Shape::Done;
                Some(whole(&body))
            }
            Shape::Other(body) if self.is_closed || body.len() >= MAX_EXCERPT => {
                Some(Err(Fault::not_a_completion(body)))
            }
            Shape::Unknown(_) if self.is_closed => Some(self.end_of_body()),
            Shape::Unknown(_) | Shape::Whole(_) | Shape::Other(_) => None,
            Shape::Done => Some(Ok(StreamEvent::Done)),
            Shape::Ended => Some(Ok(StreamEvent::End)),
        }
    }

    fn find_in_events(&mut self) -> Option<Result<StreamEvent, Fault>> {
        let Shape::Events(guard) = &mut self.shape else { return None };
        while let Some(event) = guard.next() {
            match event.map(|event| read(&event, &mut self.chunks, &mut self.remark)) {
                Ok(None) => {}
                // The answer says nowhere that it is whole, and something else was said.
                Ok(Some(Ok(StreamEvent::Done))) if !self.is_finished && self.remark.is_some() => {
                    return self.remark.take().map(|error| Err(Fault::Frame(error)));
                }
                Ok(Some(found)) => return Some(found),
                Err(too_large) => return Some(Err(too_large.into())),
            }
        }
        if !self.is_closed {
            return None;
        }
        match guard.finish().and_then(|event| read(&event, &mut self.chunks, &mut self.remark)) {
            // The stream was cut within its last event, so what is left is not garbage.
            None | Some(Err(Fault::Protocol(_))) => Some(self.end_of_body()),
            found => found,
        }
    }

    fn end_of_body(&self) -> Result<StreamEvent, Fault> {
        if self.is_finished {
            Ok(StreamEvent::End)
        } else {
            Err(Fault::Died("the body ended before finish_reason and [DONE]".into()))
        }
    }

    /// Recognises the format by the first bytes.
    fn shape_of(&self, read: Bytes) -> Shape {
        if read.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.as_bytes().starts_with(&read) {
            return Shape::Unknown(read.into());
        }
        let text =
            read.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(&read).trim_ascii_start();
        match text.first() {
            None => Shape::Unknown(Vec::new()),
            Some(b'{') => Shape::Whole(text.to_vec()),
            Some(b'<') => Shape::Other(text.to_vec()),
            Some(_) => {
                let mut guard = SseGuard::new(self.caps);
                guard.push(read.slice_ref(text));
                Shape::Events(Box::new(guard))
            }
        }
    }
}

fn joined(mut held: Vec<u8>, read: Bytes) -> Bytes {
    if held.is_empty() {
        return read;
    }
    held.extend_from_slice(&read);
    held.into()
}

/// The content of an event. `None` if it has none, as a comment or a ping. `remark` is what was
/// said last outside of the answer.
fn read(
    event: &Event,
    chunks: &mut ChunkReader,
    remark: &mut Option<ErrorObject>,
) -> Option<Result<StreamEvent, Fault>> {
    if let Some(failure) = event.failure() {
        return Some(Err(Fault::Frame(error_in_text(&failure))));
    }
    let data = event.data()?;
    match data.trim() {
        "" => None,
        "[DONE]" => Some(Ok(StreamEvent::Done)),
        payload => match chunks.read(payload) {
            Ok(chunk) => {
                if chunk.is_progress() {
                    *remark = None;
                }
                Some(Ok(StreamEvent::Chunk(Box::new(chunk))))
            }
            Err(BadChunk::Error(error)) => Some(Err(Fault::Frame(error))),
            Err(BadChunk::Malformed(why)) => Some(Err(Fault::Protocol(why))),
            Err(BadChunk::Remark(words)) => {
                *remark = Some(words);
                None
            }
            Err(BadChunk::Nothing) => None,
        },
    }
}

/// The one chunk of an unstreamed completion.
fn whole(body: &[u8]) -> Result<StreamEvent, Fault> {
    let text = String::from_utf8_lossy(body);
    match Chunk::parse_whole(&text) {
        Ok(chunk) => Ok(StreamEvent::Chunk(Box::new(chunk))),
        Err(BadChunk::Error(error)) => Err(Fault::Frame(error)),
        Err(BadChunk::Malformed(_)) if is_cut(&text) => {
            Err(Fault::Died("the body ended within its JSON".into()))
        }
        Err(BadChunk::Malformed(why)) => Err(Fault::Protocol(why)),
        Err(BadChunk::Nothing | BadChunk::Remark(_)) => Err(Fault::not_a_completion(body)),
    }
}

/// Whether a text is the beginning of JSON.
fn is_cut(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests;
