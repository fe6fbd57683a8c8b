//! Puts a command into a control group of its own, where the machine lets this process make one:
//! whatever its processes do, one step stops or ends them all.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{self, Pid, Signal};

use super::MAX_PROCESSES;
use crate::processes::kernel::{self, Fork};
use crate::processes::tree;

/// Before the number of the process that made it.
const NAME: &str = "toolhand-";

/// A group below that of this process. Dropping it removes it.
#[derive(Debug)]
pub(super) struct ControlGroup(PathBuf);

impl ControlGroup {
    /// `None` where there are no control groups (version 2), or this process may not divide its
    /// own: mostly only root may.
    pub(super) fn create() -> Option<Self> {
        let path = parent()?.join(format!("{NAME}{}", process::getpid().as_raw_nonzero()));
        // An empty one is of a process that was killed. One in use is of another namespace, where
        // a process has the same number.
        _ = fs::remove_dir(&path);
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        // Where the controller is on, the kernel itself counts.
        _ = fs::write(group.0.join("pids.max"), MAX_PROCESSES.to_string());
        group.0.join("cgroup.kill").exists().then_some(group)
    }

    /// Forks a child that begins in it. An older kernel cannot do that.
    pub(super) fn fork(&self) -> io::Result<Fork> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(&self.0, flags, Mode::empty())?;
        kernel::fork_into_group(directory.as_fd())
    }

    /// Moves this process into it, and so all that it starts.
    pub(super) fn enter(&self) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), "0")
    }

    /// Stops, continues or ends all its processes.
    pub(super) fn signal(&self, signal: Signal) {
        let (file, value) = match signal {
            Signal::STOP => ("cgroup.freeze", "1"),
            Signal::CONT => ("cgroup.freeze", "0"),
            _ => ("cgroup.kill", "1"),
        };
        // If it fails, the processes are signalled one by one all the same.
        _ = fs::write(self.0.join(file), value);
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        _ = fs::remove_dir(&self.0);
    }
}

/// Removes the groups that killed supervisors have left. One with processes in it stays.
pub(crate) fn remove_abandoned_control_groups() {
    let Some(entries) = parent().and_then(|parent| fs::read_dir(parent).ok()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse().ok());
        if maker.and_then(Pid::from_raw).is_some_and(|maker| tree::read(maker).is_none()) {
            _ = fs::remove_dir(entry.path());
        }
    }
}

/// Where control groups of version 2 are mounted. The table of mounts takes longer to read than
/// a group to make.
static MOUNT: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Finds out where control groups are mounted while there is time, before there is a command.
pub(super) fn remember_mount() {
    mount();
}

/// Where control groups are mounted.
fn mount() -> Option<&'static Path> {
    let found = MOUNT.get_or_init(|| mount_in(&fs::read_to_string("/proc/self/mountinfo").ok()?));
    found.as_deref()
}

/// The group of this process.
fn parent() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    own_group(mount()?, &groups)
}

/// Where control groups of version 2 are mounted, from the table of mounts.
fn mount_in(mounts: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let is_second = kind.split(' ').next() == Some("cgroup2");
        place.split(' ').nth(4).filter(|_| is_second)
    })?;
    Some(PathBuf::from(mount))
}

/// Where the group of this process lies, from the table of its groups.
fn own_group(mount: &Path, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(mount.join(group.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::processes::test_support::{FORK_BOMB, marker, processes_with, runner};
    use crate::processes::{Command, EndCause, Limits};

    /// Without a sandbox nothing else tells root's processes of a command from all others.
    #[tokio::test]
    async fn p1_a_fork_bomb_without_a_sandbox_is_contained() {
        let _alone = FORK_BOMB.lock().await;
        let is_held = ControlGroup::create().is_some() || !process::geteuid().is_root();
        if !is_held {
            return;
        }
        let marker = marker();
        let text = format!(
            "setsid bash -c ': {marker}; bomb() {{ bomb | bomb & }}; bomb; sleep 1000' & \
             bomb() {{ bomb | bomb & }}; bomb; sleep 1000"
        );
        let command = Command {
            program: "/bin/bash".into(),
            arguments: ["-c".to_owned(), text].to_vec(),
            directory: "/".into(),
            confinement: None,
            kept_alive: None,
        };
        let time = Duration::from_secs(60);
        let limits = Limits { time: Some(time), output: 1 << 20, shown: 1000 };
        let finished = runner().run(&command, limits, &CancellationToken::new()).await.unwrap();
        assert_eq!(finished.cause, EndCause::TooManyProcesses);
        assert_eq!((processes_with(&marker), finished.stuck), (Vec::new(), 0));
    }

    #[test]
    fn what_killed_supervisors_have_left_is_removed() {
        let Some(own) = ControlGroup::create() else { return };
        // No process has the largest number that there can be.
        let abandoned = own.0.with_file_name(format!("{NAME}{}", i32::MAX));
        fs::create_dir(&abandoned).unwrap();

        remove_abandoned_control_groups();

        assert!(own.0.exists() && !abandoned.exists());
    }

    #[test]
    fn the_own_group_lies_below_the_mount() {
        let mounts = "24 1 0:21 / /sys rw - sysfs sysfs rw\n\
            30 24 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
            31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let mount = mount_in(mounts).unwrap();
        let own = |groups: &str| own_group(&mount, groups);
        assert_eq!(own("9:pids:/x\n0::/\n"), Some("/sys/fs/cgroup/".into()));
        let service = Some("/sys/fs/cgroup/system.slice/toolhand.service".into());
        assert_eq!(own("0::/system.slice/toolhand.service\n"), service);
        assert_eq!(own("9:pids:/x\n"), None);
        assert_eq!(mount_in("24 1 0:21 / /sys rw - sysfs sysfs rw\n"), None);
    }
}
