//! Keeps the background tasks of all sessions, and ends those of sessions that end.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{BackgroundTask, SessionTasks, TaskLimits};
use crate::ids::{Scope, SessionId};
use crate::sync;

/// How long it is between two looks for idle sessions: no longer than is kept of a time in
/// hours, and no shorter than a look is worth.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(60)];

/// How long a session may wait for its tasks to end: longer than their grace.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The tasks of the server. There is one.
#[derive(Debug)]
pub(crate) struct AllTasks {
    limits: TaskLimits,
    sessions: Mutex<HashMap<SessionId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    tasks: Arc<SessionTasks>,
    /// When it was last seen in use.
    used: Instant,
}

impl AllTasks {
    pub(crate) fn new(limits: TaskLimits) -> Self {
        Self { limits, sessions: Mutex::default() }
    }

    /// The tasks of a session, for a turn of it. `revoked` is cancelled with the turn's key.
    pub(crate) fn of_session(
        &self,
        session: &SessionId,
        scope: Scope,
        revoked: CancellationToken,
    ) -> Arc<SessionTasks> {
        let mut sessions = sync::lock(&self.sessions);
        if !sessions.contains_key(session) {
            sessions.retain(|_, entry| entry.is_in_use() || entry.tasks.has_tasks());
        }
        let entry = sessions.entry(session.clone()).or_insert_with(|| Entry {
            tasks: Arc::new(SessionTasks::new(session.clone(), scope, self.limits)),
            used: Instant::now(),
        });
        entry.used = Instant::now();
        entry.tasks.owned_by(revoked);
        Arc::clone(&entry.tasks)
    }

    /// The tasks of a session that had a turn since the server began.
    pub(crate) fn known(&self, session: &SessionId) -> Option<Arc<SessionTasks>> {
        sync::lock(&self.sessions).get(session).map(|entry| Arc::clone(&entry.tasks))
    }

    /// The tasks of all sessions of a scope, the newest first.
    pub(crate) fn of_scope(&self, scope: Scope) -> Vec<(SessionId, Arc<BackgroundTask>)> {
        let sessions = sync::lock(&self.sessions);
        let own = sessions.values().map(|entry| &entry.tasks).filter(|tasks| tasks.scope == scope);
        let mut found: Vec<_> = own
            .flat_map(|tasks| tasks.all().into_iter().map(|task| (tasks.session.clone(), task)))
            .collect();
        drop(sessions);
        found.sort_by_key(|(_, task)| Reverse(task.started));
        found
    }

    /// Ends the tasks of a session that is deleted, and forgets them.
    pub(crate) async fn end_session(&self, session: &SessionId) {
        let entry = sync::lock(&self.sessions).remove(session);
        if let Some(entry) = entry {
            end(&entry.tasks).await;
        }
    }

    /// Ends the tasks of sessions that had no turn for so long. Never returns.
    pub(crate) async fn end_idle(&self, idle: Duration) {
        let pause = idle.clamp(PAUSES[0], PAUSES[1]);
        loop {
            sleep(pause).await;
            for tasks in self.take_idle(idle) {
                if tasks.all().iter().any(|task| task.is_running()) {
                    tracing::info!(session = %tasks.session, "an idle session's tasks end");
                }
                end(&tasks).await;
            }
        }
    }

    /// Ends all tasks, with the server.
    pub(crate) async fn end_all(&self) {
        let entries = std::mem::take(&mut *sync::lock(&self.sessions));
        let all: Vec<_> = entries.into_values().map(|entry| entry.tasks).collect();
        for tasks in &all {
            tasks.over.cancel();
        }
        for tasks in all {
            end(&tasks).await;
        }
    }

    fn take_idle(&self, idle: Duration) -> Vec<Arc<SessionTasks>> {
        let now = Instant::now();
        let mut sessions = sync::lock(&self.sessions);
        for entry in sessions.values_mut().filter(|entry| entry.is_in_use()) {
            entry.used = now;
        }
        let is_idle = |_: &SessionId, entry: &mut Entry| idle <= now - entry.used;
        sessions.extract_if(is_idle).map(|(_, entry)| entry.tasks).collect()
    }
}

impl Entry {
    /// Whether a turn of the session runs.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.tasks) > 1
    }
}

async fn end(tasks: &SessionTasks) {
    if timeout(END_LIMIT, tasks.end()).await.is_err() {
        tracing::warn!(session = %tasks.session, "background tasks do not end");
    }
}
