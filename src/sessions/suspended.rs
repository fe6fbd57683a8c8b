//! Tells whether the conversation of a frontend's own request waits for a person.

use super::Sessions;
use super::decisions::asked;
use super::request::ChatRequest;
use crate::ids::Scope;
use crate::store::rows::TurnStatus;
use crate::store::{ApprovalKey, StoreError, TurnKey};

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
        Ok(open.iter().filter_map(asked).any(|asked| quotes(&asked.code)))
    }
}
