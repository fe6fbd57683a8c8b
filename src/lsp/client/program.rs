//! Says how a language server is started, and by whom. Sessions know only its three pipes.

use std::fmt;
use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
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
    /// Whether the workspace may choose programs.
    pub(super) is_trusted: bool,
}

/// A program that has been started.
pub(super) struct StartedProgram {
    pub(super) input: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) errors: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) end: ProgramEnd,
}

/// The end of a program, with the reason where one is known. Dropping it ends the program and all
/// that it has started.
pub(super) struct ProgramEnd(Shared<BoxFuture<'static, Option<String>>>);

/// Starts programs.
pub(super) trait Launch: fmt::Debug + Send + Sync {
    /// An error is a sentence that follows the name of the server.
    fn launch<'a>(
        &'a self,
        program: &'a ServerProgram,
    ) -> BoxFuture<'a, Result<StartedProgram, String>>;
}

impl ProgramEnd {
    pub(super) fn new(end: impl Future<Output = Option<String>> + Send + 'static) -> Self {
        Self(end.boxed().shared())
    }

    /// Waits for it. Some may wait, and it may be asked for again.
    pub(super) async fn reason(&self) -> Option<String> {
        self.0.clone().await
    }
}

impl fmt::Debug for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgramEnd")
    }
}

impl fmt::Debug for StartedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedProgram").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_is_told_to_each_who_asks() {
        let end = ProgramEnd::new(async { Some("ended with exit code 1".to_owned()) });
        let (one, other) = futures::join!(end.reason(), end.reason());
        let later = end.reason().await;

        let told = Some("ended with exit code 1".to_owned());
        assert_eq!([one, other, later], [told.clone(), told.clone(), told]);
    }
}
