//! Gathers what the model is told before the next request: files that other programs have
//! changed, and background tasks that have ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::blocking::FILES;
use crate::files::outside_changes::{Current, OutsideChanges};
use crate::files::{Found, Suspect};
use crate::permissions::{AccessKind, AccessRequest, Judgement, Permissions};
use crate::tools::tool::SessionContext;

/// The tool whose rules decide whether the model may see what a file holds.
const READ: &str = "Read";

/// The look at changed files holds up a request no longer, and a file that cannot be read in this
/// time is passed over. What is left is looked at before the next request.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The reminder for the model; `None` if there is nothing to tell.
pub(crate) async fn gather(
    permissions: &Permissions,
    session: &Arc<SessionContext>,
) -> Option<String> {
    let changed = if session.read_state.is_empty() {
        None
    } else {
        changed_files(permissions, session).await
    };
    let reminders: Vec<String> = changed.into_iter().chain(ended_tasks(session)).collect();
    (!reminders.is_empty()).then(|| reminders.join("\n\n"))
}

/// Tells of the tasks of which the model does not know yet that they have ended.
fn ended_tasks(session: &SessionContext) -> Option<String> {
    let notices = session.known_tasks.take_notices(session.tasks.as_ref()?);
    (!notices.is_empty()).then(|| format!("<reminder>\n{}\n</reminder>", notices.join("\n")))
}

async fn changed_files(permissions: &Permissions, session: &Arc<SessionContext>) -> Option<String> {
    let deadline = Instant::now() + MAX_WAIT;
    let context = Arc::clone(session);
    let finding = FILES.run(move || context.read_state.suspects());
    let suspects = timeout_at(deadline, finding).await.ok()?.ok()?;
    let mut changes = OutsideChanges::default();
    for suspect in suspects {
        if deadline <= Instant::now() {
            break;
        }
        changes = look(permissions, session, suspect, (changes, deadline)).await;
    }
    changes.into_reminder()
}

/// Compares one file with what the model knows, as far as it may see it.
async fn look(
    permissions: &Permissions,
    session: &Arc<SessionContext>,
    suspect: Suspect,
    (mut changes, deadline): (OutsideChanges, Instant),
) -> OutsideChanges {
    let known = &session.read_state;
    if suspect.found == Found::Gone {
        changes.gone(known, &suspect.path);
        return changes;
    }
    let read = AccessRequest::Read(suspect.path.clone());
    let judging = permissions.judge(READ, AccessKind::Read, read, &session.grants);
    let target = match timeout_at(deadline, judging).await {
        Ok(Ok(Judgement::Permitted(permit))) => permit.into_target(),
        Ok(_) => None,
        Err(_) => return changes,
    };
    let Some((target, _)) = target else {
        changes.hidden(known, &suspect);
        return changes;
    };
    // Only reads: a thread that a file system holds must not say later that something was told.
    let (suspect, has_room) = (Arc::new(suspect), changes.has_room());
    let known_as = Arc::clone(&suspect);
    let read = move || {
        let current = Current::read(&target)?;
        // Comparing long texts takes time, so not where there is no room for the outcome.
        Ok::<_, io::Error>(if has_room { current.with_diff(&known_as) } else { current })
    };
    match timeout_at(deadline, FILES.run(read)).await {
        Ok(Ok(Ok(current))) => changes.compared(known, &suspect, current),
        // It is a file no longer.
        Ok(Ok(Err(error))) if is_no_file(&error) => changes.hidden(known, &suspect),
        // If it changes right now, or is gone, the next look will tell.
        _ => {}
    }
    changes
}

/// Whether a directory, a named pipe or the like has taken the place of the file.
fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput)
}
