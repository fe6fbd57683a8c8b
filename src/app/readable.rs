//! Lists the settings that the model may read, with their values.

use std::time::Duration;

use crate::config::Config;
use crate::permissions::SandboxMode;
use crate::tools::readable_settings::{PROGRESS, ReadableSettings, SUBAGENT_MODEL};

pub(super) fn settings(config: &Config) -> ReadableSettings {
    let Config { turns, tools, subagents, .. } = config;
    let sandbox = match config.sandbox.mode {
        SandboxMode::Auto => "auto",
        SandboxMode::Required => "required",
        SandboxMode::Off => "off",
    };
    let enabled = tools.enable.as_ref().map_or("all".to_owned(), |names| names.join(", "));
    let values = [
        (PROGRESS, config.progress.as_str().to_owned()),
        ("sandbox", sandbox.to_owned()),
        ("turns.max_rounds", turns.max_rounds.to_string()),
        ("turns.max_duration", shown(turns.max_duration)),
        ("turns.max_tool_calls", turns.max_tool_calls.to_string()),
        ("turns.max_parallel_tools", turns.max_parallel_tools.to_string()),
        ("turns.disconnect_grace", shown(turns.disconnect_grace)),
        ("turns.keep_alive", shown(turns.keep_alive)),
        ("turns.head_hold", shown(turns.head_hold)),
        ("turns.shutdown_grace", shown(turns.shutdown_grace)),
        ("tools.enable", enabled),
        ("tools.disable", tools.disable.join(", ")),
        (SUBAGENT_MODEL, subagents.model.clone()),
        ("subagents.models", subagents.names().join(", ")),
        ("subagents.max_running", subagents.max_running.to_string()),
        ("subagents.max_depth", subagents.max_depth.to_string()),
        ("subagents.max_rounds", subagents.max_rounds.to_string()),
        ("subagents.max_duration", shown(subagents.max_duration)),
    ];
    ReadableSettings {
        values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        subagent_models: subagents.names().into_iter().map(str::to_owned).collect(),
    }
}

fn shown(duration: Duration) -> String {
    format!("{duration:?}")
}
