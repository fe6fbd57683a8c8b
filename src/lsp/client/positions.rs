//! Converts places in a text between people's counting and the protocol's.
//!
//! People, and the tool, count lines as Read prints them and characters, both from 1. The
//! protocol counts from 0, in units of an encoding that both sides agree on, and a lone carriage
//! return ends a line there as well.

use gen_lsp_types::Position;

/// The units in which a server counts within a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// The one that every server must know.
    #[default]
    Utf16,
    Utf32,
}

/// A place as people count, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineColumn {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Encoding {
    /// All, by their names in the protocol.
    pub(super) const NAMES: [(&'static str, Self); 3] =
        [("utf-16", Self::Utf16), ("utf-8", Self::Utf8), ("utf-32", Self::Utf32)];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, encoding)| *encoding)
    }

    fn units(self, character: char) -> usize {
        match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Utf32 => 1,
        }
    }

    /// The place in the protocol's counting. A column past the end of its line is the line's end.
    /// `None`: the text has no such line.
    pub(super) fn to_protocol(self, text: &str, place: LineColumn) -> Option<Position> {
        let offset = offset_of(text, place)?;
        let before = &text[..offset];
        let line_start = protocol_line_start(before);
        let line = protocol_line_ends(&before[..line_start]);
        let units: usize = before[line_start..].chars().map(|it| self.units(it)).sum();
        Some(Position { line: u32::try_from(line).ok()?, character: u32::try_from(units).ok()? })
    }

    /// The place in people's counting. What lies past the end of a line, or of the text, is its
    /// end; what lies within a character is its beginning.
    pub(crate) fn to_line_column(self, text: &str, position: Position) -> LineColumn {
        let start = start_of_protocol_line(text, position.line);
        let mut offset = start;
        let mut units = 0;
        for character in text[start..].chars().take_while(|it| !matches!(it, '\n' | '\r')) {
            units += self.units(character);
            if (position.character as usize) < units {
                break;
            }
            offset += character.len_utf8();
        }
        line_column_at(text, offset)
    }
}

/// A line as Read prints it, without its end. `number` counts from 1.
pub(crate) fn line(text: &str, number: u32) -> Option<&str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    let line = text.split('\n').nth(index)?;
    // What follows the last line end is no line.
    let is_behind_the_last = line.is_empty() && text.len() == offset_of_pointer(text, line);
    if is_behind_the_last && 0 < index {
        return None;
    }
    Some(line.strip_suffix('\r').unwrap_or(line))
}

/// The column of `symbol` in a line: where it stands as a whole word, else where it first stands.
pub(crate) fn column_of(line: &str, symbol: &str) -> Option<u32> {
    let is_word =
        |character: Option<char>| character.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let is_whole = |at: &usize| {
        let (before, behind) = (&line[..*at], &line[at + symbol.len()..]);
        let starts_inside = is_word(before.chars().next_back()) && is_word(symbol.chars().next());
        let ends_inside = is_word(symbol.chars().next_back()) && is_word(behind.chars().next());
        !starts_inside && !ends_inside
    };
    let mut places = line.match_indices(symbol).map(|(at, _)| at);
    let first = places.clone().next()?;
    let at = places.find(is_whole).unwrap_or(first);
    u32::try_from(line[..at].chars().count() + 1).ok()
}

