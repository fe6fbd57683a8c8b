//! Recognises the encoding of a file by its contents, and converts text from and to it. All files
//! are decoded here, those of the tools as well as definitions and instructions.

mod declared;
mod guessed_file;
mod iso_2022_jp;
mod named_within;

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{GB18030, GBK, UTF_8, UTF_16BE, UTF_16LE};

pub(crate) use self::declared::DeclaredEncoding;
pub(crate) use self::guessed_file::{GuessError, Reading};
use crate::text::BYTE_ORDER_MARK;

type Charset = &'static encoding_rs::Encoding;

/// Bytes at the beginning of a file that are examined.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;

/// Binary formats whose first bytes could pass for text.
const MAGIC: [(&[u8], &str); 5] = [
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program"),
];

/// Byte order marks of UTF-32. They are checked first, because one of them begins with the mark
/// of UTF-16LE.
const UTF_32_MARKS: [&[u8]; 2] = [b"\xff\xfe\0\0", b"\0\0\xfe\xff"];

const BINARY: Binary = Binary("a binary file");

/// The encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    charset: Charset,
    /// Whether the text begins with a byte order mark.
    has_mark: bool,
    /// Whether the bytes could as well be in another encoding. A guess may show a text, and must
    /// not decide what is written.
    is_guess: bool,
}

/// A file that is not text, with the most specific description known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binary(pub(crate) &'static str);

/// The bytes that end a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newline {
    Byte,
    LittleEndian,
    BigEndian,
}

/// A character that an encoding cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unmappable(pub(crate) char);

/// The text of bytes that were read for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodedText {
    pub(crate) text: String,
    /// Why it may not be what was written, in words that follow the file's name.
    pub(crate) doubt: Option<String>,
}

/// Decodes a file for a model. Where the bytes are only its beginning, half a character at their end
/// is left out. `declared` is called if the bytes do not show their encoding.
pub(crate) fn text_of(
    bytes: &[u8],
    is_whole: bool,
    declared: impl FnOnce() -> Option<DeclaredEncoding>,
) -> Result<DecodedText, Binary> {
    let encoding = match Encoding::recognise(bytes, is_whole) {
        Ok(encoding) if !encoding.is_guess => encoding,
        _ => Encoding::recognise_declared(bytes, is_whole, declared())?,
    };
    let (text, is_damaged) = encoding.decode(bytes);
    let text = if is_whole {
        text.into_owned()
    } else {
        text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned()
    };
    let name = encoding.name();
    let doubt = match () {
        () if is_whole && is_damaged => Some(format!("has bytes that are no text in {name}")),
        () if encoding.is_guess => Some(format!("is read in a guessed encoding: {name}")),
        () => None,
    };
    Ok(DecodedText { text, doubt })
}

/// The text of a file in which each sign counts: in UTF-8, or in what its byte order mark says.
/// The error follows the name of the file.
pub(crate) fn exact_text(bytes: Vec<u8>) -> Result<String, String> {
    let Some(encoding) = Encoding::by_mark(&bytes).filter(|_| !is_utf_32(&bytes)) else {
        return String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned());
    };
    let (text, is_damaged) = encoding.decode(&bytes);
    if is_damaged {
        return Err(format!("has bytes that are no text in {}", encoding.name()));
    }
    Ok(text.into_owned())
}

/// The encoding of a text that says nothing of it. Such a text may hold NUL characters.
pub(crate) fn guessed(bytes: &[u8]) -> &'static encoding_rs::Encoding {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let is_whole = sample.len() == bytes.len();
    if let Ok(encoding) = Encoding::recognise(sample, is_whole) {
        return encoding.charset;
    }
    let without: Vec<u8> = sample.iter().copied().filter(|byte| *byte != 0).collect();
    Encoding::recognise(&without, is_whole).map_or(UTF_8, |encoding| encoding.charset)
}

impl Encoding {
    pub(crate) const UTF_8: Self = Self { charset: UTF_8, has_mark: false, is_guess: false };

    /// `sample` is the beginning of a file. `is_whole` tells whether it is the whole file.
    pub(crate) fn recognise(sample: &[u8], is_whole: bool) -> Result<Self, Binary> {
        Self::recognise_declared(sample, is_whole, None)
    }

