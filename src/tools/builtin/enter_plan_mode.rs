//! Begins plan mode, if the user agrees.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Permit};
use crate::tools::plan_mode::{phase, plan_files};
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct EnterPlanMode;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EnterPlanModeInput {}

impl Tool for EnterPlanMode {
    type Input = EnterPlanModeInput;

    const NAME: &'static str = "EnterPlanMode";
    const ACCESS: AccessKind = AccessKind::Consent;
    const DESCRIPTION: &'static str = "Asks the user to begin plan mode, in which you look \
        around, change nothing and write a plan that the user approves. Use it before work that \
        is large, or that could be done in several ways.";

    fn access_request(&self, _: &EnterPlanModeInput, context: &CallContext) -> AccessRequest {
        let mode = &context.session.mode;
        if mode.is_planning() || !mode.can_approve_plan() {
            AccessRequest::Nothing
        } else {
            AccessRequest::Consent
        }
    }

    fn headline(&self, _: &EnterPlanModeInput) -> String {
        "Enter plan mode?".to_owned()
    }

    async fn preview(
        &self,
        _: &EnterPlanModeInput,
        _: &AskedAccess,
        _: &CallContext,
    ) -> Option<Preview> {
        let shown = "Enter plan mode? The model then looks around and writes a plan. It changes \
                     nothing else until you approve the plan.\n";
        Some(Preview::of(shown.to_owned()))
    }

    async fn execute(
        &self,
        _: EnterPlanModeInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let session = &context.session;
        let path = plan_files(session)?.plan_path();
        let was_planning = session.mode.is_planning();
        if !was_planning {
            if !session.mode.can_approve_plan() {
                return Err(ToolError::failed(
                    "nobody could approve a plan here, so plan mode is not entered. Say in your \
                     answer what you plan",
                ));
            }
            session.mode.begin_planning();
        }
        let before = if was_planning { "You are in plan mode already. " } else { "" };
        let text = format!("{before}{}", phase(&path, session.mode.can_leave_plan()));
        let structured = json!({ "mode": session.mode.current(), "file_path": path });
        Ok(ToolOutput::text(text).with(structured))
    }
}
