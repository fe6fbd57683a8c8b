//! Runs programs, each under a supervisor of its own and within limits. Bounds their
//! output, and ends their whole process tree.
//!
//! For each command the server starts its own binary once more as the supervisor
//! ([`supervisor`]) and talks to it over a socket ([`protocol`]). The supervisor is the
//! subreaper of everything that the command starts. So it finds processes that were
//! orphaned or made a session of their own. It ends the tree when it is told to, or when
//! the socket closes: a dropped handle ([`running`]), an aborted turn and a killed server look
//! the same to it. The server itself ends what outlives a supervisor ([`orphans`]).

mod bwrap;
mod command_state;
pub(crate) mod confinement;
mod connection;
mod control_files;
mod descriptors;
mod environment;
pub(crate) mod fate;
mod git_identity;
mod git_settings;
mod handles;
mod kernel;
mod last_words;
mod linked_repository;
mod masks;
pub mod measured;
mod mounts;
mod orphans;
mod outcome;
mod output;
mod piped;
mod place;
pub(crate) mod placeholders;
pub(crate) mod places;
mod plain_file;
mod probe;
mod protocol;
mod runner;
mod running;
pub(crate) mod sandbox;
mod spare;
mod starter;
pub(crate) mod supervisor;
mod supervisor_kind;
mod terminal;
#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod worker;

pub(crate) use command_state::{EndCause, StopReason};
pub(crate) use environment::{Environment, is_forbidden, is_forbidden_to_server};
pub(crate) use kernel::{execute, take_descriptor};
pub(crate) use last_words::{LastWords, StderrTail};
pub(crate) use orphans::{
    KeptAlive, adopt_orphans, end_supervisors, kill_stranded_bubblewraps, watch_orphans,
};
pub(crate) use outcome::{Finished, Limits, RunError};
pub(crate) use output::{CommandOutput, HeadAndTail, KeepOutput, LatestOutput, MakeFile, Unread};
pub(crate) use piped::{PipedEnd, PipedProcess, PipedTree};
pub(crate) use protocol::{DroppedPaths, Exit, FinalDirectory};
pub(crate) use runner::{Command, ProgramInput, Runner};
pub(crate) use running::{CommandControl, Running};
pub(crate) use supervisor::control_group::remove_abandoned_control_groups;
pub(crate) use terminal::without_escapes;
pub(crate) use tree::start_time;
