//! Gives the model the text of a command that is written as people type it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::skill::{follow, plain_name};
use crate::definitions::Definitions;
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct SlashCommand {
    definitions: Arc<Definitions>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SlashCommandInput {
    /// The command with its arguments, such as `/review src/main.rs`.
    command: String,
}

impl SlashCommand {
    pub(crate) fn new(definitions: Arc<Definitions>) -> Self {
        Self { definitions }
    }
}

impl Tool for SlashCommand {
    type Input = SlashCommandInput;

    const NAME: &'static str = "SlashCommand";
    const ACCESS: AccessKind = AccessKind::Named;
    const DESCRIPTION: &'static str = "Same as Skill, with name and arguments in one string: \
        `/review src`.";

    fn access_request(&self, input: &SlashCommandInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Named(parts(&input.command).0.to_owned())
    }

    fn headline(&self, input: &SlashCommandInput) -> String {
        input.command.clone()
    }

    async fn execute(
        &self,
        input: SlashCommandInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let arguments = parts(&input.command).1.to_owned();
        follow(&self.definitions, permit, arguments, context).await
    }
}

/// The name, and the arguments behind it.
fn parts(command: &str) -> (&str, &str) {
    let command = plain_name(command);
    command.split_once(char::is_whitespace).unwrap_or((command, ""))
}
