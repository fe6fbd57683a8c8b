//! Tells the store which sessions are used: those that a turn has, or waits for, and those whose
//! background tasks run.

use std::sync::{Arc, Weak};

use super::running::{Running, SessionSlot};
use crate::ids::SessionId;
use crate::store::{SessionHold, SessionsInUse};
use crate::tools::tasks::AllTasks;

/// The sessions that a turn has or waits for, or whose background tasks run.
#[derive(Debug)]
pub(crate) struct BusySessions {
    /// Weak, because it has the store itself.
    pub(crate) running: Weak<Running>,
    pub(crate) tasks: Arc<AllTasks>,
}

impl SessionHold for SessionSlot {}

impl SessionsInUse for BusySessions {
    fn try_hold(&self, session: &SessionId) -> Option<Box<dyn SessionHold>> {
        // With the slot no turn can start a task meanwhile.
        let slot = self.running.upgrade()?.slots.try_take(session)?;
        let runs = self.tasks.known(session).is_some_and(|tasks| tasks.has_running());
        (!runs).then(|| Box::new(slot) as Box<dyn SessionHold>)
    }
}
