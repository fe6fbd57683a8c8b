//! Lists the built-in tools. Each has a file of its own.

#[cfg(test)]
mod against_ripgrep;
pub(crate) mod ask_user_question;
pub(crate) mod bash;
pub(crate) mod config;
pub(crate) mod edit;
pub(crate) mod enter_plan_mode;
pub(crate) mod exit_plan_mode;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod list_mcp_resources;
pub(crate) mod list_tasks;
#[cfg(feature = "lsp")]
pub(crate) mod lsp;
pub(crate) mod notebook_edit;
pub(crate) mod read;
pub(crate) mod read_mcp_resource;
pub(crate) mod skill;
pub(crate) mod slash_command;
pub(crate) mod task;
pub(crate) mod task_create;
pub(crate) mod task_get;
pub(crate) mod task_list;
pub(crate) mod task_output;
pub(crate) mod task_stop;
pub(crate) mod task_update;
pub(crate) mod todo_write;
#[cfg(feature = "bench-tool")]
pub(crate) mod wait;
pub(crate) mod web_fetch;
pub(crate) mod web_search;
pub(crate) mod write;

use std::sync::Arc;

use super::page_reader::PageReader;
use super::readable_settings::ReadableSettings;
use super::tool::{AnyTool, Tool as _, erase};
use crate::definitions::Definitions;
use crate::files::Files;
use crate::lsp::LanguageServers;
use crate::mcp::McpServers;
use crate::processes::Runner;
use crate::processes::sandbox::Sandbox;
use crate::settings_files::SettingsFiles;
use crate::web::Web;
use crate::web::search::Search;

/// The advice that every tool that changes files gives.
const READ_FIRST: &str = "Read a file before you change it.";

/// The tools that are of use only where commands go to the background.
pub(crate) const OF_TASKS: [&str; 3] =
    [task_output::TaskOutput::NAME, task_stop::TaskStop::NAME, list_tasks::ListTasks::NAME];

/// The tools that are off unless `tools.extra` names them.
pub(crate) const EXTRA: [&str; 4] = [
    task_create::TaskCreate::NAME,
    task_get::TaskGet::NAME,
    task_update::TaskUpdate::NAME,
    task_list::TaskList::NAME,
];

/// The tool that is of use only where a language server is there.
pub(crate) const LSP: &str = "LSP";

/// The tool that is of use only where a provider is set.
pub(crate) const WEB_SEARCH: &str = web_search::WebSearch::NAME;

/// The services that the tools need from the rest of the program.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) files: Arc<Files>,
    pub(crate) runner: Runner,
    pub(crate) sandbox: Sandbox,
    /// Whether the model may ask for commands outside of the sandbox.
    pub(crate) sandbox_escape: bool,
    pub(crate) bash: bash::BashSettings,
    /// Whose variables commands have. `None`: nobody's.
    pub(crate) settings_files: Option<Arc<SettingsFiles>>,
    /// The skills and commands of files.
    pub(crate) definitions: Arc<Definitions>,
    /// `None`: nobody asks any.
    pub(crate) languages: Option<Arc<LanguageServers>>,
    /// What the model may read of the configuration.
    pub(crate) settings: Arc<ReadableSettings>,
    pub(crate) web: Arc<Web>,
    /// Answers the prompts of `WebFetch`.
    pub(crate) page_reader: Option<PageReader>,
    /// `None`: no search provider is set.
    pub(crate) search: Option<Arc<Search>>,
    /// `None`: none are configured.
    pub(crate) mcp: Option<McpServers>,
}

