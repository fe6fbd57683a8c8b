//! Tells which tools rules deny whatever they are called for. They never run, so they are not
//! offered to the model.

use std::sync::Arc;

use super::rules::{KnownTool, Rules};

/// The rules as they were when this was made.
#[derive(Clone, Debug)]
pub(crate) struct DeniedTools(Arc<Rules>);

impl DeniedTools {
    pub(super) fn new(rules: Arc<Rules>) -> Self {
        Self(rules)
    }

    pub(crate) fn contains(&self, tool: KnownTool<'_>) -> bool {
        self.0.deny_all_calls(tool.name, tool.access)
    }
}
