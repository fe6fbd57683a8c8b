//! Starts the program: as the supervisor of a command or the reader of a document where it was started
//! as one, otherwise with its command line.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// An answer makes hundreds of small allocations that one thread takes and another frees. The
/// system's allocator locks for each of them, which cost a fifth of the throughput in `make
/// bench`. Without huge pages (`no_thp`) an idle server takes 10 MB less, and a thousand streams
/// 35 MB, at the same throughput.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // This must come first: a supervisor forks, and a fork is safe only while the process has
    // one thread.
    if let Some(code) = toolhand::supervise_if_asked() {
        return code;
    }
    if let Some(code) = toolhand::sweep_if_asked() {
        return code;
    }
    if let Some(code) = toolhand::read_if_asked() {
        return code;
    }
    toolhand::commands::run()
}
