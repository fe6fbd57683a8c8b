//! Finds the files that a text of Markdown imports: `@path`, outside of code.

/// Imports of one text that are looked at.
const MAX_IMPORTS: usize = 100;

/// Signs that end a sentence, not a path.
const PUNCTUATION: [char; 11] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\''];

/// The paths as they are written, in their order, each once.
pub(super) fn imports(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let marker = fence_of(line);
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if closes(open, marker, line) => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let new = outside_spans(line).into_iter().flat_map(paths);
                for path in new {
                    if found.len() < MAX_IMPORTS && !found.contains(&path) {
                        found.push(path);
                    }
                }
            }
        }
    }
    found
}

/// The run of at least three backticks or tildes that a line begins with.
fn fence_of(line: &str) -> Option<&str> {
    let start = line.trim_start_matches(' ');
    let sign = start.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = start.trim_start_matches(sign);
    let run = &start[..start.len() - rest.len()];
    let is_span = sign == '`' && rest.contains('`');
    (line.len() - start.len() < 4 && run.len() >= 3 && !is_span).then_some(run)
}

fn closes(open: &str, marker: &str, line: &str) -> bool {
    open.chars().next() == marker.chars().next()
        && open.len() <= marker.len()
        && line.trim() == marker
}

/// The parts of a line that stand in no code span.
fn outside_spans(line: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), line);
    while let Some(start) = rest.find('`') {
        let behind = rest[start..].trim_start_matches('`');
        let run = &rest[start..rest.len() - behind.len()];
        parts.push(&rest[..start]);
        // A run without another one of its length is plain text.
        rest = after_run(behind, run).unwrap_or(behind);
    }
    parts.push(rest);
    parts
}

/// What follows the next run of exactly these backticks.
fn after_run<'a>(text: &'a str, run: &str) -> Option<&'a str> {
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let behind = rest[start..].trim_start_matches('`');
        if rest.len() - start - behind.len() == run.len() {
            return Some(behind);
        }
        rest = behind;
    }
    None
}

fn paths(part: &str) -> impl Iterator<Item = &str> {
    let words = part.split_whitespace().filter_map(|word| word.strip_prefix('@'));
    words.map(|path| path.trim_end_matches(PUNCTUATION)).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(imports(text), expected);
    }

    #[test]
    fn a_path_stands_behind_a_sign_of_its_own() {
        check(
            "See @docs/a.md, @~/b.md and @/c (@d). me@example.com",
            &["docs/a.md", "~/b.md", "/c"],
        );
        check("- @a.md\n- @a.md\n@ b @.", &["a.md"]);
        assert_eq!(imports(&"@x ".repeat(10)).len(), 1);
        let many: String =
            (0..200).flat_map(|at| ["@".to_owned(), at.to_string(), " ".to_owned()]).collect();
        assert_eq!(imports(&many).len(), MAX_IMPORTS);
    }

    #[test]
    fn code_imports_nothing() {
        check("`@a` ``@b ` @c`` @d `@e", &["d", "e"]);
        check("```\n@a\n```\n@b\n~~~~ sh\n@c\n~~~\n@d\n~~~~\n@e", &["b", "e"]);
        check("```\n@a\n~~~\n@b", &[]);
        check("```one line``` @a", &["a"]);
    }
}
