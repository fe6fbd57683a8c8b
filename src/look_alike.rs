//! Compares texts and names as a reader sees them, and names the character in which two that look
//! alike differ.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{canonical_combining_class, compose, is_combining_mark};

/// The ASCII character that a quote, dash or space of Unicode looks like.
pub(crate) fn plain(c: char) -> Option<char> {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2035}' | '\u{2bb}'..='\u{2bd}' | '\u{b4}' => {
            Some('\'')
        }
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{2036}' => Some('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => Some('-'),
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            Some(' ')
        }
        _ => None,
    }
}

/// Whether the character has no width: joiners, marks of direction, selectors, soft hyphens.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}')
}

fn is_blank(c: char) -> bool {
    c == '\t' || c == ' ' || plain(c) == Some(' ')
}

/// The character in the usual width: a full-width letter is narrow, a half-width kana wide.
fn of_usual_width(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{ff61}'..='\u{ffdc}' => c.nfkc().next().unwrap_or(c),
        _ => c,
    }
}

/// The comma or full stop that stands for one of Chinese and Japanese. They do not look the same,
/// and models write one for the other.
fn western(c: char) -> char {
    match c {
        '\u{3001}' => ',',
        '\u{3002}' => '.',
        _ => c,
    }
}

/// The text without what no reader sees: in one normal form, one width, with the ASCII forms of
/// quotes, dashes and spaces. Keeps blanks and case.
pub(crate) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let seen = text.chars().filter(|c| !is_invisible(*c)).map(of_usual_width);
    Cow::Owned(seen.nfc().map(|c| plain(c).unwrap_or(c)).collect())
}

/// The name as a reader sees it. Blanks at its ends are not seen.
pub(crate) fn folded_name(name: &str) -> Cow<'_, str> {
    match folded(name) {
        Cow::Borrowed(name) => Cow::Borrowed(name.trim_matches(' ')),
        Cow::Owned(name) => Cow::Owned(name.trim_matches(' ').to_owned()),
    }
}

/// Whether two names are different and look the same.
pub(crate) fn looks_same(one: &str, other: &str) -> bool {
    one != other && folded_name(one) == folded_name(other)
}

/// Whether two different texts are one in Unicode's normal form.
pub(crate) fn is_equivalent(one: &str, other: &str) -> bool {
    one != other && one.nfc().eq(other.nfc())
}

/// Whether a text looks as it is: nothing in it looks like another character of ASCII.
pub(crate) fn is_plain(text: &str) -> bool {
    let looks_odd = |c| plain(c).is_some() || is_invisible(c) || of_usual_width(c) != c;
    text.is_ascii() || !text.contains(looks_odd)
}

/// A name or path in Unicode's normal form, in which file names and globs are compared. One that
/// is not UTF-8 stays as it is.
pub(crate) fn normal_form(name: &[u8]) -> Cow<'_, [u8]> {
    if name.is_ascii() {
        return Cow::Borrowed(name);
    }
    match str::from_utf8(name) {
        Ok(text) => Cow::Owned(text.nfc().collect::<String>().into_bytes()),
        Err(_) => Cow::Borrowed(name),
    }
}

/// A text in that normal form.
pub(crate) fn normal_text(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// A path in that normal form.
pub(crate) fn normal_path(path: &Path) -> Cow<'_, Path> {
    match normal_form(path.as_os_str().as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(path),
        Cow::Owned(normal) => Cow::Owned(Path::new(OsStr::from_bytes(&normal)).to_owned()),
    }
}

/// The length of the first character as a reader counts: a letter with its accents is one.
fn cluster_length(text: &str) -> usize {
    let mut chars = text.char_indices();
    let Some((_, first)) = chars.next() else { return 0 };
    let mut starter = of_usual_width(first);
    for (at, c) in chars {
        if c.is_ascii() {
            return at;
        }
        let c = of_usual_width(c);
        if canonical_combining_class(c) == 0 {
            match compose(starter, c) {
                Some(joined) => starter = joined,
                None => return at,
            }
        }
    }
    text.len()
}

