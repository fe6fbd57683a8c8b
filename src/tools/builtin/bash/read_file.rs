//! Counts a command that shows a file, such as `cat FILE`, as a Read of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::blocking::FILES;
use crate::files::outside_changes::Current;
use crate::permissions::OpenedCommand;
use crate::tools::agent_context::AgentContext;
use crate::workspace::{FileVersion, Target, Workspace};

/// A look at the file holds up the command, or its answer, no longer.
const MAX_LOOK: Duration = Duration::from_millis(500);

/// A file that a command is about to show.
#[derive(Debug)]
pub(super) struct ReadFile {
    target: Target,
    before: FileVersion,
}

impl ReadFile {
    /// `None` if the command is no plain read of one file.
    pub(super) async fn begin(permitted: &OpenedCommand) -> Option<Self> {
        let path = permitted.plainly_read()?.to_owned();
        let workspace = Arc::clone(&permitted.workspace);
        let finding = FILES.run(move || Self::find(&workspace, &path));
        timeout(MAX_LOOK, finding).await.ok()?.ok()?
    }

    fn find(workspace: &Workspace, path: &Path) -> Option<Self> {
        let target = workspace.resolve(path).or_else(|_| Workspace::resolve_outside(path)).ok()?;
        let metadata = target.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { target, before: FileVersion::from_metadata(&metadata) })
    }

    /// The command has ended with success. The model knows the file, if it is still the same.
    pub(super) async fn end(self, agent: Arc<AgentContext>) {
        let see = move || {
            if let Ok(current) = Current::read(&self.target)
                && current.is_version(self.before)
            {
                current.seen_by(&agent.read_state, self.target.real_path());
            }
        };
        // Without it, the model has to read the file with Read.
        _ = timeout(MAX_LOOK, FILES.run(see)).await;
    }
}
