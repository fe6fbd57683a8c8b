//! Announces the running server in `server.json` of its state directory, and finds it there.
//!
//! The file names the process, so that one left by a killed server is told from a current
//! one. It holds no key.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, OFlags, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};

use super::state_dir::{StateDir, open_in, open_ours};
use crate::named_file;
use crate::ownership::Ownership;
use crate::processes;

const NAME: &str = "server.json";
/// Holds the file until it is written whole.
const NEW_NAME: &str = ".server.json.new";

/// Longer than the file ever is.
const MAX_BYTES: u64 = 64 << 10;

/// Changes at every boot, after which pids and start times begin anew.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The server of a state directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningServer {
    /// Where it listens, with the real port.
    address: SocketAddr,
    pub(crate) process: Process,
    pub(crate) started_by: StartedBy,
}

/// The command that started the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StartedBy {
    Serve,
    Up {
        /// Its first model.
        model: String,
        /// The base URL of the LiteLLM that it started.
        litellm: String,
    },
}

/// A process, told apart from later ones with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// In clock ticks since the machine booted.
    started: u64,
    /// The id of that boot.
    boot: String,
}

/// Why no server is found, in words that follow the path of [`NAME`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRunning {
    #[error("is not there")]
    Missing,
    #[error("is left from process {0}, which has ended")]
    Ended(i32),
    /// It is damaged, or others could have written it.
    #[error("{0}")]
    Unusable(String),
}

/// The file while it is announced. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Announcement(File);

/// The file's path, for messages.
pub(crate) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(NAME)
}

/// The server that runs on this state directory. Creates and locks nothing.
pub(crate) fn find(state_dir: &Path) -> Result<RunningServer, NotRunning> {
    let bytes = match fs::symlink_metadata(state_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NotRunning::Missing),
        _ => read(state_dir).map_err(NotRunning::Unusable)?.ok_or(NotRunning::Missing)?,
    };
    let server: RunningServer = serde_json::from_slice(&bytes)
        .map_err(|error| NotRunning::Unusable(format!("is damaged: {error}")))?;
    let is_alive = server.process.is_alive();
    if is_alive { Ok(server) } else { Err(NotRunning::Ended(server.process.pid)) }
}

fn read(state_dir: &Path) -> Result<Option<Vec<u8>>, String> {
    let directory = open_ours(state_dir)
        .map_err(|reason| format!("cannot be trusted: its directory {reason}"))?;
    let file = match open_in(&directory, NAME, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err("is a symbolic link".into());
        }
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let (bytes, metadata) =
        named_file::read_open(&file, MAX_BYTES).map_err(|error| error.to_string())?;
    let ownership = Ownership::from_metadata(&metadata);
    ownership.expect_ours()?;
    ownership.refuse_other_writers("start the server anew")?;
    Ok(Some(bytes))
}

impl RunningServer {
    pub(crate) fn this_process(address: SocketAddr, started_by: StartedBy) -> io::Result<Self> {
        Ok(Self { address, process: Process::this()?, started_by })
    }

    /// Where to connect to: a server on all addresses is reached over loopback.
    pub(crate) fn address(&self) -> SocketAddr {
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        address
    }

    /// The base URL of its API.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address())
    }
}

impl Process {
    fn this() -> io::Result<Self> {
        let pid = getpid();
        let started = processes::start_time(pid)
            .ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        Ok(Self { pid: pid.as_raw_nonzero().get(), started, boot: boot_id() })
    }

    fn is_alive(&self) -> bool {
        // `Pid` panics at a negative number.
        let pid = (0 < self.pid).then(|| Pid::from_raw(self.pid)).flatten();
        let started = pid.and_then(processes::start_time);
        started == Some(self.started) && self.boot == boot_id()
    }
}

/// Empty on a system that shows none.
fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

