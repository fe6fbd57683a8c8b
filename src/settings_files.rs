//! Reads the settings files under `.claude`, the user's and the workspace's, again whenever they
//! have changed. Says of each whether the operator's trust lets all of it count.

mod contents;
mod mcp_file;
mod source;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub(crate) use self::contents::{SettingsContents, WrittenRule};
pub(crate) use self::mcp_file::{McpFile, McpFileTrust, digest};
use self::source::{UserSource, WorkspaceSource};
use crate::live_file::{FileContents, FileSource, LiveFile};
use crate::sync;
use crate::trust::{LiveTrust, TrustState};
use crate::workspace::{DirectoryId, Workspace};

/// Larger than any settings file that a person keeps.
const MAX_BYTES: u64 = 1 << 20;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsScope {
    User,
    /// `.claude/settings.json`, which a repository brings.
    Workspace,
    /// `.claude/settings.local.json`, which it should not.
    WorkspaceLocal,
}

/// A settings file as it is now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingsFile {
    pub(crate) scope: SettingsScope,
    pub(crate) path: PathBuf,
    /// The last contents that could be parsed. `None`: there is no file, or it never could be.
    pub(crate) contents: Option<Arc<SettingsContents>>,
    /// Why the file cannot be parsed now, with its line. It follows the name of the file.
    pub(crate) fault: Option<String>,
}

/// The settings files that concern a workspace, as they are now.
#[derive(Clone, Debug)]
pub(crate) struct SettingsSnapshot {
    /// In the order of their scopes.
    pub(crate) files: [Arc<SettingsFile>; 3],
    pub(crate) trust: TrustState,
}

/// The settings files of the server's user and of each workspace.
#[derive(Debug)]
pub(crate) struct SettingsFiles {
    /// `None`: the operator wants the user's not to count.
    user: Option<PathBuf>,
    trust: LiveTrust,
    user_file: Mutex<LiveFile<Arc<SettingsFile>>>,
    /// By the roots of the workspaces, of which the operator names a few.
    workspaces: Mutex<HashMap<PathBuf, Arc<Mutex<WorkspaceFiles>>>>,
}

#[derive(Debug)]
struct WorkspaceFiles {
    shared: LiveFile<Arc<SettingsFile>>,
    local: LiveFile<Arc<SettingsFile>>,
    mcp: LiveFile<mcp_file::Text>,
    /// Of the directory that was opened as the workspace.
    id: Option<DirectoryId>,
}

impl SettingsFiles {
    /// `user_dir` is the directory of the user's `settings.json`.
    pub(crate) fn new(user_dir: Option<&Path>, state_dir: &Path) -> Self {
        let user = user_dir.map(|directory| directory.join("settings.json"));
        let path = user.clone().unwrap_or_default();
        Self {
            user_file: Mutex::new(LiveFile::new(SettingsFile::missing(SettingsScope::User, path))),
            user,
            trust: LiveTrust::new(state_dir),
            workspaces: Mutex::default(),
        }
    }

    /// The file with the trusted directories.
    pub(crate) fn trust_path(&self) -> PathBuf {
        self.trust.path()
    }

    /// What the files say now about calls in this workspace. Blocks.
    pub(crate) fn snapshot(&self, workspace: &Workspace) -> SettingsSnapshot {
        let user = self.user_now();
        let files = self.files_of(workspace);
        // A disk that does not answer holds up only this workspace.
        let mut files = sync::lock(&files);
        let shared = now(&mut files.shared, &workspace_source(workspace, SettingsScope::Workspace));
        let local =
            now(&mut files.local, &workspace_source(workspace, SettingsScope::WorkspaceLocal));
        let trust = self.trust_in(&files, workspace);
        SettingsSnapshot { files: [user, shared, local], trust }
    }

    /// Whether the operator trusts this workspace now. Blocks.
    pub(crate) fn trust(&self, workspace: &Workspace) -> TrustState {
        let files = self.files_of(workspace);
        let files = sync::lock(&files);
        self.trust_in(&files, workspace)
    }

    /// The workspace's `.mcp.json` as it is now. Blocks.
    pub(crate) fn mcp_file(&self, workspace: &Workspace) -> McpFile {
        let files = self.files_of(workspace);
        let mut files = sync::lock(&files);
        let text = mcp_file::now(&mut files.mcp, workspace);
        McpFile::new(text, &self.trust, &self.trust_in(&files, workspace), workspace)
    }

