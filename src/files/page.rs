//! Reads a range of lines from a file of any size, in one pass and bounded memory.

use std::io::{self, Read, Seek, SeekFrom};

use memchr::{memchr, memchr_iter};
use tokio_util::sync::CancellationToken;

use super::read_state::{Content, MAX_KEPT_BYTES};
use crate::encoding::{Binary, DeclaredEncoding, Encoding, Newline, SAMPLE_BYTES, Utf8Check};

/// Bytes of one page.
const BUDGET_BYTES: usize = 256 << 10;

/// Lines are counted and contents hashed up to this offset, even beyond the page.
const COUNTED_BYTES: u64 = 16 << 20;

/// How far the end of a line is sought, beyond which lines are data.
const LONGEST_LINE_BYTES: u64 = 64 << 20;

/// A page must end within this many bytes. A slow disk reads them in some seconds.
const SEARCHED_BYTES: u64 = 1 << 30;

/// The requested lines. The first line of a file is 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) first: u64,
    pub(crate) lines: u64,
}

/// The lines that were found.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) encoding: Encoding,
    line_end: LineEnd,
    /// Whole lines with their line ends, which are never `\r` alone. A line longer than the budget is cut.
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: u64,
    pub(crate) lines: u64,
    pub(crate) total: Total,
    /// The hash of the whole contents, if the file was read to its end.
    pub(crate) hash: Option<blake3::Hash>,
    /// The whole contents, if they are short enough to be kept.
    pub(crate) content: Option<Content>,
}

/// How many lines a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Total {
    Exactly(u64),
    MoreThan(u64),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error("it is {}", .0.0)]
    Binary(Binary),
    #[error("line {0} was not reached within the first {SEARCHED_BYTES} bytes")]
    TooFar(u64),
    #[error("interrupted")]
    Cancelled,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Page {
    /// `declared` is the encoding that the file is said to have.
    pub(crate) fn read(
        mut file: impl Read + Seek,
        wanted: Wanted,
        declared: Option<DeclaredEncoding>,
        cancelled: &CancellationToken,
    ) -> Result<Self, PageError> {
        let mut buffer = vec![0; SAMPLE_BYTES];
        let mut length = fill(&mut file, &mut buffer)?;
        let is_whole = length < buffer.len();
        let mut encoding = Encoding::recognise_declared(&buffer[..length], is_whole, declared)
            .map_err(PageError::Binary)?;
        let line_end = LineEnd { newline: encoding.newline(), byte: b'\n' };
        let line_end = line_end.of_file((&mut file, cancelled), &buffer[..length], is_whole)?;
        let mut utf_8 = Utf8Check::default();
        let mut scan = Scan::new(wanted, line_end);
        while length > 0 {
            if encoding.is_unmarked_utf_8() && scan.fed < COUNTED_BYTES {
                utf_8.feed(&buffer[..length]);
            }
            scan.feed(&buffer[..length]);
            if scan.is_enough() {
                break;
            }
            if scan.fed > SEARCHED_BYTES {
                return Err(PageError::TooFar(wanted.first));
            }
            if cancelled.is_cancelled() {
                return Err(PageError::Cancelled);
            }
            length = fill(&mut file, &mut buffer)?;
        }
        let is_whole = length == 0;
        let is_doubted = encoding.is_guess() || !utf_8.is_valid();
        if is_doubted && scan.fed > SAMPLE_BYTES as u64 {
            encoding = by_the_whole(&mut file, encoding, declared)?;
        }
        if encoding.holds_nul(&scan.page) {
            return Err(PageError::Binary(Binary("a binary file")));
        }
        Ok(scan.finish(encoding, is_whole))
    }
}

/// The encoding of a file by all of it that is counted. What the beginning tells of its line ends
/// holds.
fn by_the_whole(
    file: &mut (impl Read + Seek),
    first: Encoding,
    declared: Option<DeclaredEncoding>,
) -> Result<Encoding, io::Error> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(COUNTED_BYTES).read_to_end(&mut bytes)?;
    let is_whole = (bytes.len() as u64) < COUNTED_BYTES;
    let found = Encoding::recognise_declared(&bytes, is_whole, declared).ok();
    Ok(found.filter(|found| found.newline() == first.newline()).unwrap_or(first))
}

