//! What to tell the model of a text that was not found.

use crate::text;

/// Comparing is a courtesy, so it is bounded.
const MAX_LINES: usize = 20_000;
const MAX_LINE_BYTES: usize = 300;

/// Below this a line resembles nothing in particular.
const MIN_SIMILARITY: f64 = 0.5;

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

/// Whether every line begins as Read shows it: spaces, a number, a tab.
fn has_line_numbers(old: &str) -> bool {
    old.lines().filter(|line| !line.is_empty()).all(|line| {
        line.trim_start().split_once('\t').is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

/// The line of the file most like the first line of the text.
fn nearest_line(content: &[u8], old: &str) -> Option<(usize, String)> {
    let wanted = old.lines().map(without_number).find(|line| !line.is_empty())?;
    let wanted = text::prefix(wanted, MAX_LINE_BYTES);
    let mut nearest = (MIN_SIMILARITY, None);
    for (index, line) in content.split(|byte| *byte == b'\n').take(MAX_LINES).enumerate() {
        let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]);
        let similarity = strsim::sorensen_dice(wanted, line.trim());
        if similarity > nearest.0 {
            nearest = (similarity, Some((index + 1, line.trim().to_owned())));
        }
    }
    nearest.1
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
}
