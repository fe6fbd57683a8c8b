//! Makes tools of what MCP servers offer: a tool of a server is one of ours under its advertised
//! name, and its answer is put into the form of our answers.

mod answers;

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::sleep;

use super::call_progress::{CallProgress, ProgressText};
use super::tool::{
    AnyTool, CallContext, Concurrency, ParsedCall, Preview, StartRule, ToolError, ToolFuture,
};
use crate::markdown;
use crate::mcp::{McpFault, McpServers, McpTool};
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, McpAccess, Permit};
use crate::text;
use crate::tools::question::Question;

pub(crate) use self::answers::output;

/// The tools that are of use only where a server has resources.
pub(crate) const RESOURCE_TOOLS: [&str; 2] = ["ListMcpResources", "ReadMcpResource"];

/// The cap of an answer.
pub(crate) const MAX_RESULT_CHARS: usize = 100_000;

/// The most characters of arguments in a line for people.
const MAX_HEADLINE: usize = 200;

/// The least between two lines of progress. A server may send thousands.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// A tool of a server, for the toolset.
pub(crate) fn erase(servers: McpServers, tool: Arc<McpTool>) -> Arc<dyn AnyTool> {
    Arc::new(ServerTool { servers, tool })
}

struct ServerTool {
    servers: McpServers,
    tool: Arc<McpTool>,
}

struct ServerCall {
    tool: Arc<ServerTool>,
    arguments: Value,
    notes: Vec<String>,
}

impl AnyTool for ServerTool {
    fn name(&self) -> &str {
        &self.tool.name
    }

    fn aliases(&self) -> &[&'static str] {
        &[]
    }

    fn access(&self) -> AccessKind {
        AccessKind::Mcp
    }

    fn description(&self) -> &str {
        &self.tool.description
    }

    fn advice(&self) -> Option<&'static str> {
        None
    }

    fn input_schema(&self) -> &Value {
        self.tool.schema.advertised()
    }

    /// Its effects are unknown, so its arguments must be final.
    fn start(&self) -> StartRule {
        StartRule::Sealed
    }

    fn max_result_chars(&self) -> Option<usize> {
        Some(MAX_RESULT_CHARS)
    }

    fn normalised(&self, arguments: Value) -> Value {
        match self.tool.schema.accept(arguments.clone()) {
            Ok((normalised, _)) => normalised,
            Err(_) => arguments,
        }
    }

    fn parse(self: Arc<Self>, arguments: Value) -> Result<Box<dyn ParsedCall>, ToolError> {
        let (arguments, notes) = self.tool.schema.accept(arguments)?;
        Ok(Box::new(ServerCall { tool: self, arguments, notes }))
    }
}

impl ParsedCall for ServerCall {
    fn concurrency(&self) -> Concurrency {
        if self.tool.tool.shared { Concurrency::Shared } else { Concurrency::Exclusive }
    }

    fn access_request(&self, _: &CallContext) -> AccessRequest {
        let tool = &self.tool.tool;
        AccessRequest::Mcp(McpAccess {
            server: tool.server.clone(),
            server_identity: Arc::clone(&tool.server_identity),
            tool: tool.own_name.clone(),
            arguments: self.arguments.clone(),
            is_read_only: tool.read_only,
        })
    }

    fn headline(&self) -> String {
        let arguments = self.arguments.to_string();
        let line = text::shown_line(text::first_chars(&arguments, MAX_HEADLINE));
        if line == "{}" { String::new() } else { line }
    }

    fn preview<'a>(
        &'a self,
        _: &'a AskedAccess,
        _: &'a CallContext,
    ) -> futures::future::BoxFuture<'a, Option<Preview>> {
        let tool = &self.tool.tool;
        let (server, own) = (markdown::code(&tool.server), markdown::code(&tool.own_name));
        let arguments = serde_json::to_string_pretty(&self.arguments).unwrap_or_default();
        // As they are sent: what cannot be seen is shown, not left out.
        let shown = markdown::fence("json", &arguments);
        let shown = format!("the tool {own} of the MCP server {server}, with\n{shown}");
        Box::pin(async move { Some(Preview::of(shown)) })
    }

    fn questions(&self) -> Option<Result<Vec<Question>, ToolError>> {
        None
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn execute(self: Box<Self>, permit: Permit, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let ServerTool { servers, tool } = &*self.tool;
            let access = permitted(permit)?;
            let arguments = match access.arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            };
            let key = context.session.key.as_str();
            let (heard, lines) = watch::channel(String::new());
            let calling = servers.call(key, tool, arguments, Some(heard));
            let answer = tokio::select! {
                answer = calling => answer.map_err(fault)?,
                never = tell(lines, &context.progress) => match never {},
                () = context.cancelled.cancelled() => return Err(ToolError::Cancelled),
            };
            output(answer, &format!("{} of {}", tool.own_name, tool.server)).await
        })
    }
}

/// Tells the client the latest of what a server says of a call, now and then.
async fn tell(mut lines: watch::Receiver<String>, progress: &CallProgress) -> Infallible {
    while lines.changed().await.is_ok() {
        let line = lines.borrow_and_update().clone();
        progress.tell(ProgressText::line(line));
        sleep(PROGRESS_INTERVAL).await;
    }
    pending().await
}

/// The digest of the server that is configured under this name; empty if there is none.
pub(crate) fn identity(servers: Option<&McpServers>, name: &str) -> Arc<str> {
    servers.map_or_else(|| Arc::from(""), |servers| servers.identity(name))
}

/// The use of a server that was judged.
pub(crate) fn permitted(permit: Permit) -> Result<McpAccess, ToolError> {
    permit.into_mcp().ok_or_else(|| ToolError::failed("the permit is for another access"))
}

pub(crate) fn fault(McpFault(why): McpFault) -> ToolError {
    ToolError::Failed(why)
}
