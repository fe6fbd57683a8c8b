//! Finds the permission mode in which a turn begins.

use super::Sessions;
use super::assemble::Assembled;
use super::record::SessionState;
use super::request::ChatRequest;
use crate::agent::beginning::AskingChannel;
use crate::permissions::{ModeBounds, SessionMode};
use crate::tools::builtin::exit_plan_mode::ExitPlanMode;
use crate::tools::tool::Tool as _;

impl Sessions {
    /// The mode of the session as the turn begins.
    pub(super) fn session_mode(
        &self,
        request: &ChatRequest,
        state: Option<&SessionState>,
        assembled: &Assembled,
    ) -> SessionMode {
        let can_ask = self.asking(request).channel != AskingChannel::Nobody;
        let bounds = ModeBounds {
            base: request.base_mode,
            requested: request.mode,
            can_approve_plan: can_ask && request.tools.get(ExitPlanMode::NAME).is_some(),
            resumes: assembled.resumes,
        };
        let saved = state.and_then(|state| state.mode).unwrap_or_default();
        SessionMode::new(bounds, saved)
    }
}
