//! `\n` and `\r\n`: telling which a text has, and giving a text those of another.

use std::borrow::Cow;

/// `text` with the line ends that most lines of `model` have; as it is where
/// `model` has none.
pub(crate) fn like<'a>(model: &str, text: &'a str) -> Cow<'a, str> {
    let all = model.matches('\n').count();
    let long = model.matches("\r\n").count();
    match () {
        () if all == 0 => Cow::Borrowed(text),
        () if long * 2 > all => Cow::Owned(with_returns(text)),
        () => without_returns(text),
    }
}

/// With every line end `\n`.
pub(crate) fn without_returns(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// With every line end `\r\n`.
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
