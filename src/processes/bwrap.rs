//! Starts the supervisor inside of bubblewrap: finds one that can be trusted, and hands our own
//! program in as an open file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::geteuid;

use super::confinement::Confinement;
use super::supervisor;

mod view;

pub(super) use self::view::{Mount, SHARED_MEMORY, mounts, own_places};

/// Where a distribution installs it. The search path is not asked: a command may have written
/// there.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Set-user-id and set-group-id.
const SETS_ID: u32 = 0o6000;
/// Writing by the group or by others.
const OTHERS_WRITE: u32 = 0o022;

/// What leads into bubblewrap. Opened at the first use.
#[derive(Debug)]
pub(super) struct Entrance {
    supervisor: PathBuf,
    places: Vec<PathBuf>,
    found: OnceLock<Result<Found, String>>,
}

#[derive(Debug)]
struct Found {
    bwrap: PathBuf,
    /// Our own program: its path may lead nowhere inside, and its file may be replaced.
    program: OwnedFd,
    /// The machine's `/proc`. In it the supervisor sets the limit of its own namespace, which
    /// is read-only in the `/proc` inside.
    proc: OwnedFd,
}

impl Entrance {
    pub(super) fn new(supervisor: &Path) -> Self {
        Self::among(PLACES.map(PathBuf::from).to_vec(), supervisor)
    }

    /// Where bubblewrap is looked for elsewhere.
    pub(super) fn among(places: Vec<PathBuf>, supervisor: &Path) -> Self {
        Self { supervisor: supervisor.to_owned(), places, found: OnceLock::new() }
    }

    /// The program to run, and its arguments; why there is none.
    pub(super) fn command(
        &self,
        confinement: &Confinement,
    ) -> Result<(PathBuf, Vec<OsString>), String> {
        let found = self.found()?;
        let mut list = arguments(confinement);
        list.extend(found.supervisor());
        Ok((found.bwrap.clone(), list))
    }

    /// The same for a bubblewrap that reads [`argument_bytes`] from its standard output, which it
    /// closes then.
    pub(super) fn command_ahead(&self) -> Result<(PathBuf, Vec<OsString>), String> {
        let found = self.found()?;
        let mut list = vec![OsString::from("--args"), OsString::from("1")];
        list.extend(found.supervisor());
        Ok((found.bwrap.clone(), list))
    }

    /// Bubblewrap's own program.
    pub(super) fn bwrap(&self) -> Option<&Path> {
        self.found().ok().map(|found| found.bwrap.as_path())
    }

    fn found(&self) -> Result<&Found, String> {
        let found = self.found.get_or_init(|| Found::look(&self.places, &self.supervisor));
        found.as_ref().map_err(Clone::clone)
    }
}

/// The arguments up to the program.
pub(super) fn arguments(confinement: &Confinement) -> Vec<OsString> {
    view::arguments(confinement, geteuid().is_root())
}

/// The same as bubblewrap reads them from a file: each ends with a zero.
pub(super) fn argument_bytes(confinement: &Confinement) -> Vec<u8> {
    let mut bytes = Vec::new();
    for argument in arguments(confinement) {
        bytes.extend_from_slice(argument.as_bytes());
        bytes.push(0);
    }
    bytes
}

impl Found {
    fn look(places: &[PathBuf], supervisor: &Path) -> Result<Self, String> {
        let bwrap = find(places)?;
        let told = |error: io::Error| format!("{}: {error}", supervisor.display());
        let program = inherited(supervisor, OFlags::RDONLY).map_err(told)?;
        let proc = inherited(Path::new("/proc"), OFlags::DIRECTORY);
        let proc = proc.map_err(|error| format!("/proc: {error}"))?;
        Ok(Self { bwrap, program, proc })
    }

    /// The arguments that name the program inside.
    fn supervisor(&self) -> [OsString; 4] {
        [
            "--".into(),
            format!("/proc/self/fd/{}", self.program.as_raw_fd()).into(),
            supervisor::COMMAND.into(),
            self.proc.as_raw_fd().to_string().into(),
        ]
    }
}

/// Opens a file that every program inherits which this process starts. Neither tells anything
/// that is not public, and a supervisor leaves no command any of them.
fn inherited(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(open(path, flags, Mode::empty())?)
}

/// The bubblewrap of this machine, or why there is none.
fn find(places: &[PathBuf]) -> Result<PathBuf, String> {
    let found = places.iter().find_map(|path| Some((path, fs::metadata(path).ok()?)));
    let (path, metadata) =
        found.ok_or_else(|| "no bwrap is installed (Debian: apt install bubblewrap)".to_owned())?;
    match fault(metadata.uid(), metadata.mode()) {
        Some(fault) => Err(format!("{} {fault}", path.display())),
        None => Ok(path.to_owned()),
    }
}

/// Why a program with this owner and mode is not run.
fn fault(owner: u32, mode: u32) -> Option<&'static str> {
    match () {
        () if mode & SETS_ID != 0 => Some("is setuid, which is not needed and not trusted here"),
        () if owner != 0 => Some("does not belong to root"),
        () if mode & OTHERS_WRITE != 0 => Some("can be written by others"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_others_may_change_or_that_gives_rights_is_not_run() {
        assert_eq!(fault(0, 0o100_755), None);
        assert!(fault(0, 0o104_755).unwrap().contains("setuid"));
        assert!(fault(1000, 0o100_755).unwrap().contains("root"));
        assert!(fault(0, 0o100_775).unwrap().contains("written"));
    }
}
