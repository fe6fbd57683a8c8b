//! Reads the bytes of a file for a search: within its time, and as long as they are UTF-8.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use super::pattern::LineEnds;
use super::return_ends::ReturnEnds;
use crate::encoding::{Encoding, Utf8Check};
use crate::text::BYTE_ORDER_MARK;
use crate::tools::walk::Bounds;

/// Bytes of the longest byte order mark.
const MARK_BYTES: usize = 3;

/// Reads a file, and fails when time is up. This ends the search of a very long file.
pub(super) struct Interruptible<'a> {
    file: &'a File,
    bounds: &'a Bounds,
    at: u64,
    /// What is left of the length that the file had when it was opened. That it has come to its
    /// end then needs no call of the kernel, of which most files otherwise need two.
    left: Option<u64>,
    /// Not before the first read: whoever opened the file has just looked at the time.
    looks_at_time: bool,
    return_ends: ReturnEnds,
}

impl<'a> Interruptible<'a> {
    /// A length of zero means that it is not known.
    pub(super) fn new(file: &'a File, length: u64, bounds: &'a Bounds) -> Self {
        let left = Some(length).filter(|length| *length > 0);
        let return_ends = ReturnEnds::default();
        Self { file, bounds, at: 0, left, looks_at_time: false, return_ends }
    }

    /// Reads the file as it is, also where its lines end at `\r` alone.
    pub(super) fn with_returns(self) -> Self {
        Self { return_ends: ReturnEnds::left_alone(), ..self }
    }

    /// Reads from behind the byte order mark of another encoding, as the file is.
    pub(super) fn behind_mark(self, mark: &[u8]) -> Self {
        let at = mark.len() as u64;
        let left = self.left.map(|left| left.saturating_sub(at));
        Self { at, left, return_ends: ReturnEnds::left_alone(), ..self }
    }
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == Some(0) {
            return Ok(0);
        }
        if self.looks_at_time && self.bounds.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.looks_at_time = true;
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        self.left = self.left.map(|left| left.saturating_sub(read as u64));
        self.return_ends.replace(&mut buffer[..read], self.file, self.bounds);
        Ok(read)
    }
}

/// Passes on what it reads while that is UTF-8, and fails at the first bytes that are not. A file
/// with NUL bytes among them is binary, which is for others to find out.
pub(super) struct Utf8Bytes<R> {
    inner: R,
    check: Utf8Check,
    /// `None` once nothing is checked any more.
    state: Option<CheckState>,
    is_foreign: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckState {
    /// Nothing was read, so that there may be a byte order mark.
    AtBeginning,
    InAscii,
    /// The next bytes may be the rest of a character.
    InText,
}

impl<R: Read> Utf8Bytes<R> {
    /// Reads a file from its beginning. The mark of UTF-8 is left out.
    pub(super) fn of_file(inner: R) -> Self {
        Self::new(inner, Some(CheckState::AtBeginning))
    }

    /// Reads whole lines of a file.
    pub(super) fn of_lines(inner: R) -> Self {
        Self::new(inner, Some(CheckState::InAscii))
    }

    /// Reads what is searched though it is not UTF-8.
    pub(super) fn unchecked(inner: R) -> Self {
        Self::new(inner, None)
    }

    fn new(inner: R, state: Option<CheckState>) -> Self {
        Self { inner, check: Utf8Check::default(), state, is_foreign: false }
    }

    /// Whether it failed because the text is in another encoding.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Looks at the first bytes. Returns how many of them remain.
    fn without_mark(&mut self, buffer: &mut [u8], mut read: usize) -> io::Result<usize> {
        while read > 0 && read < MARK_BYTES.min(buffer.len()) {
            let more = self.inner.read(&mut buffer[read..])?;
            if more == 0 {
                break;
            }
            read += more;
        }
        self.state = Some(CheckState::InAscii);
        match Encoding::by_mark(&buffer[..read]) {
            Some(encoding) if encoding.is_utf_8() => {
                let length = BYTE_ORDER_MARK.len();
                buffer.copy_within(length..read, 0);
                // Zero bytes would mean the end of the file.
                if read == length { self.inner.read(buffer) } else { Ok(read - length) }
            }
            Some(_) => Err(self.foreign()),
            None => Ok(read),
        }
    }

    fn foreign(&mut self) -> io::Error {
        self.is_foreign = true;
        io::ErrorKind::InvalidData.into()
    }
}

impl<R: Read> Read for Utf8Bytes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = self.inner.read(buffer)?;
        if self.state == Some(CheckState::AtBeginning) {
            read = self.without_mark(buffer, read)?;
        }
        let bytes = &buffer[..read];
        match self.state {
            // Most files are plain ASCII, which is the quickest to tell.
            Some(CheckState::InAscii) if bytes.is_ascii() => return Ok(read),
            Some(_) => {}
            None => return Ok(read),
        }
        self.state = Some(CheckState::InText);
        self.check.feed(bytes);
        if self.check.is_valid() {
            return Ok(read);
        }
        if memchr::memchr(0, bytes).is_some() {
            self.state = None;
            return Ok(read);
        }
        Err(self.foreign())
    }
}

