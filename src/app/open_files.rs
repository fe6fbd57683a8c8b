//! Raises the limit of open files, and says for how many connections it is enough.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a connection may need at once: its socket, a second handle on it, and one
/// upstream.
const FILES_PER_CONNECTION: u64 = 3;

/// For tools, the listener and what else there is.
const RESERVED_FILES: u64 = 256;

/// Takes all that the system lets us have, and says for how many connections it
/// is enough: `wanted`, or fewer.
pub(crate) fn room_for(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Raising it as far as it may go cannot be refused; and if it were, it stays.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let enough = getrlimit(Resource::Nofile).current.map_or(wanted, connections);
    if enough < wanted {
        tracing::warn!(
            "the limit of open files (ulimit -n) is enough for {enough} connections, not for \
             the {wanted} of limits.connections"
        );
    }
    enough.min(wanted)
}

fn connections(files: u64) -> usize {
    let connections = files.saturating_sub(RESERVED_FILES) / FILES_PER_CONNECTION;
    usize::try_from(connections).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_left_for_the_tools() {
        assert_eq!(connections(20_000), 6_581);
        assert_eq!(connections(1_024), 256);
        assert_eq!(connections(64), 1);
    }
}