impl Announcement {
    /// Writes the file in one step, in place of one that a killed server has left. The lock
    /// of `state` keeps other servers away.
    pub(crate) fn publish(server: &RunningServer, state: &StateDir) -> io::Result<Self> {
        let directory = state.directory().try_clone()?;
        match unlinkat(&directory, NEW_NAME, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = open_in(&directory, NEW_NAME, flags)?;
        serde_json::to_writer(&mut file, server)?;
        file.write_all(b"\n")?;
        renameat(&directory, NEW_NAME, &directory, NAME)?;
        Ok(Self(directory))
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // If it stays, its process shows that it is old.
        _ = unlinkat(&self.0, NAME, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    struct Ground {
        _home: tempfile::TempDir,
        state: StateDir,
    }

    impl Ground {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let state = StateDir::open(&home.path().join("state")).unwrap();
            Self { _home: home, state }
        }

        fn file(&self) -> PathBuf {
            path(self.state.path())
        }

        fn write(&self, text: &str) {
            fs::write(self.file(), text).unwrap();
            fs::set_permissions(self.file(), fs::Permissions::from_mode(0o600)).unwrap();
        }

        fn find(&self) -> Result<RunningServer, NotRunning> {
            find(self.state.path())
        }

        fn fault(&self) -> String {
            self.find().unwrap_err().to_string()
        }
    }

    fn server() -> RunningServer {
        let model = "demo".to_owned();
        let litellm = "http://127.0.0.1:4000/v1".to_owned();
        let address = "127.0.0.1:8787".parse().unwrap();
        RunningServer::this_process(address, StartedBy::Up { model, litellm }).unwrap()
    }

    #[test]
    fn an_announced_server_is_found_until_it_stops() {
        let ground = Ground::new();
        assert_eq!(ground.find(), Err(NotRunning::Missing));

        let announcement = Announcement::publish(&server(), &ground.state).unwrap();
        assert_eq!(ground.find(), Ok(server()));
        assert_eq!(fs::metadata(ground.file()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!ground.state.path().join(NEW_NAME).exists());

        drop(announcement);
        assert_eq!(ground.find(), Err(NotRunning::Missing));
        assert_eq!(find(Path::new("/nowhere/state")), Err(NotRunning::Missing));
    }

    #[test]
    fn a_server_of_before_is_not_found_even_if_its_number_lives_again() {
        let ground = Ground::new();
        let us = server();
        let pid = us.process.pid;
        let old = [
            Process { started: us.process.started - 1, ..us.process.clone() },
            Process { boot: "another".to_owned(), ..us.process.clone() },
        ];
        for process in old {
            let left = RunningServer { process, ..us.clone() };
            ground.write(&serde_json::to_string(&left).unwrap());
            assert_eq!(ground.find(), Err(NotRunning::Ended(pid)));
        }
        for pid in [0, -1, i32::MIN, i32::MAX] {
            let process = Process { pid, ..us.process.clone() };
            let left = RunningServer { process, ..us.clone() };
            ground.write(&serde_json::to_string(&left).unwrap());
            assert_eq!(ground.find(), Err(NotRunning::Ended(pid)));
        }

        // A new server replaces it, and what a crash left beside it.
        fs::write(ground.state.path().join(NEW_NAME), "{").unwrap();
        let _announcement = Announcement::publish(&us, &ground.state).unwrap();
        assert_eq!(ground.find(), Ok(us));
    }

    #[test]
    fn a_file_that_others_could_have_written_is_refused() {
        let ground = Ground::new();
        ground.write(&serde_json::to_string(&server()).unwrap());
        fs::set_permissions(ground.file(), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(ground.fault(), "others may write it (mode 666); start the server anew");

        fs::remove_file(ground.file()).unwrap();
        symlink("/etc/passwd", ground.file()).unwrap();
        assert_eq!(ground.fault(), "is a symbolic link");

        fs::set_permissions(ground.state.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let reason = "others may write it (mode 777); chmod 700 it";
        assert_eq!(ground.fault(), format!("cannot be trusted: its directory {reason}"));
    }

    #[test]
    fn what_is_no_such_file_is_refused_and_waits_for_nobody() {
        let ground = Ground::new();
        for text in ["", "{", "[]", "{}", "null", "\u{0}", r#"{"address":"x"}"#] {
            ground.write(text);
            assert!(ground.fault().starts_with("is damaged: "), "{text}: {}", ground.fault());
        }
        ground.write(&" ".repeat(1 << 20));
        assert_eq!(ground.fault(), "is larger than 65536 bytes");

        fs::remove_file(ground.file()).unwrap();
        mkfifoat(CWD, ground.file(), Mode::RWXU).unwrap();
        assert_eq!(ground.fault(), "is not a regular file");

        fs::remove_file(ground.file()).unwrap();
        fs::create_dir(ground.file()).unwrap();
        assert_eq!(ground.fault(), "is not a regular file");
        assert!(Announcement::publish(&server(), &ground.state).is_err());
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_over_loopback() {
        let check = |address: &str, expected: &str| {
            let server = RunningServer { address: address.parse().unwrap(), ..server() };
            assert_eq!(server.base_url(), expected);
        };
        check("0.0.0.0:1", "http://127.0.0.1:1/v1");
        check("[::]:1", "http://[::1]:1/v1");
        check("192.0.2.1:1", "http://192.0.2.1:1/v1");
    }
}
