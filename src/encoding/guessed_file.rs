//! Changes a file whose encoding is a guess, so that the result is right in every encoding that
//! the file may have.
//!
//! Only ASCII is written, and only where a character begins in each of those encodings: the
//! second byte of a character may be one of ASCII's, such as `\`, `|` or `{`.

use std::ops::Range;

use encoding_rs::{BIG5, EUC_JP, EUC_KR, GBK, ISO_2022_JP, KOI8_R, KOI8_U, SHIFT_JIS, UTF_8};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{Charset, Detector, Encoding, Newline, iso_2022_jp};

/// The most characters of a changed part that are compared one by one. A longer part counts as
/// replaced whole.
const MAX_COMPARED: usize = 4096;

/// Top-level domains of countries whose usual encodings are told as possible ones.
const DOMAINS: [&[u8]; 9] = [b"cn", b"tw", b"jp", b"kr", b"ru", b"de", b"pl", b"gr", b"tr"];

/// Of so many characters that are not ASCII, one may be broken in a likely encoding.
const MAX_BROKEN_SHARE: usize = 8;

/// The least byte that goes on with a character of several bytes.
const LEAST_SECOND: u8 = b'0';

/// The most possible encodings that are told.
const MAX_TOLD: usize = 8;

/// The most characters that show how a file reads.
const MAX_SAMPLE: usize = 12;

/// Why a file whose encoding is a guess cannot become what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuessError {
    /// The new text has this character, which is not ASCII.
    Character(char),
    /// In a possible encoding, the change begins or ends amid a character.
    AmidCharacter,
}

/// A part of a text that is replaced. Offsets count the bytes of the text in UTF-8.
struct Change<'t> {
    old: Range<usize>,
    new: &'t [u8],
}

/// The bytes of the file when its text is `new`. `old` is the text of `bytes` now; of a file that
/// is taken for UTF-8 it is the bytes themselves, valid or not.
pub(super) fn rewritten(
    bytes: &[u8],
    encoding: Encoding,
    old: &[u8],
    new: &[u8],
) -> Result<Vec<u8>, GuessError> {
    let changes = changes(old, new);
    for change in &changes {
        if let Some(odd) = String::from_utf8_lossy(change.new).chars().find(|c| !c.is_ascii()) {
            return Err(GuessError::Character(odd));
        }
    }
    let ends: Vec<usize> =
        changes.iter().flat_map(|change| [change.old.start, change.old.end]).collect();
    let ends = offsets_in_file(bytes, encoding, &ends).ok_or(GuessError::AmidCharacter)?;
    let possible = possible_multibyte(bytes, encoding);
    let is_japanese = iso_2022_jp::is_likely(bytes, true);
    if !possible.iter().all(|charset| are_borders(charset, bytes, &ends))
        || (is_japanese && !iso_2022_jp::are_in_ascii(bytes, &ends))
    {
        return Err(GuessError::AmidCharacter);
    }

    let mut written = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for (change, ends) in changes.iter().zip(ends.chunks_exact(2)) {
        written.extend_from_slice(&bytes[done..ends[0]]);
        written.extend(ascii_in(encoding, change.new));
        done = ends[1];
    }
    written.extend_from_slice(&bytes[done..]);
    Ok(written)
}

/// How a file reads in an encoding that it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The encoding's name.
    pub(crate) encoding: &'static str,
    /// The first characters that are not ASCII, and what stands between them.
    pub(crate) sample: String,
}

/// How the file reads in the guessed encoding, and in others that it may be in.
pub(super) fn readings(bytes: &[u8], encoding: Encoding) -> Vec<Reading> {
    if iso_2022_jp::is_likely(bytes, true) {
        return readings_of_escapes(bytes);
    }
    let detector = Detector::fed(bytes, true);
    let by_country = DOMAINS.iter().map(|domain| detector.guess(Some(domain)));
    // The detector takes the one for the other, which has the same letters.
    let as_russian = (encoding.charset == KOI8_U).then_some(KOI8_R);
    let mut charsets = vec![encoding.charset];
    let possible = possible_multibyte(bytes, encoding).into_iter();
    for charset in as_russian.into_iter().chain(possible).chain(by_country) {
        if !charsets.contains(&charset) {
            charsets.push(charset);
        }
    }
    charsets.truncate(MAX_TOLD);
    let is_wide = encoding.newline() != Newline::Byte;
    let words = if is_wide { bytes } else { first_words(bytes) };
    let reading = |charset: Charset| {
        let (text, _) = charset.decode_without_bom_handling(words);
        let foreign = text.chars().skip_while(char::is_ascii);
        let shown = foreign.filter(|character| !character.is_control());
        Reading { encoding: charset.name(), sample: shown.take(MAX_SAMPLE).collect() }
    };
    charsets.into_iter().map(reading).collect()
}