    /// As [`Self::recognise`], of a file that somebody says to be in a certain encoding. That
    /// counts if the file can be in it, and does not show another one itself.
    pub(crate) fn recognise_declared(
        sample: &[u8],
        is_whole: bool,
        declared: Option<DeclaredEncoding>,
    ) -> Result<Self, Binary> {
        if is_utf_32(sample) {
            return Err(Binary("a UTF-32 file"));
        }
        let marked = Self::by_mark(sample);
        let unmarked = &sample[marked.map_or(0, |encoding| encoding.mark().len())..];
        if let Some((_, what)) = MAGIC.iter().find(|(magic, _)| unmarked.starts_with(magic)) {
            return Err(Binary(what));
        }
        let as_declared = || declared.filter(|declared| declared.fits(sample, is_whole));
        let encoding = match marked {
            Some(encoding) => encoding,
            None => match as_declared() {
                Some(declared) => return Ok(declared.unmarked()),
                None => Self::unmarked(sample, is_whole)?,
            },
        };
        // Binary data can begin with a mark, or have zeros in every other byte, by chance.
        // Check that the rest is text in this encoding too.
        if encoding.is_claimed() && !encoding.bears_out(sample) {
            return Err(BINARY);
        }
        Ok(encoding)
    }

    /// The encoding in which an existing file is written back. Unlike [`Self::recognise`], it
    /// accepts text with NUL characters in it.
    pub(crate) fn to_keep(
        bytes: &[u8],
        declared: Option<DeclaredEncoding>,
    ) -> Result<Self, Binary> {
        Self::recognise_declared(bytes, true, declared).or_else(|binary| {
            if is_utf_32(bytes) {
                return Err(binary);
            }
            let wide = || utf_16_by_zeros(bytes).map(Self::guess);
            let utf_8 = Self { is_guess: str::from_utf8(bytes).is_err(), ..Self::UTF_8 };
            Ok(Self::by_mark(bytes).or_else(wide).unwrap_or(utf_8))
        })
    }

    pub(crate) fn by_mark(sample: &[u8]) -> Option<Self> {
        let (charset, _) = encoding_rs::Encoding::for_bom(sample)?;
        Some(Self { charset, has_mark: true, is_guess: false })
    }

    fn guess(charset: Charset) -> Self {
        Self { charset, has_mark: false, is_guess: true }
    }

    /// The encoding of a text without a byte order mark.
    fn unmarked(sample: &[u8], is_whole: bool) -> Result<Self, Binary> {
        match sample.contains(&0) {
            true => utf_16_by_zeros(sample).map(Self::guess).ok_or(BINARY),
            false if is_mostly_control(sample) => Err(BINARY),
            false if iso_2022_jp::is_likely(sample, is_whole) => Ok(Self::guess(UTF_8)),
            false if is_utf_8(sample, is_whole) => Ok(Self::UTF_8),
            false if is_mostly_utf_8(sample) => Ok(Self::guess(UTF_8)),
            false => Ok(Self::guess(
                named_within::charset(sample, is_whole)
                    .unwrap_or_else(|| Detector::fed(sample, is_whole).guess(None)),
            )),
        }
    }

    /// An encoding that has the same characters in the same bytes, and more.
    pub(crate) fn wider(&self) -> Option<Self> {
        (self.charset == GBK).then_some(Self { charset: GB18030, ..*self })
    }

    /// Whether the text could as well be in another encoding.
    pub(crate) fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// Whether it is UTF-8 unless a later byte shows that it is not.
    pub(crate) fn is_unmarked_utf_8(&self) -> bool {
        self.is_utf_8() && !self.has_mark
    }

    /// How a file with these bytes reads in this guess, and in other encodings that it may have.
    pub(crate) fn readings(&self, bytes: &[u8]) -> Vec<Reading> {
        guessed_file::readings(bytes, *self)
    }

    /// The bytes of a file whose encoding is this guess, when its text is `new`. `old` is its text
    /// now; of a file that is taken for UTF-8, its bytes.
    pub(crate) fn rewritten(
        &self,
        bytes: &[u8],
        old: &[u8],
        new: &[u8],
    ) -> Result<Vec<u8>, GuessError> {
        guessed_file::rewritten(bytes, *self, old, new)
    }

    fn is_claimed(&self) -> bool {
        self.has_mark || self.newline() != Newline::Byte
    }

