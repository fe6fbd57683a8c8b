//! What the kernel tells of the server: its memory, files, time and children.

use std::fs;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::sleep;

use super::server::Server;

/// Connections to upstream that may be kept warm.
pub(crate) const KEPT: usize = 80;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    /// The most there ever was.
    pub(crate) peak: u64,
}

/// What is left of a server's work when it is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remains {
    /// Open files before and after.
    pub(crate) files: (usize, usize),
    /// Processes, dead ones included.
    pub(crate) survivors: usize,
    /// The most memory there ever was, in bytes.
    pub(crate) peak: u64,
}

/// `files` were open before the work began. A connection that is over is closed within
/// a second or so: as long as there are more than before, they are waited for a while.
pub(crate) async fn remains(server: &Server, files: usize) -> Remains {
    const LOOKS: usize = 50;
    for _ in 0..LOOKS {
        if open_files(server) <= files + KEPT {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    Remains {
        files: (files, open_files(server)),
        survivors: survivors(server) + zombies(server),
        peak: memory(server).peak,
    }
}

pub(crate) fn memory(server: &Server) -> Memory {
    let status = read(server.pid(), "status");
    let size = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
        line.split_whitespace().next().and_then(|size| size.parse::<u64>().ok()).expect("kB") << 10
    };
    Memory { now: size("VmRSS:"), peak: size("VmHWM:") }
}

pub(crate) fn open_files(server: &Server) -> usize {
    fs::read_dir(of(server.pid(), "fd")).expect("our own child").count()
}

/// What it has computed so far, on all cores together.
pub(crate) fn cpu_time(server: &Server) -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = read(server.pid(), "stat");
    let mut fields = after_name(&stat).skip(11).map(|field| field.parse::<u32>().expect("ticks"));
    TICK * (fields.next().expect("user time") + fields.next().expect("system time"))
}

/// Children of the server that have ended and that nobody has asked for.
pub(crate) fn zombies(server: &Server) -> usize {
    let parent = server.pid().as_raw_nonzero().to_string();
    let is_ours = |stat: &String| {
        let mut fields = after_name(stat);
        fields.next() == Some("Z") && fields.next() == Some(&parent)
    };
    processes().filter_map(|pid| fs::read_to_string(of(pid, "stat")).ok()).filter(is_ours).count()
}

/// Processes with the server's workspace in their command line, without the server.
fn survivors(server: &Server) -> usize {
    let mark = server.workspace();
    let mark = mark.as_os_str().as_encoded_bytes();
    let others = processes().filter(|pid| *pid != server.pid());
    let lines = others.filter_map(|pid| fs::read(of(pid, "cmdline")).ok());
    lines.filter(|line| line.windows(mark.len()).any(|window| window == mark)).count()
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// The fields of a line of `/proc/PID/stat` behind the name, which may hold anything.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat[stat.rfind(')').map_or(0, |end| end + 1)..].split_whitespace()
}

fn read(pid: Pid, file: &str) -> String {
    fs::read_to_string(of(pid, file)).expect("a process that runs")
}

fn of(pid: Pid, file: &str) -> String {
    format!("/proc/{}/{file}", pid.as_raw_nonzero())
}
