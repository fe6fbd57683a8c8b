//! Runs programs: each under a supervisor of its own, within limits, its output
//! bounded, its whole process tree ended with it.
//!
//! The server starts our own binary once more for each command ([`supervisor`])
//! and speaks to it over a socket ([`protocol`]). The supervisor is the subreaper
//! of all that the command starts, so it finds what went into a session of its own
//! or was orphaned, and it ends the tree when it is told to or when the socket
//! closes: a dropped future, an aborted turn and a killed server are the same to it.
//! What outlives a supervisor that was itself ended, the server finds ([`orphans`]).

mod command_state;
mod environment;
mod kernel;
mod orphans;
mod output;
mod protocol;
mod runner;
pub(crate) mod supervisor;
mod terminal;
#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use command_state::EndCause;
pub(crate) use environment::Environment;
pub(crate) use kernel::{execute, take_descriptor};
pub(crate) use orphans::{end_supervisors, watch_orphans};
pub(crate) use protocol::{Exit, FinalDirectory};
pub(crate) use runner::{Command, Finished, Limits, RunError, Runner};
