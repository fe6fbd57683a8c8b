//! A command that is asked about when it comes again, once it has failed for want of an approval.

use std::path::PathBuf;
use std::sync::Arc;

use crate::permissions::Lacked;
use crate::tools::agent_context::AgentContext;

pub(super) struct RepeatableCommand {
    pub(super) agent: Arc<AgentContext>,
    pub(super) line: String,
    pub(super) directory: PathBuf,
}

impl RepeatableCommand {
    pub(super) fn remember(&self, lacked: Lacked) {
        self.agent.failed_commands.remember(&self.line, &self.directory, lacked);
    }
}
