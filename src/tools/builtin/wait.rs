//! Waits for a given time and reports when it began: as a tool that only looks, and as one with
//! an effect. For benchmarks only.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::tool::{CallContext, Concurrency, StartRule, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct Wait;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WaitInput {
    /// How long to wait, in milliseconds.
    ms: u64,
}

impl Tool for Wait {
    type Input = WaitInput;

    const NAME: &'static str = "Wait";
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Waits, and does nothing else.";
    const START: StartRule = StartRule::Closed;

    fn concurrency(&self, _: &WaitInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, _: &WaitInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &WaitInput) -> String {
        format!("{} ms", input.ms)
    }

    async fn execute(
        &self,
        input: WaitInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        wait(input, &context).await
    }
}

/// Waits as [`Wait`] does, but counts as a tool with an effect: its intent is committed first.
#[derive(Debug)]
pub(crate) struct Act;

impl Tool for Act {
    type Input = WaitInput;

    const NAME: &'static str = "Act";
    const ACCESS: AccessKind = AccessKind::Edit;
    const DESCRIPTION: &'static str = "Waits as well.";
    const START: StartRule = StartRule::Closed;

    fn concurrency(&self, _: &WaitInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, _: &WaitInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Write(context.resolve(Some("act".as_ref())))
    }

    fn headline(&self, input: &WaitInput) -> String {
        format!("{} ms", input.ms)
    }

    async fn execute(
        &self,
        input: WaitInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        wait(input, &context).await
    }
}

async fn wait(input: WaitInput, context: &CallContext) -> Result<ToolOutput, ToolError> {
    let began = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(input.ms)) => {
            Ok(ToolOutput::text(format!("began at {} ns", began.as_nanos())))
        }
        () = context.cancelled.cancelled() => Err(ToolError::Cancelled),
    }
}