/// A part of one line, which is too long to show as a whole.
#[derive(Debug)]
pub(crate) struct LinePart {
    pub(crate) text: String,
    /// How many characters the line has, up to where its end was sought.
    pub(crate) line_chars: u64,
    /// Whether the end of the line was found.
    pub(crate) is_to_end: bool,
    /// Whether bytes had to be replaced.
    pub(crate) is_broken: bool,
}

impl LinePart {
    /// Reads at most `most` characters of the first line of a page from the character `first` on.
    /// The first one of a line is 1.
    pub(crate) fn read(
        mut file: impl Read + Seek,
        page: &Page,
        (first, most): (u64, u64),
        cancelled: &CancellationToken,
    ) -> Result<Self, PageError> {
        let line = page.first;
        file.seek(SeekFrom::Start(page.encoding.mark().len() as u64))?;
        let mut part = PartOfLine::new(first, most, page.encoding);
        let mut buffer = vec![0; SAMPLE_BYTES];
        let (mut here, mut fed) = (1, 0_u64);
        loop {
            let length = fill(&mut file, &mut buffer)?;
            if length == 0 || part.fed > LONGEST_LINE_BYTES {
                return Ok(part.finish(length == 0));
            }
            let chunk = &buffer[..length];
            let mut start = 0;
            for end in page.line_end.offsets(chunk) {
                if here == line {
                    part.feed(&chunk[start..end]);
                    return Ok(part.finish(true));
                }
                here += 1;
                start = end;
            }
            if here == line {
                part.feed(&chunk[start..]);
            }
            fed += length as u64;
            if fed > SEARCHED_BYTES {
                return Err(PageError::TooFar(line));
            }
            if cancelled.is_cancelled() {
                return Err(PageError::Cancelled);
            }
        }
    }
}

/// Collects a part of a line from its pieces.
struct PartOfLine {
    decoder: encoding_rs::Decoder,
    fed: u64,
    /// Characters before the part.
    to_skip: u64,
    most: u64,
    text: String,
    chars: u64,
    /// A carriage return, which may belong to the end of the line.
    has_carriage_return: bool,
    is_broken: bool,
}

impl PartOfLine {
    fn new(first: u64, most: u64, encoding: Encoding) -> Self {
        Self {
            decoder: encoding.decoder(),
            fed: 0,
            to_skip: first.saturating_sub(1),
            most,
            text: String::new(),
            chars: 0,
            has_carriage_return: false,
            is_broken: false,
        }
    }

    fn feed(&mut self, piece: &[u8]) {
        self.fed += piece.len() as u64;
        self.decode(piece, false);
    }

    fn decode(&mut self, piece: &[u8], is_last: bool) {
        let room = self.decoder.max_utf8_buffer_length(piece.len()).unwrap_or(piece.len() * 4);
        let mut text = String::with_capacity(room);
        let (_, _, is_broken) = self.decoder.decode_to_string(piece, &mut text, is_last);
        self.is_broken |= is_broken;
        for c in text.chars() {
            if self.has_carriage_return && c != '\n' {
                self.take('\r');
            }
            self.has_carriage_return = c == '\r';
            if !matches!(c, '\r' | '\n') {
                self.take(c);
            }
        }
    }

    fn take(&mut self, c: char) {
        if self.to_skip <= self.chars && self.chars - self.to_skip < self.most {
            self.text.push(c);
        }
        self.chars += 1;
    }

    fn finish(mut self, is_to_end: bool) -> LinePart {
        self.decode(&[], true);
        let Self { text, chars, is_broken, .. } = self;
        LinePart { text, line_chars: chars, is_to_end, is_broken }
    }
}

/// Reads until the buffer is full or the file ends. A short read could split a UTF-16 unit.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// What ends a line.
#[derive(Clone, Copy, Debug)]
struct LineEnd {
    newline: Newline,
    /// `\n`, or `\r` in a file without any.
    byte: u8,
}

