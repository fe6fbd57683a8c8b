//! Tells whether the conversation of a frontend's own request waits for a person.

use std::collections::HashSet;

use super::Sessions;
use super::decisions::asked;
use super::request::ChatRequest;
use crate::ids::{Scope, SessionId};
use crate::store::rows::TurnStatus;
use crate::store::{ApprovalKey, SessionKey, StoreError, TurnKey};

impl Sessions {
    /// Whether the session that the request names is suspended at a question, or a question is
    /// open whose code the request `quotes`.
    pub(crate) async fn is_suspended(
        &self,
        scope: Scope,
        request: &ChatRequest,
        quotes: impl Fn(&str) -> bool,
    ) -> Result<bool, StoreError> {
        if let Some(named) = &request.named
            && let Some(session) = self.session_named(scope, named, &request.model).await?
        {
            let newest = self.store.turns(scope, TurnKey::Newest(session.id)).await?;
            if newest.first().is_some_and(|turn| turn.status == TurnStatus::Suspended) {
                return Ok(true);
            }
        }
        let open = self.store.approvals(scope, ApprovalKey::Open).await?;
        if open.iter().filter_map(asked).any(|asked| quotes(&asked.code)) {
            return Ok(true);
        }
        // A frontend asks another model for its proposals than the one that it talks to.
        let Some(named) = &request.named else { return Ok(false) };
        let sessions: HashSet<SessionId> = open.into_iter().map(|row| row.session).collect();
        for session in sessions {
            let row = self.store.session(scope, SessionKey::Id(session)).await?;
            let name = row.and_then(|row| row.name);
            if name.is_some_and(|name| name.text == named.text()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
