//! Writes foreign text into Markdown for people, so that it can neither break out nor hide.

use std::fmt::Write as _;

use crate::text::one_line;

/// `text` in a fence that nothing in it can close. Characters that cannot be seen are escaped.
pub(crate) fn fence(language: &str, text: &str) -> String {
    let text = visible(text, true);
    let ticks = "`".repeat(longest_run(&text, '`').max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{ticks}{language}\n{text}{end}{ticks}\n")
}

/// `text` as code within a line.
pub(crate) fn code(text: &str) -> String {
    let text = visible(text, false);
    if text.is_empty() {
        return "(empty)".to_owned();
    }
    let ticks = "`".repeat(longest_run(&text, '`') + 1);
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
    for c in visible(&line, false).chars() {
        if matches!(c, '[' | '<') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// `text` with all that cannot be seen escaped. Line ends and tabs stay where `is_block` is set.
fn visible(text: &str, is_block: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' if is_block => shown.push(c),
            _ if is_hidden(c) => {
                let _ = write!(shown, "{}", c.escape_default());
            }
            _ => shown.push(c),
        }
    }
    shown
}

/// Whether a reader would not see the character, or take it for a plain space.
fn is_hidden(c: char) -> bool {
    let is_foreign_space = c != ' ' && c.is_whitespace();
    c.is_control()
        || is_foreign_space
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
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
        assert_snapshot!(code("a\nb"), @r"`a\nb`");
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