impl LineEnd {
    /// What ends the lines of a file that begins with `sample`, behind which it is read on. Only
    /// where that has `\r` and no `\n`, the rest is looked through as well.
    fn of_file(
        self,
        (file, cancelled): (&mut (impl Read + Seek), &CancellationToken),
        sample: &[u8],
        is_whole: bool,
    ) -> Result<Self, PageError> {
        let returns = Self { byte: b'\r', ..self };
        if self.is_in(sample) || !returns.is_in(sample) {
            return Ok(self);
        }
        let mut read = sample.len() as u64;
        let mut piece = vec![0; if is_whole { 0 } else { SAMPLE_BYTES }];
        while !is_whole && read < LONGEST_LINE_BYTES {
            let length = fill(file, &mut piece)?;
            if length == 0 {
                break;
            }
            if cancelled.is_cancelled() {
                return Err(PageError::Cancelled);
            }
            if self.is_in(&piece[..length]) {
                file.seek(SeekFrom::Start(sample.len() as u64))?;
                return Ok(self);
            }
            read += length as u64;
        }
        if !is_whole {
            file.seek(SeekFrom::Start(sample.len() as u64))?;
        }
        Ok(returns)
    }

    fn is_in(self, bytes: &[u8]) -> bool {
        match self.newline {
            Newline::Byte => memchr(self.byte, bytes).is_some(),
            Newline::LittleEndian | Newline::BigEndian => {
                bytes.chunks_exact(2).any(|unit| unit == self.wide())
            }
        }
    }

    /// Its two bytes in UTF-16.
    fn wide(self) -> [u8; 2] {
        match self.newline {
            Newline::BigEndian => [0, self.byte],
            Newline::Byte | Newline::LittleEndian => [self.byte, 0],
        }
    }

    /// Puts `\n` at the ends of lines, as in other files.
    fn put_feeds(self, bytes: &mut [u8]) {
        match self.newline {
            _ if self.byte == b'\n' => {}
            Newline::Byte => {
                bytes.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
            }
            Newline::LittleEndian | Newline::BigEndian => {
                let feed = Self { byte: b'\n', ..self }.wide();
                let units = bytes.chunks_exact_mut(2).filter(|unit| **unit == self.wide());
                units.for_each(|unit| unit.copy_from_slice(&feed));
            }
        }
    }

    /// The offsets in `chunk` just after each line end.
    fn offsets(self, chunk: &[u8]) -> Box<dyn Iterator<Item = usize> + '_> {
        if self.newline == Newline::Byte {
            return Box::new(memchr_iter(self.byte, chunk).map(|at| at + 1));
        }
        let expected = self.wide();
        let units = chunk.chunks_exact(2).enumerate();
        Box::new(units.filter(move |(_, unit)| *unit == expected).map(|(at, _)| at * 2 + 2))
    }
}

/// Counts all lines, and keeps those of the page.
struct Scan {
    wanted: Wanted,
    line_end: LineEnd,
    hasher: blake3::Hasher,
    /// All bytes so far, while they are few.
    content: Option<Vec<u8>>,
    fed: u64,
    /// Lines that have ended.
    ended: u64,
    is_in_line: bool,
    page: Vec<u8>,
    /// The offset in `page` at which its last line begins.
    line_start: usize,
    lines: u64,
    is_full: bool,
}

impl Scan {
    fn new(wanted: Wanted, line_end: LineEnd) -> Self {
        Self {
            wanted,
            line_end,
            hasher: blake3::Hasher::new(),
            content: Some(Vec::new()),
            fed: 0,
            ended: 0,
            is_in_line: false,
            page: Vec::new(),
            line_start: 0,
            lines: 0,
            is_full: wanted.lines == 0,
        }
    }

    fn is_enough(&self) -> bool {
        // Where the last line of the page has not ended, it may be the last of the file.
        let is_in_page = self.ended + 1 < self.wanted.first.saturating_add(self.lines);
        let most = if is_in_page { LONGEST_LINE_BYTES } else { COUNTED_BYTES };
        // One byte more tells whether the file ends here.
        self.is_full && self.fed > most
    }

    fn feed(&mut self, chunk: &[u8]) {
        self.fed += chunk.len() as u64;
        if self.fed <= COUNTED_BYTES {
            self.hasher.update(chunk);
        }
        self.content =
            self.content.take().filter(|content| content.len() + chunk.len() <= MAX_KEPT_BYTES);
        if let Some(content) = &mut self.content {
            content.extend_from_slice(chunk);
        }
        let mut start = 0;
        for end in self.line_end.offsets(chunk) {
            self.take(&chunk[start..end], true);
            start = end;
        }
        if start < chunk.len() {
            self.take(&chunk[start..], false);
        }
    }

    /// Takes a piece of a line. `is_end` tells whether the line ends with it.
    fn take(&mut self, piece: &[u8], is_end: bool) {
        if !self.is_full && self.ended + 1 >= self.wanted.first {
            self.keep(piece, is_end);
        }
        self.is_in_line = !is_end;
        self.ended += u64::from(is_end);
    }

