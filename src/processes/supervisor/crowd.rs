//! Reaches all processes of a command at once, where the kernel can tell them from all others.
//!
//! A command that forks as fast as it can leaves its supervisor a thousandth of the processor, and
//! has forked again before a list of its processes is read. Here one call stops or ends them all.

use std::fs;

use rustix::io::Errno;
use rustix::process::{self, Pid, Signal};

use super::control_group::ControlGroup;

use crate::processes::confinement::{Confinement, Level, scope_signals};
use crate::processes::{kernel, tree};

/// More processes of the machine than at the start of the command, or than at the last count,
/// before those of the command are counted. Counting takes milliseconds, and this a glance.
const SUSPICIOUS: usize = 200;

/// So many glances, and they are counted all the same.
const MAX_GLANCES: u32 = 40;

/// The processes of one command.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Only they can be signalled from here.
    is_alone: bool,
    /// Of a command without a sandbox.
    group: Option<ControlGroup>,
    /// The fewest that the machine has had since they were last counted.
    seen: usize,
    glances: u32,
}

impl Crowd {
    /// Must be called before the command is started, and before there are threads: at the level
    /// Landlock this process gives up signalling any but its descendants.
    pub(super) fn new(confinement: Option<&Confinement>) -> Self {
        let is_alone = match confinement.map(|confinement| confinement.level) {
            // This is the first process of a namespace.
            Some(Level::Bwrap) => process::getpid() == Pid::INIT,
            Some(Level::Landlock) => scope_signals() && !can_signal_monitor(),
            None => false,
        };
        let group = if confinement.is_none() { ControlGroup::create() } else { None };
        Self { is_alone, group, seen: of_the_machine(), glances: 0 }
    }

    /// The group that the command is to enter.
    pub(super) fn group(&self) -> Option<&ControlGroup> {
        self.group.as_ref()
    }

    /// Whether the command has more than this many. If they grow fast, they are stopped while they
    /// are counted.
    pub(super) fn exceeds(&mut self, most: usize) -> bool {
        let now = of_the_machine();
        self.glances += 1;
        // Others may have ended while these grew.
        self.seen = self.seen.min(now);
        if now < self.seen + SUSPICIOUS && self.glances < MAX_GLANCES {
            return false;
        }
        self.glances = 0;
        let is_crowded = SUSPICIOUS <= now.saturating_sub(self.seen);
        if is_crowded {
            self.signal(Signal::STOP);
        }
        let exceeds = most < tree::count();
        if is_crowded && !exceeds {
            self.signal(Signal::CONT);
        }
        self.seen = now;
        exceeds
    }

    /// Ends them all. Returns how many there may be.
    pub(super) fn kill(&self) -> usize {
        self.signal(Signal::KILL);
        tree::signal_all(Signal::KILL)
    }

    fn signal(&self, signal: Signal) {
        if self.is_alone {
            kernel::signal_everyone(signal);
        }
        if let Some(group) = &self.group {
            group.signal(signal);
        }
    }
}

/// The monitor belongs to the same user, so only the scope of signals can forbid it.
fn can_signal_monitor() -> bool {
    process::getppid().is_none_or(|monitor| process::test_kill_process(monitor) != Err(Errno::PERM))
}

/// Processes and threads of the whole machine: the second number behind the loads.
pub(super) fn of_the_machine() -> usize {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = loads.split(' ').nth(3).and_then(|count| count.split_once('/'));
    all.and_then(|(_, all)| all.parse().ok()).unwrap_or(usize::MAX / 2)
}
