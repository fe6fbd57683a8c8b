//! Defines the types of subagents, and which tools an agent of a type has.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::subagent::TASK;
use super::tool::AnyTool;
use super::toolset::Toolset;
use crate::definitions::{AgentDefinition, DefinitionSet};
use crate::permissions::Mode;

/// The type that an agent has if the model names none.
pub(crate) const GENERAL_PURPOSE: &str = "general-purpose";

/// Tools that act for the conversation with the person, or on what belongs to the session. No
/// subagent has them.
const OF_THE_MAIN_AGENT: [&str; 7] = [
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "TaskOutput",
    "TaskStop",
    "ListTasks",
    "Config",
];

/// All that an agent in the background may have: nobody watches it. `WebFetch` and `WebSearch`
/// are not built yet.
const IN_THE_BACKGROUND: [&str; 12] = [
    "Read",
    "Edit",
    "Write",
    "NotebookEdit",
    "Glob",
    "Grep",
    "Bash",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Skill",
    "SlashCommand",
];

/// Tools that change files. An agent that only looks has none of them.
const OF_WRITERS: [&str; 3] = ["Edit", "Write", "NotebookEdit"];

/// A type of subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentType {
    pub(crate) name: String,
    /// Tells the model what to use it for.
    pub(crate) description: String,
    /// The instructions of its agents.
    pub(crate) prompt: Arc<str>,
    /// The tools that it has, by name, alias or `mcp__server`. `None`: all.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) disallowed_tools: Vec<String>,
    /// A name of `subagents.models`. `None`: `subagents.model` decides.
    pub(crate) model: Option<String>,
    pub(crate) max_rounds: Option<u32>,
    /// Narrows the mode of its calls.
    pub(crate) mode: Option<Mode>,
    /// Its agents change nothing, in every mode.
    pub(crate) only_reads: bool,
}

/// Where an agent runs, which decides about its tools as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgentPlace {
    pub(crate) in_background: bool,
    /// Whether it may start agents of its own.
    pub(crate) may_delegate: bool,
}

/// The types that are always there.
pub(crate) fn built_in() -> Vec<AgentType> {
    let agent_type = |name: &str, description: &str, prompt: &str| AgentType {
        name: name.to_owned(),
        description: description.to_owned(),
        prompt: prompt.into(),
        tools: None,
        disallowed_tools: Vec::new(),
        model: None,
        max_rounds: None,
        mode: None,
        only_reads: false,
    };
    vec![
        agent_type(
            GENERAL_PURPOSE,
            "Works on a task of several steps by itself: it looks, changes files and runs \
             commands.",
            "You are given one task by another agent, which sees nothing but your last message. \
             Do the whole task and nothing beside it. Then report what you found or changed, with \
             the absolute paths that matter, in as few words as carry it.",
        ),
        AgentType {
            only_reads: true,
            ..agent_type(
                "Explore",
                "Searches files and answers questions about them without changing anything. Say \
                 in the prompt how thorough it should be: quick, medium or very thorough.",
                "You search files for another agent, which sees nothing but your last message. \
                 You change nothing: your commands only read. Search with Glob and Grep, read \
                 what you find, and make independent calls in one message. Be as thorough as the \
                 prompt asks: quick (the first good match), medium (the likely places), very \
                 thorough (every place and naming). Answer with what you found, each with its \
                 absolute path and line, and say what you did not find.",
            )
        },
        AgentType {
            only_reads: true,
            ..agent_type(
                "Plan",
                "Studies the code and designs how to do something, step by step, without changing \
                 anything.",
                "You plan a change for another agent, which sees nothing but your last message. \
                 You change nothing: your commands only read. Study how the code does such things \
                 now. Then answer with the steps in their order, what each changes, what could go \
                 wrong, and the few files that matter most, by absolute path.",
            )
        },
        AgentType {
            tools: Some(["Bash", "Read", "Glob", "Grep"].map(str::to_owned).to_vec()),
            ..agent_type(
                "Bash",
                "Runs commands and reports what came of them: builds, tests, git.",
                "You run commands for another agent, which sees nothing but your last message. \
                 Run what the prompt asks for, one command after the other where one needs the \
                 other. Report the outcome: exit codes, and the lines of output that matter, word \
                 for word.",
            )
        },
    ]
}