/// How a file reads that is in UTF-8 with odd escape sequences, or in ISO-2022-JP.
fn readings_of_escapes(bytes: &[u8]) -> Vec<Reading> {
    let start = memchr::memchr(iso_2022_jp::ESCAPE, bytes).unwrap_or(0);
    let line = bytes[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let reading = |charset: Charset| {
        let (text, _) = charset.decode_without_bom_handling(line);
        let shown = text.chars().filter(|character| !character.is_control());
        Reading { encoding: charset.name(), sample: shown.take(MAX_SAMPLE).collect() }
    };
    vec![reading(UTF_8), reading(ISO_2022_JP)]
}

/// The bytes from the first one that is not ASCII to the last such one of its line.
fn first_words(bytes: &[u8]) -> &[u8] {
    let Some(start) = bytes.iter().position(|byte| !byte.is_ascii()) else { return b"" };
    let line = bytes[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(last) = line.iter().rposition(|byte| !byte.is_ascii()) else { return b"" };
    // The second byte of a character may be one of ASCII's.
    let is_open = line.get(last + 1).is_some_and(|next| LEAST_SECOND < *next);
    &line[..=last + usize::from(is_open)]
}

fn ascii_in(encoding: Encoding, text: &[u8]) -> Vec<u8> {
    match encoding.newline() {
        Newline::Byte => text.to_vec(),
        Newline::LittleEndian => text.iter().flat_map(|byte| [*byte, 0]).collect(),
        Newline::BigEndian => text.iter().flat_map(|byte| [0, *byte]).collect(),
    }
}

/// A text in pieces.
struct Pieces<'t> {
    pieces: Vec<&'t [u8]>,
    /// Where each begins, and where the last one ends.
    offsets: Vec<usize>,
}

impl<'t> Pieces<'t> {
    fn new(pieces: Vec<&'t [u8]>) -> Self {
        let mut offsets = vec![0];
        let mut end = 0;
        for piece in &pieces {
            end += piece.len();
            offsets.push(end);
        }
        Self { pieces, offsets }
    }

    fn lines(text: &'t [u8]) -> Self {
        Self::new(text.split_inclusive(|byte| *byte == b'\n').collect())
    }

    /// Its characters, and each byte that is of none.
    fn characters(text: &'t [u8]) -> Self {
        let mut pieces = Vec::new();
        let mut at = 0;
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                pieces.push(&text[at..at + character.len_utf8()]);
                at += character.len_utf8();
            }
            for _ in chunk.invalid() {
                pieces.push(&text[at..=at]);
                at += 1;
            }
        }
        Self::new(pieces)
    }

    fn span(&self, pieces: Range<usize>) -> Range<usize> {
        self.offsets[pieces.start]..self.offsets[pieces.end]
    }

    /// Where the two texts differ.
    fn differences(&self, new: &Self) -> Vec<(Range<usize>, Range<usize>)> {
        let ops = capture_diff_slices(Algorithm::Myers, &self.pieces, &new.pieces);
        let ops = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
        ops.map(|op| (self.span(op.old_range()), new.span(op.new_range()))).collect()
    }
}

/// The parts in which two texts differ, as small as they can be: what both have is kept.
fn changes<'t>(old: &[u8], new: &'t [u8]) -> Vec<Change<'t>> {
    let mut changes = Vec::new();
    for (in_old, in_new) in Pieces::lines(old).differences(&Pieces::lines(new)) {
        let (old_part, new_part) = (&old[in_old.clone()], &new[in_new]);
        let (old_pieces, new_pieces) = (Pieces::characters(old_part), Pieces::characters(new_part));
        if old_pieces.pieces.len() + new_pieces.pieces.len() > MAX_COMPARED {
            changes.push(Change { old: in_old, new: new_part });
            continue;
        }
        for (part, replacement) in old_pieces.differences(&new_pieces) {
            let old = in_old.start + part.start..in_old.start + part.end;
            changes.push(Change { old, new: &new_part[replacement] });
        }
    }
    changes
}

/// Where these offsets of the text are in the file. They must ascend. `None`: one of them is amid
/// a character.
fn offsets_in_file(bytes: &[u8], encoding: Encoding, offsets: &[usize]) -> Option<Vec<usize>> {
    if encoding.is_utf_8() {
        return Some(offsets.to_vec());
    }
    let (mut in_file, mut in_text) = (0, 0);
    let mut found = Vec::with_capacity(offsets.len());
    for offset in offsets {
        while in_text < *offset {
            let rest = bytes.get(in_file..).filter(|rest| !rest.is_empty())?;
            let length = character_length(encoding.charset, rest);
            in_text += match rest[0] {
                0..=0x7f if encoding.newline() == Newline::Byte => 1,
                _ => encoding.decode(&rest[..length]).0.len(),
            };
            in_file += length;
        }
        if in_text > *offset {
            return None;
        }
        found.push(in_file);
    }
    Some(found)
}

