//! Says for people what each language server does, in each of its projects.

use std::path::PathBuf;

/// The servers of a workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerReport {
    pub(crate) servers: Vec<ReportedServer>,
    /// What is there and cannot be used.
    pub(crate) faults: Vec<String>,
}

/// A server, in one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedServer {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// The directory of the project. `None`: it does not run in the workspace.
    pub(crate) root: Option<PathBuf>,
    pub(crate) state: ServerState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// It starts when it is needed.
    OnDemand {
        is_confined: bool,
    },
    Starting,
    Ready,
    Off(String),
}

impl ServerState {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::OnDemand { .. } => "on_demand",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Off(_) => "off",
        }
    }

    /// Why it is so.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::OnDemand { is_confined: true } => {
                "starts when it is needed, in the sandbox".into()
            }
            Self::OnDemand { is_confined: false } => {
                "starts when it is needed, not confined".into()
            }
            Self::Starting => "is being initialized".into(),
            Self::Ready => "answers".into(),
            Self::Off(why) => why.clone(),
        }
    }
}
