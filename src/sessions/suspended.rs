//! Tells whether the conversation of a frontend's own request waits for a person.

use std::collections::HashSet;

use super::Sessions;
use super::decisions::asked;
use super::open_approvals::open_approvals;
use super::request::ChatRequest;
use crate::ids::{Scope, SessionId};
use crate::store::{SessionKey, StoreError};

impl Sessions {
    /// Whether a question is open whose code the request `quotes`, or in a session of the chat
    /// that the request names. A frontend asks another model for proposals than the one that it
    /// talks to.
    pub(crate) async fn is_suspended(
        &self,
        scope: Scope,
        request: &ChatRequest,
        quotes: impl Fn(&str) -> bool,
    ) -> Result<bool, StoreError> {
        let open = open_approvals(&*self.store, &self.running, scope).await?;
        if open.iter().filter_map(asked).any(|asked| quotes(&asked.code)) {
            return Ok(true);
        }
        let Some(named) = &request.named else { return Ok(false) };
        let sessions: HashSet<SessionId> = open.into_iter().map(|row| row.session).collect();
        for session in sessions {
            let is_named = session.to_string() == named.text();
            let row = self.store.session(scope, SessionKey::Id(session)).await?;
            let name = row.and_then(|row| row.name);
            if is_named || name.is_some_and(|name| name.text == named.text()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
