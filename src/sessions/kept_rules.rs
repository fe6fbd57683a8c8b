//! Keeps the rules that a person chose in a conversation.

use std::sync::Arc;

use super::Sessions;
use super::begin::Caller;
use crate::blocking::FILES;
use crate::errors::{ApiError, ErrorCode};
use crate::permissions::{GrantHolder, KeepError, KeptGrants, RuleGrant};

impl Sessions {
    /// Whether these rules could be kept. Else nothing is decided, and the person can still
    /// choose otherwise.
    pub(super) async fn check_rules(
        &self,
        caller: &Caller,
        rules: &[RuleGrant],
    ) -> Result<(), ApiError> {
        self.for_each_rule(caller, rules, KeptGrants::check).await
    }

    /// Keeps the rules of what is decided. If one cannot be kept by now, its call is allowed all
    /// the same, this once.
    pub(super) async fn keep_rules(&self, caller: &Caller, rules: &[RuleGrant]) {
        if let Err(error) = self.for_each_rule(caller, rules, KeptGrants::keep).await {
            let reason = error.message;
            tracing::warn!(%reason, "a rule that a person chose is not kept");
        }
    }

    async fn for_each_rule(
        &self,
        caller: &Caller,
        rules: &[RuleGrant],
        act: fn(&KeptGrants, &GrantHolder, &RuleGrant) -> Result<(), KeepError>,
    ) -> Result<(), ApiError> {
        let Some(kept) = self.permissions.kept_grants() else { return Ok(()) };
        let holder = GrantHolder { key: caller.key.clone(), scope: caller.scope };
        for grant in rules {
            let kept = Arc::clone(kept);
            let holder = holder.clone();
            let grant = grant.clone();
            let acted = FILES.run(move || act(&kept, &holder, &grant)).await?;
            acted.map_err(|error| not_kept(&error))?;
        }
        Ok(())
    }
}

/// What a client is told of a rule that cannot be kept.
pub(super) fn not_kept(error: &KeepError) -> ApiError {
    let code = match error {
        KeepError::TooMany(_) | KeepError::TooLarge(_) => ErrorCode::InvalidValue,
        KeepError::Unreadable { .. } | KeepError::Unwritten { .. } => ErrorCode::StoreUnavailable,
    };
    ApiError::new(code, format!("The rule is not kept: {error}."))
}
