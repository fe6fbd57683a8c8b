//! Writes foreign text into Markdown for people, so that it can neither break out nor hide.

use std::path::Path;

use self::columns::{TextKind, in_columns};
pub(crate) use self::quote::quote;
use self::visible::counted_blanks;
pub(crate) use self::visible::is_reordered;
use crate::text::{first_chars, one_line, printable_path};

mod columns;
mod quote;
mod visible;

/// `text` in a fence that nothing in it can close, in lines that are shown whole. Characters that
/// cannot be seen are escaped.
pub(crate) fn fence(language: &str, text: &str) -> String {
    let text = in_columns(text, TextKind::of_language(language));
    let ticks = "`".repeat(longest_run(&text, '`').max(2) + 1);
    format!("{ticks}{language}\n{text}{ticks}\n")
}

/// `text` as code within a line.
pub(crate) fn code(text: &str) -> String {
    in_ticks(&plain(text))
}

/// Like [`code`], cut to `max` characters with a note that it is cut.
pub(crate) fn code_within(text: &str, max: usize) -> String {
    in_ticks(&cut_to(plain(text), max, CUT))
}

/// A text that is shown as it is, as code within a line.
fn in_ticks(text: &str) -> String {
    if text.is_empty() {
        return "(empty)".to_owned();
    }
    let ticks = "`".repeat(longest_run(text, '`') + 1);
    // A space keeps ticks at the ends apart from the delimiters, and a reader removes it. It
    // removes one as well where the text has spaces at both ends.
    let has_edge = |c| text.starts_with(c) || text.ends_with(c);
    let space = if has_edge('`') || has_edge(' ') { " " } else { "" };
    format!("{ticks}{space}{text}{space}{ticks}")
}

/// `text` as one line, in which nothing can become a link, a picture or HTML.
pub(crate) fn line(text: &str) -> String {
    let line = one_line(text);
    let mut escaped = String::with_capacity(line.len());
    for c in visible::visible(&line).chars() {
        if matches!(c, '[' | '<') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// `text` as one line without Markdown, in which all of it can be seen: a page joins blanks, so
/// runs of them are counted.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("  ") {
        let (before, behind) = rest.split_at(at);
        let after = behind.trim_start_matches(' ');
        shown.push_str(&visible::visible(before));
        shown.push_str(&counted_blanks(&behind[..behind.len() - after.len()]));
        rest = after;
    }
    shown.push_str(&visible::visible(rest));
    shown
}

/// Like [`plain`], cut to `max` characters with a note that the message beside it has all of it.
pub(crate) fn plain_within(text: &str, max: usize) -> String {
    cut_to(plain(text), max, CUT_BESIDE_MESSAGE)
}

/// The end of a text that was cut. The brackets are ours alone.
const CUT: &str = "…⟨cut⟩";

/// The same where the text stands in a message as well.
const CUT_BESIDE_MESSAGE: &str = "…⟨cut: the whole stands in the message⟩";

fn cut_to(shown: String, max: usize, note: &str) -> String {
    if shown.chars().count() <= max {
        return shown;
    }
    let left = max.saturating_sub(note.chars().count());
    format!("{}{note}", first_chars(&shown, left))
}

/// A path as code within a line. Bytes that are no text are escaped.
pub(crate) fn path(path: &Path) -> String {
    code(&printable_path(path))
}

fn longest_run(text: &str, wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn nothing_in_a_fence_closes_it() {
        for text in ["x", "```", "a\n````\nb\n```", "~~~\n`````sh\n", ""] {
            let fence = fence("sh", text);
            let ticks = &fence[..fence.find("sh").unwrap()];
            let closing: Vec<_> =
                fence.lines().enumerate().filter(|(_, line)| line.starts_with(ticks)).collect();
            let last = fence.lines().count() - 1;
            assert_eq!(closing.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, last], "{fence}");
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        let text = "a\u{200b}b\u{202e}c\r\n\td\u{1b}[31m\u{a0}e\u{e0041}f\u{feff}\0";
        assert_snapshot!(fence("", text), @r"
        ```
        a\u{200b}b\u{202e}c\r
        	d\u{1b}[31m\u{a0}e\u{e0041}f\u{feff}\u{0}
        ```
        ");
        assert_snapshot!(code("a\nb"), @"`a⏎b`");
        assert_snapshot!(code(r"a\nb⏎c"), @r"`a\nb\u{23ce}c`");
        assert_snapshot!(line("a\n# b ![c](d) <i>"), @r"a # b !\[c](d) \<i>");
    }

    #[test]
    fn code_in_a_line_ends_where_it_ends() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("`a`"), "`` `a` ``");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code(" "), "`   `");
    }
}
