//! Encodings that somebody has named for a file: a setting, `.editorconfig`, or a call.

use std::collections::BTreeSet;

use encoding_rs::{REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use super::{Charset, Encoding, Newline};

/// An encoding that a file is said to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredEncoding {
    charset: Charset,
    /// Whether a new file begins with a byte order mark.
    has_mark: bool,
    /// Whether it is named as one that has control characters from 0x80 to 0x9f. `charset` is the
    /// encoding of Windows that has other characters there, and is the same elsewhere.
    has_high_controls: bool,
}

/// Names of encodings that have control characters from 0x80 to 0x9f.
const WITH_HIGH_CONTROLS: [&str; 14] = [
    "latin1",
    "latin-1",
    "l1",
    "iso-8859-1",
    "iso8859-1",
    "iso88591",
    "cp819",
    "ibm819",
    "latin5",
    "l5",
    "iso-8859-9",
    "iso8859-9",
    "iso88599",
    "iso-8859-11",
];

impl DeclaredEncoding {
    /// Reads the name of an encoding: those of the Encoding Standard, and those that editors and
    /// Windows have for the same encodings.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase().replace('_', "-");
        let has_high_controls = WITH_HIGH_CONTROLS.contains(&name.as_str());
        let unmarked = |charset| Some(Self { charset, has_mark: false, has_high_controls });
        match name.as_str() {
            "utf-8-bom" | "utf-8-sig" | "utf8bom" | "utf8-bom" => {
                Some(Self { charset: UTF_8, has_mark: true, has_high_controls: false })
            }
            // The Encoding Standard means windows-1252 by them.
            "ascii" | "us-ascii" => unmarked(UTF_8),
            "utf16le" | "utf-16" | "utf16" => unmarked(UTF_16LE),
            "utf16be" => unmarked(UTF_16BE),
            "cp932" | "ms932" => unmarked(encoding_rs::SHIFT_JIS),
            "cp936" | "ms936" => unmarked(encoding_rs::GBK),
            "cp949" | "ms949" | "uhc" => unmarked(encoding_rs::EUC_KR),
            "cp950" | "ms950" => unmarked(encoding_rs::BIG5),
            name => {
                let windows = name.strip_prefix("win-").or_else(|| name.strip_prefix("cp-"));
                let windows = windows.map(|number| format!("windows-{number}"));
                let by_label = |name: &str| encoding_rs::Encoding::for_label(name.as_bytes());
                let charset = by_label(name).or_else(|| by_label(&windows?))?;
                unmarked(charset).filter(|_| charset != REPLACEMENT)
            }
        }
    }

    /// The encoding that a call names. Blanks name none.
    pub(crate) fn given(name: Option<&str>) -> Result<Option<Self>, String> {
        let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        Self::parse(name).map(Some).ok_or_else(|| {
            format!(
                "encoding {name:?} is not known; give a name such as \"gbk\", \"shift_jis\" or \
                 \"windows-1252\"; a file in another one can be changed by a program"
            )
        })
    }

    pub(crate) fn name(self) -> &'static str {
        self.charset.name()
    }

    /// A character of `text` that Windows has put in the place of a control character of
    /// the encoding that was named. `old` is what the file holds of them already.
    pub(crate) fn one_of_windows(self, text: &str, old: &str) -> Option<char> {
        if !self.has_high_controls {
            return None;
        }
        let is_of_windows = |character: &char| {
            let mut buffer = [0; 4];
            let (bytes, _, _) = self.charset.encode(character.encode_utf8(&mut buffer));
            matches!(*bytes, [0x80..=0x9f])
        };
        // The controls themselves are below.
        let foreign = text.chars().filter(|character| *character > '\u{ff}');
        let all: BTreeSet<char> = foreign.filter(is_of_windows).collect();
        all.into_iter().find(|character| !old.contains(*character))
    }

    pub(super) fn charset(self) -> Charset {
        self.charset
    }

    /// Of a file that is there, and has no byte order mark.
    pub(super) fn unmarked(self) -> Encoding {
        Encoding { charset: self.charset, has_mark: false, is_guess: false }
    }

    /// Of a file that is made.
    pub(crate) fn for_new_file(self) -> Encoding {
        let has_mark = self.has_mark || self.charset == UTF_16LE || self.charset == UTF_16BE;
        Encoding { charset: self.charset, has_mark, is_guess: false }
    }

    /// Whether a file without a byte order mark can be in this encoding, and does not show
    /// that it is in UTF-8.
    pub(super) fn fits(self, sample: &[u8], is_whole: bool) -> bool {
        if !sample.is_ascii() && super::is_utf_8(sample, is_whole) {
            return self.charset == UTF_8;
        }
        let encoding = self.unmarked();
        let is_wide = encoding.newline() != Newline::Byte;
        // Line ends and blanks of UTF-16 have a NUL byte. Without any, it is text of single bytes
        // that would pass for other characters.
        if is_wide && !sample.is_empty() && !sample.contains(&0) {
            return false;
        }
        let (text, is_damaged) = encoding.decode(sample);
        let is_cut_only = || {
            let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
            !is_whole && !whole.contains(char::REPLACEMENT_CHARACTER)
        };
        (!is_damaged || is_cut_only()) && !encoding.holds_nul(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_the_names_that_people_write_are_known() {
        for (name, expected) in [
            ("gbk", "GBK"),
            ("GB2312", "GBK"),
            ("cp936", "GBK"),
            ("latin1", "windows-1252"),
            ("ISO-8859-1", "windows-1252"),
            ("us-ascii", "UTF-8"),
            ("cp1251", "windows-1251"),
            ("Shift_JIS", "Shift_JIS"),
            ("sjis", "Shift_JIS"),
            ("euc_kr", "EUC-KR"),
            ("EUC-JP", "EUC-JP"),
            ("big5", "Big5"),
            ("utf-8", "UTF-8"),
            ("utf-16le", "UTF-16LE"),
            ("koi8-r", "KOI8-R"),
        ] {
            let read = DeclaredEncoding::parse(name).map(DeclaredEncoding::name);
            assert_eq!(read, Some(expected), "{name}");
        }
        for name in ["", "text", "hz-gb-2312", "iso-2022-cn", "utf-7"] {
            assert_eq!(DeclaredEncoding::parse(name), None, "{name}");
        }
    }

    #[test]
    fn f1_a_declared_encoding_counts_where_the_file_can_have_it() {
        let gbk = DeclaredEncoding::parse("gbk").unwrap();
        let (bytes, _, _) = encoding_rs::GBK.encode("/* 变量 */");
        let read = |bytes: &[u8], declared| {
            let encoding = Encoding::recognise_declared(bytes, true, declared).unwrap();
            (encoding.name(), encoding.is_guess())
        };
        assert_eq!(read(&bytes, Some(gbk)), ("GBK", false));
        assert!(read(&bytes, None).1);
        assert_eq!(read(b"plain", Some(gbk)), ("GBK", false));
        assert_eq!(read("变量".as_bytes(), Some(gbk)), ("UTF-8", false));
        assert_eq!(read(b"\xef\xbb\xbfa", Some(gbk)), ("UTF-8", false));
        assert_ne!(read(b"caf\xe9", Some(gbk)).0, "GBK");
        let wide = DeclaredEncoding::parse("utf-16le").unwrap();
        assert_eq!(read(b"plain\n", Some(wide)), ("UTF-8", false));
        assert_ne!(read(b"caf\xe9 \n", Some(wide)).0, "UTF-16LE");
        assert_eq!(read(b"\x2d\x4e\n\0", Some(wide)), ("UTF-16LE", false));
    }
}
