//! Runs blocking work (files, large bodies, searches) in separate pools of threads.
//!
//! A file system that does not answer holds its thread for ever. So each kind of work has its
//! own pool. A thread that does not return is replaced, up to a bound; beyond it callers get an
//! error instead of waiting.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::errors::{ApiError, ErrorCode};
use crate::sync;

/// Validates request bodies. This is computation, so more threads would not help.
pub(crate) static VALIDATION: Pool = Pool::new(
    "validation",
    Size { at_once: 4, stuck: 4, threads_each: 1, waiting: 256, max_wait: MAX_WAIT },
);

/// Resolves the paths in tool calls.
pub(crate) static RESOLVING: Pool = Pool::new(
    "paths",
    Size { at_once: 32, stuck: 224, threads_each: 1, waiting: 1024, max_wait: MAX_WAIT },
);

/// Runs tools that read or write one file.
pub(crate) static FILES: Pool = Pool::new(
    "files",
    Size { at_once: 32, stuck: 224, threads_each: 1, waiting: 1024, max_wait: MAX_WAIT },
);

/// Runs Glob and Grep. Only a few at once: each uses several processors, and may hold the rules
/// of ignore files (20,000 such files took 160 MB).
pub(crate) static SEARCHES: Pool = Pool::new(
    "search",
    Size {
        at_once: 4,
        stuck: 28,
        threads_each: MAX_THREADS_OF_A_SEARCH,
        waiting: 512,
        max_wait: MAX_WAIT,
    },
);

/// Decodes pictures and notebooks, which takes several times the memory of their files. So a
/// slow piece of work is not replaced.
pub(crate) static DECODING: Pool = Pool::new(
    "pictures and notebooks",
    Size { at_once: 2, stuck: 0, threads_each: 1, waiting: 64, max_wait: DECODING_WAIT },
);

/// Waits for processes that read documents. Each may take a gibibyte of memory.
pub(crate) static DOCUMENTS: Pool = Pool::new(
    "documents",
    Size { at_once: 2, stuck: 0, threads_each: 1, waiting: 64, max_wait: DECODING_WAIT },
);

/// Compiles the schemas of MCP servers' tools. A hostile server can make that take seconds, again
/// and again: one at a time leaves the other processors to the rest.
pub(crate) static DEFINITIONS: Pool = Pool::new(
    "tool definitions",
    Size { at_once: 1, stuck: 0, threads_each: 1, waiting: 256, max_wait: DECODING_WAIT },
);

/// Longer than the time limit of one such piece of work.
const DECODING_WAIT: Duration = Duration::from_secs(60);

/// The most threads of one search. More make it hardly faster: they wait for the disk or for
/// each other.
pub(crate) const MAX_THREADS_OF_A_SEARCH: usize = 8;

/// The time after which work counts as stuck, and another thread takes its place. A disk that
/// answers delivers any file sooner.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(2);

/// How long a caller waits for a slot.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The limits of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Slots for work that runs.
    pub(crate) at_once: usize,
    /// Slots for work that is stuck, beside `at_once`.
    pub(crate) stuck: usize,
    /// The threads that one slot may use.
    pub(crate) threads_each: usize,
    /// Callers that may wait for a slot.
    pub(crate) waiting: usize,
    pub(crate) max_wait: Duration,
}

/// A pool of threads for one kind of work. The threads are started when they are needed.
#[derive(Debug)]
pub(crate) struct Pool {
    name: &'static str,
    size: Size,
    state: OnceLock<State>,
}

#[derive(Debug)]
struct State {
    /// Owns the threads; nothing else runs in it. It is never dropped, since a drop would wait
    /// for threads that are stuck.
    runtime: Runtime,
    /// The free slots of `at_once`.
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    stuck: AtomicUsize,
}

/// The right to run work in a pool. The slot becomes free when the work ends. It also becomes
/// free when the work is given up, unless the pool has its bound of stuck work.
#[derive(Debug)]
pub(crate) struct Slot {
    state: &'static State,
    max_stuck: usize,
    hold: Mutex<Hold>,
}

/// Which of the pool's two limits the slot counts against.
#[derive(Debug)]
enum Hold {
    Counted { _permit: OwnedSemaphorePermit },
    Stuck,
}

/// Gives up the work of a slot when the caller that waits for it is dropped.
#[derive(Debug)]
pub(crate) struct GiveUpOnDrop(pub(crate) Arc<Slot>);

