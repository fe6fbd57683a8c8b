//! Finds the session of a request, starts its turn there, and keeps what the turn leaves behind.

pub(crate) mod address;
mod agents;
mod alignment;
mod ancestry;
mod answer_form;
pub(crate) mod approval_settings;
mod ask_again;
pub(crate) mod assemble;
mod background_agents;
pub(crate) mod begin;
mod canonical;
mod client_calls;
pub(crate) mod context_limits;
mod decisions;
mod delivery_state;
mod export;
pub(crate) mod id_sources;
pub(crate) mod in_use;
mod kept_rules;
mod known_turns;
mod launch;
mod loading;
mod matching;
pub(crate) mod message;
mod message_json;
mod open_approvals;
pub(crate) mod pairs;
pub(crate) mod pending_names;
mod plans;
mod preface;
mod prompt_hooks;
pub(crate) mod record;
pub(crate) mod recorder;
pub(crate) mod request;
mod resolve;
pub(crate) mod rest;
pub(crate) mod running;
mod search;
pub(crate) mod session_end;
mod session_prompt;
pub(crate) mod settings;
mod starting_mode;
mod suspended;
mod transcript;
mod turn_start;
mod typed_command;

#[cfg(test)]
pub(crate) mod test_support;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::approval_settings::ApprovalSettings;
use self::context_limits::KnownLimits;
use self::pending_names::PendingNames;
use self::recorder::Recorders;
use self::request::Progress;
use self::running::Running;
use crate::agent::prompt;
use crate::agent::subagents::AgentServices;
use crate::agent::{ModelRule, TurnSettings};
use crate::definitions::Definitions;
use crate::files::watcher::Watcher;
use crate::hooks::Hooks;
use crate::mcp::McpServers;
use crate::memory_budget::MemoryBudget;
use crate::permissions::Permissions;
use crate::session_files::SessionDirectories;
use crate::store::Store;
use crate::tools::tasks::AllTasks;
use crate::upstream;

/// What every turn is started with. `app` constructs the only one.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) upstream: Arc<upstream::Client>,
    pub(crate) tool_settings: crate::tools::ToolSettings,
    pub(crate) permissions: Permissions,
    pub(crate) hooks: Hooks,
    /// The directory that `~` stands for.
    pub(crate) home: PathBuf,
    pub(crate) settings: TurnSettings,
    pub(crate) approval: ApprovalSettings,
    /// `sessions.content_address`.
    pub(crate) content_address: bool,
    pub(crate) model_rules: Arc<[ModelRule]>,
    pub(crate) context_limits: KnownLimits,
    pub(crate) prompt: prompt::PromptSettings,
    pub(crate) progress: Progress,
    pub(crate) memory_budget: MemoryBudget,
    /// What subagents are run with.
    pub(crate) agents: Arc<AgentServices>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) running: Arc<Running>,
    pub(crate) directories: SessionDirectories,
    /// Marks files that the sessions know and something else changes.
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) tasks: Arc<AllTasks>,
    pub(crate) names: PendingNames,
    /// The agents, skills and commands of files.
    pub(crate) definitions: Arc<Definitions>,
    /// `None`: none are configured.
    pub(crate) mcp: Option<McpServers>,
    pub(crate) recorders: Recorders,
    pub(crate) shutdown: CancellationToken,
}

impl Sessions {
    pub(crate) fn settings(&self) -> &TurnSettings {
        &self.settings
    }

    pub(crate) fn default_progress(&self) -> Progress {
        self.progress
    }
}
