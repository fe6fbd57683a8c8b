//! Defines why `toolhand up` does not start, or ends, in one sentence each.

use std::io;
use std::path::{Path, PathBuf};

/// Why the chain did not start, or why it ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpError {
    #[error(
        "no python3 from 3.11 to 3.14 is on the search path, and LiteLLM needs one: install it \
         (Debian and Ubuntu: apt install python3 python3-venv)"
    )]
    NoPython,
    #[error(
        "python3 cannot make virtual environments: install its venv module \
         (Debian and Ubuntu: apt install python3-venv)"
    )]
    NoVenv,
    #[error("LiteLLM could not be installed, because {cause} (log: {})", log.display())]
    Install { log: PathBuf, cause: &'static str },
    #[error("LiteLLM ended; its log is {}{tail}", log.display())]
    Ended { log: PathBuf, tail: String },
    #[error("LiteLLM does not answer; its log is {}{tail}", log.display())]
    Silent { log: PathBuf, tail: String },
    #[error("the demo model ended: {0}")]
    DemoEnded(io::Error),
    #[error("{what} cannot listen on 127.0.0.1:{port}: {source}; choose another port with {flag}")]
    Port { what: &'static str, port: u16, flag: &'static str, source: io::Error },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot start python: {0}")]
    Start(io::Error),
}

impl UpError {
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    /// Whether it keeps LiteLLM from running here at all.
    pub(super) fn is_lack_of_litellm(&self) -> bool {
        matches!(self, Self::NoPython | Self::NoVenv | Self::Install { .. })
    }
}
