//! Converts line ends between `\n` and `\r\n`, and to those of another text.

use std::borrow::Cow;

/// Gives `text` the line ends that most lines of `model` have. Leaves it unchanged if `model`
/// has no line ends.
pub(crate) fn like<'a>(model: &str, text: &'a str) -> Cow<'a, str> {
    let all = model.matches('\n').count();
    let long = model.matches("\r\n").count();
    match () {
        () if all == 0 => Cow::Borrowed(text),
        () if long * 2 > all => Cow::Owned(with_returns(text)),
        () => without_returns(text),
    }
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
    }
}