    /// Whether the bytes are text in this encoding: without NUL, with few control characters,
    /// and with hardly any invalid sequence.
    fn bears_out(&self, bytes: &[u8]) -> bool {
        let (text, is_damaged) = self.decode(bytes);
        if self.holds_nul(bytes) || is_mostly_control(text.as_bytes()) {
            return false;
        }
        if !is_damaged {
            return true;
        }
        let all = text.chars().count();
        let broken = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
        match self.newline() {
            Newline::Byte => broken * 10 <= all * 3,
            // In random UTF-16 units, about three in a hundred are broken surrogates. So two
            // in a hundred are the limit.
            Newline::LittleEndian | Newline::BigEndian => broken <= 4 || broken * 50 <= all,
        }
    }

    /// Whether the bytes hold a NUL character. They must begin at a character boundary.
    pub(crate) fn holds_nul(&self, bytes: &[u8]) -> bool {
        match self.newline() {
            Newline::Byte => bytes.contains(&0),
            Newline::LittleEndian | Newline::BigEndian => {
                bytes.chunks_exact(2).any(|unit| unit == [0, 0])
            }
        }
    }

    /// Decodes a text in pieces, from behind its byte order mark.
    pub(crate) fn decoder(&self) -> encoding_rs::Decoder {
        self.charset.new_decoder_without_bom_handling()
    }

    /// The text, and whether some bytes were invalid and had to be replaced.
    pub(crate) fn decode<'a>(&self, bytes: &'a [u8]) -> (Cow<'a, str>, bool) {
        let bytes = bytes.strip_prefix(self.mark()).unwrap_or(bytes);
        self.charset.decode_without_bom_handling(bytes)
    }

    /// The bytes of `text`, with the byte order mark if the file has one.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u8>, Unmappable> {
        let mut bytes = self.mark().to_vec();
        if self.charset == UTF_8 {
            bytes.extend_from_slice(text.as_bytes());
        } else if self.charset == UTF_16LE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        } else if self.charset == UTF_16BE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        } else {
            let (encoded, _, is_lossy) = self.charset.encode(text);
            if is_lossy {
                return Err(self.first_unmappable(text));
            }
            bytes.extend_from_slice(&encoded);
        }
        Ok(bytes)
    }

    fn first_unmappable(&self, text: &str) -> Unmappable {
        let is_lossy = |c: &char| self.charset.encode(c.encode_utf8(&mut [0; 4])).2;
        Unmappable(text.chars().find(is_lossy).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// The byte order mark of the file. Empty if it has none.
    pub(crate) fn mark(&self) -> &'static [u8] {
        match self.charset {
            _ if !self.has_mark => b"",
            charset if charset == UTF_16LE => b"\xff\xfe",
            charset if charset == UTF_16BE => b"\xfe\xff",
            _ => BYTE_ORDER_MARK.as_bytes(),
        }
    }

    pub(crate) fn newline(&self) -> Newline {
        match self.charset {
            charset if charset == UTF_16LE => Newline::LittleEndian,
            charset if charset == UTF_16BE => Newline::BigEndian,
            _ => Newline::Byte,
        }
    }

    pub(crate) fn is_utf_8(&self) -> bool {
        self.charset == UTF_8
    }

    pub(crate) fn name(&self) -> &'static str {
        self.charset.name()
    }
}

/// Tells whether a text that comes in pieces is UTF-8.
#[derive(Debug, Default)]
pub(crate) struct Utf8Check {
    is_broken: bool,
    /// The beginning of a character whose rest is to come.
    cut: Vec<u8>,
}

impl Utf8Check {
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        if self.is_broken {
            return;
        }
        let joined;
        let bytes = if self.cut.is_empty() {
            piece
        } else {
            joined = [&std::mem::take(&mut self.cut), piece].concat();
            &joined
        };
        if let Err(error) = str::from_utf8(bytes) {
            self.is_broken = error.error_len().is_some();
            self.cut = bytes[error.valid_up_to()..].to_vec();
        }
    }

    /// Whether all pieces so far are UTF-8, of which the last character may be cut.
    pub(crate) fn is_valid(&self) -> bool {
        !self.is_broken
    }
}

fn is_utf_32(sample: &[u8]) -> bool {
    UTF_32_MARKS.iter().any(|mark| sample.starts_with(mark))
}

/// Recognises UTF-16 without a mark: mostly Latin text has a zero in every other byte.
fn utf_16_by_zeros(sample: &[u8]) -> Option<Charset> {
    let units = sample.len() / 2;
    let zeros_at = |offset: usize| sample.iter().skip(offset).step_by(2).filter(|b| **b == 0);
    let (even, odd) = (zeros_at(0).count(), zeros_at(1).count());
    let is_clear = |many: usize, few: usize| units > 1 && many * 10 > units * 7 && few * 50 < units;
    match () {
        () if is_clear(odd, even) => Some(UTF_16LE),
        () if is_clear(even, odd) => Some(UTF_16BE),
        () => None,
    }
}

