//! Explains a wrong command line: names the commands that take a flag which this one does
//! not.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// Adds to an unknown flag the commands that have it.
pub(crate) fn explain(mut error: Error, program: &Command) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let commands = commands_with(program, argument);
    if !commands.is_empty() {
        let verb = if commands.len() == 1 { "has" } else { "have" };
        let tip = format!("{} {verb} '{argument}'", commands.join(", "));
        // In place of a similar flag that clap suggests.
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

fn commands_with(program: &Command, argument: &str) -> Vec<String> {
    let Some(flag) = argument.strip_prefix("--") else { return Vec::new() };
    let has_it = |command: &&Command| {
        command.get_arguments().any(|known| known.get_long().is_some_and(|long| long == flag))
    };
    let commands = program.get_subcommands().filter(has_it);
    commands.map(|command| format!("'toolhand {}'", command.get_name())).collect()
}
