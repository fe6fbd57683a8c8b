//! Starts each MCP server, and shows what came of it.

use std::fmt::Write as _;

use crate::mcp::{IncompleteTool, McpScope, McpServerStatus, McpServers};

/// The key whose values may hold keys, so that only its names are shown.
pub(super) const KEY: &str = "mcp.servers";

/// The names of the servers that are set.
pub(super) fn names(value: &toml::Value) -> String {
    let names = value.as_table().map(|servers| servers.keys().cloned().collect::<Vec<_>>());
    names.unwrap_or_default().join(", ")
}

/// A few lines for each server. `keys`: how many client keys there are.
pub(super) async fn report(servers: Option<&McpServers>, keys: usize) -> String {
    let Some(servers) = servers else {
        return "MCP servers: none stand under [mcp.servers]\n".to_owned();
    };
    servers.start_and_wait().await;
    let states = servers.states();
    servers.end().await;
    states.iter().fold("MCP servers:\n".to_owned(), |text, server| text + &lines(server, keys))
}

fn lines(server: &McpServerStatus, keys: usize) -> String {
    let McpServerStatus { name, state, version, tools, withheld, incomplete, started_in, scope } =
        server;
    let mut text = format!("  {name}: {}", state.name());
    // Writing to a string cannot fail.
    if let Some(why) = state.why() {
        _ = write!(text, ": {why}");
    }
    if let Some(version) = version {
        _ = write!(text, ", version {}", crate::text::shown_line(version));
    }
    if let Some(took) = started_in {
        _ = write!(text, ", {tools} tools, started in {} ms", took.as_millis());
    }
    text.push('\n');
    if *scope == McpScope::All && 1 < keys {
        text.push_str(
            "    one process or session serves all client keys; `scope = \"key\"` gives each its own\n",
        );
    }
    for tool in withheld {
        _ = writeln!(text, "    {} is not offered: {}", tool.own_name, tool.why);
    }
    for IncompleteTool { own_name, left_out } in incomplete {
        _ = writeln!(text, "    {own_name} is offered without {left_out}");
    }
    text
}
