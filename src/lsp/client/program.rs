//! Says how a language server is started, and by whom. Sessions know only its three pipes.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

/// A language server that may start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServerProgram {
    /// What people call it.
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The directory of its project, and its working directory.
    pub(super) root: PathBuf,
    /// The roots of the workspace, which a sandbox shows.
    pub(super) roots: Vec<PathBuf>,
    /// What the server is answered that asks for its configuration.
    pub(super) settings: Value,
    pub(super) initialization: Value,
    /// Whether it runs in the sandbox. Else in none.
    pub(super) is_confined: bool,
}

/// A program that has been started.
pub(super) struct StartedProgram {
    pub(super) input: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) errors: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropping it ends the program and all that it has started.
    pub(super) process: Box<dyn Any + Send + Sync>,
}

/// Starts programs.
pub(super) trait Launch: fmt::Debug + Send + Sync {
    /// An error is a sentence that follows the name of the server.
    fn launch<'a>(
        &'a self,
        program: &'a ServerProgram,
    ) -> BoxFuture<'a, Result<StartedProgram, String>>;
}

impl fmt::Debug for StartedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedProgram").finish_non_exhaustive()
    }
}