/// Where two texts differ first, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Counted from 1.
    pub(crate) line: usize,
    /// In characters, counted from 1.
    pub(crate) column: usize,
    there: NamedCharacter,
    given: NamedCharacter,
}

/// A character with its code points. `None` is the end of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedCharacter(Option<String>);

impl Difference {
    /// Compares two texts that begin at this line and column of the first one. `None` if `there`
    /// begins with `given`.
    pub(crate) fn find(
        (there, given): (&str, &str),
        (mut line, mut column): (usize, usize),
    ) -> Option<Self> {
        let (mut there, mut given) = (there, given);
        while !given.is_empty() {
            let (one, there_rest) = there.split_at(cluster_length(there));
            let (other, given_rest) = given.split_at(cluster_length(given));
            if one != other {
                let named = |cluster: &str| {
                    NamedCharacter((!cluster.is_empty()).then(|| cluster.to_owned()))
                };
                return Some(Self { line, column, there: named(one), given: named(other) });
            }
            if one == "\n" {
                line += 1;
                column = 1;
            } else {
                column += one.chars().count();
            }
            (there, given) = (there_rest, given_rest);
        }
        None
    }

    /// As a clause about the first text, in the words of who compares.
    pub(crate) fn between(&self, there: &str, given: &str) -> String {
        format!("{there} has {} where {given} has {}", self.there, self.given)
    }
}

/// The most code points of one character that are named.
const MAX_CODE_POINTS: usize = 6;

impl fmt::Display for NamedCharacter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cluster) = &self.0 else { return f.write_str("nothing more") };
        if cluster == "\n" {
            return f.write_str("a line end");
        }
        for (index, c) in cluster.chars().take(MAX_CODE_POINTS).enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}U+{:04X}", u32::from(c))?;
        }
        let shown: String = cluster.chars().take(MAX_CODE_POINTS).collect();
        let word = cluster.chars().next().and_then(word_for);
        write!(f, " ({})", word.unwrap_or(&shown))
    }
}

/// The word for a character that cannot be shown.
fn word_for(c: char) -> Option<&'static str> {
    Some(match c {
        ' ' => "space",
        '\t' => "tab",
        '\r' => "carriage return",
        '\u{a0}' => "no-break space",
        '\u{202f}' => "narrow no-break space",
        '\u{3000}' => "ideographic space",
        '\u{200b}' => "zero-width space",
        '\u{200c}' => "zero-width non-joiner",
        '\u{200d}' => "zero-width joiner",
        '\u{feff}' => "zero-width no-break space",
        '\u{ad}' => "soft hyphen",
        '\u{fffd}' => "replacement character",
        c if is_blank(c) => "a space of another width",
        c if is_invisible(c) => "invisible",
        c if c.is_control() => "control character",
        c if is_combining_mark(c) => "combining mark",
        _ => return None,
    })
}

/// The first part in which a path on the disk differs from one that was given, in words.
pub(crate) fn path_difference(there: &Path, given: &Path, given_is: &str) -> Option<String> {
    let mut parts = there.components().zip(given.components());
    let (there, given) = parts.find(|(there, given)| there != given)?;
    let (there, given) = (there.as_os_str().to_string_lossy(), given.as_os_str().to_string_lossy());
    // What is given may be the beginning of what is there.
    let difference = Difference::find((&there, &format!("{given}\n")), (1, 1))?;
    let given_ends = difference.given.0.as_deref() == Some("\n");
    let given = if given_ends { NamedCharacter(None) } else { difference.given };
    let difference = Difference { given, ..difference };
    let column = difference.column;
    Some(format!("at character {column} {}", difference.between("its name", given_is)))
}

