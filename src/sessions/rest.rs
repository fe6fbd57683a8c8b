//! Tells a client of its sessions, turns, tasks and approvals. What belongs to another scope, and what
//! could not be an id of ours, is looked up like an id that nobody has.

mod approvals;
mod sessions;
mod tasks;
mod turns;

use std::sync::Arc;

use serde::Serialize;

use super::running::Running;
use crate::errors::{ApiError, ErrorCode};
use crate::memory_budget::MemoryBudget;
use crate::permissions::{KeptGrants, Mode};
use crate::store::Store;
use crate::tools::catalogue::ToolCatalogue;
use crate::tools::tasks::AllTasks;

/// What the REST routes need.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) running: Arc<Running>,
    pub(crate) tasks: Arc<AllTasks>,
    pub(crate) memory_budget: MemoryBudget,
    /// Reads the input that a person gives instead of the model's.
    pub(crate) tools: ToolCatalogue,
    /// Where the rules go that people make of approvals.
    pub(crate) kept_grants: Arc<KeptGrants>,
    /// The server's permission mode.
    pub(crate) mode: Mode,
}

/// A list as OpenAI's are.
#[derive(Debug, Serialize)]
pub(crate) struct Page<T> {
    object: &'static str,
    pub(crate) data: Vec<T>,
    has_more: bool,
}

impl<T> Page<T> {
    fn new(data: Vec<T>, has_more: bool) -> Self {
        Self { object: "list", data, has_more }
    }
}

/// `what` is "session" and the like. The message is the same for all ids.
fn not_found(what: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("There is no such {what}."))
}

fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1000)
}

#[cfg(test)]
mod tests;