    fn trust_in(&self, files: &WorkspaceFiles, workspace: &Workspace) -> TrustState {
        match &files.id {
            Some(id) => self.trust.state(workspace.root(), id),
            None => TrustState::Replaced,
        }
    }

    fn files_of(&self, workspace: &Workspace) -> Arc<Mutex<WorkspaceFiles>> {
        let mut all = sync::lock(&self.workspaces);
        let new = || Arc::new(Mutex::new(WorkspaceFiles::new(workspace)));
        Arc::clone(all.entry(workspace.root().to_owned()).or_insert_with(new))
    }

    fn user_now(&self) -> Arc<SettingsFile> {
        let mut file = sync::lock(&self.user_file);
        match &self.user {
            Some(path) => now(&mut file, &UserSource(path)),
            None => Arc::clone(file.unread()),
        }
    }
}

impl SettingsScope {
    /// The path below the workspace's root.
    fn path(self) -> &'static str {
        match self {
            Self::User | Self::Workspace => ".claude/settings.json",
            Self::WorkspaceLocal => ".claude/settings.local.json",
        }
    }

    pub(crate) fn is_workspaces(self) -> bool {
        self != Self::User
    }
}

impl WorkspaceFiles {
    fn new(workspace: &Workspace) -> Self {
        let file = |scope: SettingsScope| {
            LiveFile::new(SettingsFile::missing(scope, workspace.root().join(scope.path())))
        };
        let metadata = workspace.root_metadata().ok();
        Self {
            shared: file(SettingsScope::Workspace),
            local: file(SettingsScope::WorkspaceLocal),
            mcp: LiveFile::new(Ok(None)),
            id: metadata.map(|metadata| DirectoryId::from_metadata(&metadata)),
        }
    }
}

impl SettingsFile {
    fn missing(scope: SettingsScope, path: PathBuf) -> Arc<Self> {
        Arc::new(Self { scope, path, contents: None, fault: None })
    }

    /// The file with other contents. What cannot be parsed leaves the contents from before.
    fn changed(&self, found: FileContents) -> Arc<Self> {
        let parsed = match found {
            FileContents::Missing => Ok(None),
            FileContents::Text(text) => SettingsContents::parse(&text).map(Some),
            FileContents::Unreadable(reason) => Err(reason),
        };
        let Self { scope, path, .. } = self.clone();
        let (contents, fault) = match parsed {
            Ok(contents) => (contents.map(Arc::new), None),
            Err(fault) => {
                tracing::warn!(path = %path.display(), reason = %fault, "a settings file cannot be read");
                (self.contents.clone(), Some(fault))
            }
        };
        if fault.is_none() && contents.is_some() {
            tracing::info!(path = %path.display(), "read a settings file");
        }
        Arc::new(Self { scope, path, contents, fault })
    }
}

impl SettingsSnapshot {
    /// Whether allow rules, directories, hooks and variables of the file count, not only deny
    /// and ask rules.
    pub(crate) fn counts_whole(&self, file: &SettingsFile) -> bool {
        !file.scope.is_workspaces() || self.trust == TrustState::Trusted
    }

    /// The variables of the files that count whole, the stronger file later.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter(|file| self.counts_whole(file)).flat_map(variables_of)
    }

    /// The variables of the user's own file.
    pub(crate) fn users_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let users = self.files.iter().filter(|file| file.scope == SettingsScope::User);
        users.flat_map(variables_of)
    }

    /// Whether nothing has changed. A file that was read anew is another one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.files.iter().zip(&other.files);
        self.trust == other.trust && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

fn variables_of(file: &Arc<SettingsFile>) -> impl Iterator<Item = (&str, &str)> {
    let variables = file.contents.iter().flat_map(|contents| &contents.env);
    variables.map(|(name, value)| (name.as_str(), value.as_str()))
}

fn workspace_source(workspace: &Workspace, scope: SettingsScope) -> WorkspaceSource<'_> {
    WorkspaceSource { workspace, path: scope.path() }
}

fn now(file: &mut LiveFile<Arc<SettingsFile>>, source: &impl FileSource) -> Arc<SettingsFile> {
    Arc::clone(file.current(source, MAX_BYTES, |found, before| before.changed(found)))
}

#[cfg(test)]
mod tests;