/// Whether more than three in ten bytes are control characters. Line ends, tabs and escape
/// sequences do not count, since text has them.
fn is_mostly_control(sample: &[u8]) -> bool {
    let is_odd = |byte: &u8| u8::from(matches!(byte, 0..=7 | 14..=26 | 28..=31 | 127));
    // In pieces whose number fits a byte, so that the processor counts many bytes at a time.
    let pieces = sample.chunks(usize::from(u8::MAX));
    let odd: usize = pieces.map(|piece| usize::from(piece.iter().map(is_odd).sum::<u8>())).sum();
    odd * 10 > sample.len() * 3
}

/// Whether the text is UTF-8. If it is not the whole file, its last character may be cut.
fn is_utf_8(sample: &[u8], is_whole: bool) -> bool {
    match str::from_utf8(sample) {
        Ok(_) => true,
        Err(error) => !is_whole && error.error_len().is_none(),
    }
}

/// Whether the text is UTF-8 with a few invalid bytes.
fn is_mostly_utf_8(sample: &[u8]) -> bool {
    let (mut good, mut broken) = (0_usize, 0_usize);
    for chunk in sample.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    // The file may end in the middle of a character.
    let is_cut = broken == 1
        && sample.utf8_chunks().last().is_some_and(|chunk| {
            let rest = chunk.invalid();
            !rest.is_empty() && str::from_utf8(rest).is_err_and(|e| e.error_len().is_none())
        });
    is_cut || good > broken * 4
}

/// What has read a text, to guess its encoding.
struct Detector(EncodingDetector);

impl Detector {
    fn fed(sample: &[u8], is_whole: bool) -> Self {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(sample, is_whole);
        Self(detector)
    }

    /// The best guess. The top-level domain of a country helps to choose among several.
    fn guess(&self, domain: Option<&[u8]>) -> Charset {
        self.0.guess(domain, Utf8Detection::Deny)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sample: &[u8], expected: &str) {
        let recognised = match Encoding::recognise(sample, true) {
            Ok(encoding) if encoding.has_mark => format!("{} with mark", encoding.name()),
            Ok(encoding) => encoding.name().to_owned(),
            Err(Binary(what)) => what.to_owned(),
        };
        assert_eq!(recognised, expected);
    }

