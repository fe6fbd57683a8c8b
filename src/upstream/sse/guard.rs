//! Cuts a byte stream into whole events, however the bytes were read.
//!
//! It stands in front of `eventsource-stream`, which panics at a byte order mark, stops at
//! invalid UTF-8, and takes quadratic time over an event that comes in many reads
//! (docs/stream.md, Reading). What it returns is safe to decode: one event at a time, with
//! lines that end with LF, and the last event closed.

use bytes::Bytes;

use super::Event;
use super::pieces::Pieces;
use crate::text::BYTE_ORDER_MARK;

/// The most bytes of a line and of a whole response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SseLimits {
    pub(crate) line: usize,
    pub(crate) response: usize,
}

/// The limit that was exceeded, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooLarge {
    Line(usize),
    Response(usize),
}

/// Cuts reads into events. [`push`](Self::push) one read, then take [`next`](Self::next) until
/// it returns `None`.
#[derive(Clone, Debug)]
pub(crate) struct SseGuard {
    caps: SseLimits,
    /// The current read, without the part that was returned already.
    read: Bytes,
    /// How much of `read` has been searched for line ends.
    scanned: usize,
    /// The beginning of the current event, from earlier reads.
    held: Pieces,
    /// The length of the current line so far, in `held` and `read`.
    line: usize,
    /// The non-empty lines of the current event.
    lines: usize,
    /// Whether the current event has CR or CRLF line ends.
    carriage_returns: bool,
    /// Whether the last byte was a CR. A LF that follows belongs to it.
    after_return: bool,
    /// Whether no event was returned yet, so that a byte order mark may still stand in front.
    at_start: bool,
    /// Bytes of the response so far.
    received: usize,
    too_large: Option<TooLarge>,
}

impl SseGuard {
    pub(crate) fn new(caps: SseLimits) -> Self {
        Self {
            caps,
            read: Bytes::new(),
            scanned: 0,
            held: Pieces::default(),
            line: 0,
            lines: 0,
            carriage_returns: false,
            after_return: false,
            at_start: true,
            received: 0,
            too_large: None,
        }
    }

    /// The bytes after the last event that was returned.
    pub(crate) fn left(&self) -> usize {
        self.held.len() + self.read.len()
    }

    /// Adds one read. The one before must be used up.
    pub(crate) fn push(&mut self, mut read: Bytes) {
        debug_assert!(self.read.is_empty(), "the last read was used up");
        let room = self.caps.response - self.received;
        if read.len() > room {
            read.truncate(room);
            self.too_large = Some(TooLarge::Response(self.caps.response));
        }
        self.received += read.len();
        self.read = read;
        self.scanned = 0;
    }

    /// The next whole event. Once it returns an error, it returns it again at each call.
    pub(crate) fn next(&mut self) -> Option<Result<Event, TooLarge>> {
        while let Some(end) = self.line_end() {
            if let Some(event) = self.end_line(end) {
                return Some(Ok(event));
            }
        }
        if self.line > self.caps.line {
            return Some(Err(TooLarge::Line(self.caps.line)));
        }
        self.hold();
        self.too_large.map(Err)
    }

    /// The bytes that wait for the end of their event.
    pub(crate) fn held(&self) -> usize {
        self.held.len() + self.read.len()
    }

    /// The event that was still open at the end of the stream.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        let open = self.line + self.lines > 0;
        self.lines += usize::from(self.line > 0);
        self.held.extend_from_slice(b"\n\n");
        open.then(|| self.take_event(0))
    }

    /// The position of the next CR or LF in `read`. Adds the bytes before it to the current
    /// line.
    fn line_end(&mut self) -> Option<usize> {
        if self.after_return && self.scanned < self.read.len() {
            self.after_return = false;
            self.skip_line_feed();
        }
        let rest = &self.read[self.scanned..];
        let found = memchr::memchr2(b'\n', b'\r', rest);
        self.line += found.unwrap_or(rest.len());
        let end = self.scanned + found.unwrap_or(rest.len());
        self.scanned = end;
        (found.is_some() && self.line <= self.caps.line).then_some(end)
    }

    /// Skips the LF of a CRLF, whose CR has already ended the line.
    fn skip_line_feed(&mut self) {
        if self.read[self.scanned] != b'\n' {
            return;
        }
        if self.scanned == 0 {
            // The CR came with the read before. Keep its LF next to it: alone it would be taken
            // for a second line end.
            let line_feed = self.read.split_to(1);
            if !self.held.is_empty() {
                self.held.extend_from_slice(&line_feed);
            }
        } else {
            self.scanned += 1;
        }
    }

    /// Ends the line at `end`. An empty line ends the event, which is returned.
    fn end_line(&mut self, end: usize) -> Option<Event> {
        let is_empty = self.line == 0;
        self.line = 0;
        self.scanned = end + 1;
        if self.read[end] == b'\r' {
            self.carriage_returns = true;
            self.after_return = true;
        }
        if !is_empty {
            self.lines += 1;
            return None;
        }
        let event = self.take_event(self.scanned);
        (event.lines > 0).then_some(event)
    }

    /// Takes the held bytes and the first `count` bytes of the read as an event.
    fn take_event(&mut self, count: usize) -> Event {
        let cut = self.read.split_to(count);
        self.scanned = 0;
        let mut bytes = if self.held.is_empty() {
            cut
        } else {
            self.held.extend_from_slice(&cut);
            Bytes::from(self.held.take())
        };
        if std::mem::take(&mut self.at_start) && bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) {
            let _ = bytes.split_to(BYTE_ORDER_MARK.len());
        }
        if std::mem::take(&mut self.carriage_returns) {
            bytes = with_line_feeds(&bytes);
        }
        Event::new(bytes, std::mem::take(&mut self.lines))
    }

    /// Keeps the rest of the read: its event continues in the next one.
    fn hold(&mut self) {
        self.held.extend_from_slice(&self.read);
        self.read.clear();
        self.scanned = 0;
    }
}

/// Replaces CRLF and CR by LF.
fn with_line_feeds(bytes: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if byte == b'\r' {
            bytes.next_if_eq(&&b'\n');
            out.push(b'\n');
        } else {
            out.push(byte);
        }
    }
    out.into()
}
