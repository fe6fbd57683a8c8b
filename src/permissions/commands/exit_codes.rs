//! Says whether exit code 1 of a command line is an answer, such as "nothing found".

use super::ParsedCommand;
use super::part::{Part, Redirect, RedirectTarget};
use super::reach::Reached;
use super::word::Word;
use super::wrappers::unwrapped;

/// What exit code 1 of a statement can have come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExitOne {
    /// From nothing but the shell itself, which then says why on standard error.
    Shell,
    /// From programs alone of which it is an answer, and from the shell.
    Answer,
    /// From anything else.
    Failure,
}

/// Programs whose exit code 1 is an answer.
const ANSWERING: [&str; 12] =
    ["grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "[[", "find", "pgrep", "which"];

/// The same for subcommands of git.
const ANSWERING_GIT: [&str; 2] = ["diff", "grep"];

/// Options of git that take the next word as their value.
const GIT_OPTIONS_WITH_VALUE: [&str; 5] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace"];

/// Builtins that fail only with a word from the shell.
const TELLING: [&str; 10] =
    [":", "cd", "declare", "echo", "export", "local", "pwd", "readonly", "true", "typeset"];

/// What ends the line or the shell, changes what exit codes mean or what names do.
const DECISIVE: [&str; 15] = [
    ".", "alias", "bind", "coproc", "enable", "eval", "exec", "exit", "hash", "logout", "return",
    "set", "shopt", "source", "trap",
];

impl ParsedCommand {
    /// Whether exit code 1 is an answer of the command that has given it, if the shell itself has
    /// reported no failure. A line of which that is not certain has failed.
    pub(crate) fn exit_one_is_an_answer(&self) -> bool {
        self.exit_one == ExitOne::Answer
    }
}

/// Whether a part may end the line early or change what exit codes mean. What happens in a
/// substitution ends with it.
pub(super) fn has_decisive(reached: &[Reached]) -> bool {
    let is_decisive = |part: &Part| {
        let is_named = part.program().is_some_and(|name| DECISIVE.contains(&name));
        is_named || (part.has_uncertain_name() && !part.words.is_empty() && !part.is_evaluation)
    };
    reached.iter().any(|reached| !reached.part.is_substituted && is_decisive(&reached.part))
}

/// What exit code 1 of a simple command can have come from. `functions` are the names that the
/// line gives another meaning.
pub(super) fn of_part(part: &Part, functions: &[&str]) -> ExitOne {
    if part.is_evaluation || !is_heard(&part.redirects) {
        return ExitOne::Failure;
    }
    let mut words = part.words.clone();
    loop {
        let Some(program) = words.first().and_then(Word::base_name) else {
            return if words.is_empty() { ExitOne::Shell } else { ExitOne::Failure };
        };
        if functions.contains(&program) {
            return ExitOne::Failure;
        }
        let arguments = &words[1..];
        if is_answering(program, arguments) {
            return ExitOne::Answer;
        }
        if TELLING.contains(&program) && !is_silenced(part) {
            return ExitOne::Shell;
        }
        // xargs has exit codes of its own.
        match unwrapped(&words).filter(|_| program != "xargs") {
            Some(inner) => words = inner,
            None => return ExitOne::Failure,
        }
    }
}

/// Whether the shell can say that a redirect has failed: bash opens them one after the other.
fn is_heard(redirects: &[Redirect]) -> bool {
    let is_file = |redirect: &Redirect| matches!(redirect.target, RedirectTarget::File(_));
    let is_silencing = |redirect: &Redirect| {
        redirects_errors(redirect) && redirect.target != RedirectTarget::Descriptor
    };
    let is_single = redirects.len() == 1;
    is_single || !redirects.iter().any(is_silencing) || !redirects.iter().any(is_file)
}

/// Whether what a builtin of the shell says of its failure goes elsewhere.
fn is_silenced(part: &Part) -> bool {
    part.redirects.iter().any(redirects_errors)
}

fn redirects_errors(redirect: &Redirect) -> bool {
    redirect.descriptor == Some(2) || redirect.takes_errors
}

fn is_answering(program: &str, arguments: &[Word]) -> bool {
    let mut literals = arguments.iter().map(Word::literal);
    match program {
        // It says whether there is such a command.
        "command" => {
            matches!(literals.next().flatten(), Some("-v" | "-V" | "-pv" | "-pV"))
        }
        "git" => git_command(arguments).is_some_and(|name| ANSWERING_GIT.contains(&name)),
        name => ANSWERING.contains(&name),
    }
}

fn git_command(arguments: &[Word]) -> Option<&str> {
    let mut words = arguments.iter().map(Word::literal);
    loop {
        let word = words.next()??;
        if GIT_OPTIONS_WITH_VALUE.contains(&word) {
            words.next()?;
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
}

#[cfg(test)]
mod tests;
