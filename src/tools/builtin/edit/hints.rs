//! Explains to the model why a text was not found.

mod similarity;

use std::borrow::Cow;

use self::similarity::Pattern;
use crate::look_alike::{Difference, LooseMatches, folded, has_unseen, visible};

/// Bytes of a line that are compared and quoted.
const MAX_LINE_BYTES: usize = 300;

/// Lines below this similarity are not suggested.
const MIN_SIMILARITY: f64 = 0.5;

/// The same for a line that shares no word with the text: the similarity may be chance.
const MIN_SIMILARITY_WITHOUT_WORD: f64 = 0.7;

/// Lines of the text that are compared. Those after the first decide between equally similar
/// lines of the file.
const MAX_LINES_COMPARED: usize = 8;

pub(super) fn not_found(content: &[u8], old: &str) -> String {
    let mut message = "old_string was not found".to_owned();
    if has_line_numbers(old) {
        message.push_str(
            "; it seems to hold Read's line numbers, so leave out the numbers and the tab after them",
        );
        if let Some((number, _, line)) = nearest_line(content, old) {
            message = format!("{message}. The nearest line is {number}: `{line}`");
        }
        return message;
    }
    if let Some(found) = LooseMatches::find(content, old) {
        let difference = place_of_difference(content, found.first, old);
        if let Some((difference, line)) = difference {
            let quoted = quoted(&difference, &line);
            message = format!("{message}. {quoted}. It nearly matches: {}", in_words(&difference));
        }
        if found.count > 1 {
            message = format!("{message}. {} places nearly match", found.count);
        }
        return message;
    }
    if let Some((number, start, line)) = nearest_line(content, old) {
        message = format!("{message}. The nearest line is {number}: `{line}`");
        let compared = old.lines().find(|line| similarity::has_word(line)).unwrap_or(old);
        let from = compared.as_ptr() as usize - old.as_ptr() as usize;
        if let Some((difference, line)) = place_of_difference(content, start, &old[from..]) {
            message = format!("{message}. The first difference: {}", in_words(&difference));
            if difference.line == number && has_unseen(&line) {
                message = format!("{message}. As a JSON string, the line is {}", visible(&line));
            }
        }
    }
    message
}

fn in_words(difference: &Difference) -> String {
    let (line, column) = (difference.line, difference.column);
    let between = difference.between("the file", "old_string");
    format!("line {line}, column {column}: {between}")
}

/// Names the line of a difference and shows it: as a JSON string, where not all of it can be seen.
fn quoted(difference: &Difference, line: &str) -> String {
    let number = difference.line;
    let is_indented_otherwise =
        line.chars().take(difference.column).all(|c| matches!(c, ' ' | '\t'));
    if is_indented_otherwise || has_unseen(line) {
        format!("The nearest line is {number}, as a JSON string: {}", visible(line))
    } else {
        format!("The nearest line is {number}: `{line}`")
    }
}

/// The first difference of the file, from a match that begins at `start`, and the old text; with
/// the line of the file that has it. Blanks at the beginning of a line count only if nothing else
/// differs.
fn place_of_difference(content: &[u8], start: usize, old: &str) -> Option<(Difference, String)> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let without_blanks = old.trim_start_matches([' ', '\t']);
    let skipped = content[start..].iter().take_while(|byte| is_blank(byte)).count();
    let blanks_before = content[..start].iter().rev().take_while(|byte| is_blank(byte)).count();
    compared(content, start + skipped, without_blanks)
        .or_else(|| compared(content, start - blanks_before, old))
}

fn compared(content: &[u8], start: usize, old: &str) -> Option<(Difference, String)> {
    let line_start = memchr::memrchr(b'\n', &content[..start]).map_or(0, |end| end + 1);
    let line = memchr::memchr_iter(b'\n', &content[..line_start]).count() + 1;
    let column = String::from_utf8_lossy(&content[line_start..start]).chars().count() + 1;
    // What looks the same takes at most some more bytes.
    let end = content.len().min(start.saturating_add(old.len().saturating_mul(4) + MAX_LINE_BYTES));
    let there = String::from_utf8_lossy(&content[start..end]);
    let difference = Difference::find((&there, old), (line, column))?;
    let (_, _, line) = lines_of(&content[line_start..]).nth(difference.line - line)?;
    let shown = String::from_utf8_lossy(prefix(line)).into_owned();
    Some((difference, shown))
}