/// Takes the carriage return out of each line end that has one, so that a pattern meets lines as
/// Read shows them.
pub(super) struct PlainLineEnds<R> {
    inner: R,
    /// Whether it changes anything.
    is_needed: bool,
    /// A byte that was read ahead.
    ahead: Option<u8>,
}

impl<R: Read> PlainLineEnds<R> {
    pub(super) fn new(inner: R, wanted: LineEnds) -> Self {
        Self { inner, is_needed: wanted == LineEnds::Plain, ahead: None }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.ahead.take() {
            Some(byte) if !buffer.is_empty() => {
                buffer[0] = byte;
                // One byte alone is enough. More may take another call.
                Ok(1)
            }
            ahead => {
                self.ahead = ahead;
                self.inner.read(buffer)
            }
        }
    }

    /// Replaces a carriage return at the end of what was read, if a line ends with it.
    fn look_ahead(&mut self, last: &mut u8) -> io::Result<()> {
        let mut next = [0];
        loop {
            match self.inner.read(&mut next) {
                Ok(0) => return Ok(()),
                Ok(_) if next[0] == b'\n' => {
                    *last = b'\n';
                    return Ok(());
                }
                Ok(_) => {
                    self.ahead = Some(next[0]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R: Read> Read for PlainLineEnds<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill(buffer)?;
        if !self.is_needed {
            return Ok(read);
        }
        let length = without_carriage_returns(&mut buffer[..read]);
        if length > 0 && buffer[length - 1] == b'\r' {
            self.look_ahead(&mut buffer[length - 1])?;
        }
        Ok(length)
    }
}

/// Moves the bytes together, without the carriage returns right before a newline. Returns how
/// many remain.
fn without_carriage_returns(bytes: &mut [u8]) -> usize {
    let Some(mut from) = memchr::memmem::find(bytes, b"\r\n") else { return bytes.len() };
    let mut to = from;
    while from < bytes.len() {
        // At a carriage return that goes. The next one ends what is kept.
        let start = from + 1;
        let end =
            memchr::memmem::find(&bytes[start..], b"\r\n").map_or(bytes.len(), |at| start + at);
        bytes.copy_within(start..end, to);
        to += end - start;
        from = end;
    }
    to
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives at most so many bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len());
            self.0.read(&mut buffer[..length])
        }
    }

    fn read_all(mut reader: impl Read, size: usize) -> io::Result<Vec<u8>> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; size]);
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                return Ok(all);
            }
            all.extend_from_slice(&buffer[..read]);
        }
    }

    proptest! {
        #[test]
        fn files_24_every_line_end_is_plain_however_it_is_read(
            text in "(a|é|\r|\n|\r\n){0,40}", piece in 1_usize..9, size in 1_usize..9,
        ) {
            let plain = PlainLineEnds::new(Slowly(text.as_bytes(), piece), LineEnds::Plain);
            let plain = String::from_utf8(read_all(plain, size).unwrap()).unwrap();
            prop_assert_eq!(plain, text.replace("\r\n", "\n"));
            let same = PlainLineEnds::new(Slowly(text.as_bytes(), piece), LineEnds::AsInFile);
            prop_assert_eq!(read_all(same, size).unwrap(), text.as_bytes());
        }

        #[test]
        fn files_23_text_in_another_encoding_is_noticed_however_it_is_read(
            start in "[aé字]{0,20}", piece in 1_usize..9, size in MARK_BYTES..9, is_marked in any::<bool>(),
        ) {
            let mark = if is_marked { "\u{feff}" } else { "" };
            let text = format!("{mark}{start}");
            let mut reader = Utf8Bytes::of_file(Slowly(text.as_bytes(), piece));
            prop_assert_eq!(read_all(&mut reader, size).unwrap(), start.as_bytes());
            prop_assert!(!reader.is_foreign());
            for foreign in [&b"caf\xe9 au lait"[..], b"\xb1\xe4\xc1\xbf"] {
                let text = [text.as_bytes(), foreign].concat();
                let mut reader = Utf8Bytes::of_file(Slowly(&text, piece));
                prop_assert!(read_all(&mut reader, size).is_err() && reader.is_foreign());
            }
        }
    }

    #[test]
    fn files_23_utf_16_is_foreign_by_its_mark_and_a_nul_is_not() {
        let read = |bytes: &[u8]| {
            let mut reader = Utf8Bytes::of_file(bytes);
            let read = read_all(&mut reader, 64);
            (read.ok(), reader.is_foreign())
        };
        assert_eq!(read(b"\xff\xfea\0"), (None, true));
        assert_eq!(read(b"\xfe\xff\0a"), (None, true));
        assert_eq!(
            read(b"\x89PNG\r\n\x1a\n\0\0"),
            (Some(b"\x89PNG\r\n\x1a\n\0\0".to_vec()), false)
        );
        assert_eq!(read(b"\xef\xbb\xbf"), (Some(Vec::new()), false));
        assert_eq!(read(b""), (Some(Vec::new()), false));
    }
}
