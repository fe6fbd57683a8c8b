//! Lists the processes below another one, and signals all of them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{self, Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal};

/// One process, as its line in `/proc` shows it. A pid is reused; a pid with its start
/// time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    started: u64,
    pub(super) is_dead: bool,
    pub(super) is_bubblewrap: bool,
}

/// Signals every descendant that still runs. Returns how many there were.
pub(super) fn signal_all(signal: Signal) -> usize {
    signal_below(process::getpid(), signal)
}

/// How many descendants run.
pub(super) fn count() -> usize {
    descendants(process::getpid(), &all()).len()
}

/// Signals the descendants of another process.
pub(super) fn signal_below(root: Pid, signal: Signal) -> usize {
    let running = descendants(root, &all());
    for process in &running {
        // A process that has ended meanwhile needs no signal.
        _ = send(process, signal);
        if signal == Signal::TERM {
            // A stopped process could not act on the signal.
            _ = send(process, Signal::CONT);
        }
    }
    running.len()
}

/// Reaps what has ended. Returns `true` if no child is left: orphans become children of
/// this process, so no descendant is left either.
pub(super) fn reap() -> io::Result<bool> {
    loop {
        match process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Ok(false),
            Err(Errno::CHILD) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The pid may have been reused. So this opens a handle first, and then checks which
/// process it refers to.
pub(super) fn send(process: &Process, signal: Signal) -> rustix::io::Result<()> {
    let handle = match pidfd_open(process.pid, PidfdFlags::empty()) {
        Err(Errno::NOSYS) => return process::kill_process(process.pid, signal),
        opened => opened?,
    };
    if read(process.pid).is_some_and(|now| now.started == process.started) {
        pidfd_send_signal(handle, signal)?;
    }
    Ok(())
}

/// When the process started, in clock ticks since the machine booted; `None` if it has
/// ended. Tells whether a pid still belongs to the same process.
pub(crate) fn start_time(pid: Pid) -> Option<u64> {
    read(pid).filter(|process| !process.is_dead).map(|process| process.started)
}

/// Every process of this machine.
pub(super) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| read(Pid::from_raw(pid)?)).collect()
}

/// The children of this process: those that it started and the orphans that it adopted,
/// dead ones included.
pub(super) fn children() -> Vec<Process> {
    let Some(tasks) = tasks() else {
        // The kernel has no such lists: look at all processes.
        let parent = process::getpid().as_raw_nonzero().get();
        return all().into_iter().filter(|process| process.parent == parent).collect();
    };
    let lists = tasks.filter_map(|task| fs::read_to_string(task.join("children")).ok());
    let pids = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
    });
    pids.filter_map(|pid| read(Pid::from_raw(pid)?)).collect()
}

/// The threads of this process, if the kernel lists the children of each.
fn tasks() -> Option<impl Iterator<Item = PathBuf>> {
    let own = PathBuf::from("/proc/self/task");
    let first = own.join(process::getpid().as_raw_nonzero().to_string());
    first.join("children").exists().then_some(())?;
    Some(fs::read_dir(own).ok()?.flatten().map(|task| task.path()))
}

pub(super) fn read(pid: Pid) -> Option<Process> {
    parse(&fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// Parses `pid (name) state parent …`. The name may contain spaces and brackets.
fn parse(stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(stat.split(|byte| *byte == b' ').next()?).ok()?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?;
    let group = fields.next()?;
    // Fields 6 and 22 of the line.
    let session = fields.next()?;
    let started = fields.nth(15)?;
    Some(Process {
        pid: Pid::from_raw(pid.parse().ok()?)?,
        parent: parent.parse().ok()?,
        group: group.parse().ok()?,
        session: session.parse().ok()?,
        started: started.parse().ok()?,
        is_dead: matches!(state, "Z" | "X"),
        is_bubblewrap: stat[..name_end].ends_with(b" (bwrap"),
    })
}

/// The running processes among `all` that are below `root`.
fn descendants(root: Pid, all: &[Process]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = Vec::new();
    let mut parents = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        // Remove the entry, so that reused pids cannot cause an endless loop.
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid.as_raw_nonzero().get());
            found.push(child);
        }
    }
    found.retain(|process| !process.is_dead);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, is_dead: bool) -> Process {
        let pid = Pid::from_raw(pid).unwrap();
        let is_bubblewrap = false;
        Process { pid, parent, group: 0, session: 0, started: 0, is_dead, is_bubblewrap }
    }

    #[test]
    fn a_name_may_hold_anything() {
        let line = b"42 (a) R 7 (\xff b)) S 7 42 43 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987 0";

        let expected = Process { started: 987, group: 42, session: 43, ..process(42, 7, false) };
        assert_eq!(parse(line), Some(expected));
    }

    #[test]
    fn only_what_is_below_counts_and_only_the_living() {
        let all = [
            process(1, 0, false),
            process(10, 1, false),
            process(11, 10, false),
            process(12, 11, true),
            process(13, 12, false),
            process(20, 1, false),
        ];

        let found = descendants(Pid::from_raw(10).unwrap(), &all);

        assert_eq!(
            found.iter().map(|p| p.pid.as_raw_nonzero().get()).collect::<Vec<_>>(),
            [11, 13]
        );
    }

    #[test]
    fn our_own_line_can_be_read() {
        let own = read(process::getpid()).unwrap();

        assert_eq!(own.pid, process::getpid());
        assert!(!own.is_dead && 0 < own.started);
    }
}
