//! Defines the contract of a tool, the set of tools of a request, and the built-in tools.

pub(crate) mod agent_context;
pub(crate) mod agent_types;
pub(crate) mod answer;
pub(crate) mod builtin;
pub(crate) mod call_progress;
pub(crate) mod catalogue;
mod change_preview;
pub(crate) mod choice_text;
pub(crate) mod definition;
mod disk;
pub(crate) mod foreign_text;
mod languages;
pub(crate) mod mcp;
pub(crate) mod output;
pub(crate) mod own_choice;
pub(crate) mod page_reader;
pub(crate) mod picture;
pub(crate) mod plan_mode;
pub(crate) mod planned_tasks;
pub(crate) mod question;
pub(crate) mod readable_settings;
pub(crate) mod running_agents;
pub(crate) mod session_context;
pub(crate) mod session_plan;
pub(crate) mod session_preferences;
pub(crate) mod settings;
mod settings_check;
pub(crate) mod side_usage;
pub(crate) mod subagent;
pub(crate) mod tasks;
pub(crate) mod todos;
pub(crate) mod tool;
pub(crate) mod toolset;
pub(crate) mod top_entries;
pub(crate) mod walk;

pub(crate) use settings::ToolSettings;