/// Folds a text piece by piece, and tells which part of it becomes what. Beside [`folded`], case is
/// passed over, a run of blanks is one space, and blanks at the ends of a line are nothing.
fn fold_loosely(
    text: &[u8],
    mut emit: impl FnMut(Range<usize>, &[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut blanks: Option<Range<usize>> = None;
    let mut begins_line = true;
    let mut buffer = String::new();
    let mut start = 0;
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(first) = rest.chars().next() {
            let cluster = &rest[..cluster_length(rest)];
            rest = &rest[cluster.len()..];
            let here = start..start + cluster.len();
            start = here.end;
            if cluster.chars().all(is_blank) {
                let from = blanks.map_or(here.start, |blanks| blanks.start);
                blanks = Some(from..here.end);
                continue;
            }
            if cluster.chars().all(is_invisible) {
                continue;
            }
            if let Some(blanks) = blanks.take() {
                let is_nothing = begins_line || first == '\n';
                emit(blanks, if is_nothing { b"" } else { b" " })?;
            }
            begins_line = first == '\n';
            buffer.clear();
            let seen = cluster.chars().filter(|c| !is_invisible(*c)).map(of_usual_width);
            for c in seen.map(western).nfc() {
                buffer.extend(plain(c).unwrap_or(c).to_lowercase());
            }
            emit(here, buffer.as_bytes())?;
        }
        if !chunk.invalid().is_empty() {
            let here = start..start + chunk.invalid().len();
            start = here.end;
            if let Some(blanks) = blanks.take() {
                emit(blanks, if begins_line { b"" } else { b" " })?;
            }
            begins_line = false;
            emit(here, chunk.invalid())?;
        }
    }
    ControlFlow::Continue(())
}

fn loosely_folded(text: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(text.len());
    let _ = fold_loosely(text, |_, piece| {
        folded.extend_from_slice(piece);
        ControlFlow::Continue(())
    });
    folded
}

/// Places that look like a text but for case and blanks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LooseMatches {
    /// Where the first one begins.
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl LooseMatches {
    /// Those of `wanted` in `text`. Takes a copy of the text.
    pub(crate) fn find(text: &[u8], wanted: &str) -> Option<Self> {
        let wanted = loosely_folded(wanted.as_bytes());
        if wanted.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let folded = loosely_folded(text);
        let finder = memchr::memmem::Finder::new(&wanted);
        let mut found = finder.find_iter(&folded);
        let at = found.next()?;
        let count = 1 + found.count();
        let mut length = 0;
        let mut first = 0;
        let _ = fold_loosely(text, |here, piece| {
            length += piece.len();
            first = here.start;
            if length > at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        Some(Self { first, count })
    }
}

/// The line as a JSON string in which every character shows: also blanks at its ends, tabs,
/// characters without a width, and accents of their own.
pub(crate) fn visible(line: &str) -> String {
    let end = line.trim_end_matches(is_blank).len();
    let mut shown = String::from("\"");
    for (at, c) in line.char_indices() {
        match c {
            '"' | '\\' => shown.extend(['\\', c]),
            '\t' => shown.push_str("\\t"),
            ' ' if at < end => shown.push(c),
            c if word_for(c).is_some() || is_jamo(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}

/// Whether the character is a part of a Hangul syllable.
fn is_jamo(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}')
}

/// Whether [`visible`] shows more of the line than the line does. Its indentation is not meant.
pub(crate) fn has_unseen(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t']);
    let has_odd = |c| c != ' ' && (word_for(c).is_some() || is_jamo(c));
    line.ends_with(' ') || line.contains(has_odd)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn difference(there: &str, given: &str) -> String {
        let difference = Difference::find((there, given), (1, 1)).unwrap();
        let (line, column) = (difference.line, difference.column);
        format!("line {line}, column {column}: {}", difference.between("the file", "old_string"))
    }

    #[test]
    fn the_first_difference_is_named_with_code_point_and_place() {
        assert_snapshot!(difference("a\nit\u{2019}s", "a\nit's"), @"line 2, column 3: the file has U+2019 (’) where old_string has U+0027 (')");
        assert_snapshot!(difference("a\u{a0}b", "a b"), @"line 1, column 2: the file has U+00A0 (no-break space) where old_string has U+0020 (space)");
        assert_eq!(
            difference("cafe\u{301}!", "caf\u{e9}!"),
            "line 1, column 4: the file has U+0065 U+0301 (e\u{301}) where old_string has U+00E9 (\u{e9})"
        );
        assert_snapshot!(difference("a  \nb", "a\nb"), @"line 1, column 2: the file has U+0020 (space) where old_string has a line end");
        assert_snapshot!(difference("fo\u{200b}o", "foo"), @"line 1, column 3: the file has U+200B (zero-width space) where old_string has U+006F (o)");
        assert_snapshot!(difference("ab", "abc"), @"line 1, column 3: the file has nothing more where old_string has U+0063 (c)");
        assert_eq!(Difference::find(("abc", "ab"), (1, 1)), None);
    }

    #[test]
    fn names_that_look_the_same_are_told_from_others() {
        for (one, other) in [
            ("Screenshot 10.00\u{202f}AM.png", "Screenshot 10.00 AM.png"),
            ("it\u{2019}s.md", "it's.md"),
            ("a\u{2013}b", "a-b"),
            ("cafe\u{301}", "caf\u{e9}"),
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "\u{d55c}\u{ae00}"),
            ("\u{ff21}\u{ff22}.txt", "AB.txt"),
            ("\u{ff76}\u{ff9e}", "\u{30ac}"),
            ("a\u{200b}b", "ab"),
            ("a.txt ", "a.txt"),
        ] {
            assert!(looks_same(one, other), "{one:?}");
        }
        for (one, other) in
            [("a", "a"), ("a", "A"), ("a b", "ab"), ("a_b", "a-b"), ("\u{430}", "a")]
        {
            assert!(!looks_same(one, other), "{one:?}");
        }
        assert!(is_equivalent("cafe\u{301}", "caf\u{e9}") && !is_equivalent("a\u{a0}", "a "));
        assert!(is_plain("caf\u{e9} 变量's") && !is_plain("a\u{a0}b") && !is_plain("\u{ff21}"));
    }

    #[test]
    fn a_text_is_found_whatever_its_blanks_case_width_and_form() {
        let found = |text: &str, wanted: &str| {
            LooseMatches::find(text.as_bytes(), wanted).map(|found| (found.first, found.count))
        };
        assert_eq!(found("x\ndef f():   \n  y\n", "def f():\n  y"), Some((2, 1)));
        assert_eq!(found("x :=\t1\n", "x := 1"), Some((0, 1)));
        assert_eq!(found("a cafe\u{301}\n", "Caf\u{e9}"), Some((2, 1)));
        assert_eq!(found("\u{ff08}a\u{ff09} (A)", "(a)"), Some((0, 2)));
        assert_eq!(found("a\u{200b}b", "ab"), Some((0, 1)));
        assert_eq!(found("a b", "ab"), None);
        assert_eq!(found("a b", " \n"), None);
        let broken = LooseMatches::find(b"\xff\xfe \xe2\x80\x99a\xff", "'A").unwrap();
        assert_eq!(broken, LooseMatches { first: 3, count: 1 });
    }

    #[test]
    fn a_line_is_shown_with_all_that_is_in_it() {
        assert_snapshot!(visible("\ta \"b\"\u{a0}c\u{200b} d \u{2019}e\u{301}  "), @r#""\ta \"b\"\u00a0c\u200b d ’e\u0301\u0020\u0020""#);
        assert!(has_unseen("a ") && has_unseen("a\tb") && !has_unseen("\ta ’ b"));
    }

    #[test]
    fn names_are_compared_part_by_part() {
        let told = |there: &str, given: &str| {
            path_difference(Path::new(there), Path::new(given), "file_path").unwrap_or_default()
        };
        assert_snapshot!(told("/w/a\u{202f}b/c", "/w/a b/c"), @"at character 2 its name has U+202F (narrow no-break space) where file_path has U+0020 (space)");
        assert_snapshot!(told("/w/a ", "/w/a"), @"at character 2 its name has U+0020 (space) where file_path has nothing more");
        assert_snapshot!(told("/w/a", "/w/a\u{200b}"), @"at character 2 its name has nothing more where file_path has U+200B (zero-width space)");
        assert_eq!(told("/w/a", "/w/a"), "");
    }
}
