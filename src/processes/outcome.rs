//! Defines the limits of a command, and what it comes to.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::command_state::EndCause;
use super::output::CommandOutput;
use super::protocol::{DroppedPaths, Exit, FinalDirectory};
use crate::text::printable_path;

/// The limits of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `None`: whoever has the command ends it.
    pub(crate) time: Option<Duration>,
    /// The command is ended after this many bytes of output.
    pub(crate) output: u64,
    /// How many characters of output are kept.
    pub(crate) shown: usize,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Standard output and standard error, interleaved as they came.
    pub(crate) output: CommandOutput,
    /// Standard error of a program that was given input; it is then not part of `output`.
    pub(crate) errors: CommandOutput,
    pub(crate) cause: EndCause,
    /// `None` if its end was not observed.
    pub(crate) exit: Option<Exit>,
    pub(crate) moved: FinalDirectory,
    /// How many processes it left running. They have been ended.
    pub(crate) leftovers: usize,
    /// What it wrote that is lost with its sandbox.
    pub(crate) dropped: DroppedPaths,
    /// How many processes could not be ended.
    pub(crate) stuck: usize,
    /// The supervisor had the command. Else nothing of it ran.
    pub(super) is_taken: bool,
}

impl Finished {
    /// Whether it ended by itself, with the exit code 0.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.cause == EndCause::ItsOwn && self.exit == Some(Exit::Code(0))
    }

    /// Whether it has printed anything.
    pub(crate) fn has_printed(&self) -> bool {
        !self.output.is_empty()
    }
}

/// Why a command did not run, in one line. A repository may have named the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("the working directory {} cannot be entered: {source}", printable_path(.directory))]
    Directory { directory: PathBuf, source: io::Error },
    #[error("{} cannot be run: {source}", printable_path(.program))]
    Program { program: PathBuf, source: io::Error },
    /// Nothing ran: a command never runs with less than it was given.
    #[error("the sandbox could not be put in force: {0}")]
    Confinement(String),
    /// Nothing ran. To prepare the sandbox anew may help.
    #[error(
        "files of the workspace were exchanged while the sandbox was put in force, so nothing ran; \
         run the command again when no other one changes these directories"
    )]
    Exchanged,
    #[error("the command holds a NUL character; a program cannot be given one")]
    Nul,
    #[error("the command supervisor could not be started: {0}")]
    Supervisor(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_on_one_printable_line() {
        let (name, source) = ("\u{1b}[2J\n\u{202e}ready", || io::ErrorKind::NotFound.into());
        let program = RunError::Program { program: name.into(), source: source() };
        insta::assert_snapshot!(program, @r"\u{1b}[2J\n\u{202e}ready cannot be run: entity not found");
        let directory = RunError::Directory { directory: name.into(), source: source() };
        insta::assert_snapshot!(directory, @r"the working directory \u{1b}[2J\n\u{202e}ready cannot be entered: entity not found");
    }
}
