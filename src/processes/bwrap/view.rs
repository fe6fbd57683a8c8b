//! Writes the arguments of bubblewrap: what a command sees, and as what it runs. Pure.

use std::ffi::OsString;
use std::path::Path;

use crate::processes::confinement::{Confinement, Network};

/// The most that a command can put into one directory in memory.
const MEMORY_BYTES: &str = "536870912";

/// Where programs share memory under names. The command has its own.
pub(in crate::processes) const SHARED_MEMORY: &str = "/dev/shm";

/// What of `/proc` takes writes from every user, or could.
const OPEN_TO_ALL: [&str; 2] = ["/proc/sys", "/proc/pressure"];

/// What the supervisor inside puts the masks in place with, before it drops everything.
const FOR_MASKS: [&str; 2] = ["CAP_SYS_ADMIN", "CAP_SETPCAP"];

/// The arguments up to the program. All of `/proc` belongs to root, who could change modes there,
/// so it is read-only for it. So do the devices, but bubblewrap has no mount that is read-only and
/// still lets one open them.
pub(super) fn arguments(confinement: &Confinement, is_root: bool) -> Vec<OsString> {
    let mut list = Arguments { list: Vec::new(), is_root };
    // Not `--die-with-parent`: bubblewrap's outer half would die with the server also where the
    // inner half still waits for its word, and then waits for ever. The supervisor inside sees
    // the end of the server by itself.
    list.add(["--unshare-all", "--as-pid-1"]);
    if confinement.network == Network::Full {
        list.add(["--share-net"]);
    }
    list.add(["--cap-drop", "ALL", "--chdir", "/"]);
    for capability in FOR_MASKS {
        list.add(["--cap-add", capability]);
    }
    for mount in mounts(confinement) {
        list.mount(mount);
    }
    list.add(["--remount-ro", "/"]);
    list.list
}

/// Something at a path. The order of the variants is that of mounting at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::processes) enum Mount<'a> {
    ReadOnly { at: &'a Path, from: &'a Path },
    Memory(&'a Path),
    Temporary(&'a Path),
    Devices,
    Processes,
    Root { at: &'a Path, from: &'a Path, reads_only: bool },
}

impl<'a> Mount<'a> {
    pub(in crate::processes) fn at(&self) -> &'a Path {
        match self {
            Self::ReadOnly { at, .. } | Self::Memory(at) | Self::Root { at, .. } => at,
            Self::Temporary(_) => Path::new("/tmp"),
            Self::Devices => Path::new("/dev"),
            Self::Processes => Path::new("/proc"),
        }
    }
}

/// The directories that are the command's own, whatever lies there outside.
pub(in crate::processes) fn own_places(confinement: &Confinement) -> Vec<&Path> {
    let own = mounts(confinement)
        .into_iter()
        .filter(|mount| !matches!(mount, Mount::ReadOnly { .. } | Mount::Root { .. }));
    own.map(|mount| mount.at()).collect()
}

/// All mounts, outer ones first: a later one covers what lies below it.
pub(in crate::processes) fn mounts(confinement: &Confinement) -> Vec<Mount<'_>> {
    let home = confinement.home.path();
    let is_writable =
        |path: &Path| confinement.writable.iter().any(|it| path.starts_with(it.at.path()));
    let reads_only = confinement.reads_only;
    let temporary = if reads_only {
        Mount::Memory(Path::new("/tmp"))
    } else {
        Mount::Temporary(confinement.temporary.path())
    };
    let mut mounts =
        vec![Mount::Memory(Path::new("/run")), temporary, Mount::Devices, Mount::Processes];
    // The machine's own directories lie beside home; those of a toolchain lie in it.
    if home.parent().is_some() && !is_writable(home) {
        mounts.push(Mount::Memory(home));
    }
    for shown in &confinement.readable {
        mounts.push(Mount::ReadOnly { at: shown.at.path(), from: shown.from.path() });
    }
    for shown in &confinement.writable {
        mounts.push(Mount::Root { at: shown.at.path(), from: shown.from.path(), reads_only });
    }
    mounts.sort_by_key(|mount| (mount.at().components().count(), *mount));
    mounts
}

struct Arguments {
    list: Vec<OsString>,
    is_root: bool,
}

