//! Waits for a given time and reports when it began: as a tool that only looks, and as one with
//! an effect. For benchmarks only.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::tool::{CallContext, Concurrency, StartRule, Tool, ToolError, ToolOutput};

/// `Wait`, which only looks, or `Act`, whose intent is committed before it runs.
#[derive(Debug)]
pub(crate) struct Timed<const HAS_EFFECT: bool>;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WaitInput {
    /// How long to wait, in milliseconds.
    ms: u64,
}

impl<const HAS_EFFECT: bool> Tool for Timed<HAS_EFFECT> {
    type Input = WaitInput;

    const NAME: &'static str = if HAS_EFFECT { "Act" } else { "Wait" };
    const ACCESS: AccessKind = if HAS_EFFECT { AccessKind::Edit } else { AccessKind::None };
    const DESCRIPTION: &'static str =
        if HAS_EFFECT { "Waits as well." } else { "Waits, and does nothing else." };
    const START: StartRule = StartRule::Closed;

    fn concurrency(&self, _: &WaitInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, _: &WaitInput, context: &CallContext) -> AccessRequest {
        if HAS_EFFECT {
            AccessRequest::Write(context.resolve(Some("act".as_ref())))
        } else {
            AccessRequest::Nothing
        }
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
    // The shortest sleep takes a millisecond, which a call that only shows its own cost should not.
    let pause = async {
        if input.ms > 0 {
            tokio::time::sleep(Duration::from_millis(input.ms)).await;
        }
    };
    tokio::select! {
        () = pause => {
            Ok(ToolOutput::text(format!("began at {} ns", began.as_nanos())))
        }
        () = context.cancelled.cancelled() => Err(ToolError::Cancelled),
    }
}
