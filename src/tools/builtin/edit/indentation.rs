//! The one fallback of a match: whole lines that differ in their indentation only.

use std::collections::HashMap;

/// Where the lines were found, and the new text indented like them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) new: String,
}

/// The one place in `content` (line ends folded) where `old` stands but for its
/// indentation; `None` where there is none, several, or the indentation follows no rule.
pub(super) fn find(content: &[u8], old: &str, new: &str) -> Option<Found> {
    let ends_line = old.ends_with('\n');
    let wanted: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    if wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let lines = lines_of(content);
    let is_match = |window: &&[Line<'_>]| {
        window.iter().zip(&wanted).all(|(line, wanted)| line.is_like(wanted))
    };
    let mut matches = lines.windows(wanted.len()).filter(is_match);
    let window = matches.next()?;
    if matches.next().is_some() {
        return None;
    }
    let (first, last) = (window.first()?, window.last()?);
    if ends_line && last.end == content.len() {
        return None;
    }
    let indents = Indents::between(&wanted, window)?;
    let end = last.end + usize::from(ends_line);
    let new = new.split('\n').map(|line| indents.apply(line)).collect::<Vec<_>>().join("\n");
    Some(Found { start: first.start, length: end - first.start, new })
}

/// A line of the file, without its end.
struct Line<'a> {
    start: usize,
    end: usize,
    text: &'a [u8],
}

fn lines_of(content: &[u8]) -> Vec<Line<'_>> {
    let mut start = 0;
    content
        .split(|byte| *byte == b'\n')
        .map(|text| {
            let line = Line { start, end: start + text.len(), text };
            start = line.end + 1;
            line
        })
        .collect()
}

impl Line<'_> {
    fn is_like(&self, wanted: &str) -> bool {
        let [mine, theirs] =
            [self.text, wanted.as_bytes()].map(|line| line.split_at(indent(line)).1);
        mine == theirs
    }
}

/// Spaces and tabs at the beginning.
fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// What each indentation of the old text is in the file.
struct Indents<'a>(HashMap<&'a str, String>);

impl<'a> Indents<'a> {
    fn between(wanted: &[&'a str], found: &[Line<'_>]) -> Option<Self> {
        let mut indents = HashMap::new();
        for (wanted, line) in wanted.iter().zip(found) {
            if wanted.trim().is_empty() {
                continue;
            }
            let mine = &wanted[..indent(wanted.as_bytes())];
            let theirs = String::from_utf8_lossy(&line.text[..indent(line.text)]).into_owned();
            if indents.insert(mine, theirs.clone()).is_some_and(|before| before != theirs) {
                return None;
            }
        }
        Some(Self(indents))
    }

    fn apply(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        let (mine, rest) = line.split_at(indent(line.as_bytes()));
        // Deeper than any line that was matched: what is more is kept.
        let known = (0..=mine.len()).rev().find_map(|length| {
            self.0.get(&mine[..length]).map(|theirs| format!("{theirs}{}", &mine[length..]))
        });
        format!("{}{rest}", known.as_deref().unwrap_or(mine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, (old, new): (&str, &str), expected: Option<(&str, &str)>) {
        let found = find(content.as_bytes(), old, new);
        let found = found
            .as_ref()
            .map(|found| (&content[found.start..found.start + found.length], found.new.as_str()));
        assert_eq!(found, expected);
    }

    #[test]
    fn indents_the_new_text_like_the_lines_it_replaces() {
        check(
            "fn a() {\n\tif b {\n\t\tc();\n\t}\n}\n",
            ("if b {\n    c();\n}", "if b {\n    d();\n    e();\n}"),
            Some(("\tif b {\n\t\tc();\n\t}", "\tif b {\n\t\td();\n\t\te();\n\t}")),
        );
        check("  a\n  b\n", ("a\nb\n", "c\n"), Some(("  a\n  b\n", "  c\n")));
        check("  a\n", ("    a", "    b\n      c"), Some(("  a", "  b\n    c")));
    }

    #[test]
    fn does_not_guess() {
        check(" a\n  a\n", ("\ta", "b"), None);
        check(" a\n  b\n", ("\ta\n\tb", "c"), None);
        check(" ab\n", ("\ta", "b"), None);
        check(" \n", ("\t", "b"), None);
        check("  a", ("a\n", "b"), None);
    }
}
