//! Reads and writes the messages between server and supervisor: one JSON value on each
//! line.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::confinement::{Confinement, Place};
use super::probe::Targets;

/// The first line to the supervisor: the command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) program: OsString,
    pub(super) arguments: Vec<String>,
    /// The whole environment: nothing is inherited.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: OsString,
    pub(super) umask: Option<u32>,
    /// `None`: the command may do all that this user can.
    pub(super) confinement: Option<Confinement>,
    /// What the command tries, and tells on its output, before its program starts.
    pub(super) probes: Option<Targets>,
    pub(super) input: Input,
}

/// What a command reads on standard input.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) enum Input {
    #[default]
    Nothing,
    Text(String),
    /// A pipe. The server hands it to the supervisor when that has taken the job.
    Pipe,
}

/// Later lines to the supervisor. A closed socket means `End` with [`CANCEL_GRACE`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// End the tree: TERM, and KILL after the grace.
    End { grace: Duration },
}

/// The time between TERM and KILL when a turn is cancelled. The tree must have ended
/// within two seconds.
pub(super) const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// The supervisor's reports.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The supervisor runs, and has taken the job. Until then a sandbox around it may have
    /// failed.
    Taken,
    /// The command could not be started; nothing ran.
    NotStarted(StartFailure),
    /// The command has ended; processes that it started may still run.
    Ended { exit: Exit, moved: FinalDirectory },
    /// The command wrote what is lost with its sandbox.
    Dropped(DroppedPaths),
    /// Nothing is left. This is the last report, unless the tree could not be ended.
    Gone { leftovers: usize },
    /// KILL was sent, but this many processes remain, for example because they wait for a
    /// device.
    Stuck { processes: usize },
    /// The command has more processes than it may have, and is being ended.
    TooManyProcesses,
    /// The command killed the reaper; the monitor has ended the tree.
    Lost,
}

/// Why a command could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartFailure {
    pub(super) step: LaunchStep,
    pub(super) errno: i32,
    /// The file that it is about, where that is not the program or the working directory.
    pub(super) place: Option<Place>,
}

impl StartFailure {
    pub(super) fn new(step: LaunchStep, error: &io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
        Self { step, errno, place: None }
    }
}

/// The step at which the start of a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LaunchStep {
    /// Entering the working directory.
    Directory,
    /// Putting the confinement in force.
    Confine,
    /// Making sure that what is mounted is what the server has opened.
    View,
    /// Executing the program.
    Execute,
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

/// The command's working directory when it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FinalDirectory {
    /// The directory that it was started in.
    Not,
    /// Another directory.
    To(OsString),
    /// A directory that was removed.
    Nowhere,
}

/// Files and directories that a command made, and that are lost with its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DroppedPaths {
    /// At most [`MAX_DROPPED`] of them. What lies in a directory is lost with it.
    pub(crate) named: Vec<OsString>,
    /// How many there are besides.
    pub(crate) more: usize,
}

/// How many lost paths are named. A person or a model needs to see what it is about.
pub(super) const MAX_DROPPED: usize = 5;

pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("plain data");
    line.push(b'\n');
    line
}

pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(io::Error::from)
}

/// The next message, or `None` if the other end has closed.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') { parse(&line).map(Some) } else { Ok(None) }
}

pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&line(message))
}
