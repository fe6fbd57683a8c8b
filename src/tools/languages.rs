//! Lets language servers know of files that tools read and change, and adds what they say.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::tool::{CallContext, ToolError, ToolOutput};
use crate::lsp::{AfterChange, LanguageServers};
use crate::permissions::Permit;

/// The language servers of a tool, if it has any.
#[derive(Debug, Default)]
pub(super) struct Languages(Option<Arc<LanguageServers>>);

impl Languages {
    pub(super) fn new(servers: Option<Arc<LanguageServers>>) -> Self {
        Self(servers)
    }

    /// A file was read, with every link of its path resolved. Waits for nothing.
    pub(super) fn opened(&self, path: Option<&Path>, context: &CallContext) {
        if let Some((servers, path)) = self.0.as_ref().zip(path) {
            servers.opened(&context.session.workspace, path);
        }
    }

    /// Changes the permitted file, and adds to the answer what a server says of it.
    pub(super) async fn told_of<F: Future<Output = Result<ToolOutput, ToolError>>>(
        &self,
        permit: Permit,
        context: CallContext,
        change: impl FnOnce(Permit) -> F,
    ) -> Result<ToolOutput, ToolError> {
        let path = permit.target().map(|target| target.real_path().to_owned());
        let output = change(permit).await?;
        let Some((servers, path)) = self.0.as_ref().zip(path) else { return Ok(output) };
        let told = tokio::select! {
            told = servers.after_change(&context.session.workspace, &path) => told,
            // The change is made, and its answer is due.
            () = context.cancelled.cancelled() => None,
        };
        Ok(match told {
            Some(told) => with_diagnostics(output, &told),
            None => output,
        })
    }
}

fn with_diagnostics(mut output: ToolOutput, told: &AfterChange) -> ToolOutput {
    for line in told.lines() {
        output.text.close(line);
    }
    if let Value::Object(members) = &mut output.structured {
        members.insert("diagnostics".to_owned(), told.structured());
    }
    output
}
