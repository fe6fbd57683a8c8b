//! Explains to the model why a text was not found.

mod similarity;

use self::similarity::Pattern;

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
    }
    if let Some((number, line)) = nearest_line(content, old) {
        message = format!("{message}. The nearest line is {number}: `{line}`");
    }
    message
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
fn nearest_line(content: &[u8], old: &str) -> Option<(usize, String)> {
    let lines = old.lines().map(without_number).skip_while(|line| !similarity::has_word(line));
    let mut lines = lines.take(MAX_LINES_COMPARED).map(|line| Pattern::new(shown(line.as_bytes())));
    let mut first = lines.next()?;
    let mut following: Vec<Pattern<'_>> = lines.collect();
    let mut nearest: Option<Candidate<'_>> = None;
    for (number, start, line) in lines_of(content) {
        let line = shown(line);
        let similarity = first.similarity(line);
        if similarity <= MIN_SIMILARITY
            || nearest.as_ref().is_some_and(|nearest| similarity < nearest.rank.similarity)
        {
            continue;
        }
        let shares_word = first.shares_word(line);
        if !shares_word && similarity <= MIN_SIMILARITY_WITHOUT_WORD {
            continue;
        }
        let below = lines_of(&content[start..]).skip(1).zip(&mut following);
        let following = below.map(|((_, _, line), pattern)| pattern.similarity(shown(line))).sum();
        let rank = Rank { similarity, shares_word, following };
        match &mut nearest {
            Some(nearest) if rank < nearest.rank => {}
            Some(nearest) if rank == nearest.rank => nearest.is_ambiguous |= nearest.line != line,
            _ => nearest = Some(Candidate { rank, number, line, is_ambiguous: false }),
        }
    }
    let nearest = nearest.filter(|nearest| !nearest.is_ambiguous)?;
    Some((nearest.number, String::from_utf8_lossy(nearest.line).into_owned()))
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
    let line = line.trim_ascii_start();
    let mut end = line.len().min(MAX_LINE_BYTES);
    // Do not cut a UTF-8 character in two.
    while end < line.len() && end > 0 && line[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    line[..end].trim_ascii_end()
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
        assert_snapshot!(not_found(content, "println!(\"hullo\");"), @r#"old_string was not found. The nearest line is 2: `println!("hello");`"#);
        assert_snapshot!(not_found(content, "     2\t    println!(\"hello\");"), @r#"old_string was not found; it seems to hold Read's line numbers, so leave out the numbers and the tab after them. The nearest line is 2: `println!("hello");`"#);
        assert_snapshot!(not_found(content, "something else"), @"old_string was not found");
    }

    #[test]
    fn the_whole_file_is_searched_for_it() {
        let lines: Vec<String> = (1..=60_000).map(|n| format!("    let value = {n};")).collect();
        let content = [lines.join("\n"), "    let sum = total(&rows);".to_owned()].join("\n");
        assert_snapshot!(not_found(content.as_bytes(), "let sum = totl(&rows);"), @"old_string was not found. The nearest line is 60001: `let sum = total(&rows);`");
        assert_snapshot!(not_found(content.as_bytes(), "let valu = 51234;"), @"old_string was not found. The nearest line is 51234: `let value = 51234;`");
    }

    #[test]
    fn of_lines_that_are_alike_those_that_follow_decide() {
        let content = b"if a {\n    one();\n}\nif a {\n    two();\n}\n";
        assert_snapshot!(not_found(content, "if a {\n    two( );\n}"), @"old_string was not found. The nearest line is 4: `if a {`");
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
        assert!(hint.ends_with("`the needle in question`"), "{hint}");
        let empty = vec![b'\n'; 8 << 20];
        assert_eq!(not_found(&empty, "the needle"), "old_string was not found");
    }
}
