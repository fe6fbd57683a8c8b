//! Reads the server's memory, files, CPU time and children from the kernel.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::sleep;

use super::processes::{entry, fields_of, processes};
use super::server::Server;

/// Connections to upstream that may be kept open.
pub(crate) const KEPT: usize = 80;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    /// The peak.
    pub(crate) peak: u64,
}

/// What remains of a server's work when it is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remains {
    /// Open files before and after.
    pub(crate) files: (usize, usize),
    /// Processes, dead ones included.
    pub(crate) survivors: usize,
    /// The peak of memory, in bytes.
    pub(crate) peak: u64,
}

impl Remains {
    /// Combines the figures of two servers. Takes the files of the one that kept more.
    pub(crate) fn and(self, other: Self) -> Self {
        let kept = |remains: &Self| remains.files.1.saturating_sub(remains.files.0);
        Self {
            files: if kept(&self) > kept(&other) { self.files } else { other.files },
            survivors: self.survivors + other.survivors,
            peak: self.peak.max(other.peak),
        }
    }
}

/// `files` were open before the work began. A closed connection disappears within a
/// second or so, and an ended child is reaped a moment later. So this waits a while for
/// surplus files and dead children. Running processes are counted at once.
pub(crate) async fn remains(server: &Server, files: usize) -> Remains {
    const LOOKS: usize = 50;
    let running = survivors(server);
    for _ in 0..LOOKS {
        if open_files(server) <= files + KEPT && zombies(server) == 0 {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    Remains {
        files: (files, open_files(server)),
        survivors: running + zombies(server),
        peak: memory(server).peak,
    }
}

pub(crate) fn memory(server: &Server) -> Memory {
    let status = read(server, "status");
    let size = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
        line.split_whitespace().next().and_then(|size| size.parse::<u64>().ok()).expect("kB") << 10
    };
    Memory { now: size("VmRSS:"), peak: size("VmHWM:") }
}

pub(crate) fn open_files(server: &Server) -> usize {
    fs::read_dir(entry(server.pid(), "fd")).expect("our own child").count()
}

/// The CPU time that the server has used so far, on all cores together.
pub(crate) fn cpu_time(server: &Server) -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = read(server, "stat");
    let mut fields = fields_of(&stat).skip(11).map(|field| field.parse::<u32>().expect("ticks"));
    TICK * (fields.next().expect("user time") + fields.next().expect("system time"))
}

/// Children of the server that have ended and were not reaped.
pub(crate) fn zombies(server: &Server) -> usize {
    let parent = server.pid().as_raw_nonzero().to_string();
    let is_ours = |stat: &String| {
        let mut fields = fields_of(stat);
        fields.next() == Some("Z") && fields.next() == Some(&parent)
    };
    let stats = processes().filter_map(|pid| fs::read_to_string(entry(pid, "stat")).ok());
    stats.filter(is_ours).count()
}

/// Processes with the server's workspace in their command line, except the server.
fn survivors(server: &Server) -> usize {
    let all = processes_of(&server.workspace());
    all.into_iter().filter(|pid| *pid != server.pid()).count()
}

/// Processes with this workspace in their command line.
pub(crate) fn processes_of(workspace: &Path) -> Vec<Pid> {
    let mark = workspace.as_os_str().as_encoded_bytes();
    let has_mark = |pid: &Pid| {
        let line = fs::read(entry(*pid, "cmdline")).unwrap_or_default();
        line.windows(mark.len()).any(|window| window == mark)
    };
    processes().filter(has_mark).collect()
}

fn read(server: &Server, file: &str) -> String {
    fs::read_to_string(entry(server.pid(), file)).expect("a process that runs")
}
