//! Tells which MCP servers the `.mcp.json` of each workspace names, and which of them count.

use std::fmt::Write as _;

use crate::app::services::Services;
use crate::app::workspace_servers;
use crate::config::Loaded;
use crate::mcp::WorkspaceServer;
use crate::settings_files::McpFileTrust;
use crate::text::printable;
use crate::workspace::Workspace;

/// Nothing where there is no such file. Starts no server.
pub(super) fn report(services: &Services, loaded: &Loaded) -> String {
    let main = services.permissions.workspace();
    let named = services.workspaces.values().filter(|named| named.root() != main.root());
    let named = named.map(|workspace| of_workspace(services, loaded, workspace, false));
    [of_workspace(services, loaded, main, true)].into_iter().chain(named).collect()
}

fn of_workspace(
    services: &Services,
    loaded: &Loaded,
    workspace: &Workspace,
    is_main: bool,
) -> String {
    let file = services.settings_files.mcp_file(workspace);
    let path = file.path.display();
    let servers = match workspace_servers::named_in(&file, &loaded.environment) {
        Ok(None) => return String::new(),
        Ok(Some(servers)) => servers,
        Err(reason) => {
            return format!("MCP file: {path} cannot be read: {}\n", printable(reason.as_bytes()));
        }
    };
    let is_operators =
        |name: &str| loaded.mcp.servers.iter().any(|operators| operators.name == name);
    let mut text = format!("MCP file: {path}: {} servers\n", servers.len());
    for WorkspaceServer { name, transport, is_enabled, .. } in &servers {
        let shown = printable(name.as_bytes());
        let line = match (file.trust, transport) {
            (McpFileTrust::Untrusted, _) => format!("ignored (untrusted): the MCP server {shown}"),
            (McpFileTrust::Changed, _) => {
                format!(
                    "ignored (the file has changed since it was trusted): the MCP server {shown}"
                )
            }
            _ if !is_main => {
                format!("no effect: the MCP server {shown}: only those of server.workspace start")
            }
            _ if is_operators(name) => {
                format!(
                    "no effect: the MCP server {shown}: the configuration's of that name counts"
                )
            }
            (McpFileTrust::Trusted, Err(why)) => {
                format!("no effect: the MCP server {shown}: {}", printable(why.as_bytes()))
            }
            (McpFileTrust::Trusted, Ok(_)) if !is_enabled => {
                format!("no effect: the MCP server {shown}: the file disables it")
            }
            (McpFileTrust::Trusted, Ok(_)) => format!("the MCP server {shown}"),
        };
        // Writing to a string cannot fail.
        _ = writeln!(text, "  {line}");
    }
    text
}
