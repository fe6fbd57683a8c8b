//! Gives the system back what the allocator keeps of freed memory.
//!
//! The allocator returns freed pages some time after they were freed, but only when it is asked
//! for more or less memory then. A server that has become quiet after much work would keep them
//! for ever.
#![expect(unsafe_code, reason = "the allocator has no safe form of this call")]

use std::time::Duration;

use tokio::time::sleep;

/// Long enough that turns which follow each other find the memory of the one before.
const INTERVAL: Duration = Duration::from_secs(15);

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
            // It may walk through much memory.
            _ = tokio::task::spawn_blocking(return_all).await;
        }
        was_quiet = is_quiet;
    }
}

fn return_all() {
    // SAFETY: takes no pointer, and may be called by any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
