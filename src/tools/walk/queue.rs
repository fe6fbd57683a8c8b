//! Holds the pending work of a walk as a stack that all its threads share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::sync;

/// Entries that may wait. A walk goes depth first and reads large directories in parts, so only
/// a tree built for the purpose reaches this. The answer says that the rest is left out.
const MAX_WAITING: usize = 1 << 18;

/// How often an idle thread checks whether the search is over.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Queue<W> {
    waiting: Mutex<Waiting<W>>,
    changed: Condvar,
    /// Threads that wait for work.
    idle: AtomicUsize,
    is_done: AtomicBool,
}

#[derive(Debug)]
struct Waiting<W> {
    work: Vec<W>,
    /// Threads that are working, and may add more work.
    busy: usize,
}

impl<W> Queue<W> {
    pub(crate) fn new(first: W) -> Self {
        Self {
            waiting: Mutex::new(Waiting { work: vec![first], busy: 0 }),
            changed: Condvar::new(),
            idle: AtomicUsize::new(0),
            is_done: AtomicBool::new(false),
        }
    }

    /// Adds work. Returns false if there was no room for all of it.
    pub(crate) fn push(&self, work: impl IntoIterator<Item = W>) -> bool {
        let mut waiting = self.lock();
        let room = MAX_WAITING.saturating_sub(waiting.work.len());
        let mut work = work.into_iter();
        waiting.work.extend(work.by_ref().take(room));
        drop(waiting);
        if self.has_idle() {
            self.changed.notify_all();
        }
        work.next().is_none()
    }

    pub(crate) fn has_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed) > 0
    }

    /// Works until no work is left and no thread can add more, or until `is_over`.
    pub(crate) fn serve(&self, is_over: impl Fn() -> bool, mut work_on: impl FnMut(W)) {
        while let Some(work) = self.next(&is_over) {
            work_on(work);
            let mut waiting = self.lock();
            waiting.busy -= 1;
            if waiting.busy == 0 && waiting.work.is_empty() {
                self.is_done.store(true, Ordering::Relaxed);
                self.changed.notify_all();
            }
        }
    }

    fn next(&self, is_over: &impl Fn() -> bool) -> Option<W> {
        let mut waiting = self.lock();
        loop {
            if self.is_done.load(Ordering::Relaxed) || is_over() {
                return None;
            }
            if let Some(work) = waiting.work.pop() {
                waiting.busy += 1;
                return Some(work);
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            waiting = match self.changed.wait_timeout(waiting, LOOK) {
                Ok((waiting, _)) => waiting,
                Err(poisoned) => poisoned.into_inner().0,
            };
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<W>> {
        sync::lock(&self.waiting)
    }
}
