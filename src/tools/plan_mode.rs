//! Says what plan mode is for, and reads and writes the plan of a session.

use std::path::Path;
use std::sync::Arc;

use super::session_context::SessionContext;
use super::tool::ToolError;
use crate::blocking::FILES;
use crate::session_files::{MAX_PLAN_BYTES, PlanError, SessionFiles};

/// The plan that its file holds now; `None` if there is none, or an empty one.
pub(crate) async fn read_plan(session: &SessionContext) -> Result<Option<Arc<str>>, ToolError> {
    let files = Arc::clone(plan_files(session)?);
    let read = FILES.run(move || files.read_plan()).await.map_err(ToolError::failed)?;
    let text: Option<Arc<str>> = read.map_err(ToolError::failed)?.map(Into::into);
    session.plan.keep(text.clone());
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// Makes the plan's file hold this text.
pub(crate) async fn write_plan(session: &SessionContext, text: Arc<str>) -> Result<(), ToolError> {
    let files = Arc::clone(plan_files(session)?);
    if text.len() > MAX_PLAN_BYTES {
        let path = files.plan_path().display().to_string();
        return Err(ToolError::failed(PlanError::TooLong(path)));
    }
    let put = Arc::clone(&text);
    let written = FILES.run(move || files.put_plan(Some(&put))).await;
    written.map_err(ToolError::failed)?.map_err(ToolError::failed)?;
    session.plan.keep(Some(text));
    Ok(())
}

/// The files of the session, of which its plan is one.
pub(crate) fn plan_files(session: &SessionContext) -> Result<&Arc<SessionFiles>, ToolError> {
    let files = session.files.as_ref();
    files.ok_or_else(|| ToolError::failed("nothing is kept of this conversation, so no plan"))
}

/// What the model may do while it plans. `can_leave`: an approved plan ends the phase.
pub(crate) fn phase(plan: &Path, can_leave: bool) -> String {
    let plan = plan.display();
    let end = if can_leave {
        "When it is complete, call ExitPlanMode: the user reads the plan and decides how to go on."
    } else {
        "Nobody can approve it here: the plan stays in that file, and plan mode stays on."
    };
    format!(
        "Plan mode is on. Look around and ask as much as you need, and change nothing: edits are \
         refused, and so is each command that is not proven to only read. Write your plan to \
         {plan}, the only file that you can change now. {end}"
    )
}
