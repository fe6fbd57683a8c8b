//! Writes the progress lines of tools that people see in a stream's reasoning, and removes them
//! from what clients send back.
//!
//! A frontend may send the reasoning back with the history. Then the lines are removed, so that
//! no model reads and imitates them.

use std::time::Duration;

use crate::text::without_hidden;

const STARTED: &str = "→ ";
const ENDED: &str = "✓ ";
const FAILED: &str = "✗ ";
const ASKED: &str = "? ";
/// The beginning of a line about a subagent; its type follows.
const AGENT: &str = "↳ ";
const HOOK: &str = "! a hook says: ";
const LEFT_BEHIND: &str = "! a command left ";

/// The end of a line that tells of a question to a person.
const WAITS: &str = " waits for an answer";

/// The beginning of the error for a call of an unknown tool.
pub(crate) const UNKNOWN_TOOL: &str = "no tool named ";

/// The most characters of a headline that a line shows.
const SHOWN: usize = 120;

/// The same of what a command has left: paths, and behind them why they matter.
const SHOWN_OF_FINDS: usize = 600;

pub(crate) fn started(tool: &str, headline: &str) -> String {
    format!("{STARTED}{}\n", subject(tool, headline))
}

pub(crate) fn ended(
    tool: &str,
    headline: &str,
    (duration, chars): (Duration, usize),
    error: Option<&str>,
) -> String {
    let subject = subject(tool, headline);
    match error {
        Some(error) => format!("{FAILED}{subject}: {}\n", one_line(error)),
        None => format!("{ENDED}{subject} ({}, {chars} characters)\n", elapsed(duration)),
    }
}

pub(crate) fn asked(tool: &str, headline: &str) -> String {
    format!("{ASKED}{}{WAITS}\n", subject(tool, headline))
}

/// A line about what a subagent of this type does.
pub(crate) fn of_agent(agent_type: &str, line: &str) -> String {
    format!("{AGENT}{}: {line}", one_line(agent_type))
}

pub(crate) fn hook_said(text: &str) -> String {
    format!("{HOOK}{}\n", one_line(text))
}

/// A line about what a command has left that other programs obey.
pub(crate) fn left_behind(line: &str) -> String {
    format!("{LEFT_BEHIND}{}\n", one_line_within(line, SHOWN_OF_FINDS))
}

/// Removes our lines from `reasoning`. `is_tool` tells which words are names of tools.
pub(crate) fn removed(reasoning: &str, is_tool: impl Fn(&str) -> bool) -> String {
    let is_ours = |line: &&str| is_ours(line.trim_end_matches(['\n', '\r']), &is_tool);
    reasoning.split_inclusive('\n').filter(|line| !is_ours(line)).collect()
}

/// The tool in a line that tells how long a call took and how much it answered.
pub(crate) fn ended_tool(line: &str) -> Option<&str> {
    let (subject, end) = line.strip_prefix(ENDED)?.rsplit_once(" (")?;
    is_result(end).then(|| subject.split(' ').next().unwrap_or_default())
}

fn is_ours(line: &str, is_tool: &impl Fn(&str) -> bool) -> bool {
    if let Some(rest) = line.strip_prefix(AGENT) {
        return rest.split_once(": ").is_some_and(|(_, line)| is_ours(line, is_tool));
    }
    let is_of_tool = |subject: &str| is_tool(subject.split([' ', ':']).next().unwrap_or_default());
    if let Some(subject) = line.strip_prefix(STARTED) {
        is_of_tool(subject)
    } else if let Some(rest) = line.strip_prefix(ASKED) {
        rest.strip_suffix(WAITS).is_some_and(is_of_tool)
    } else if let Some(rest) = line.strip_prefix(ENDED) {
        rest.rsplit_once(" (").is_some_and(|(subject, end)| is_of_tool(subject) && is_result(end))
    } else if let Some(rest) = line.strip_prefix(FAILED) {
        let Some((subject, error)) = rest.split_once(": ") else { return false };
        // The model may have called a tool that does not exist.
        is_of_tool(subject) || error.starts_with(UNKNOWN_TOOL)
    } else {
        line.starts_with(HOOK) || line.starts_with(LEFT_BEHIND)
    }
}

/// Whether `end` looks like `1.2 s, 7 characters)`.
fn is_result(end: &str) -> bool {
    let Some((elapsed, chars)) = end.split_once(", ") else { return false };
    let number = elapsed.strip_suffix(" ms").or_else(|| elapsed.strip_suffix(" s"));
    let chars = chars.strip_suffix(" characters)");
    number.is_some_and(|number| number.parse::<f64>().is_ok())
        && chars.is_some_and(|chars| chars.parse::<usize>().is_ok())
}

/// A tool with its main argument, in one line.
pub(crate) fn subject(tool: &str, headline: &str) -> String {
    let headline = one_line(headline);
    if headline.is_empty() { tool.to_owned() } else { format!("{tool} {headline}") }
}

fn one_line(text: &str) -> String {
    one_line_within(text, SHOWN)
}

fn one_line_within(text: &str, max_chars: usize) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line: String = shown.collect();
    let line: String = without_hidden(&line).chars().take(max_chars + 1).collect();
    match line.char_indices().nth(max_chars) {
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

    fn failed(tool: &str, headline: &str, error: &str) -> String {
        ended(tool, headline, (Duration::ZERO, 0), Some(error))
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(started("Bash", "echo a\necho b"), "→ Bash echo a echo b\n");
        assert_eq!(started("Glob", ""), "→ Glob\n");
        assert_eq!(
            started("Bash", &"x".repeat(500)).chars().count(),
            "→ Bash …\n".chars().count() + 120
        );
        let duration = Duration::from_millis(1234);
        let read = ended("Read", "a.rs", (duration, 7), None);
        assert_eq!(read, "✓ Read a.rs (1.2 s, 7 characters)\n");
        assert_eq!(failed("Read", "a.rs", "no\nfile"), "✗ Read a.rs: no file\n");
    }

    #[test]
    fn our_lines_are_taken_out_and_nothing_else() {
        let removed = |text: &str| removed(text, |name| ["Read", "Bash", "Glob"].contains(&name));
        let second = Duration::from_secs(1);
        for ours in [
            started("Read", "a.rs"),
            started("Glob", ""),
            ended("Bash", "echo (1) a: b", (second, 0), None),
            ended("Glob", "", (Duration::ZERO, 12), None),
            asked("Bash", "rm -r a"),
            asked("Glob", ""),
            failed("Read", "a.rs", "no file: a.rs"),
            failed("Bash", "", "cut off"),
            failed("Raed", "", "no tool named Raed is available"),
            left_behind("a nested repository: /w/x (git that is used there obeys it)"),
        ] {
            assert_eq!(removed(&format!("I think\n{ours}so")), "I think\nso", "{ours}");
            // A frontend may have trimmed the end of the last line.
            assert_eq!(removed(ours.trim_end()), "", "{ours}");
        }
        for own in [
            "→ so be it\n",
            "→ Reading on\n",
            "so → Read a.rs\n",
            " → Read a.rs\n",
            "✓ Read it all\n",
            "✓ Read it (all of it, twice)\n",
            "✓ done (1 s, 2 characters)\n",
            "✗ wrong: because\n",
            "✗ Read\n",
            "? Read or not\n",
            "? Who waits for an answer\n",
            "! a command is left\n",
        ] {
            assert_eq!(removed(own), own);
        }
    }
}
