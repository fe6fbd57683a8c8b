//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes all that the system allows and tells how many that is: shells commonly
/// start programs with 1024, and a stream takes three. (What is run for a model gets
/// limits of its own.)
pub(crate) fn take_all() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let now = if raised.is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}
