//! Defines what Task asks for and what answers it. `agent` implements it: a subagent is a turn of
//! its own.

use std::fmt;

use futures::future::BoxFuture;

use super::output::{ToolError, ToolOutput};

/// The tool that starts subagents.
pub(crate) const TASK: &str = "Task";

/// What a subagent is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentTask {
    /// `None`: the general one, or the type of the agent that is resumed.
    pub(crate) agent_type: Option<String>,
    /// In a few words, for people.
    pub(crate) description: String,
    pub(crate) prompt: String,
    /// A name of `subagents.models`.
    pub(crate) model: Option<String>,
    /// The most upstream requests of this run.
    pub(crate) max_rounds: Option<u32>,
    /// The id of an agent that goes on.
    pub(crate) resume: Option<String>,
    pub(crate) in_background: bool,
}

/// Starts the subagent of one call.
pub(crate) trait Subagents: Send + Sync + fmt::Debug {
    /// Runs a subagent to its end. Dropping the future ends it, and all that it runs.
    /// [`ToolError::Suspended`]: it needs a person.
    fn run(&self, task: AgentTask) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}
