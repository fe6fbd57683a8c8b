//! Reads the processes of this machine from `/proc`: their parents, and which are left.

use std::fs;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Every process.
pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// Reads a file of a process in `/proc`.
pub(super) fn entry(process: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", process.as_raw_nonzero())
}

/// The fields of a `stat` after the name, which may contain anything.
pub(super) fn fields_of(stat: &str) -> impl Iterator<Item = &str> {
    stat[stat.rfind(')').map_or(0, |end| end + 1)..].split_whitespace()
}

/// Every process that descends from `server`, works inside `home`, or has it in its
/// environment.
pub(crate) fn family(server: Pid, home: &Path) -> Vec<Pid> {
    let mut members = Vec::new();
    let mut others = Vec::new();
    for process in processes() {
        let Some(parent) = living_parent(process) else { continue };
        if process == server || parent == server.as_raw_nonzero().get() || is_of(process, home) {
            members.push(process);
        } else {
            others.push((process, parent));
        }
    }
    let mut known = 0;
    while known < members.len() {
        let parent = members[known].as_raw_nonzero().get();
        members
            .extend(others.iter().filter(|(_, its)| *its == parent).map(|(process, _)| *process));
        others.retain(|(_, its)| *its != parent);
        known += 1;
    }
    members
}

/// The parent's pid; `None` for a process that has ended.
pub(crate) fn living_parent(process: Pid) -> Option<i32> {
    let stat = fs::read_to_string(entry(process, "stat")).ok()?;
    let mut fields = fields_of(&stat);
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

fn is_of(process: Pid, home: &Path) -> bool {
    let works_inside = fs::read_link(entry(process, "cwd")).is_ok_and(|cwd| cwd.starts_with(home));
    let home = home.as_os_str().as_encoded_bytes();
    let environment = fs::read(entry(process, "environ")).unwrap_or_default();
    works_inside || environment.windows(home.len()).any(|window| window == home)
}

/// Whether the process waits for the end of the server, to remove what was left in workspaces.
pub(crate) fn is_sweeper(process: Pid) -> bool {
    let line = fs::read(entry(process, "cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == b"__sweep")
}

/// Whether the process is of a supervisor that the server has started ahead of the next command:
/// one that waits for a job, or a monitor or a bubblewrap that has started nothing else.
pub(crate) fn is_spare_supervisor(process: Pid) -> bool {
    let waits = |process| is_called(process, "toolhand-idle");
    let children = listed_children(process);
    let has_begun = children.is_empty() && is_of_command(process);
    is_supervisor(process) && (waits(process) || children.into_iter().all(waits) && !has_begun)
}

/// Whether the process is a supervisor that has begun with a command.
pub(crate) fn is_of_command(process: Pid) -> bool {
    is_called(process, "toolhand-run")
}

fn is_called(process: Pid, name: &str) -> bool {
    fs::read_to_string(entry(process, "comm")).is_ok_and(|known| known.trim_end() == name)
}

/// Whether the process supervises a command, or waits for one, or is the bubblewrap around it.
pub(crate) fn is_supervisor(process: Pid) -> bool {
    let line = fs::read(entry(process, "cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == b"__supervise")
}

/// The process group of a process; `None` if it has ended.
pub(crate) fn group(process: Pid) -> Option<i32> {
    let stat = fs::read_to_string(entry(process, "stat")).ok()?;
    fields_of(&stat).nth(2)?.parse().ok()
}

/// Waits for a process that is about to end, or fails.
pub(crate) fn wait_for_end(process: Pid) {
    assert!(has_ended_within(process, PATIENCE), "process {process} was left behind");
}

/// Waits for a process that is about to end, or that has just been started as a spare supervisor;
/// or fails.
pub(crate) fn wait_for_end_or_spare(process: Pid) {
    let step = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    for _ in 0..200 {
        if is_spare_supervisor(process) || has_ended_within(process, step) {
            return;
        }
    }
    panic!("process {process} was left behind");
}

const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

fn has_ended_within(process: Pid, patience: Timespec) -> bool {
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return true };
    poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&patience)) == Ok(1)
}

/// The children of a process, which must be there.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    assert!(Path::new(&entry(parent, "task")).exists(), "process {parent} has ended");
    listed_children(parent)
}

/// The children of a process; none if it has ended.
fn listed_children(parent: Pid) -> Vec<Pid> {
    let mut children = Vec::new();
    for task in fs::read_dir(entry(parent, "task")).into_iter().flatten().flatten() {
        let listed = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(listed.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    children.into_iter().filter_map(Pid::from_raw).collect()
}
