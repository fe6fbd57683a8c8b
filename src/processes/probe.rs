//! Tries what a confined command must not be able to do. A level of the sandbox counts only
//! where each of these fails.

use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::confinement::Place;

/// Something that a confined command must not be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Probe {
    WriteOutside,
    ChmodOutside,
    Tcp,
    Udp,
    UnixSocket,
    ParentEnviron,
    SignalParent,
}

/// What a probe came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) probe: Probe,
    /// The forbidden thing failed.
    pub(crate) held: bool,
}

/// What the probes are aimed at. All of it is the server's, and made for this.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Targets {
    /// A file outside of what may be written.
    pub(super) file: Place,
    pub(super) tcp: SocketAddr,
    pub(super) udp: SocketAddr,
    /// A socket that listens inside of what may be written.
    pub(super) socket: Place,
    pub(super) server: i32,
    /// The server's own, as `/proc/self/ns/pid` reads there.
    pub(super) pid_namespace: Place,
}

/// What is written where nothing may be written.
const FORBIDDEN: &[u8] = b"written from inside the sandbox\n";

impl Probe {
    pub(crate) const ALL: [Self; 7] = [
        Self::WriteOutside,
        Self::ChmodOutside,
        Self::Tcp,
        Self::Udp,
        Self::UnixSocket,
        Self::ParentEnviron,
        Self::SignalParent,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WriteOutside => "write outside",
            Self::ChmodOutside => "chmod outside",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::UnixSocket => "Unix socket",
            Self::ParentEnviron => "the server's environment",
            Self::SignalParent => "a signal to the server",
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Targets {
    /// Tries all of it in this process, which must be confined.
    pub(super) fn attempt(&self) -> Vec<Attempt> {
        Probe::ALL.map(|probe| Attempt { probe, held: !self.succeeds(probe) }).to_vec()
    }

    fn succeeds(&self, probe: Probe) -> bool {
        match probe {
            Probe::WriteOutside => {
                let file = OpenOptions::new().append(true).open(self.file.path());
                file.and_then(|mut file| file.write_all(FORBIDDEN)).is_ok()
            }
            Probe::ChmodOutside => {
                fs::set_permissions(self.file.path(), Permissions::from_mode(0o777)).is_ok()
            }
            Probe::Tcp => TcpStream::connect(self.tcp).is_ok(),
            Probe::Udp => {
                let socket = UdpSocket::bind("127.0.0.1:0");
                socket.and_then(|socket| socket.send_to(FORBIDDEN, self.udp)).is_ok()
            }
            Probe::UnixSocket => UnixStream::connect(self.socket.path()).is_ok(),
            Probe::ParentEnviron => {
                self.sees_server() && fs::read(format!("/proc/{}/environ", self.server)).is_ok()
            }
            Probe::SignalParent => {
                let server = Pid::from_raw(self.server);
                self.sees_server() && server.is_some_and(|pid| test_kill_process(pid).is_ok())
            }
        }
    }

    /// In a namespace of its own the server's number belongs to another process, or to none.
    fn sees_server(&self) -> bool {
        fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own == self.pid_namespace.path())
    }
}
