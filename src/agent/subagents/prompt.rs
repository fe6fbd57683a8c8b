//! Renders the system prompt of a subagent.

use std::path::Path;

use crate::agent::prompt::{advice, push_definitions};
use crate::definitions::DefinitionSet;
use crate::tools::agent_types::{self, AgentType};
use crate::tools::toolset::Toolset;

/// The prompt of an agent of this type, which begins in this directory and has these tools.
/// `set` has the skills that it may use, and the agents that it may start.
pub(super) fn render(
    agent_type: &AgentType,
    working_dir: &Path,
    date: &str,
    tools: &Toolset,
    set: &DefinitionSet,
) -> String {
    let mut lines = vec![
        agent_type.prompt.trim().to_owned(),
        String::new(),
        format!("Working directory: {}", working_dir.display()),
        format!("Platform: {}. Date: {date}.", std::env::consts::OS),
        "Make independent calls in one message: they run at the same time.".to_owned(),
        "An answer that begins with `Error: ` says what went wrong. Correct the call; do not repeat it \
         unchanged."
            .to_owned(),
        "Nobody answers questions of yours. Decide by what you know, and say what you assumed."
            .to_owned(),
    ];
    lines.extend(advice(tools));
    let types = agent_types::all(set);
    push_definitions(&mut lines, tools, (&types, &set.skills));
    lines.join("\n")
}
