//! The protocol between server and supervisor: one JSON value a line.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The first line to the supervisor: what to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) program: OsString,
    pub(super) arguments: Vec<String>,
    /// All of it: nothing is inherited.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: OsString,
    pub(super) umask: Option<u32>,
}

/// Further lines to the supervisor. A closed socket is `End` with [`CANCEL_GRACE`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// End the tree: TERM, then KILL after the grace.
    End { grace: Duration },
}

/// How long a tree has after TERM when its turn is cancelled: the whole must be
/// over within two seconds.
pub(super) const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// What the supervisor reports.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The command could not be started; nothing ran.
    NotStarted { step: LaunchStep, errno: i32 },
    /// The command itself has ended; what it started may still run.
    Ended { exit: Exit, moved: FinalDirectory },
    /// Nothing is left. The last report, unless the tree could not be ended.
    Gone { leftovers: usize },
    /// KILL was sent and these many are still there (waiting for a device, say).
    Stuck { processes: usize },
    /// The command killed its supervisor; the tree has been ended without it.
    Lost,
}

/// What was tried when a command could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LaunchStep {
    /// Entering the working directory.
    Directory,
    /// Executing the program.
    Execute,
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

/// Where the command was when it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FinalDirectory {
    /// Where it was started.
    Not,
    /// In another directory.
    To(OsString),
    /// In a directory that was removed.
    Nowhere,
}

pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("plain data");
    line.push(b'\n');
    line
}

pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(io::Error::from)
}

/// The next message, or `None` when the other end is closed.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') { parse(&line).map(Some) } else { Ok(None) }
}

pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&line(message))
}
