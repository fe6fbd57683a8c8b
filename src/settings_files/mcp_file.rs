//! Reads the `.mcp.json` of a workspace, and says whether it is the one that the operator trusted.

use std::path::PathBuf;
use std::sync::Arc;

use super::source::WorkspaceSource;
use crate::live_file::{FileContents, LiveFile};
use crate::trust::{LiveTrust, TrustState};
use crate::workspace::Workspace;

/// The path below the workspace's root.
const PATH: &str = ".mcp.json";

/// Hundreds of servers.
const MAX_BYTES: u64 = 256 << 10;

/// The file of a workspace as it is now.
#[derive(Clone, Debug)]
pub(crate) struct McpFile {
    pub(crate) path: PathBuf,
    /// `None`: there is none. The error follows its name.
    pub(crate) text: Result<Option<Arc<str>>, String>,
    pub(crate) trust: McpFileTrust,
}

/// Whether the servers of the file may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum McpFileTrust {
    Trusted,
    /// The workspace is not trusted.
    Untrusted,
    /// The workspace is, and the file is not the one that was there then.
    Changed,
}

pub(super) type Text = Result<Option<Arc<str>>, String>;

impl McpFile {
    /// Looks at the file as it is when a directory is trusted.
    pub(crate) fn text_of(workspace: &Workspace) -> Text {
        now(&mut LiveFile::new(Ok(None)), workspace)
    }

    pub(super) fn new(
        text: Text,
        trust: &LiveTrust,
        state: &TrustState,
        workspace: &Workspace,
    ) -> Self {
        let is_as_trusted = |text: &str| trust.mcp_file(workspace.root()) == Some(digest(text));
        let trust = match (state, &text) {
            (TrustState::Trusted, Ok(Some(text))) if !is_as_trusted(text) => McpFileTrust::Changed,
            (TrustState::Trusted, _) => McpFileTrust::Trusted,
            _ => McpFileTrust::Untrusted,
        };
        Self { path: workspace.root().join(PATH), text, trust }
    }

    /// What the operator has trusted.
    pub(crate) fn trusted_text(&self) -> Option<&Arc<str>> {
        let text = self.text.as_ref().ok()?.as_ref();
        text.filter(|_| self.trust == McpFileTrust::Trusted)
    }
}

/// What tells one file from another.
pub(crate) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

pub(super) fn now(file: &mut LiveFile<Text>, workspace: &Workspace) -> Text {
    let source = WorkspaceSource { workspace, path: PATH };
    let made = file.current(&source, MAX_BYTES, |found, _| match found {
        FileContents::Missing => Ok(None),
        FileContents::Text(text) => Ok(Some(text.into())),
        FileContents::Unreadable(reason) => Err(reason),
    });
    made.clone()
}