/// Whether every line begins with spaces, a number and a tab, as in an answer of Read.
fn has_line_numbers(old: &str) -> bool {
    old.lines().filter(|line| !line.is_empty()).all(|line| {
        line.trim_start().split_once('\t').is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

/// A line of the file, and how similar it is.
struct Candidate<'a> {
    rank: Rank,
    number: usize,
    /// Where it begins in the file.
    start: usize,
    line: &'a [u8],
    /// Whether a line with another text has the same rank.
    is_ambiguous: bool,
}

/// Ranks are compared field by field, in this order.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Rank {
    similarity: f64,
    shares_word: bool,
    /// The summed similarity of the following lines.
    following: f64,
}

/// The line of the file most similar to the first line of the text that has a word. `None` if
/// several different lines have the best rank. Reads the file once.
fn nearest_line(content: &[u8], old: &str) -> Option<(usize, usize, String)> {
    let lines = old.lines().map(without_number).skip_while(|line| !similarity::has_word(line));
    let lines: Vec<Cow<'_, str>> = lines.take(MAX_LINES_COMPARED).map(folded).collect();
    let mut lines = lines.iter().map(|line| Pattern::new(shown(line.as_bytes())));
    let mut first = lines.next()?;
    let mut following: Vec<Pattern<'_>> = lines.collect();
    let mut nearest: Option<Candidate<'_>> = None;
    for (number, start, line) in lines_of(content) {
        let line = shown(line);
        let seen = folded_line(line);
        let similarity = first.similarity(&seen);
        if similarity <= MIN_SIMILARITY
            || nearest.as_ref().is_some_and(|nearest| similarity < nearest.rank.similarity)
        {
            continue;
        }
        let shares_word = first.shares_word(&seen);
        if !shares_word && similarity <= MIN_SIMILARITY_WITHOUT_WORD {
            continue;
        }
        let below = lines_of(&content[start..]).skip(1).zip(&mut following);
        let following = below
            .map(|((_, _, line), pattern)| pattern.similarity(&folded_line(shown(line))))
            .sum();
        let rank = Rank { similarity, shares_word, following };
        match &mut nearest {
            Some(nearest) if rank < nearest.rank => {}
            Some(nearest) if rank == nearest.rank => nearest.is_ambiguous |= nearest.line != line,
            _ => nearest = Some(Candidate { rank, number, start, line, is_ambiguous: false }),
        }
    }
    let nearest = nearest.filter(|nearest| !nearest.is_ambiguous)?;
    let line = String::from_utf8_lossy(nearest.line).into_owned();
    Some((nearest.number, nearest.start, line))
}

/// The line as a reader sees it.
fn folded_line(line: &[u8]) -> Cow<'_, [u8]> {
    match str::from_utf8(line).map(folded) {
        Ok(Cow::Owned(folded)) => Cow::Owned(folded.into_bytes()),
        _ => Cow::Borrowed(line),
    }
}

/// Each line with its number and its offset.
fn lines_of(content: &[u8]) -> impl Iterator<Item = (usize, usize, &[u8])> {
    let mut next = 0;
    content.split(|byte| *byte == b'\n').enumerate().map(move |(index, line)| {
        let start = next;
        next += line.len() + 1;
        (index + 1, start, line)
    })
}

/// The part of a line that is compared and quoted, trimmed.
fn shown(line: &[u8]) -> &[u8] {
    prefix(line.trim_ascii_start()).trim_ascii_end()
}

