//! Keeps the rules that people made of approvals: `grants.toml` in the state directory. Each is
//! for one client key and one workspace, and counts there as an allow rule of the operator's.

mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

pub(crate) use self::file::KeptGrant;
use self::file::StoredGrant;
use super::owned_tools::OwnedTools;
use super::rules::{KnownTool, Rules};
use crate::ids::{KeyId, Scope};
use crate::live_file::{FileContents, LiveFile, OwnFile};
use crate::named_file::ours;
use crate::sync;
use crate::workspace::{BoundDirectory, DirectoryId, Workspace, directory_there};

/// Rules that are kept for a key and a workspace. Nobody reads more of them.
const MAX_GRANTS: usize = 1000;

/// The rules of a state directory, read again when the file has changed.
#[derive(Debug)]
pub(crate) struct KeptGrants {
    state_dir: PathBuf,
    path: Arc<Path>,
    known: OwnedTools,
    source: OwnFile,
    file: Mutex<LiveFile<ReadGrants>>,
}

type ReadGrants = Result<Arc<[KeptGrant]>, String>;

/// Whose rules they are: those of one client key, and of one person where it may name one.
#[derive(Clone, Debug)]
pub(crate) struct GrantHolder {
    pub(crate) key: KeyId,
    pub(crate) scope: Scope,
}

/// The rules that an approval can be made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleGrant {
    /// Together they allow what is approved. At most [`RuleGrant::MAX_RULES`].
    pub(crate) rules: Vec<String>,
    pub(crate) workspace: BoundDirectory,
    /// Rules of a command count only for commands in its directory.
    pub(crate) directory: Option<PathBuf>,
    /// Rules of an MCP tool count only for the server that a person was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_identity: Option<String>,
}

/// The place of a call that kept rules may allow, and the MCP server that it is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantPlace<'a> {
    pub(super) workspace: &'a Workspace,
    /// The directory in which a command would run.
    pub(super) directory: Option<&'a Path>,
    /// The identity of the call's server, `McpAccess::server_identity`.
    pub(super) server_identity: Option<&'a str>,
}

/// Why a rule cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error("{}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{} cannot be written: {source}", path.display())]
    Unwritten { path: PathBuf, source: io::Error },
    #[error(
        "{MAX_GRANTS} rules are kept for this key and this workspace, which is the most; delete \
         some in {}",
        .0.display()
    )]
    TooMany(PathBuf),
    #[error("{} would be too large; delete some of its rules", .0.display())]
    TooLarge(PathBuf),
}

impl RuleGrant {
    /// More rules than this for one approval are no longer read by who approves them.
    pub(crate) const MAX_RULES: usize = 5;
}

impl KeptGrants {
    pub(crate) fn new(state_dir: &Path, known: &[KnownTool<'_>]) -> Self {
        let source = OwnFile::new(state_dir, file::NAME);
        Self {
            state_dir: state_dir.to_owned(),
            path: source.path().into(),
            known: OwnedTools::new(known),
            source,
            file: Mutex::new(LiveFile::new(Ok(Arc::default()))),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All rules that are kept. The error follows the name of the file. Blocks.
    pub(crate) fn list(&self) -> Result<Arc<[KeptGrant]>, String> {
        let mut file = sync::lock(&self.file);
        file.current(&self.source, file::MAX_BYTES, |contents, _| self.read(contents)).clone()
    }

    fn read(&self, contents: FileContents) -> ReadGrants {
        let parsed = match contents {
            FileContents::Missing => return Ok(Arc::default()),
            FileContents::Text(text) => file::parse(&text, &self.path, &self.known),
            FileContents::Unreadable(reason) => Err(file::with_remedy(&reason)),
        };
        match &parsed {
            Ok(grants) => tracing::info!(rules = grants.len(), "read the kept grants"),
            Err(reason) => tracing::warn!(path = %self.path.display(), %reason, "no kept grants"),
        }
        parsed.map(Into::into)
    }

    /// Adds to `rules` those of the holder that count at this place. Blocks.
    pub(super) fn add_to(
        &self,
        rules: &mut Arc<Rules>,
        holder: &GrantHolder,
        GrantPlace { workspace, directory, server_identity }: GrantPlace<'_>,
    ) {
        // A file that cannot be read has been logged.
        let Ok(grants) = self.list() else { return };
        let concerns = |grant: &&KeptGrant| {
            grant.is_held_by(holder) && grant.workspace.path == workspace.root()
        };
        let mut grants = grants.iter().filter(concerns).peekable();
        if grants.peek().is_none() {
            return;
        }
        let Ok(opened) = workspace.root_metadata() else { return };
        let opened = DirectoryId::from_metadata(&opened);
        let now = directory_there(workspace.root());
        let holds = |grant: &&KeptGrant| {
            let is_workspace = grant.workspace.is(&opened, || now.clone());
            is_workspace
                && grant.is_for_server(server_identity)
                && (grant.directory.is_none() || grant.directory.as_deref() == directory)
        };
        for grant in grants.filter(holds) {
            Arc::make_mut(rules).add_from(&grant.rules, true);
        }
    }

    /// These rules, as if they were kept. `None`: one of them is no rule.
    pub(super) fn parsed(&self, rules: &[String]) -> Option<Rules> {
        let mut parsed = Rules::default();
        for rule in rules {
            parsed.add_from(&file::parse_rule(rule, &self.path, &self.known).ok()?, true);
        }
        Some(parsed)
    }

    /// Whether the rules could be kept now. Blocks.
    pub(crate) fn check(&self, holder: &GrantHolder, grant: &RuleGrant) -> Result<(), KeepError> {
        self.with(holder, grant).map(drop)
    }

    /// Keeps the rules. Blocks, on others that change the file too.
    pub(crate) fn keep(&self, holder: &GrantHolder, grant: &RuleGrant) -> Result<(), KeepError> {
        let path = || self.path.to_path_buf();
        let unwritten = |source| KeepError::Unwritten { path: path(), source };
        let directory = ours::open_ours(&self.state_dir).map_err(|reason| self.unreadable(reason));
        let directory = directory?;
        let _lock = file::lock(&directory).map_err(unwritten)?;
        let grants = self.with(holder, grant)?;
        if !file::write(&directory, grants).map_err(unwritten)? {
            return Err(KeepError::TooLarge(path()));
        }
        tracing::info!(key = %holder.key, rules = grant.rules.len(), "a person keeps rules");
        Ok(())
    }

    /// The entries of the file with those of the grant. A file that cannot be read is left alone.
    fn with(&self, holder: &GrantHolder, grant: &RuleGrant) -> Result<Vec<StoredGrant>, KeepError> {
        let unreadable = |reason| self.unreadable(reason);
        let directory = ours::open_ours(&self.state_dir).map_err(unreadable)?;
        let text = ours::read_text(&directory, file::NAME, file::MAX_BYTES).map_err(unreadable)?;
        let text = text.unwrap_or_default();
        file::parse(&text, &self.path, &self.known).map_err(unreadable)?;
        let mut grants = file::entries(&text).map_err(unreadable)?;
        for new in StoredGrant::new(holder, grant) {
            if !grants.iter().any(|other| other.is_same(&new)) {
                grants.push(new);
            }
        }
        let is_here = |it: &&StoredGrant| it.is_of(&holder.key, &grant.workspace.path);
        if MAX_GRANTS < grants.iter().filter(is_here).count() {
            return Err(KeepError::TooMany(self.path.to_path_buf()));
        }
        Ok(grants)
    }

    fn unreadable(&self, reason: String) -> KeepError {
        KeepError::Unreadable { path: self.path.to_path_buf(), reason }
    }
}
