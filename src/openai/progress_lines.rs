//! The lines that tell, in a stream's reasoning, what the tools do.
//!
//! They are for people. A frontend may send them back; then they are recognised
//! and taken out, so that no model ever reads (and imitates) them.

use std::time::Duration;

const STARTED: &str = "→ ";
const ENDED: &str = "✓ ";
const FAILED: &str = "✗ ";

/// What a line shows of a headline, in characters.
const SHOWN: usize = 120;

pub(crate) fn started(tool: &str, headline: &str) -> String {
    format!("{STARTED}{}\n", subject(tool, headline))
}

pub(crate) fn ended(tool: &str, headline: &str, duration: Duration, chars: usize) -> String {
    format!("{ENDED}{} ({}, {chars} characters)\n", subject(tool, headline), elapsed(duration))
}

pub(crate) fn failed(tool: &str, headline: &str, error: &str) -> String {
    format!("{FAILED}{}: {}\n", subject(tool, headline), one_line(error))
}

/// `reasoning` without our lines.
pub(crate) fn removed(reasoning: &str) -> String {
    let is_ours = |line: &&str| [STARTED, ENDED, FAILED].iter().any(|mark| line.starts_with(mark));
    reasoning.split_inclusive('\n').filter(|line| !is_ours(line)).collect()
}

fn subject(tool: &str, headline: &str) -> String {
    let headline = one_line(headline);
    if headline.is_empty() { tool.to_owned() } else { format!("{tool} {headline}") }
}

fn one_line(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN + 1).collect();
    match line.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", line[..cut].trim()),
        None => line.trim().to_owned(),
    }
}

fn elapsed(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(started("Bash", "echo a\necho b"), "→ Bash echo a echo b\n");
        assert_eq!(started("Glob", ""), "→ Glob\n");
        assert_eq!(
            started("Bash", &"x".repeat(500)).chars().count(),
            "→ Bash …\n".chars().count() + 120
        );
        let duration = Duration::from_millis(1234);
        assert_eq!(ended("Read", "a.rs", duration, 7), "✓ Read a.rs (1.2 s, 7 characters)\n");
        assert_eq!(failed("Read", "a.rs", "no\nfile"), "✗ Read a.rs: no file\n");
    }

    #[test]
    fn our_lines_are_taken_out_and_nothing_else() {
        let reasoning = "I think\n→ Read a.rs\n✗ Read a.rs: none\nso → be it\n✓ Read";
        assert_eq!(removed(reasoning), "I think\nso → be it\n");
    }
}