/// The beginning of a line, as much of it as is quoted.
fn prefix(line: &[u8]) -> &[u8] {
    let mut end = line.len().min(MAX_LINE_BYTES);
    // Do not cut a UTF-8 character in two.
    while end < line.len() && end > 0 && line[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &line[..end]
}

fn without_number(line: &str) -> &str {
    match line.trim_start().split_once('\t') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest.trim(),
        _ => line.trim(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn points_at_the_nearest_line() {
        let content = b"fn main() {\n    println!(\"hello\");\n}\n";
        assert_snapshot!(not_found(content, "println!(\"hullo\");"), @r#"old_string was not found. The nearest line is 2: `println!("hello");`. The first difference: line 2, column 16: the file has U+0065 (e) where old_string has U+0075 (u)"#);
        assert_snapshot!(not_found(content, "     2\t    println!(\"hello\");"), @r#"old_string was not found; it seems to hold Read's line numbers, so leave out the numbers and the tab after them. The nearest line is 2: `println!("hello");`"#);
        assert_snapshot!(not_found(content, "something else"), @"old_string was not found");
    }

    #[test]
    fn files_6c_what_nearly_matches_is_shown_with_the_difference() {
        let content =
            "def f():   \n    cafe\u{301} = 1\n    x :=\t1\n  fo\u{200b}o(A)\n".as_bytes();
        assert_snapshot!(not_found(content, "def f():\n    caf"), @r#"old_string was not found. The nearest line is 1, as a JSON string: "def f():\u0020\u0020\u0020". It nearly matches: line 1, column 9: the file has U+0020 (space) where old_string has a line end"#);
        assert_snapshot!(not_found(content, "x := 1"), @r#"old_string was not found. The nearest line is 3, as a JSON string: "    x :=\t1". It nearly matches: line 3, column 9: the file has U+0009 (tab) where old_string has U+0020 (space)"#);
        assert_snapshot!(not_found(content, "foo(A)"), @r#"old_string was not found. The nearest line is 4, as a JSON string: "  fo\u200bo(A)". It nearly matches: line 4, column 5: the file has U+200B (zero-width space) where old_string has U+006F (o)"#);
        assert_snapshot!(not_found(content, "FO\u{200b}o(A)"), @r#"old_string was not found. The nearest line is 4, as a JSON string: "  fo\u200bo(A)". It nearly matches: line 4, column 3: the file has U+0066 (f) where old_string has U+0046 (F)"#);
        let told = not_found(content, "caf\u{e9} = 1");
        assert!(told.contains(r#""    cafe\u0301 = 1""#), "{told}");
        assert!(told.contains("line 2, column 8: the file has U+0065 U+0301"), "{told}");
        let twice = not_found("it\u{2019}s\nit\u{2019}s\n".as_bytes(), "it's");
        assert_snapshot!(twice, @"old_string was not found. The nearest line is 1: `it’s`. It nearly matches: line 1, column 3: the file has U+2019 (’) where old_string has U+0027 ('). 2 places nearly match");
        let tab = not_found(b"\ta b\n\ta b\n", "    a b\n");
        assert_snapshot!(tab, @r#"old_string was not found. The nearest line is 1, as a JSON string: "\ta b". It nearly matches: line 1, column 1: the file has U+0009 (tab) where old_string has U+0020 (space). 2 places nearly match"#);
    }

    #[test]
    fn the_whole_file_is_searched_for_it() {
        let lines: Vec<String> = (1..=60_000).map(|n| format!("    let value = {n};")).collect();
        let content = [lines.join("\n"), "    let sum = total(&rows);".to_owned()].join("\n");
        assert_snapshot!(not_found(content.as_bytes(), "let sum = totl(&rows);"), @"old_string was not found. The nearest line is 60001: `let sum = total(&rows);`. The first difference: line 60001, column 18: the file has U+0061 (a) where old_string has U+006C (l)");
        assert_snapshot!(not_found(content.as_bytes(), "let valu = 51234;"), @"old_string was not found. The nearest line is 51234: `let value = 51234;`. The first difference: line 51234, column 13: the file has U+0065 (e) where old_string has U+0020 (space)");
    }

    #[test]
    fn of_lines_that_are_alike_those_that_follow_decide() {
        let content = b"if a {\n    one();\n}\nif a {\n    two();\n}\n";
        assert_snapshot!(not_found(content, "if a {\n    two( );\n}"), @"old_string was not found. The nearest line is 4: `if a {`. The first difference: line 5, column 9: the file has U+0029 ()) where old_string has U+0020 (space)");
    }

    #[test]
    fn no_line_is_named_rather_than_a_wrong_one() {
        let content = b"first = compute(1)\nfirst = compute(2)\nfirst = compute(3)\n";
        assert_snapshot!(not_found(content, "first = compute(7)"), @"old_string was not found");
        let content = "})();\n".repeat(100) + "});\n";
        assert_snapshot!(not_found(content.as_bytes(), "});)"), @"old_string was not found");
        assert_snapshot!(not_found("x\ny\n".as_bytes(), "{"), @"old_string was not found");
    }

    #[test]
    fn a_large_file_is_searched_in_one_pass() {
        let rows = b"abcdefgh ijklmnop qrstuvwx yz\n".repeat((8 << 20) / 30);
        let content = [&rows[..], b"the needle in question\n"].concat();
        let hint = not_found(&content, "the needel in question");
        assert!(hint.contains("`the needle in question`"), "{hint}");
        let empty = vec![b'\n'; 8 << 20];
        assert_eq!(not_found(&empty, "the needle"), "old_string was not found");
    }
}
