//! Lists the agents, skills and commands of files, what of them has no effect, and the files that
//! do not count.

use std::sync::Arc;

use crate::agent::prompt::{OddInstructions, WorkspaceWords};
use crate::agent::subagents::settings::SubagentSettings;
use crate::app::services::Services;
use crate::definitions::{AgentDefinition, DefinitionSet, SkillDefinition, SkillKind};
use crate::permissions::{Mode, UnaskedFiles};
use crate::text::printable;
use crate::tools::agent_types::{AgentPlace, AgentType};
use crate::tools::toolset::Toolset;
use crate::workspace::Workspace;

/// Skipped files that are named, and odd ones. A repository could hold thousands.
const MAX_SKIPPED: usize = 100;

/// What is defined for each workspace, and which of its instructions are not read as they are.
/// Nothing where there is none.
pub(super) async fn report(services: &Services, subagents: &SubagentSettings) -> String {
    let first = services.permissions.workspace();
    let mut lines: Vec<String> = Vec::new();
    for workspace in [first].into_iter().chain(services.workspaces.values()) {
        let set = services.definitions.current(workspace);
        let mut of_workspace = listed(&set, (services, subagents));
        of_workspace.extend(odd_instructions(services, workspace, set.is_trusted).await);
        // The user's files concern each of them.
        let new: Vec<_> = of_workspace.into_iter().filter(|line| !lines.contains(line)).collect();
        lines.extend(new);
    }
    lines.push(String::new());
    if lines.len() == 1 { String::new() } else { lines.join("\n") }
}

async fn odd_instructions(
    services: &Services,
    workspace: &Arc<Workspace>,
    is_trusted: bool,
) -> Vec<String> {
    let permissions = services.permissions.with_workspace(Arc::clone(workspace));
    let (definitions, home) = (Arc::clone(&services.definitions), services.home.clone());
    let read = move |files: &UnaskedFiles| {
        WorkspaceWords::read(files, definitions.encodings(), &home, is_trusted).odd
    };
    // The disk does not answer: the server will say so.
    let odd = permissions.read_unasked(read).await.unwrap_or_default();
    let line = |it: OddInstructions| {
        let how = if it.is_left_out { "skipped" } else { "odd" };
        printable(format!("{how}: {}: {}", it.path.display(), it.reason).as_bytes())
    };
    odd.into_iter().map(line).collect()
}

fn listed(set: &DefinitionSet, here: (&Services, &SubagentSettings)) -> Vec<String> {
    let skipped = set.skipped.iter().take(MAX_SKIPPED);
    let skipped = skipped.map(|it| format!("skipped: {}: {}", it.path.display(), it.reason));
    let more = (set.skipped.len() - skipped.len()) + set.skipped_more;
    let more = (more > 0).then(|| format!("skipped: {more} more files"));
    let agents = set.agents.iter().flat_map(|agent| CheckedAgent::new(agent, here).lines());
    let remarks = set.remarks.iter().take(MAX_SKIPPED);
    let remarks = remarks.map(|it| format!("odd: {}: {}", it.path.display(), it.text));
    let counting = agents.chain(set.skills.iter().map(skill)).chain(remarks);
    let lines = counting.chain(skipped).chain(more);
    // What a repository wrote must not steer the terminal.
    lines.map(|line| printable(line.as_bytes())).collect()
}

/// An agent of a file, and what of the file holds on this server.
struct CheckedAgent<'a> {
    agent: &'a AgentDefinition,
    /// The entries of `tools` and `disallowedTools` that name a tool.
    tools: Option<Vec<&'a str>>,
    without: Vec<&'a str>,
    model: Option<&'a str>,
    mode: Option<&'a str>,
    /// Whether a tool is left for it.
    is_usable: bool,
    /// What has no effect, and why.
    idle: Vec<String>,
}