/// All tools in the order in which they are advertised. A provider's prompt cache depends on
/// this order.
pub(crate) fn list(services: &Services) -> Vec<Arc<dyn AnyTool>> {
    let languages = || services.languages.clone();
    vec![
        erase(
            read::Read::new(services.runner.workers())
                .with_files(Arc::clone(&services.files))
                .with_languages(languages()),
        ),
        erase(write::Write::new(Arc::clone(&services.files)).with_languages(languages())),
        erase(edit::Edit::new(Arc::clone(&services.files)).with_languages(languages())),
        erase(notebook_edit::NotebookEdit::new(Arc::clone(&services.files))),
        erase(glob::Glob::default()),
        erase(grep::Grep::default().with_files(Arc::clone(&services.files))),
        erase(
            bash::Bash::new(
                services.runner.clone(),
                services.sandbox.clone(),
                services.bash.clone(),
                services.settings_files.clone(),
            )
            .with_escape(services.sandbox_escape),
        ),
        erase(task_output::TaskOutput),
        erase(task_stop::TaskStop),
        erase(list_tasks::ListTasks),
        erase(task::Task::new(services.bash.background_tasks > 0)),
        erase(todo_write::TodoWrite),
        erase(task_create::TaskCreate),
        erase(task_get::TaskGet),
        erase(task_update::TaskUpdate),
        erase(task_list::TaskList),
        erase(ask_user_question::AskUserQuestion),
        erase(enter_plan_mode::EnterPlanMode),
        erase(exit_plan_mode::ExitPlanMode),
        erase(skill::Skill::new(Arc::clone(&services.definitions))),
        erase(slash_command::SlashCommand::new(Arc::clone(&services.definitions))),
        erase(web_fetch::WebFetch::new(Arc::clone(&services.web), services.page_reader.clone())),
        erase(web_search::WebSearch::new(services.search.clone())),
        #[cfg(feature = "lsp")]
        erase(lsp::Lsp::new(languages())),
        erase(list_mcp_resources::ListMcpResources::new(services.mcp.clone())),
        erase(read_mcp_resource::ReadMcpResource::new(services.mcp.clone())),
        erase(config::Config::new(Arc::clone(&services.settings))),
        #[cfg(feature = "bench-tool")]
        erase(wait::Timed::<false>),
        #[cfg(feature = "bench-tool")]
        erase(wait::Timed::<true>),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::processes::Environment;
    use crate::processes::sandbox::SandboxSettings;
    use crate::tools::toolset::Toolset;

    /// Keywords that some provider's translation drops or changes: docs/stream.md, "What goes
    /// back".
    const LOST: [&str; 17] = [
        "$ref",
        "$defs",
        "$schema",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "const",
        "examples",
        "format",
        "title",
        "additionalProperties",
        "uniqueItems",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "patternProperties",
        "nullable",
    ];

    pub(crate) fn toolset() -> Toolset {
        let runner = Runner::new("/proc/self/exe", Environment::allowed([]), None);
        let sandbox = Sandbox::new(runner.clone(), SandboxSettings::default());
        Toolset::new(list(&Services {
            files: Arc::default(),
            languages: None,
            sandbox,
            runner,
            sandbox_escape: false,
            bash: bash::BashSettings::default(),
            settings_files: None,
            definitions: Definitions::none(),
            settings: Arc::default(),
            web: crate::web::test_support::web(),
            page_reader: None,
            search: None,
            mcp: None,
        }))
    }

    fn definitions() -> Vec<Value> {
        let toolset = toolset();
        let parsed = toolset.definitions().iter().map(|raw| serde_json::from_str(raw.get()));
        parsed.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    #[cfg(not(feature = "bench-tool"))]
    fn the_model_is_told_of_these_tools() {
        insta::assert_json_snapshot!("tools", definitions());
    }

    #[test]
    fn definitions_are_the_same_bytes_every_time() {
        let bytes = || {
            let toolset = toolset();
            toolset.definitions().iter().map(|raw| raw.get().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(bytes(), bytes());
    }

    #[test]
    fn nothing_of_a_definition_gets_lost_on_the_way() {
        for definition in definitions() {
            let function = &definition["function"];
            let name = function["name"].as_str().unwrap();
            assert!(name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphabetic()));
            assert_eq!(function["parameters"]["type"], "object", "{name}");
            assert!(function["parameters"]["properties"].is_object(), "{name}");
            check_schema(name, &function["parameters"]);
        }
    }

    fn check_schema(place: &str, schema: &Value) {
        let members = schema.as_object().unwrap_or_else(|| panic!("{place} is no schema"));
        for keyword in LOST {
            assert!(!members.contains_key(keyword), "{place} has {keyword}");
        }
        let kind = schema["type"].as_str().unwrap_or_else(|| panic!("{place} has no single type"));
        assert!(!schema.get("default").is_some_and(Value::is_null), "{place}: default is null");
        for choice in schema["enum"].as_array().into_iter().flatten() {
            assert!(choice.as_str().is_some_and(|text| !text.is_empty()), "{place}: {choice}");
        }
        if kind == "array" {
            check_schema(&format!("{place}[]"), &schema["items"]);
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            check_schema(&format!("{place}.{name}"), property);
        }
    }
}
