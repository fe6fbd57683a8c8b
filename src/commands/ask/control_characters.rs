//! Shows the control characters in foreign text, instead of sending them to a terminal.
//!
//! Escape sequences can rewrite the screen, set the clipboard or fake a prompt, and
//! characters that change the direction of writing can disguise a command.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with its control characters shown. Line breaks and tabs stay.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| is_unsafe(c) && !is_layout(c)) {
        Cow::Owned(escaped(text, is_layout))
    } else {
        Cow::Borrowed(text)
    }
}

/// The same as one line: line breaks and tabs are shown too.
pub(super) fn in_one_line(text: &str) -> String {
    escaped(text, |_| false)
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_kept(c) || !is_unsafe(c) => out.push(c),
            '\n' => out.push_str(r"\n"),
            '\t' => out.push_str(r"\t"),
            c if u32::from(c) < 0x100 => _ = write!(out, r"\x{:02x}", u32::from(c)),
            c => _ = write!(out, r"\u{{{:x}}}", u32::from(c)),
        }
    }
    out
}

fn is_layout(c: char) -> bool {
    matches!(c, '\n' | '\t')
}

/// C0, DEL and C1; marks and overrides of direction; separators of lines.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{206f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_shown() {
        let check = |text: &str, kept: &str, one_line: &str| {
            assert_eq!(shown(text), kept);
            assert_eq!(in_one_line(text), one_line);
        };
        check("für\t→ 東京 👩‍🔬\n", "für\t→ 東京 👩‍🔬\n", r"für\t→ 東京 👩‍🔬\n");
        check("\x1b[2Jx", r"\x1b[2Jx", r"\x1b[2Jx");
        check("\x00\x07\x08\r\x7f", r"\x00\x07\x08\x0d\x7f", r"\x00\x07\x08\x0d\x7f");
        check("\u{9b}2J\u{85}", r"\x9b2J\x85", r"\x9b2J\x85");
        check(
            "a\u{202e}b\u{2066}\u{200f}",
            r"a\u{202e}b\u{2066}\u{200f}",
            r"a\u{202e}b\u{2066}\u{200f}",
        );
    }

    #[test]
    fn no_text_reaches_the_terminal_with_a_control_character() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        assert!(!shown(&all).chars().any(|c| c.is_control() && !is_layout(c)));
        assert!(!in_one_line(&all).chars().any(is_unsafe));
    }
}
