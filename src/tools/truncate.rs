//! Cuts an answer that is too long for the model, at line ends where possible.

use super::tool::Truncation;
use crate::text;

/// With `HeadAndTail`, one part in this many is the head.
const HEAD_SHARE: usize = 2;

/// Shortens `text` to at most `max_chars` characters, plus a note on what was left out.
pub(crate) fn cap(text: String, max_chars: usize, truncation: Truncation) -> String {
    // There are never more characters than bytes, so a short text needs no counting.
    if text.len() <= max_chars {
        return text;
    }
    let chars = text.chars().count();
    if chars <= max_chars {
        return text;
    }
    let (head, tail) = match truncation {
        Truncation::Head => (head(&text, max_chars), ""),
        Truncation::HeadAndTail => {
            let head_chars = max_chars / HEAD_SHARE;
            (head(&text, head_chars), tail(&text, max_chars - head_chars))
        }
    };
    let left_out = chars - head.chars().count() - tail.chars().count();
    let note = format!("[… {left_out} characters left out; ask for less at a time …]");
    [head, &note, tail].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The first `chars` characters, without a line that would be cut in two.
fn head(text: &str, chars: usize) -> &str {
    let cut = text::first_chars(text, chars);
    if text[cut.len()..].starts_with('\n') {
        return cut;
    }
    let lines = text::whole_lines_of_head(cut);
    lines.strip_suffix('\n').unwrap_or(lines)
}

/// The last `chars` characters, without a line that would be cut in two.
fn tail(text: &str, chars: usize) -> &str {
    let cut = text::last_chars(text, chars);
    if text[..text.len() - cut.len()].ends_with('\n') {
        return cut;
    }
    text::whole_lines_of_tail(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, max: usize, truncation: Truncation, expected: &str) {
        assert_eq!(cap(text.to_owned(), max, truncation), expected);
    }

    #[test]
    fn leaves_short_answers_alone() {
        check("äöü", 3, Truncation::Head, "äöü");
        check("", 0, Truncation::HeadAndTail, "");
    }

    #[test]
    fn cuts_at_the_border_of_a_line() {
        let note = |n| format!("[… {n} characters left out; ask for less at a time …]");
        check("one\ntwo\nthree", 8, Truncation::Head, &format!("one\ntwo\n{}", note(6)));
        check("one\ntwo\nthree", 7, Truncation::Head, &format!("one\ntwo\n{}", note(6)));
        check("one\ntwo\nthree", 6, Truncation::Head, &format!("one\n{}", note(10)));
        check("1\n2\n3\n4\n5", 6, Truncation::HeadAndTail, &format!("1\n2\n{}\n4\n5", note(3)));
    }

    #[test]
    fn cuts_inside_a_line_where_there_is_no_border_or_it_is_far() {
        check(
            "éééé",
            2,
            Truncation::Head,
            "éé\n[… 2 characters left out; ask for less at a time …]",
        );
        check(
            "a\nbbbbbbbb",
            6,
            Truncation::Head,
            "a\nbbbb\n[… 4 characters left out; ask for less at a time …]",
        );
        let both = "aa\n[… 2 characters left out; ask for less at a time …]\nbb";
        check("aaaabb", 4, Truncation::HeadAndTail, both);
    }
}
