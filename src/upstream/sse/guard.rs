//! Cuts a byte stream into whole events, whatever the reads were.
//!
//! Stands in front of `eventsource-stream`, which panics at a byte order mark,
//! stops at invalid UTF-8 and is quadratic in the reads an event takes
//! (docs/stream.md, Reading). What comes out is valid for it: UTF-8, lines that
//! end with LF, one event at a time, the last one closed.

use bytes::Bytes;

use super::Event;
use super::pieces::Pieces;
use crate::text::BYTE_ORDER_MARK;

/// What a stream may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SseLimits {
    pub(crate) line: usize,
    pub(crate) response: usize,
}

/// A cap that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooLarge {
    Line(usize),
    Response(usize),
}

/// [`push`](Self::push) one read, then take [`next`](Self::next) until `None`.
#[derive(Clone, Debug)]
pub(crate) struct SseGuard {
    caps: SseLimits,
    /// The read at hand, without what was cut off its front.
    read: Bytes,
    /// How far into `read` line ends were looked for.
    scanned: usize,
    /// The beginning of the event at hand, from earlier reads.
    held: Pieces,
    /// Bytes of the line at hand, in `held` and `read`.
    line: usize,
    /// Non-empty lines of the event at hand.
    lines: usize,
    /// The event at hand has other line ends than LF.
    carriage_returns: bool,
    /// The last byte was a CR: a LF that follows belongs to it.
    after_return: bool,
    /// Nothing came out yet: a byte order mark may stand in front.
    at_start: bool,
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

    /// Bytes that came behind the last event that was taken.
    pub(crate) fn left(&self) -> usize {
        self.held.len() + self.read.len()
    }

    /// Takes one read. The one before must have been used up.
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

    /// The next whole event of what was pushed. An error stays.
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

    /// How many bytes wait for the end of their event.
    pub(crate) fn held(&self) -> usize {
        self.held.len() + self.read.len()
    }

    /// The event that the end of the stream left open.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        let open = self.line + self.lines > 0;
        self.lines += usize::from(self.line > 0);
        self.held.extend_from_slice(b"\n\n");
        open.then(|| self.take_event(0))
    }

    /// The position of the next CR or LF in `read`; counts the bytes before it.
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

    /// Goes over the LF of a CRLF, whose CR has already ended the line.
    fn skip_line_feed(&mut self) {
        if self.read[self.scanned] != b'\n' {
            return;
        }
        if self.scanned == 0 {
            // Beside its CR it stays: alone there, that would run into the next LF.
            let line_feed = self.read.split_to(1);
            if !self.held.is_empty() {
                self.held.extend_from_slice(&line_feed);
            }
        } else {
            self.scanned += 1;
        }
    }

    /// Goes over the line end at `end`; an empty line ends an event.
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

    /// Everything held and the first `count` bytes of the read.
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

    /// Keeps the rest of the read for the event that goes on in the next.
    fn hold(&mut self) {
        self.held.extend_from_slice(&self.read);
        self.read.clear();
        self.scanned = 0;
    }
}

/// CRLF and CR as LF.
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
