//! Gathers what the model is told before the next request: files that other programs have
//! changed, and background tasks that have ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::blocking::FILES;
use crate::files::outside_changes::{Current, OutsideChanges};
use crate::files::{Found, Suspect};
use crate::permissions::{AccessKind, AccessRequest, Judgement, Permissions};
use crate::tools::tool::SessionContext;

/// The tool whose rules decide whether the model may see what a file holds.
const READ: &str = "Read";

/// A file system that does not answer holds up a request no longer.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The reminder for the model; `None` if there is nothing to tell.
pub(crate) async fn gather(
    permissions: &Permissions,
    session: &Arc<SessionContext>,
) -> Option<String> {
    let changed = if session.read_state.is_empty() {
        None
    } else {
        timeout(MAX_WAIT, changed_files(permissions, session)).await.ok().flatten()
    };
    let reminders: Vec<String> = changed.into_iter().chain(ended_tasks(session)).collect();
    (!reminders.is_empty()).then(|| reminders.join("\n\n"))
}

/// Tells of the tasks of which the model does not know yet that they have ended.
fn ended_tasks(session: &SessionContext) -> Option<String> {
    let notices = session.tasks.as_ref()?.take_notices();
    (!notices.is_empty()).then(|| format!("<reminder>\n{}\n</reminder>", notices.join("\n")))
}

async fn changed_files(permissions: &Permissions, session: &Arc<SessionContext>) -> Option<String> {
    let context = Arc::clone(session);
    let suspects = FILES.run(move || context.read_state.suspects()).await.ok()?;
    let mut changes = OutsideChanges::default();
    for suspect in suspects {
        changes = look(permissions, session, suspect, changes).await?;
    }
    changes.into_reminder()
}

/// Compares one file with what the model knows, as far as it may see it.
async fn look(
    permissions: &Permissions,
    session: &Arc<SessionContext>,
    suspect: Suspect,
    mut changes: OutsideChanges,
) -> Option<OutsideChanges> {
    if suspect.found == Found::Gone {
        changes.gone(&session.read_state, &suspect.path);
        return Some(changes);
    }
    let read = AccessRequest::Read(suspect.path.clone());
    let judged = permissions.judge(READ, AccessKind::Read, read, &session.grants).await;
    let target = match judged {
        Ok(Judgement::Permitted(permit)) => permit.into_target(),
        Ok(Judgement::Asks(_)) | Err(_) => None,
    };
    let Some((target, _)) = target else {
        changes.hidden(&session.read_state, &suspect);
        return Some(changes);
    };
    let context = Arc::clone(session);
    let compare = move || {
        // If it changes right now, or is gone, the next look will tell.
        if let Ok(current) = Current::read(&target) {
            changes.compared(&context.read_state, &suspect, current);
        }
        changes
    };
    FILES.run(compare).await.ok()
}
