use std::process::ExitCode;

use mimalloc::MiMalloc;

/// An answer is a few hundred short-lived pieces that cross threads, which the
/// system's allocator serialises: `make bench` lost a fifth to its locks.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // A supervisor forks: nothing may have started a thread before it.
    if let Some(code) = toolhand::supervise_if_asked() {
        return code;
    }
    toolhand::commands::run()
}
