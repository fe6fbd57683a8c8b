//! Says what becomes of a path that a confined command names. Pure.

use std::path::Path;

use super::bwrap::{self, Mount, SHARED_MEMORY};
use super::confinement::{Confinement, Level};

/// What a command finds at a path, and what becomes of what it writes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathFate {
    /// The machine's own file, which the command can write.
    Writable,
    /// The machine's own file, which the command can only read.
    ReadOnly,
    /// A directory for temporary files that is not the machine's.
    Temporary,
    /// Memory of the command's own, empty at its start and lost at its end.
    Dropped,
    /// It can be neither read nor written.
    Closed,
    /// The kernel's own: devices, processes.
    Kernel,
}

impl Confinement {
    /// The fate of an absolute path.
    pub(crate) fn fate(&self, path: &Path) -> PathFate {
        match self.level {
            Level::Bwrap => self.fate_in_bwrap(path),
            Level::Landlock => self.fate_in_landlock(path),
        }
    }

    fn fate_in_bwrap(&self, path: &Path) -> PathFate {
        let covering = bwrap::mounts(self).into_iter().rev();
        match covering.into_iter().find(|mount| path.starts_with(mount.at())) {
            Some(Mount::Root { reads_only: false, .. }) => PathFate::Writable,
            Some(Mount::Root { reads_only: true, .. } | Mount::ReadOnly { .. }) => {
                PathFate::ReadOnly
            }
            Some(Mount::Temporary(_)) => PathFate::Temporary,
            Some(Mount::Memory(_)) => PathFate::Dropped,
            Some(Mount::Devices) if path.starts_with(SHARED_MEMORY) => PathFate::Dropped,
            Some(Mount::Devices | Mount::Processes) => PathFate::Kernel,
            None => PathFate::Closed,
        }
    }

    fn fate_in_landlock(&self, path: &Path) -> PathFate {
        let lies_in = |shown: &[super::confinement::Shown]| {
            shown.iter().any(|shown| path.starts_with(shown.at.path()))
        };
        if lies_in(&self.writable) {
            return if self.reads_only { PathFate::ReadOnly } else { PathFate::Writable };
        }
        if path.starts_with(self.temporary.path()) {
            return if self.reads_only { PathFate::Closed } else { PathFate::Temporary };
        }
        if ["/proc", "/dev", "/sys"].iter().any(|kernels| path.starts_with(kernels)) {
            return PathFate::Kernel;
        }
        if lies_in(&self.readable) { PathFate::ReadOnly } else { PathFate::Closed }
    }
}

#[cfg(test)]
mod tests {
    use super::super::confinement::Shown;
    use super::*;

    fn confinement(level: Level) -> Confinement {
        let shown = |path: &str| Shown::as_it_is(Path::new(path));
        Confinement {
            writable: vec![shown("/home/me/w"), shown("/data")],
            readable: vec![shown("/usr"), shown("/home/me/.cargo/bin")],
            temporary: Path::new("/state/session/tmp").into(),
            home: Path::new("/home/me").into(),
            ..Confinement::nothing(level)
        }
    }

    #[test]
    fn a_path_has_the_fate_of_what_covers_it() {
        use PathFate::{Closed, Dropped, Kernel, ReadOnly, Temporary, Writable};
        for (path, in_bwrap, in_landlock) in [
            ("/home/me/w/src/a", Writable, Writable),
            ("/data", Writable, Writable),
            ("/home/me/note.txt", Dropped, Closed),
            ("/home/me", Dropped, Closed),
            ("/home/me/.cargo/bin/x", ReadOnly, ReadOnly),
            ("/home/me/.cargo/config.toml", Dropped, Closed),
            ("/usr/bin/x", ReadOnly, ReadOnly),
            ("/var/log/x", Closed, Closed),
            ("/run/user/1/x", Dropped, Closed),
            ("/dev/shm/x", Dropped, Kernel),
            ("/dev/null", Kernel, Kernel),
            ("/proc/self/status", Kernel, Kernel),
            ("/tmp/x", Temporary, Closed),
            ("/state/session/tmp/x", Closed, Temporary),
        ] {
            assert_eq!(confinement(Level::Bwrap).fate(Path::new(path)), in_bwrap, "{path}");
            assert_eq!(confinement(Level::Landlock).fate(Path::new(path)), in_landlock, "{path}");
        }
    }

    #[test]
    fn what_only_reads_writes_nowhere() {
        for level in [Level::Bwrap, Level::Landlock] {
            let reading = Confinement { reads_only: true, ..confinement(level) };
            assert_eq!(reading.fate(Path::new("/data/x")), PathFate::ReadOnly);
        }
    }
}
