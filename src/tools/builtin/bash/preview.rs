//! Shows a person the command line that a call would run.

use std::fmt::Write as _;

use crate::markdown;
use crate::permissions::{CommandLine, CommandSummary, NamedCommand};
use crate::text;

/// Characters of a command that a person is shown at either end. Both ends together are all of a
/// command that can run: Linux takes 128 KiB as one argument. A longer one is said to be cut, so
/// that nobody takes it for the whole.
const MAX_SHOWN: usize = 64 * 1024;

/// From so many lines on their number is told: the end may be out of sight.
const MANY_LINES: usize = 20;

/// Characters of a program's name, which is a foreign text.
const MAX_NAME: usize = 40;

/// Programs that are named of what a command may run in its turn.
const MAX_INNER: usize = 5;

/// What was found in the command, the command itself, and where and how long it would run.
pub(super) fn shown(summary: &CommandSummary, command: &CommandLine, time: &str) -> String {
    let line = command.line.as_str();
    let directory = markdown::path(&command.real_directory);
    let place = if command.outside_sandbox { ", **outside of the sandbox**" } else { "" };
    format!("{}\n\n{}in {directory}, {time}{place}\n", in_words(summary, line), whole(line))
}

/// The command in a fence, or its two ends in two, with the size of what is left out between them.
/// A note within a fence could be a part of the command.
fn whole(line: &str) -> String {
    let (head, tail) = (text::first_chars(line, MAX_SHOWN), text::last_chars(line, MAX_SHOWN));
    let hidden = line.len().saturating_sub(head.len() + tail.len());
    if hidden == 0 {
        return markdown::fence("sh", line);
    }
    format!(
        "{}**{hidden} bytes of the command are not shown here.** It ends so:\n\n{}",
        markdown::fence("sh", head),
        markdown::fence("sh", tail)
    )
}

fn in_words(summary: &CommandSummary, line: &str) -> String {
    let mut words = match summary {
        CommandSummary::Doubtful(doubt) => {
            format!("The programs in this line are not known: {doubt}")
        }
        CommandSummary::Commands(commands) if commands.is_empty() => {
            "Runs no program; sets variables or writes files".to_owned()
        }
        CommandSummary::Commands(commands) => {
            let plural = if commands.len() == 1 { "" } else { "s" };
            let named: Vec<_> = commands.iter().map(named).collect();
            format!("{} command{plural}: {}", commands.len(), named.join(", "))
        }
    };
    let lines = line.trim_end().lines().count();
    if lines > MANY_LINES {
        let _ = write!(words, "; {lines} lines");
    }
    if markdown::is_reordered(line) {
        words.push_str(
            "; it holds letters that are written from right to left, and a screen may show what \
             stands beside them in another order",
        );
    }
    words
}

fn named(command: &NamedCommand) -> String {
    let name = |name: &String| markdown::code_within(name, MAX_NAME);
    let program = name(&command.program);
    if command.may_run.is_empty() {
        return program;
    }
    let mut inner: Vec<_> = command.may_run.iter().take(MAX_INNER).map(name).collect();
    let further = command.may_run.len() - inner.len();
    if further > 0 {
        inner.push(format!("{further} more"));
    }
    format!("{program} (may run {})", inner.join(", "))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn summary(programs: &[&str]) -> CommandSummary {
        let named = programs
            .iter()
            .map(|program| NamedCommand { program: (*program).to_owned(), may_run: Vec::new() });
        CommandSummary::Commands(named.collect())
    }

    fn command(line: &str) -> CommandLine {
        CommandLine {
            line: line.to_owned(),
            directory: "/w".into(),
            real_directory: "/w".into(),
            outside_sandbox: false,
            lacked: None,
        }
    }

    #[test]
    fn what_was_found_stands_above_the_command() {
        let line = format!("echo tidy{}; truncate -s0 src/text.rs; make deploy", " ".repeat(160));
        let found = summary(&["echo", "truncate", "make"]);
        assert_snapshot!(shown(&found, &command(&line), "for 1 s"), @"
        3 commands: `echo`, `truncate`, `make`

        ```sh
        echo tidy⟨160 blanks⟩; truncate -s0 src/text.rs; make deploy
        ```
        in `/w`, for 1 s
        ");
        let sudo = NamedCommand { program: "sudo".to_owned(), may_run: vec!["rm".to_owned()] };
        let many = format!("sudo rm א{}", "\nx".repeat(30));
        let words = in_words(&CommandSummary::Commands(vec![sudo]), &many);
        assert!(
            words.starts_with("1 command: `sudo` (may run `rm`); 31 lines; it holds"),
            "{words}"
        );
        assert_eq!(
            in_words(&summary(&[]), "> a"),
            "Runs no program; sets variables or writes files"
        );
    }

    #[test]
    fn what_is_left_out_of_a_very_long_command_is_said_outside_of_it() {
        let line = format!("echo {}; rm -r x", "a".repeat(140_000));
        let shown = whole(&line);
        assert!(shown.contains(
            "```\n**8942 bytes of the command are not shown here.** It ends so:\n\n```sh\n"
        ));
        assert!(shown.ends_with("rm -r x\n```\n"), "{shown}");
    }
}
