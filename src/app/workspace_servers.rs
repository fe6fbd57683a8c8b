//! Joins the MCP servers of the workspace's `.mcp.json` to the operator's, where it is trusted.

use std::sync::Arc;

use crate::mcp::{McpSettings, TrustedFile, WorkspaceServer, servers_of};
use crate::processes::Environment;
use crate::settings_files::{McpFile, McpFileTrust, SettingsFiles};
use crate::workspace::Workspace;

/// The servers of a `.mcp.json`, which need not be trusted. `None`: there is no file. The error
/// follows its name.
pub(crate) fn named_in(
    file: &McpFile,
    environment: &Environment,
) -> Result<Option<Vec<WorkspaceServer>>, String> {
    let Some(text) = file.text.as_ref().map_err(String::clone)? else { return Ok(None) };
    let workspace = file.path.parent().map(|workspace| workspace.display().to_string());
    let variable = |name: &str| match name {
        "workspaceFolder" | "workspaceRoot" | "CLAUDE_PROJECT_DIR" => workspace.clone(),
        "userHome" => environment.variable("HOME").map(str::to_owned),
        name => environment.variable(name).map(str::to_owned),
    };
    servers_of(text, &variable).map(Some)
}

/// Nothing of a file that is not trusted as it is now. What is wrong with one goes to the log.
pub(super) fn joined(
    operators: &McpSettings,
    environment: &Environment,
    files: &Arc<SettingsFiles>,
    workspace: &Arc<Workspace>,
) -> McpSettings {
    let mut all = operators.clone();
    let file = files.mcp_file(workspace);
    let path = file.path.display();
    match (file.trust, named_in(&file, environment)) {
        (_, Ok(None)) => {}
        (McpFileTrust::Untrusted | McpFileTrust::Changed, _) => {
            tracing::warn!(%path, "its MCP servers are ignored: it is not trusted as it is now");
        }
        (McpFileTrust::Trusted, Err(reason)) => {
            tracing::warn!(%path, %reason, "its MCP servers cannot be read");
        }
        (McpFileTrust::Trusted, Ok(Some(servers))) => {
            let Some(text) = file.trusted_text().cloned() else { return all };
            let (files, workspace) = (Arc::clone(files), Arc::clone(workspace));
            all.add_workspace(servers, &TrustedFile { files, workspace, text });
        }
    }
    all
}
