//! Finds the ends of the messages on a connection: heads and their bodies.
//!
//! hyper parses the messages. This module finds only where the next one begins, so that
//! each head is counted and timed from its first byte (`docs/threats.md`, H19, H24).

/// The line that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Line {
    #[default]
    Empty,
    /// Only a carriage return so far.
    Return,
    Text,
}

impl Line {
    /// Takes one byte. At a line feed, returns whether the line had text.
    fn push(&mut self, byte: u8) -> Option<bool> {
        if byte == b'\n' {
            return Some(std::mem::take(self) == Self::Text);
        }
        *self = if *self == Self::Empty && byte == b'\r' { Self::Return } else { Self::Text };
        None
    }
}

/// Finds the end of a head: the first empty line after a non-empty one.
#[derive(Debug, Default)]
pub(super) struct Head {
    line: Line,
    has_begun: bool,
}

impl Head {
    /// How many of these bytes belong to the head, if it ends in them.
    pub(super) fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match self.line.push(*byte) {
                Some(true) => self.has_begun = true,
                Some(false) if self.has_begun => return Some(at + 1),
                Some(false) | None => {}
            }
        }
        None
    }
}

/// The body that is being read.
#[derive(Debug)]
pub(super) enum Body {
    /// This many bytes are still to come.
    Remaining(u64),
    Chunked(Chunked),
    /// The size of a chunk is invalid or too large.
    Invalid,
}

/// The next part of a chunked body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chunked {
    Size(u64),
    /// After the digits of a size, up to the end of its line.
    Extension(u64),
    /// This many bytes of the chunk and its line end.
    Data(u64),
    Trailers(Line),
}

impl Body {
    pub(super) fn chunked() -> Self {
        Self::Chunked(Chunked::Size(0))
    }

    /// How many of these bytes belong to the body, and whether it ends with them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        match self {
            Self::Remaining(left) => {
                let taken = take(left, bytes.len());
                (taken, *left == 0)
            }
            Self::Chunked(_) => self.take_chunked(bytes),
            Self::Invalid => (bytes.len(), false),
        }
    }

    fn take_chunked(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let (Self::Chunked(next), Some(byte)) = (&mut *self, bytes.get(at)) {
            if let Chunked::Data(left) = next {
                at += take(left, bytes.len() - at);
                if *left == 0 {
                    *next = Chunked::Size(0);
                }
                continue;
            }
            at += 1;
            match next.after(*byte) {
                Some(Chunked::Trailers(Line::Return)) if *byte == b'\n' => return (at, true),
                Some(after) => *next = after,
                None => *self = Self::Invalid,
            }
        }
        (bytes.len(), false)
    }
}

impl Chunked {
    /// The next state after one more byte; `None` if the byte is invalid. The body ends
    /// with the empty line after the trailers.
    fn after(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Size(size), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16)?;
                let size = size.checked_mul(16)?.checked_add(u64::from(digit))?;
                Self::Size(Some(size).filter(|size| *size <= MAX_CHUNK)?)
            }
            (Self::Size(0) | Self::Extension(0), b'\n') => Self::Trailers(Line::Empty),
            (Self::Size(size) | Self::Extension(size), b'\n') => Self::Data(size + LINE_END),
            (Self::Size(size) | Self::Extension(size), _) => Self::Extension(size),
            (Self::Trailers(line), b'\n') if line != Line::Text => Self::Trailers(Line::Return),
            (Self::Trailers(mut line), _) => {
                line.push(byte);
                Self::Trailers(line)
            }
            (Self::Data(_), _) => return None,
        })
    }
}

/// More than any client sends; hyper accepts every size of 64 bits.
const MAX_CHUNK: u64 = 1 << 48;

/// CR and LF after the data of a chunk.
const LINE_END: u64 = 2;

/// Takes up to `there` of the bytes that are left.
fn take(left: &mut u64, there: usize) -> usize {
    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(there);
    *left -= taken as u64;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the length of the head in `bytes`, for every way to cut them in two.
    #[track_caller]
    fn check_head(bytes: &str, expected: Option<usize>) {
        for cut in 0..=bytes.len() {
            let (front, back) = bytes.as_bytes().split_at(cut);
            let mut head = Head::default();
            let end = head.end_in(front).or_else(|| Some(cut + head.end_in(back)?));
            assert_eq!(end, expected, "{bytes:?} cut at {cut}");
        }
    }

    #[test]
    fn a_head_ends_at_its_empty_line() {
        check_head("GET / HTTP/1.1\r\na: b\r\n\r\n", Some(24));
        check_head("GET / HTTP/1.1\r\na: b\r\n\r\nGET /", Some(24));
        check_head("\r\n\nGET /\n\nbody\n\n", Some(10));
        check_head("GET /\n\r\nbody", Some(8));
        check_head("GET /\r\n \r\n", None);
        check_head("\r\n\r\n\r\n", None);
        check_head("GET /\r\na: b\r\n\r", None);
    }

    #[track_caller]
    fn check_body(bytes: &str, expected: Option<usize>) {
        for cut in 0..=bytes.len() {
            let (front, back) = bytes.as_bytes().split_at(cut);
            let mut body = Body::chunked();
            let end = match body.take(front) {
                (end, true) => Some(end),
                _ => match body.take(back) {
                    (end, true) => Some(cut + end),
                    _ => None,
                },
            };
            assert_eq!(end, expected, "{bytes:?} cut at {cut}");
        }
    }

    #[test]
    fn a_chunked_body_ends_behind_its_trailers() {
        check_body("0\r\n\r\n", Some(5));
        check_body("2\r\n{}\r\n0\r\n\r\nGET /", Some(12));
        check_body("a;x=\"0\"\r\n0\r\n\r\n\r\n0\r\n\r\n0\r\n\r\n", Some(26));
        check_body("1 \r\n \r\n0\r\na: b\r\nc: d\r\n\r\nGET /", Some(24));
        check_body("2\r\n{}\r\n0\r\n", None);
        check_body("2\r\n{}", None);
    }

    #[test]
    fn h27_a_chunk_larger_than_anything_can_be_is_noticed() {
        for size in ["fffffffffffffffff", "ffffffffffffffff", "1000000000001"] {
            let mut body = Body::chunked();
            body.take(format!("{size}\r\n{{}}\r\n0\r\n\r\n").as_bytes());
            assert!(matches!(body, Body::Invalid), "{size}");
        }
    }

    #[test]
    fn a_body_of_a_length_ends_with_its_last_byte() {
        let mut body = Body::Remaining(5);

        assert_eq!(body.take(b"abc"), (3, false));
        assert_eq!(body.take(b"deGET /"), (2, true));
    }
}
