//! Gives the system back what the allocator keeps of freed memory.
//!
//! The allocator returns freed pages some time after they were freed, but only when it is asked
//! for more or less memory then. A server that has become quiet after much work would keep them
//! for ever.
#![expect(unsafe_code, reason = "the allocators have no safe form of these calls")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Long enough that turns which follow each other find the memory of the one before.
const INTERVAL: Duration = Duration::from_secs(15);

/// From this size on, the C library takes memory for a value by itself, and returns it at once.
#[cfg(target_env = "gnu")]
const OF_ITS_OWN_BYTES: libc::c_int = 1 << 20;

/// Has the C library return large values when they are freed. By itself it learns from the first
/// one to keep twice its size.
pub(crate) fn return_large_at_once() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer. An allocator that does not know it ignores it.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OF_ITS_OWN_BYTES);
    }
}

/// Returns freed memory now and then, as long as nothing runs. While something runs, the
/// allocator does it by itself. `let_go` drops what is kept only for a short while: it is called
/// when nothing has run for two intervals. Never returns.
pub(crate) async fn return_while_quiet(is_quiet: impl Fn() -> bool, let_go: impl Fn()) {
    let mut was_quiet = false;
    loop {
        sleep(INTERVAL).await;
        let is_quiet = is_quiet();
        if is_quiet && was_quiet {
            let_go();
        }
        if is_quiet {
            ROUNDS.fetch_add(1, Ordering::Relaxed);
            wake_threads().await;
            let return_all = || {
                return_now();
                return_of_libraries();
            };
            // It may walk through much memory.
            _ = tokio::task::spawn_blocking(return_all).await;
        }
        was_quiet = is_quiet;
    }
}

/// How often memory was to be returned.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The round in which this thread has returned its memory.
    static RETURNED: Cell<u64> = const { Cell::new(0) };
}

/// Returns what this thread keeps of freed memory, once a round. The runtime calls it when a thread
/// has nothing to do: each thread has memory of its own, which no other can return.
pub(crate) fn return_of_thread() {
    let round = ROUNDS.load(Ordering::Relaxed);
    if RETURNED.replace(round) != round {
        return_now();
    }
}

/// Gives each thread of the runtime something to do, so that it has nothing to do again.
async fn wake_threads() {
    /// While one thread is busy with it, the others take theirs.
    const BUSY: Duration = Duration::from_millis(1);
    let mut busy = JoinSet::new();
    for _ in 0..Handle::current().metrics().num_workers() {
        busy.spawn(async { thread::sleep(BUSY) });
    }
    while busy.join_next().await.is_some() {}
}

/// Returns what libraries in C keep, above all SQLite: they have the allocator of the C library.
fn return_of_libraries() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns what was freed until now, whichever thread has freed it. For a moment at which much
/// memory is about to be taken: a large request is copied on its way into the database.
pub(crate) fn return_now() {
    // SAFETY: takes no pointer, and may be called by any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
