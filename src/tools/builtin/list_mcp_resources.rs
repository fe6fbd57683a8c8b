//! Lists the resources of an MCP server.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::markdown;
use crate::mcp::{McpResource, McpServers};
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, McpAccess, Permit};
use crate::text::quoted_name;
use crate::tools::mcp;
use crate::tools::tool::{CallContext, Concurrency, Preview, Tool, ToolError, ToolOutput};

/// Resources of one answer.
const PAGE: usize = 100;

#[derive(Debug)]
pub(crate) struct ListMcpResources(Option<McpServers>);

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListMcpResourcesInput {
    /// The server whose resources to list. May be left out where only one has any.
    server: Option<String>,
    /// Where to go on, as the answer before said.
    cursor: Option<String>,
}

impl ListMcpResources {
    pub(crate) fn new(servers: Option<McpServers>) -> Self {
        Self(servers)
    }

    fn resources(&self) -> Vec<McpResource> {
        self.0.as_ref().map(|servers| servers.snapshot().resources).unwrap_or_default()
    }

    /// The server that is meant.
    fn server(&self, input: &ListMcpResourcesInput) -> Result<String, ToolError> {
        let resources = self.resources();
        let mut names: Vec<&str> =
            resources.iter().map(|resource| resource.server.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let listed = || names.join(", ");
        match (&input.server, names.as_slice()) {
            (_, []) => Err(ToolError::failed("no MCP server has resources now")),
            (Some(name), _) if names.contains(&name.as_str()) => Ok(name.clone()),
            (Some(name), _) => Err(ToolError::Failed(format!(
                "no MCP server {} has resources; these have: {}",
                quoted_name(name),
                listed()
            ))),
            (None, [only]) => Ok((*only).to_owned()),
            (None, _) => Err(ToolError::Failed(format!("give `server`: one of {}", listed()))),
        }
    }
}

impl Tool for ListMcpResources {
    type Input = ListMcpResourcesInput;
    const NAME: &'static str = mcp::RESOURCE_TOOLS[0];
    const ALIASES: &'static [&'static str] = &["ListMcpResourcesTool"];
    const ACCESS: AccessKind = AccessKind::Mcp;
    const DESCRIPTION: &'static str = "Lists the resources of an MCP server: documents and data that ReadMcpResource can read, \
         and templates of addresses, in which {words} stand for what you fill in.";
    const MAX_RESULT_CHARS: Option<usize> = Some(mcp::MAX_RESULT_CHARS);

    fn concurrency(&self, _: &Self::Input) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, input: &Self::Input, _: &CallContext) -> AccessRequest {
        let server = self.server(input).unwrap_or_default();
        AccessRequest::Mcp(McpAccess {
            server_identity: mcp::identity(self.0.as_ref(), &server),
            server,
            tool: Self::NAME.to_owned(),
            arguments: Value::Null,
            is_read_only: true,
        })
    }

    fn headline(&self, input: &Self::Input) -> String {
        input.server.clone().unwrap_or_default()
    }

    async fn preview(
        &self,
        input: &Self::Input,
        _: &AskedAccess,
        _: &CallContext,
    ) -> Option<Preview> {
        Some(match self.server(input) {
            Ok(server) => {
                let server = markdown::code(&server);
                Preview::of(format!("the list of resources of the MCP server {server}\n"))
            }
            Err(fault) => Preview::failed(fault, None),
        })
    }

    async fn execute(
        &self,
        input: Self::Input,
        permit: Permit,
        _: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        if let Some(servers) = &self.0 {
            servers.end_untrusted().await;
        }
        self.server(&input)?;
        let server = mcp::permitted(permit)?.server;
        let start = start_of(input.cursor.as_deref())?;
        let mut all = self.resources();
        all.retain(|resource| resource.server == server);
        let page: Vec<&McpResource> = all.iter().skip(start).take(PAGE).collect();
        let lines: Vec<String> = page.iter().map(|resource| line_of(resource)).collect();
        let mut output = ToolOutput::text(lines.join("\n")).with(json!({
            "server": server,
            "resources": page.iter().map(|resource| &resource.uri).collect::<Vec<_>>(),
            "total": all.len(),
        }));
        let next = start + page.len();
        if page.is_empty() {
            output.text.close(format!("(no more: {} resources in all)", all.len()));
        } else if next < all.len() {
            let total = all.len();
            output.text.close(format!("({next} of {total}; go on with cursor \"{next}\")"));
        }
        Ok(output)
    }
}

fn start_of(cursor: Option<&str>) -> Result<usize, ToolError> {
    let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) else { return Ok(0) };
    cursor.parse().map_err(|_| {
        ToolError::Failed(format!("{} is no cursor of this list", quoted_name(cursor)))
    })
}

fn line_of(resource: &McpResource) -> String {
    let kind = if resource.is_template { "template " } else { "" };
    let mime_type = resource.mime_type.iter().map(|mime_type| format!(" ({mime_type})"));
    let description = resource.description.iter().map(|words| format!(" - {words}"));
    let head = format!("{kind}{} {}", resource.uri, resource.name);
    std::iter::once(head.trim_end().to_owned()).chain(mime_type).chain(description).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_told_in_one_line() {
        let resource = McpResource {
            server: "s".into(),
            uri: "x://{id}".into(),
            is_template: true,
            name: "Any".into(),
            description: Some("Each of them".into()),
            mime_type: Some("text/plain".into()),
        };
        assert_eq!(line_of(&resource), "template x://{id} Any (text/plain) - Each of them");
    }

    #[test]
    fn a_cursor_is_a_place() {
        assert_eq!(start_of(None).unwrap(), 0);
        assert_eq!(start_of(Some("100")).unwrap(), 100);
        assert!(start_of(Some("-1")).is_err() && start_of(Some("x")).is_err());
    }
}
