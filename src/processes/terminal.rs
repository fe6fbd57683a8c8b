//! Removes escape sequences from terminal output.
//!
//! A sequence may be cut anywhere between two pieces. An unfinished one ends with its
//! line, because otherwise it would hide the rest of the output, as it does in a real
//! terminal.

/// The position in a sequence at the end of the last piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TerminalFilter {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte, such as a character set's `(`.
    Intermediate,
    /// In a control sequence: `ESC [ … letter`.
    Control,
    /// In a string such as a window title: `ESC ] … BEL` or `… ESC \`.
    String,
}

impl TerminalFilter {
    /// Appends the visible part of `text` to `out`.
    pub(super) fn push(&mut self, text: &str, out: &mut String) {
        if *self == Self::Text && text.bytes().all(is_certainly_shown) {
            out.push_str(text);
            return;
        }
        let mut rest = text;
        while !rest.is_empty() {
            if *self == Self::Text {
                let end = rest.find(is_hidden).unwrap_or(rest.len());
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            let mut characters = rest.chars();
            if let Some(character) = characters.next() {
                *self = self.after(character);
                if *self == Self::Text && character == '\n' {
                    out.push('\n');
                }
            }
            rest = characters.as_str();
        }
    }

    fn after(self, character: char) -> Self {
        match (self, character) {
            (_, '\u{1b}') => Self::Escape,
            (_, '\n' | '\u{18}' | '\u{1a}') | (Self::String, '\u{7}' | '\u{9c}') => Self::Text,
            (Self::Text, '\u{9b}') | (Self::Escape, '[') | (Self::Control, ' '..='?') => {
                Self::Control
            }
            (Self::Text, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}')
            | (Self::Escape, ']' | 'P' | 'X' | '^' | '_')
            | (Self::String, _) => Self::String,
            (Self::Escape | Self::Intermediate, ' '..='/') => Self::Intermediate,
            (Self::Text | Self::Escape | Self::Intermediate | Self::Control, _) => Self::Text,
        }
    }
}

/// A whole text without escape sequences and control characters.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    TerminalFilter::default().push(text, &mut out);
    out
}

/// Control characters other than those that lay out text.
fn is_hidden(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t' | '\r')
}

/// Whether this byte of a text begins no control character. Most output has no other, and
/// looking at bytes is quicker.
fn is_certainly_shown(byte: u8) -> bool {
    (0x20 <= byte && byte != 0x7f && byte != 0xc2) || matches!(byte, b'\n' | b'\t' | b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(pieces: &[&str]) -> String {
        let (mut state, mut out) = (TerminalFilter::default(), String::new());
        for piece in pieces {
            state.push(piece, &mut out);
        }
        out
    }

    #[test]
    fn takes_out_what_a_terminal_would_not_show() {
        let check = |input, expected| assert_eq!(plain(&[input]), expected, "{input:?}");
        check("\u{1b}[1;31merror\u{1b}[0m: no\tway\r\n", "error: no\tway\r\n");
        check("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b", "ab");
        check("\u{1b}(Ba\u{1b}=b\u{1b}[?25lc\u{9b}2Jd", "abcd");
        check("a\u{8}b\0c\u{7f}d", "abcd");
        check("grün 日本", "grün 日本");
    }

    #[test]
    fn an_unfinished_sequence_ends_with_its_line() {
        assert_eq!(plain(&["a\u{1b}]never\nclosed", "\u{1b}[31\nb"]), "a\nclosed\nb");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_pieces_end(
            text in "[\u{1b}\\[\\]\\\\(;0-9a-cBm\n\u{7}\u{9b}é]{0,40}",
            at in 0usize..40,
        ) {
            let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            prop_assert_eq!(plain(&[&text[..at], &text[at..]]), plain(&[&text]));
        }
    }
}