/// The pool has no slot left. The text is for the model or the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server is overloaded: too much work of this kind ({0}) is waiting or does not come back; \
     try again later"
)]
pub(crate) struct Overloaded(&'static str);

impl From<Overloaded> for ApiError {
    fn from(overloaded: Overloaded) -> Self {
        Self::new(ErrorCode::Overloaded, overloaded.to_string())
    }
}

impl Pool {
    pub(crate) const fn new(name: &'static str, size: Size) -> Self {
        Self { name, size, state: OnceLock::new() }
    }

    /// Runs work in a thread of this pool. A panic of the work continues in the caller.
    pub(crate) async fn run<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Overloaded> {
        let slot = self.enter().await?;
        let _guard = GiveUpOnDrop(Arc::clone(&slot));
        let mut task = slot.spawn(work);
        let done = tokio::select! {
            // Poll the work first: work that has ended is never given up.
            biased;
            done = &mut task => done,
            () = sleep(STUCK_AFTER) => {
                slot.give_up();
                task.await
            }
        };
        Ok(done.unwrap_or_else(|error| panic::resume_unwind(error.into_panic())))
    }

    /// Waits for a slot. Fails if too many callers wait already, or if no slot becomes free in
    /// `max_wait`.
    pub(crate) async fn enter(&'static self) -> Result<Arc<Slot>, Overloaded> {
        let state = self.state();
        let permit = match Arc::clone(&state.free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait(state).await?,
        };
        let hold = Mutex::new(Hold::Counted { _permit: permit });
        Ok(Arc::new(Slot { state, max_stuck: self.size.stuck, hold }))
    }

    async fn wait(&self, state: &'static State) -> Result<OwnedSemaphorePermit, Overloaded> {
        let _waiting = Waiting::one_of(self, state)?;
        let acquired = timeout(self.size.max_wait, Arc::clone(&state.free).acquire_owned()).await;
        acquired.ok().and_then(Result::ok).ok_or(Overloaded(self.name))
    }

    fn state(&'static self) -> &'static State {
        self.state.get_or_init(|| {
            let threads = (self.size.at_once + self.size.stuck) * self.size.threads_each;
            let runtime = Builder::new_current_thread()
                .enable_time()
                .max_blocking_threads(threads)
                .thread_name(self.name)
                .build()
                .expect("a runtime without sockets");
            State {
                runtime,
                free: Arc::new(Semaphore::new(self.size.at_once)),
                waiting: AtomicUsize::new(0),
                stuck: AtomicUsize::new(0),
            }
        })
    }
}

impl Slot {
    /// Starts work in a thread. The slot is held until the work ends.
    pub(crate) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let slot = Arc::clone(self);
        self.state.runtime.handle().spawn_blocking(move || {
            let _slot = slot;
            work()
        })
    }

    /// Counts the work as stuck and frees its slot for other work. Does nothing if the pool has
    /// its bound of stuck work.
    pub(crate) fn give_up(&self) {
        let mut hold = sync::lock(&self.hold);
        let is_counted = matches!(*hold, Hold::Counted { .. });
        let grows = |stuck: usize| (stuck < self.max_stuck).then_some(stuck + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if is_counted && self.state.stuck.fetch_update(set, fetch, grows).is_ok() {
            // Drops the permit, which lets the next caller in.
            *hold = Hold::Stuck;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let hold = self.hold.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(hold, Hold::Stuck) {
            self.state.stuck.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for GiveUpOnDrop {
    fn drop(&mut self) {
        // More than one owner means that the work still runs. Otherwise the slot becomes free
        // with this drop.
        if Arc::strong_count(&self.0) > 1 {
            self.0.give_up();
        }
    }
}

/// Counts a caller in the queue for as long as it waits.
struct Waiting(&'static State);

impl Waiting {
    fn one_of(pool: &Pool, state: &'static State) -> Result<Self, Overloaded> {
        let waiting = Self(state);
        if state.waiting.fetch_add(1, Ordering::Relaxed) >= pool.size.waiting {
            return Err(Overloaded(pool.name));
        }
        Ok(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool(size: Size) -> &'static Pool {
        Box::leak(Box::new(Pool::new("test", size)))
    }

    /// Work that ends when the gate is dropped.
    fn gate() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (gate, opened) = mpsc::channel::<()>();
        (gate, move || _ = opened.recv())
    }

    #[tokio::test]
    async fn work_that_hangs_is_replaced_up_to_a_bound_and_then_refused() {
        let pool =
            pool(Size { at_once: 1, stuck: 2, threads_each: 1, waiting: 0, max_wait: MAX_WAIT });
        let mut gates = Vec::new();
        for _ in 0..3 {
            let (gate, work) = gate();
            gates.push(gate);
            let slot = pool.enter().await.unwrap();
            slot.spawn(work);
            slot.give_up();
        }

        assert_eq!(pool.run(|| 1).await, Err(Overloaded("test")));
        gates.pop();
        // The last piece of work was never replaced: the thread that becomes free is its own.
        while pool.run(|| 1).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 2).await, Ok(2));
        assert_eq!(pool.state().stuck.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_caller_that_goes_leaves_its_place_to_the_next() {
        let pool =
            pool(Size { at_once: 1, stuck: 1, threads_each: 1, waiting: 1, max_wait: MAX_WAIT });
        let (_gate, work) = gate();
        let mut hanging = Box::pin(pool.run(work));
        assert!(futures::poll!(hanging.as_mut()).is_pending());
        drop(hanging);

        assert_eq!(pool.run(|| "next").await, Ok("next"));
    }

    #[tokio::test]
    #[should_panic(expected = "a mistake")]
    async fn a_panic_goes_on_in_the_caller() {
        _ = VALIDATION.run(|| panic!("a mistake")).await;
    }
}
