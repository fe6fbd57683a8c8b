//! Says who has configured a server, the operator or a repository, and whether a repository's file
//! is still trusted.

use std::path::Path;
use std::sync::Arc;

use crate::settings_files::SettingsFiles;
use crate::workspace::Workspace;

/// Who has configured a server.
#[derive(Clone, Debug, Default)]
pub(crate) enum McpOwner {
    #[default]
    Operator,
    /// A repository, in a file that the operator trusts as long as it is the same.
    Workspace(TrustedFile),
}

impl McpOwner {
    pub(super) fn is_workspace(&self) -> bool {
        self.workspace().is_some()
    }

    /// The root of the workspace whose file has configured the server.
    pub(super) fn workspace(&self) -> Option<&Path> {
        match self {
            Self::Operator => None,
            Self::Workspace(file) => Some(file.workspace.root()),
        }
    }
}

/// The file that the operator trusts, and that servers were started from.
#[derive(Clone, Debug)]
pub(crate) struct TrustedFile {
    pub(crate) files: Arc<SettingsFiles>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) text: Arc<str>,
}

impl TrustedFile {
    /// Whether the file is as it was, and trusted still. Blocks.
    pub(super) fn is_still_trusted(&self) -> bool {
        self.files.mcp_file(&self.workspace).trusted_text() == Some(&self.text)
    }
}