impl<'a> CheckedAgent<'a> {
    fn new(
        agent: &'a AgentDefinition,
        (services, subagents): (&Services, &SubagentSettings),
    ) -> Self {
        let place = AgentPlace { in_background: false, may_delegate: subagents.max_depth > 1 };
        let own = AgentType::of_file(agent).tools_of(services.tools.built_in(), place);
        let mut idle = Vec::new();
        let mut in_effect = |key: &str, entries: &'a [String], fault: &ToolFault<'_>| {
            let of = |entry: &&'a String| match fault(entry) {
                None => true,
                Some(why) => {
                    idle.push(format!("{key}: {entry}: {why}"));
                    false
                }
            };
            entries.iter().filter(of).map(String::as_str).collect::<Vec<_>>()
        };
        let named = |entry: &str| tool_fault(entry, services.tools.built_in());
        let given = |entry: &str| {
            let is_given = || {
                let is_taken = agent.disallowed_tools.iter().any(|other| other == entry);
                let why =
                    if is_taken { "disallowedTools takes it away" } else { "no agent has it" };
                own.get(entry).is_none().then(|| why.to_owned())
            };
            named(entry).or_else(is_given)
        };
        let tools = agent.tools.as_deref().map(|tools| in_effect("tools", tools, &given));
        let without = in_effect("disallowedTools", &agent.disallowed_tools, &named);
        let model = agent.model.as_deref().filter(|model| {
            let fault = subagents.model_named(model).err();
            idle.extend(fault.iter().map(|why| {
                format!("model: {why}; it starts only where the call names one of them")
            }));
            fault.is_none()
        });
        let mode = agent.permission_mode.as_deref().filter(|mode| {
            let fault = mode_fault(mode, services.permissions.mode());
            idle.extend(fault.iter().map(|why| format!("permissionMode: {why}")));
            fault.is_none()
        });
        let is_usable = !own.tools().is_empty();
        Self { agent, tools, without, model, mode, is_usable, idle }
    }

    fn lines(self) -> Vec<String> {
        let Self { agent, tools, without, model, mode, is_usable, idle } = self;
        let (name, path) = (&agent.name, agent.origin.path.display());
        let idle = idle.into_iter().map(|what| format!("  no effect: {what}"));
        if !is_usable {
            let line = format!("unusable: {name}: {path}: no tool is left for this agent");
            return [line].into_iter().chain(idle).collect();
        }
        let without = (!without.is_empty()).then(|| without.join(", "));
        let notes = [
            tools.map(|tools| format!("tools: {}", tools.join(", "))),
            without.map(|tools| format!("without {tools}")),
            model.map(|model| format!("model {model}")),
            agent.max_turns.map(|turns| format!("at most {turns} turns")),
            mode.map(|mode| format!("mode {mode}")),
        ];
        let line = format!("agent: {name}: {path}");
        let line = [line].into_iter().chain(notes.into_iter().flatten());
        [line.collect::<Vec<_>>().join("; ")].into_iter().chain(idle).collect()
    }
}

/// Why an entry of a list of tools has no effect.
type ToolFault<'a> = dyn Fn(&str) -> Option<String> + 'a;

fn tool_fault(entry: &str, tools: &Toolset) -> Option<String> {
    if tools.get(entry).is_some() {
        return None;
    }
    if entry.starts_with("mcp__") {
        return Some("there is no such MCP server here".to_owned());
    }
    let meant = tools.closest(entry).first().map(|name| format!("; did you mean {name}?"));
    let meant = meant.unwrap_or_default();
    Some(format!("no tool that is turned on here has this name{meant}"))
}

fn mode_fault(written: &str, here: Mode) -> Option<String> {
    match written.parse::<Mode>() {
        Err(error) => Some(error.to_string()),
        Ok(mode) if mode > here => {
            let here = here.as_str();
            Some(format!(
                "{written} is wider than {here}, the mode of this server; it only narrows"
            ))
        }
        Ok(_) => None,
    }
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