/// The encodings with characters of several bytes that the file may be in: it is valid in them, a
/// few bytes aside.
fn possible_multibyte(bytes: &[u8], encoding: Encoding) -> Vec<Charset> {
    if encoding.newline() != Newline::Byte {
        // In those, each character of ASCII would have a NUL beside it.
        return Vec::new();
    }
    let is_likely = |charset: &Charset| {
        let (text, is_damaged) = charset.decode_without_bom_handling(bytes);
        if !is_damaged {
            return true;
        }
        let foreign = text.chars().filter(|character| !character.is_ascii()).count();
        let broken = text.matches(char::REPLACEMENT_CHARACTER).count();
        broken * MAX_BROKEN_SHARE <= foreign
    };
    [GBK, BIG5, EUC_JP, SHIFT_JIS, EUC_KR].into_iter().filter(is_likely).collect()
}

/// Whether a character begins at each of these offsets, which ascend, or the file ends there.
fn are_borders(charset: Charset, bytes: &[u8], offsets: &[usize]) -> bool {
    let mut at = 0;
    offsets.iter().all(|offset| {
        while at < *offset {
            at += character_length(charset, &bytes[at..]);
        }
        at == *offset
    })
}

/// The bytes of the first character of `rest`, which is not empty. A broken one has one byte, so
/// that none takes a line end.
fn character_length(charset: Charset, rest: &[u8]) -> usize {
    let second = rest.get(1).copied().unwrap_or(0);
    let length = match (charset.name(), rest[0]) {
        ("UTF-16LE", _) if (0xd8..0xdc).contains(&second) => 4,
        ("UTF-16BE", 0xd8..0xdc) => 4,
        ("UTF-16LE" | "UTF-16BE", _) => 2,
        _ if second < LEAST_SECOND => 1,
        ("EUC-JP", 0x8f) => 3,
        ("GBK", 0x81..=0xfe) if second.is_ascii_digit() => 4,
        ("EUC-JP", 0x8e | 0xa1..=0xfe)
        | ("Shift_JIS", 0x81..=0x9f | 0xe0..=0xfc)
        | ("GBK" | "Big5" | "EUC-KR", 0x81..=0xfe) => 2,
        _ => 1,
    };
    length.min(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a file that is `text` in an encoding, where `old` is replaced by `new`.
    fn replaced(label: &str, text: &str, old: &str, new: &str) -> Result<Vec<u8>, GuessError> {
        let (bytes, _, is_lossy) = charset(label).encode(text);
        assert!(!is_lossy);
        let guess = Encoding::recognise(&bytes, true).unwrap();
        assert!(guess.is_guess(), "{guess:?}");
        let (shown, _) = guess.decode(&bytes);
        let wanted = shown.replacen(old, new, 1);
        assert_ne!(wanted, shown, "{old} is not in {shown}");
        rewritten(&bytes, guess, shown.as_bytes(), wanted.as_bytes())
    }

    fn in_encoding(label: &str, text: &str) -> Vec<u8> {
        charset(label).encode(text).0.into_owned()
    }

    fn charset(label: &str) -> Charset {
        encoding_rs::Encoding::for_label(label.as_bytes()).unwrap()
    }

    #[test]
    fn f1_ascii_goes_into_a_file_whatever_its_encoding_is() {
        for (label, comment) in [
            ("gbk", "变量"),
            ("gbk", "密码"),
            ("big5", "變數"),
            ("euc-jp", "変数"),
            ("shift_jis", "変数"),
            ("euc-kr", "변수"),
            ("windows-1251", "пароль"),
            ("windows-1252", "größe"),
        ] {
            let source = |value: &str| format!("int x = {value}; /* {comment} */\nint y;\n");
            let written = replaced(label, &source("1"), "= 1;", "= 22;").unwrap();
            assert_eq!(written, in_encoding(label, &source("22")), "{label}");
        }
    }

    #[test]
    fn files_1_iso_2022_jp_takes_ascii_where_it_has_ascii() {
        let source = "x = 1 # 変数\n";
        let written = replaced("iso-2022-jp", source, "= 1", "= 22");
        assert_eq!(written, Ok(in_encoding("iso-2022-jp", "x = 22 # 変数\n")));
        let amid = replaced("iso-2022-jp", source, "JQ", "ab");
        assert_eq!(amid, Err(GuessError::AmidCharacter));
        let other = replaced("iso-2022-jp", source, "= 1", "= 1 変");
        assert_eq!(other, Err(GuessError::Character('変')));
        let bytes = in_encoding("iso-2022-jp", source);
        let guess = Encoding::recognise(&bytes, true).unwrap();
        let told: Vec<_> = readings(&bytes, guess).into_iter().map(|it| it.sample).collect();
        assert_eq!(told, ["$BJQ?t(B", "変数"]);
    }

    #[test]
    fn f1_other_text_is_refused_under_a_guess() {
        let refused = replaced("gbk", "int x; /* 变量 */\n", "int x;", "int x; // é");
        assert_eq!(refused, Err(GuessError::Character('é')));
    }

    #[test]
    fn f1_what_the_new_text_has_of_the_old_keeps_its_bytes() {
        let bytes = in_encoding("gbk", "a /* 变量 */ b\n");
        let guess = Encoding::recognise(&bytes, true).unwrap();
        let (shown, _) = guess.decode(&bytes);
        let wanted = shown.replace('a', "aa").replace('b', "c");
        let written = rewritten(&bytes, guess, shown.as_bytes(), wanted.as_bytes()).unwrap();
        assert_eq!(written, in_encoding("gbk", "aa /* 变量 */ c\n"));
    }

    #[test]
    fn f1_a_second_byte_that_is_ascii_is_no_character() {
        // In Shift_JIS the second byte of the last character is a backslash.
        let bytes = in_encoding("shift_jis", "x = \"構造表\";\n");
        let at = bytes.iter().position(|byte| *byte == b'\\').unwrap();
        let latin =
            Encoding { charset: encoding_rs::WINDOWS_1252, has_mark: false, is_guess: true };
        let (shown, _) = latin.decode(&bytes);
        let wanted = shown.replace('\\', "/");
        let refused = rewritten(&bytes, latin, shown.as_bytes(), wanted.as_bytes());
        assert_eq!((refused, bytes[at]), (Err(GuessError::AmidCharacter), b'\\'));
    }

    #[test]
    fn files_1_a_broken_byte_does_not_rule_an_encoding_out() {
        // The second byte of the character behind `sum` is a bar in GBK.
        let words = "结果变量密码函数参数结束打开串口关闭窗口";
        let (words, _, _) = GBK.encode(words);
        let bytes = [b"/* ", &words[..], b" */\nsum\x81| ok\n\xff\nend\n"].concat();
        let latin =
            Encoding { charset: encoding_rs::WINDOWS_1252, has_mark: false, is_guess: true };
        let (shown, _) = latin.decode(&bytes);
        let written = |old: &str, new: &str| {
            let wanted = shown.replace(old, new);
            rewritten(&bytes, latin, shown.as_bytes(), wanted.as_bytes())
        };
        assert_eq!(written("|", "/"), Err(GuessError::AmidCharacter));
        let expected = [b"/* ", &words[..], b" */\nsum\x81| ok\n\xff\nthe end\n"].concat();
        assert_eq!(written("end", "the end"), Ok(expected));
    }

    #[test]
    fn f1_bytes_that_are_no_utf_8_stay_in_a_file_that_mostly_is() {
        let bytes = [&b"caf\xe9 "[..], "ä ö ü ß é è ê x\n".as_bytes()].concat();
        let guess = Encoding::recognise(&bytes, true).unwrap();
        assert!(guess.is_utf_8() && guess.is_guess());
        let wanted = [&b"caf\xe9 "[..], "ä ö ü ß é è ê yy\n".as_bytes()].concat();
        assert_eq!(rewritten(&bytes, guess, &bytes, &wanted), Ok(wanted));
    }

    #[test]
    fn the_length_of_characters_is_that_of_the_decoder() {
        let texts = [
            ("gbk", "a变é\u{20ac}z"),
            ("big5", "a變數\u{2014}z"),
            ("euc-jp", "a変ｱz"),
            ("shift_jis", "a変ｱ表z"),
            ("euc-kr", "a변똠z"),
        ];
        for (label, text) in texts {
            let charset = charset(label);
            for character in text.chars() {
                let bytes = in_encoding(label, &character.to_string());
                assert_eq!(character_length(charset, &bytes), bytes.len(), "{label} {character}");
            }
        }
        let four = [0x81, 0x30, 0x81, 0x30, b'a'];
        assert_eq!(character_length(GBK, &four), 4);
        // A character that is read and not written any more.
        let three = [0x8f, 0xb0, 0xa1, b'a'];
        assert_eq!(character_length(EUC_JP, &three), 3);
    }
}