    #[test]
    fn recognises_text_by_its_bytes() {
        check(b"", "UTF-8");
        check(b"plain\x1b[31m\n", "UTF-8");
        check("für".as_bytes(), "UTF-8");
        check(b"\xef\xbb\xbfa", "UTF-8 with mark");
        check(b"\xff\xfea\0", "UTF-16LE with mark");
        check(b"\xfe\xff\0a", "UTF-16BE with mark");
        check(b"h\0e\0l\0l\0o\0\n\0", "UTF-16LE");
        check(b"\0h\0e\0l\0l\0o\0\n", "UTF-16BE");
        check(b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n", "windows-1252");
        check("ääää öööö".as_bytes().strip_suffix(b"\xb6").unwrap(), "UTF-8");
    }

    #[test]
    fn outside_39_a_text_is_read_in_its_encoding_and_a_guess_is_told() {
        let read = |bytes: &[u8]| text_of(bytes, true, || None).map(|it| (it.text, it.doubt));
        let sure = |text: &str| Ok((text.to_owned(), None));
        assert_eq!(read("für".as_bytes()), sure("für"));
        assert_eq!(read(b"\xef\xbb\xbfa"), sure("a"));
        assert_eq!(read(b"\xff\xfef\0\xfc\0r\0"), sure("für"));
        assert_eq!(read(b"\xfe\xff\0f\0\xfc\0r"), sure("für"));
        let (text, doubt) = read(b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n").unwrap();
        assert_eq!(text, "Grüße aus Köln, schön!\n");
        assert_eq!(doubt.unwrap(), "is read in a guessed encoding: windows-1252");
        assert_eq!(read(b"%PDF-1.7\n"), Err(Binary("a PDF document")));
        let (coded, _, _) = encoding_rs::ISO_2022_JP.encode("# 変数\n");
        let named = || DeclaredEncoding::parse("iso-2022-jp");
        let decoded = text_of(&coded, true, named).unwrap();
        assert_eq!((decoded.text.as_str(), decoded.doubt), ("# 変数\n", None));
        let cut = text_of(&"für".as_bytes()[..2], false, || None).unwrap();
        assert_eq!((cut.text.as_str(), cut.doubt), ("f", None));
    }

    #[test]
    fn outside_19_an_exact_text_may_have_a_mark_and_is_not_guessed() {
        let read = |bytes: &[u8]| exact_text(bytes.to_vec());
        for bytes in [
            "für".as_bytes(),
            b"\xef\xbb\xbff\xc3\xbcr",
            b"\xff\xfef\0\xfc\0r\0",
            b"\xfe\xff\0f\0\xfc\0r",
        ] {
            assert_eq!(read(bytes).as_deref(), Ok("für"));
        }
        assert_eq!(read(b"f\xfcr").unwrap_err(), "is not UTF-8");
        assert_eq!(read(b"\xff\xfe\0\0f\0\0\0").unwrap_err(), "is not UTF-8");
        assert!(read(b"\xff\xfe\0\xd8").unwrap_err().contains("no text in UTF-16LE"));
    }

    #[test]
    fn recognises_what_is_no_text() {
        check(b"\x89PNG\r\n\x1a\n", "a PNG image");
        check(b"%PDF-1.7\n", "a PDF document");
        check(b"text\0more", "a binary file");
        check(&[1, 2, 3, 4, 5, 6, 0x41], "a binary file");
    }

    #[test]
    fn t17_what_holds_nul_characters_is_binary_behind_a_mark_too() {
        for wide in [
            &b"\xff\xfe\0\0h\0\0\0i\0\0\0"[..],
            b"\0\0\xfe\xff\0\0\0h\0\0\0i",
            b"\xff\xfe\0\0",
            b"\0\0\xfe\xff",
        ] {
            check(wide, "a UTF-32 file");
        }
        check(b"\xff\xfea\0\0\0b\0", "a binary file");
        check(b"\xfe\xff\0\0\0\0", "a binary file");
        check(b"\xef\xbb\xbfa\0b", "a binary file");
        check(b"\xef\xbb\xbf\x89PNG\r\n\x1a\n", "a PNG image");
        check(&[&b"\xef\xbb\xbf"[..], &[1, 2, 3, 4, 5, 6, 0x41]].concat(), "a binary file");
        check(&[&b"\xff\xfe"[..], &[1, 0, 2, 0, 3, 0, 0x41, 0]].concat(), "a binary file");
        check(b"h\0e\0l\0l\0o\0 \0w\0o\0r\0l\0d\0\n\0".repeat(9).as_slice(), "UTF-16LE");
        let late = [b"h\0e\0l\0l\0o\0\n\0".repeat(99), b"\0\0".to_vec()].concat();
        check(&late, "a binary file");
        check(b"h\0\0\0e\0\0\0l\0\0\0l\0\0\0o\0\0\0", "a binary file");
        check(b"\0\0\0h\0\0\0e\0\0\0l\0\0\0l\0\0\0o", "a binary file");
        check(b"\xff\xfe", "UTF-16LE with mark");
    }

    #[test]
    fn t17_bytes_that_are_no_utf_16_are_binary_behind_its_mark() {
        let lone = |unit: u16| unit.to_le_bytes();
        let noise: Vec<u8> = (0..200_u16).flat_map(|n| lone(0xd800 + n)).collect();
        check(&[&b"\xff\xfe"[..], &noise].concat(), "a binary file");
        let text: Vec<u8> = "text ".repeat(20).encode_utf16().flat_map(lone).collect();
        let text = [&b"\xff\xfe"[..], &text, &lone(0xd800)].concat();
        check(&text, "UTF-16LE with mark");
    }

    #[test]
    fn writes_back_what_it_read() {
        for bytes in [
            &b"\xef\xbb\xbfa\n"[..],
            b"\xff\xfea\0\n\0",
            b"\xfe\xff\0a\0\n",
            b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n",
        ] {
            let encoding = Encoding::recognise(bytes, true).unwrap();
            let (text, is_damaged) = encoding.decode(bytes);
            assert!(!is_damaged);
            assert_eq!(encoding.encode(&text).unwrap(), bytes);
        }
        let latin = Encoding::recognise(b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n", true).unwrap();
        assert_eq!(latin.encode("a字b"), Err(Unmappable('字')));
    }
}
