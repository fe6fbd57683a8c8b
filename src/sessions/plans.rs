//! Puts the plan of a session back as it was after the turn that a request goes on from.
//!
//! The plan is one file, and a session has branches. A request that goes on where the session
//! was left finds the file as it is, also if somebody has edited it since: what it holds is what
//! a person approves. On another branch it holds what that branch had written.

use std::sync::Arc;

use super::Sessions;
use super::record::SessionBody;
use crate::blocking::RESOLVING;
use crate::errors::{ApiError, ErrorCode};
use crate::ids::TurnId;
use crate::session_files::SessionFiles;
use crate::tools::session_plan::SessionPlan;

impl Sessions {
    /// `saved` is the plan that the turn `parent` left, and `body` that of the session.
    pub(super) async fn restore_plan(
        &self,
        files: &Arc<SessionFiles>,
        saved: Option<String>,
        (body, parent): (&SessionBody, Option<&TurnId>),
    ) -> Result<SessionPlan, ApiError> {
        let plan = SessionPlan::default();
        if saved.is_none() && body.plan_of.is_none() {
            return Ok(plan);
        }
        let is_as_left = body.plan_of.as_ref() == parent;
        let files = Arc::clone(files);
        let restore = move || {
            if is_as_left {
                return Ok(files.read_plan().unwrap_or(saved));
            }
            files.put_plan(saved.as_deref()).map(|()| saved)
        };
        let restored = RESOLVING.run(restore).await?.map_err(|error| {
            tracing::error!(%error, "the plan of a session cannot be put back");
            ApiError::new(ErrorCode::StoreUnavailable, "The plan of this session cannot be kept.")
        })?;
        plan.keep(restored.map(Into::into));
        Ok(plan)
    }
}