    fn keep(&mut self, piece: &[u8], is_end: bool) {
        let room = BUDGET_BYTES - self.page.len();
        if piece.len() > room {
            self.is_full = true;
            if self.lines > 0 {
                self.page.truncate(self.line_start);
            } else {
                self.page.extend_from_slice(&piece[..room]);
                self.lines = 1;
            }
            return;
        }
        self.page.extend_from_slice(piece);
        if is_end {
            self.lines += 1;
            self.line_start = self.page.len();
            self.is_full = self.lines == self.wanted.lines;
        }
    }

    fn finish(mut self, encoding: Encoding, is_whole: bool) -> Page {
        if self.page.len() > self.line_start && !self.is_full {
            self.lines += 1;
        }
        // A last line without a line end counts. A byte order mark alone is no line.
        let is_only_mark = self.fed == encoding.mark().len() as u64;
        let seen = self.ended + u64::from(self.is_in_line && !is_only_mark);
        if is_only_mark {
            (self.lines, self.page) = (0, Vec::new());
        }
        let is_whole_content = is_whole && self.fed <= COUNTED_BYTES;
        self.line_end.put_feeds(&mut self.page);
        Page {
            encoding,
            line_end: self.line_end,
            bytes: self.page,
            first: self.wanted.first,
            lines: self.lines,
            total: if is_whole { Total::Exactly(seen) } else { Total::MoreThan(self.ended) },
            hash: is_whole_content.then(|| self.hasher.finalize()),
            content: self.content.filter(|_| is_whole_content).map(Content::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content: &[u8], first: u64, lines: u64) -> Page {
        read(io::Cursor::new(content), Wanted { first, lines }).unwrap()
    }

    fn read(file: impl Read + Seek, wanted: Wanted) -> Result<Page, PageError> {
        Page::read(file, wanted, None, &CancellationToken::new())
    }

    /// A file without an end, of one letter.
    struct Endless;

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }

    impl Seek for Endless {
        fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn f1_the_whole_file_tells_the_encoding() {
        let plain = "plain text\n".repeat(SAMPLE_BYTES / 8);
        let named = |bytes: &[u8]| {
            let page = page(bytes, 1, 1);
            (page.encoding.name(), page.encoding.is_guess())
        };
        assert_eq!(named(plain.as_bytes()), ("UTF-8", false));
        assert_eq!(named(format!("{plain}für").as_bytes()), ("UTF-8", false));
        let latin = [plain.as_bytes(), b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n"].concat();
        assert_eq!(named(&latin), ("windows-1252", true));
        let page = page(&latin, 1, 1);
        assert_eq!(
            (page.bytes.as_slice(), page.hash),
            (&b"plain text\n"[..], Some(blake3::hash(&latin)))
        );
    }

    #[track_caller]
    fn check(content: &[u8], (first, lines): (u64, u64), expected: &[u8], total: u64) {
        let page = page(content, first, lines);
        assert_eq!(String::from_utf8_lossy(&page.bytes), String::from_utf8_lossy(expected));
        assert_eq!(page.total, Total::Exactly(total));
        assert_eq!(page.hash, Some(blake3::hash(content)));
    }

    #[test]
    fn counts_exactly_up_to_its_limit_and_in_long_lines() {
        let counted = usize::try_from(COUNTED_BYTES).unwrap();
        let short = b"1234567\n".repeat(counted / 8);
        let total = |content: &[u8]| page(content, 1, 2).total;
        assert_eq!(total(&short), Total::Exactly(COUNTED_BYTES / 8));
        assert!(matches!(total(&[&short[..], &short].concat()), Total::MoreThan(_)));
        let long = b"x".repeat(counted + (4 << 20));
        assert_eq!(total(&long), Total::Exactly(1));
        assert_eq!(total(&[&long[..], b"\nlast"].concat()), Total::MoreThan(1));
    }

    #[test]
    fn takes_the_lines_that_are_wanted() {
        check(b"a\nb\nc\n", (1, 10), b"a\nb\nc\n", 3);
        check(b"a\nb\nc", (2, 1), b"b\n", 3);
        check(b"a\nb\nc", (3, 1), b"c", 3);
        check(b"a\nb\nc", (4, 1), b"", 3);
        check(b"", (1, 1), b"", 0);
        check(b"\xef\xbb\xbf", (1, 1), b"", 0);
        check(b"\n\n", (2, 1), b"\n", 2);
        check(b"\xff\xfea\0\n\0b\0", (2, 1), b"b\0", 2);
    }

    #[test]
    fn files_3b_without_a_line_feed_lines_end_at_returns() {
        check(b"a\rb\rc", (2, 1), b"b\n", 3);
        check(b"a\rb\r", (1, 10), b"a\nb\n", 2);
        check(b"\xff\xfea\0\r\0\x0d\x0db\0", (2, 1), b"\x0d\x0db\0", 2);
        check(b"\xfe\xff\0a\0\r\0b", (1, 1), b"\xfe\xff\0a\0\n", 2);
        // One line feed, however late, makes the others part of their lines.
        check(b"a\rb\n", (1, 10), b"a\rb\n", 1);
        let long = b"1234567\r".repeat(SAMPLE_BYTES / 4);
        check(&long, (3, 1), b"1234567\n", SAMPLE_BYTES as u64 / 4);
        check(&[&long[..], b"x\ny"].concat(), (2, 1), b"y", 2);
    }

    #[test]
    fn a_page_ends_before_the_line_that_exceeds_the_budget() {
        let content = [b"x".repeat(200 << 10), b"y".repeat(100 << 10)].join(&b'\n');
        let page = page(&content, 1, 10);
        assert_eq!((page.lines, page.bytes.len()), (1, (200 << 10) + 1));
        assert_eq!(page.total, Total::Exactly(2));
    }

    #[test]
    fn a_line_beyond_the_budget_is_cut() {
        let content = [b"x".repeat(300 << 10), b"y".to_vec()].join(&b'\n');
        let page = page(&content, 1, 10);
        assert_eq!((page.lines, page.bytes.len()), (1, BUDGET_BYTES));
        assert_eq!(page.total, Total::Exactly(2));
    }

    #[test]
    fn an_endless_line_is_not_read_to_its_end() {
        let page = read(Endless, Wanted { first: 1, lines: 2000 }).unwrap();
        assert_eq!((page.lines, page.bytes.len()), (1, BUDGET_BYTES));
        assert_eq!((page.total, page.hash), (Total::MoreThan(0), None));
    }

    #[test]
    fn files_25_a_long_line_is_read_in_parts() {
        let long: String = ('a'..='z').cycle().take(150_000).chain("é字🦀".chars()).collect();
        let text = format!("first\n{long}\r\nlast");
        let utf_16: Vec<u8> =
            format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let returns = text.replace("\r\n", "\r").replace('\n', "\r").into_bytes();
        let marked = format!("\u{feff}{text}").into_bytes();
        let files = [text.clone().into_bytes(), marked, utf_16, returns];
        for bytes in &files {
            let part = |line, first, most| {
                let cancelled = CancellationToken::new();
                let file = io::Cursor::new(bytes.as_slice());
                let page = page(bytes, line, 1);
                LinePart::read(file, &page, (first, most), &cancelled).unwrap()
            };
            let mut all = String::new();
            while all.chars().count() < long.chars().count() {
                let next = part(2, all.chars().count() as u64 + 1, 40_000);
                assert_eq!((next.line_chars, next.is_to_end), (150_003, true));
                all.push_str(&next.text);
            }
            assert_eq!(all, long);
            assert_eq!(part(2, 150_001, 9).text, "é字🦀");
            assert_eq!(part(2, 150_004, 9).text, "");
            assert_eq!(part(1, 2, 2).text, "ir");
            assert_eq!((part(3, 1, 9).text.as_str(), part(3, 1, 9).line_chars), ("last", 4));
        }
    }

    #[test]
    fn files_25_an_endless_line_is_read_from_its_beginning() {
        let page = read(Endless, Wanted { first: 1, lines: 1 }).unwrap();
        let part =
            LinePart::read(Endless, &page, (1_000_001, 3), &CancellationToken::new()).unwrap();
        assert_eq!((part.text.as_str(), part.is_to_end), ("xxx", false));
        assert!(part.line_chars > LONGEST_LINE_BYTES);
    }

    #[test]
    fn a_cancelled_read_stops() {
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let wanted = Wanted { first: 2, lines: 1 };
        let page = Page::read(Endless, wanted, None, &cancelled);
        assert!(matches!(page, Err(PageError::Cancelled)));
    }
}