fn offset_of_pointer(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

fn offset_of(text: &str, place: LineColumn) -> Option<usize> {
    // A place behind the last line end is one for servers, and an empty text has one line.
    let index = usize::try_from(place.line).ok()?.checked_sub(1)?;
    let whole = text.split('\n').nth(index)?;
    let shown = whole.strip_suffix('\r').unwrap_or(whole);
    let column = usize::try_from(place.column).ok()?.max(1) - 1;
    let within = shown.char_indices().nth(column).map_or(shown.len(), |(at, _)| at);
    Some(offset_of_pointer(text, whole) + within)
}

fn line_column_at(text: &str, offset: usize) -> LineColumn {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before[line_start..].chars().count() + 1;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    LineColumn { line: count(line), column: count(column) }
}

/// Where the last line of a text begins for the protocol.
fn protocol_line_start(text: &str) -> usize {
    text.rfind(['\n', '\r']).map_or(0, |at| at + 1)
}

/// The line ends of the protocol: `\n`, `\r\n` and `\r`.
fn protocol_line_ends(text: &str) -> usize {
    let bytes = text.as_bytes();
    let ends = |(at, byte): (usize, &u8)| match byte {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    bytes.iter().enumerate().filter(|it| ends(*it)).count()
}

fn start_of_protocol_line(text: &str, line: u32) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut lines) = (0, 0);
    while lines < line {
        let Some(found) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) else { return text.len() };
        let is_pair = bytes[at + found..].starts_with(b"\r\n");
        at += found + if is_pair { 2 } else { 1 };
        lines += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "one\r\nx = \"\u{1f600}\u{e9}\"; y\n\n\u{4e2d}\u{6587}\rlone\nlast";

    #[track_caller]
    fn check(line: u32, column: u32, expected: [(u32, u32); 3]) {
        let place = LineColumn { line, column };
        let encodings = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32];
        let positions = encodings.map(|encoding| encoding.to_protocol(TEXT, place).unwrap());
        assert_eq!(positions.map(|it| (it.line, it.character)), expected);
        for (encoding, position) in encodings.iter().zip(positions) {
            let back = encoding.to_line_column(TEXT, position);
            let again = encoding.to_protocol(TEXT, back).unwrap();
            assert_eq!((again.line, again.character), (position.line, position.character));
        }
    }

    #[test]
    fn characters_are_counted_in_the_units_of_the_server() {
        check(1, 1, [(0, 0); 3]);
        check(1, 3, [(0, 2); 3]);
        check(2, 6, [(1, 5); 3]);
        // Behind the character that takes two units.
        check(2, 7, [(1, 9), (1, 7), (1, 6)]);
        check(2, 8, [(1, 11), (1, 8), (1, 7)]);
        check(3, 1, [(2, 0); 3]);
        // The protocol sees a line more than Read.
        check(4, 4, [(4, 0); 3]);
        check(5, 1, [(5, 0); 3]);
    }

    #[test]
    fn past_the_end_of_a_line_is_its_end() {
        check(1, 4, [(0, 3); 3]);
        check(1, 900, [(0, 3); 3]);
        check(3, u32::MAX, [(2, 0); 3]);
        check(5, 77, [(5, 4); 3]);
        assert!(Encoding::Utf16.to_protocol(TEXT, LineColumn { line: 6, column: 1 }).is_none());
        assert!(Encoding::Utf16.to_protocol(TEXT, LineColumn { line: 0, column: 1 }).is_none());
        assert!(Encoding::Utf16.to_protocol("", LineColumn { line: 1, column: 1 }).is_some());
    }

    #[test]
    fn a_place_of_a_server_is_never_outside_of_the_text() {
        let at = |line, character| {
            let place = Encoding::Utf16.to_line_column(TEXT, Position { line, character });
            (place.line, place.column)
        };
        assert_eq!(at(1, 6), (2, 6), "within a character");
        assert_eq!(at(1, 7), (2, 7));
        assert_eq!(at(0, 400), (1, 4));
        assert_eq!(at(4, 1), (4, 5), "a lone carriage return ends no line of Read's");
        assert_eq!(at(u32::MAX, u32::MAX), (5, 5));
        assert_eq!(Encoding::Utf8.to_line_column("", Position::new(3, 3)).line, 1);
    }

    #[test]
    fn lines_are_those_that_read_prints() {
        let lines: Vec<_> = (0..7).map(|number| line(TEXT, number)).collect();
        let second = Some("x = \"\u{1f600}\u{e9}\"; y");
        let fourth = Some("\u{4e2d}\u{6587}\rlone");
        assert_eq!(lines, [None, Some("one"), second, Some(""), fourth, Some("last"), None]);
        assert_eq!((line("a\n", 1), line("a\n", 2), line("", 1)), (Some("a"), None, Some("")));
    }

    #[test]
    fn a_symbol_is_found_as_a_whole_word_first() {
        assert_eq!(column_of("recount(count)", "count"), Some(9));
        assert_eq!(column_of("recount", "count"), Some(3));
        assert_eq!(column_of("\u{1f600} f(x)", "f"), Some(3));
        assert_eq!(column_of("a += 1", "+="), Some(3));
        assert_eq!(column_of("a", "b"), None);
        assert_eq!(column_of("\u{e9}t\u{e9} et", "et"), Some(5));
    }
}