impl Arguments {
    fn add<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        self.list.extend(arguments.into_iter().map(OsString::from));
    }

    fn bind(&mut self, how: &str, from: &Path, to: &Path) {
        self.list.extend([how.into(), from.into(), to.into()]);
    }

    fn mount(&mut self, mount: Mount<'_>) {
        match mount {
            Mount::ReadOnly { at, from } | Mount::Root { at, from, reads_only: true } => {
                self.bind("--ro-bind-try", from, at);
            }
            Mount::Memory(at) => self.memory(at),
            Mount::Temporary(from) => self.bind("--bind", from, Path::new("/tmp")),
            Mount::Devices => self.devices(),
            Mount::Processes => self.processes(),
            Mount::Root { at, from, reads_only: false } => self.bind("--bind-try", from, at),
        }
    }

    fn devices(&mut self) {
        self.add(["--dev", "/dev"]);
        self.memory(Path::new(SHARED_MEMORY));
        self.read_only(Path::new("/dev"));
    }

    fn processes(&mut self) {
        self.add(["--proc", "/proc"]);
        if self.is_root {
            self.read_only(Path::new("/proc"));
        } else {
            for path in OPEN_TO_ALL.map(Path::new) {
                self.bind("--ro-bind-try", path, path);
            }
        }
    }

    fn read_only(&mut self, at: &Path) {
        self.list.extend(["--remount-ro".into(), at.into()]);
    }

    /// An empty directory in memory.
    fn memory(&mut self, at: &Path) {
        self.list.extend(["--size".into(), MEMORY_BYTES.into(), "--tmpfs".into(), at.into()]);
    }
}

/// The paths of all mounts, for tests.
#[cfg(test)]
fn places(confinement: &Confinement) -> Vec<(std::path::PathBuf, &'static str)> {
    let told = |mount: &Mount<'_>| match mount {
        Mount::Memory(_) => "memory",
        Mount::Temporary(_) => "temporary",
        Mount::Devices | Mount::Processes => "kernel",
        Mount::Root { reads_only: false, .. } => "writable",
        Mount::ReadOnly { .. } | Mount::Root { reads_only: true, .. } => "read-only",
    };
    mounts(confinement).iter().map(|mount| (mount.at().to_owned(), told(mount))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::confinement::{Level, Shown};

    fn confinement(writable: &[&str], readable: &[&str]) -> Confinement {
        let shown =
            |paths: &[&str]| paths.iter().map(|it| Shown::as_it_is(Path::new(it))).collect();
        Confinement {
            writable: shown(writable),
            readable: shown(readable),
            temporary: Path::new("/state/tmp").into(),
            home: Path::new("/home/me").into(),
            ..Confinement::nothing(Level::Bwrap)
        }
    }

    /// What covers a path in the end.
    fn covering(confinement: &Confinement, path: &str) -> &'static str {
        let places = places(confinement).into_iter().rev();
        let mut covering = places.filter(|(at, _)| Path::new(path).starts_with(at));
        covering.next().map_or("nothing", |(_, what)| what)
    }

    #[test]
    fn what_lies_deeper_is_mounted_later() {
        let usual = confinement(&["/w", "/tmp/w"], &["/usr", "/home/me/.cargo/bin", "/tmp/tools"]);
        for (path, what) in [
            ("/usr/bin/x", "read-only"),
            ("/home/me/.ssh", "memory"),
            ("/home/me/.cargo/bin/x", "read-only"),
            ("/tmp/x", "temporary"),
            ("/tmp/w/x", "writable"),
            ("/tmp/tools/x", "read-only"),
            ("/w/x", "writable"),
            ("/var/x", "nothing"),
        ] {
            assert_eq!(covering(&usual, path), what, "{path}");
        }
    }

    #[test]
    fn a_root_around_the_rest_does_not_show_the_rest() {
        let all = confinement(&["/"], &[]);
        for (path, what) in [
            ("/proc/1/environ", "kernel"),
            ("/dev/sda", "kernel"),
            ("/run/docker.sock", "memory"),
            ("/tmp/x", "temporary"),
            ("/home/me/x", "writable"),
        ] {
            assert_eq!(covering(&all, path), what, "{path}");
        }
        assert_eq!(covering(&confinement(&["/tmp"], &["/tmp"]), "/tmp/x"), "writable");
        assert_eq!(covering(&confinement(&["/home/me"], &[]), "/home/me/x"), "writable");
        assert_eq!(covering(&confinement(&["/home/me/w"], &[]), "/home/me/x"), "memory");
        assert_eq!(covering(&confinement(&[], &["/"]), "/home/me/x"), "memory");
    }

    #[test]
    fn what_only_reads_has_no_root_that_can_be_written_and_temporary_files_in_memory() {
        let reading =
            Confinement { reads_only: true, ..confinement(&["/w", "/home/me"], &["/usr"]) };
        for (path, what) in
            [("/w/x", "read-only"), ("/home/me/x", "read-only"), ("/tmp/x", "memory")]
        {
            assert_eq!(covering(&reading, path), what, "{path}");
        }
        let list = arguments(&reading, false);
        assert!(!list.iter().any(|argument| argument == "/state/tmp" || argument == "--bind"));
    }

    #[test]
    fn what_belongs_to_root_is_read_only_for_it() {
        let list = arguments(&confinement(&["/w"], &[]), true);
        for path in ["/dev", "/proc", "/"] {
            assert!(
                list.windows(2).any(|pair| pair[0] == "--remount-ro" && pair[1] == path),
                "{path}"
            );
        }
    }
}
