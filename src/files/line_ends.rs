//! Converts line ends between `\n`, `\r\n` and, of texts that have no other, `\r`; and to those of
//! another text.

use std::borrow::Cow;

use memchr::memchr;

/// Gives `text` the line ends that most lines of `model` have. Leaves it unchanged if `model`
/// has no line ends.
pub(crate) fn like<'a>(model: &str, text: &'a str) -> Cow<'a, str> {
    let all = model.matches('\n').count();
    let long = model.matches("\r\n").count();
    match () {
        () if are_returns(model.as_bytes()) => {
            Cow::Owned(without_returns(text).replace('\n', "\r"))
        }
        () if all == 0 => Cow::Borrowed(text),
        () if long * 2 > all => Cow::Owned(with_returns(text)),
        () => without_returns(text),
    }
}

/// Whether the lines of a text end at `\r` alone. Where there is a `\n`, a `\r` is part of its line.
pub(crate) fn are_returns(text: &[u8]) -> bool {
    memchr(b'\n', text).is_none() && memchr(b'\r', text).is_some()
}

/// A text with each `\r` as a `\n`.
pub(crate) fn feeds_for_returns(text: &[u8]) -> Vec<u8> {
    exchanged(text, b'\r', b'\n')
}

/// A text with each `\n` as a `\r`.
pub(crate) fn returns_for_feeds(text: &[u8]) -> Vec<u8> {
    exchanged(text, b'\n', b'\r')
}

fn exchanged(text: &[u8], from: u8, to: u8) -> Vec<u8> {
    text.iter().map(|byte| if *byte == from { to } else { *byte }).collect()
}

/// Converts every line end to `\n`.
pub(crate) fn without_returns(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Converts every line end to `\r\n`.
pub(crate) fn with_returns(text: &str) -> String {
    without_returns(text).replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gets_the_line_ends_of_another() {
        assert_eq!(like("a\r\nb\r\nc\n", "x\ny\r\nz"), "x\r\ny\r\nz");
        assert_eq!(like("a\nb\n", "x\r\ny\n"), "x\ny\n");
        assert_eq!(like("a", "x\r\ny\n"), "x\r\ny\n");
        assert_eq!(like("a\rb\r", "x\r\ny\nz"), "x\ry\rz");
        assert_eq!(like("a\rb\n", "x\ny"), "x\ny");
    }
}
