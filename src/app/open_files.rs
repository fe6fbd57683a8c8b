//! Raises the limit of open files, and computes how many connections it allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most files a connection may need: its socket, a duplicate to watch it, and a
/// connection to upstream.
const FILES_PER_CONNECTION: u64 = 3;

/// For tools, the listener and everything else.
const RESERVED_FILES: u64 = 256;

/// Raises the limit as far as the system allows. Returns how many connections it is
/// enough for, at most `wanted`.
pub(crate) fn room_for(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Raising the soft limit to the hard one cannot fail. If it did, the old limit stays.
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