/// All types of a session: the built-in ones, then those of files.
pub(crate) fn all(set: &DefinitionSet) -> Vec<AgentType> {
    let of_files = set.agents.iter().map(AgentType::of_file);
    built_in().into_iter().chain(of_files).collect()
}

impl AgentType {
    pub(crate) fn of_file(definition: &AgentDefinition) -> Self {
        // A mode that we do not know narrows nothing.
        let mode = definition.permission_mode.as_deref().and_then(|mode| mode.parse().ok());
        Self {
            name: definition.name.clone(),
            description: definition.description.clone(),
            prompt: Arc::clone(&definition.prompt),
            tools: definition.tools.clone(),
            disallowed_tools: definition.disallowed_tools.clone(),
            model: definition.model.clone(),
            max_rounds: definition.max_turns,
            mode,
            only_reads: false,
        }
    }

    /// The tools of such an agent, of those that its parent's request has.
    pub(crate) fn tools_of(&self, parents: &Toolset, place: AgentPlace) -> Toolset {
        let has = |tool: &&Arc<dyn AnyTool>| {
            self.has_by_place(tool.name(), place)
                && self.tools.as_ref().is_none_or(|tools| is_among(tool.as_ref(), tools))
                && !is_among(tool.as_ref(), &self.disallowed_tools)
        };
        let names: Vec<&str> = parents.tools().iter().filter(has).map(|tool| tool.name()).collect();
        parents.only(&names)
    }

    /// What is excluded comes before what a file says.
    fn has_by_place(&self, tool: &str, place: AgentPlace) -> bool {
        if OF_THE_MAIN_AGENT.contains(&tool) || (self.only_reads && OF_WRITERS.contains(&tool)) {
            return false;
        }
        if tool == TASK {
            return place.may_delegate && !place.in_background;
        }
        !place.in_background || IN_THE_BACKGROUND.contains(&tool)
    }
}

/// Whether the list names the tool, by its name, an alias, or the server that it comes from.
fn is_among(tool: &dyn AnyTool, list: &[String]) -> bool {
    list.iter().any(|entry| {
        entry == tool.name()
            || tool.aliases().contains(&entry.as_str())
            || is_of_server(tool.name(), entry)
    })
}

fn is_of_server(tool: &str, server: &str) -> bool {
    let server = server.strip_suffix("__*").unwrap_or(server);
    server.starts_with("mcp__")
        && tool.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"))
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "bench-tool"))]
    use std::fmt::Write as _;

    use super::*;
    use crate::definitions::BUILT_IN_AGENTS;
    #[cfg(not(feature = "bench-tool"))]
    use crate::tools::builtin;

    #[test]
    fn no_file_takes_the_name_of_a_built_in_type() {
        let names: Vec<_> = built_in().into_iter().map(|it| it.name).collect();
        assert_eq!(names, BUILT_IN_AGENTS);
    }

    /// The table of docs/agents.md, from the tools themselves.
    #[cfg(not(feature = "bench-tool"))]
    fn table() -> String {
        let all = builtin::tests::toolset();
        let mut columns: Vec<(String, AgentType, AgentPlace)> = built_in()
            .into_iter()
            .map(|it| {
                (it.name.clone(), it, AgentPlace { in_background: false, may_delegate: true })
            })
            .collect();
        let general = columns[0].1.clone();
        let place = AgentPlace { in_background: true, may_delegate: true };
        columns.push(("general-purpose in the background".to_owned(), general, place));
        let tools: Vec<Toolset> =
            columns.iter().map(|(_, it, place)| it.tools_of(&all, *place)).collect();
        let names: Vec<&str> = columns.iter().map(|(name, ..)| name.as_str()).collect();
        let mut table =
            format!("| tool | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        for tool in all.names() {
            let cells = columns.iter().zip(&tools).map(|((_, it, _), tools)| {
                match (tools.get(tool).is_some(), tool) {
                    (false, _) => "–",
                    (true, "Bash") if it.only_reads => "yes ¹",
                    (true, TASK) => "yes ²",
                    (true, _) => "yes",
                }
            });
            let cells: Vec<_> = cells.collect();
            writeln!(table, "| {tool} | {} |", cells.join(" | ")).unwrap();
        }
        table
    }

    #[test]
    #[cfg(not(feature = "bench-tool"))]
    fn the_docs_have_the_table_of_agents_and_tools() {
        let docs = include_str!("../../docs/agents.md");
        let table = table();
        assert!(docs.contains(&table), "docs/agents.md needs this table:\n{table}");
    }
}
