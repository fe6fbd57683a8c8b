//! Lists the agents, skills and commands of files, and the files that do not count.

use crate::app::services::Services;
use crate::definitions::{AgentDefinition, DefinitionSet, SkillDefinition, SkillKind};
use crate::text::printable;

/// Skipped files that are named. A repository could hold thousands.
const MAX_SKIPPED: usize = 100;

/// What is defined for each workspace. Nothing where there is none.
pub(super) fn report(services: &Services) -> String {
    let first = services.permissions.workspace();
    let mut lines: Vec<String> = Vec::new();
    for workspace in [first].into_iter().chain(services.workspaces.values()) {
        let of_workspace = listed(&services.definitions.current(workspace));
        // The user's files concern each of them.
        let new: Vec<_> = of_workspace.into_iter().filter(|line| !lines.contains(line)).collect();
        lines.extend(new);
    }
    lines.push(String::new());
    if lines.len() == 1 { String::new() } else { lines.join("\n") }
}

fn listed(set: &DefinitionSet) -> Vec<String> {
    let skipped = set.skipped.iter().take(MAX_SKIPPED);
    let skipped = skipped.map(|it| format!("skipped: {}: {}", it.path.display(), it.reason));
    let more = (set.skipped.len() - skipped.len()) + set.skipped_more;
    let more = (more > 0).then(|| format!("skipped: {more} more files"));
    let agents = set.agents.iter().map(agent);
    let lines = agents.chain(set.skills.iter().map(skill)).chain(skipped).chain(more);
    // What a repository wrote must not steer the terminal.
    lines.map(|line| printable(line.as_bytes())).collect()
}

fn agent(agent: &AgentDefinition) -> String {
    let AgentDefinition { name, tools, disallowed_tools, model, .. } = agent;
    let without = (!disallowed_tools.is_empty()).then(|| disallowed_tools.join(", "));
    let notes = [
        tools.as_ref().map(|tools| format!("tools: {}", tools.join(", "))),
        without.map(|tools| format!("without {tools}")),
        model.as_ref().map(|model| format!("model {model}")),
        agent.max_turns.map(|turns| format!("at most {turns} turns")),
        agent.permission_mode.as_ref().map(|mode| format!("mode {mode}")),
    ];
    let line = format!("agent: {name}: {}", agent.origin.path.display());
    let notes = notes.into_iter().flatten();
    [line].into_iter().chain(notes).collect::<Vec<_>>().join("; ")
}

fn skill(skill: &SkillDefinition) -> String {
    let kind = match skill.kind {
        SkillKind::Skill => "skill",
        SkillKind::Command => "command",
    };
    let note = match (skill.is_for_model, skill.is_for_user) {
        (true, true) => "",
        (true, false) => "; the model's alone",
        (false, true) => "; only at the start of a message",
        (false, false) => "; nobody may use it",
    };
    format!("{kind}: /{}: {}{note}", skill.name, skill.origin.path.display())
}
