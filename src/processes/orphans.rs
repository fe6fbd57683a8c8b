//! Ends processes that have lost their supervisor.
//!
//! A command may end the processes that look after it. What it has started then falls
//! to this process, which is the subreaper above them, and is found among its children:
//! whatever is there, lives in a session of its own and is no supervisor.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{self, Pid, Signal, WaitOptions};
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use super::protocol::CANCEL_GRACE;
use super::tree::{self, Process};

use crate::sync;

/// How long it takes a supervisor to end its tree when nobody waits for the answer;
/// with this the tree is gone within two seconds.
const DROPPED_PATIENCE: Duration = CANCEL_GRACE.saturating_mul(2);

/// KILL works at once, except on a process that waits for a device.
const KILL_PATIENCE: Duration = Duration::from_millis(500);

/// How often is looked whether what was killed is gone.
const TICK: Duration = Duration::from_millis(5);

/// The supervisors that run now, by their process numbers. A property of the process,
/// as its children are.
static SUPERVISORS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Held for reading while a supervisor is started, so that none is taken for an orphan
/// before it is listed.
static STARTING: RwLock<()> = RwLock::new(());

/// A supervisor while it runs. When this is dropped, it is ended in the background.
#[derive(Debug)]
pub(super) struct Supervisor {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    _listed: Listed,
}

/// An entry of [`SUPERVISORS`], for as long as this lives.
#[derive(Debug)]
struct Listed(i32);

/// How a supervisor ended, and what was left without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Living orphans that were found.
    pub(super) orphans: usize,
    /// Those that are there even now.
    pub(super) left: usize,
}

impl Supervisor {
    pub(super) fn start(command: &mut tokio::process::Command) -> io::Result<Self> {
        let _none_is_missed = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        let listed = Listed(number.ok_or_else(|| io::Error::other("it has no number"))?);
        supervisors().insert(listed.0);
        Ok(Self { running: Some(Running { child, _listed: listed }) })
    }

    /// Waits until it has ended by itself, or ends it, and then whatever it has lost.
    pub(super) async fn end(mut self, patience: Duration) -> Ended {
        if let Some(running) = &mut self.running {
            running.end(patience).await;
        }
        self.running = None;
        end_orphans().await
    }
}

impl Running {
    async fn end(&mut self, patience: Duration) {
        if timeout(patience, self.child.wait()).await.is_err() {
            // Stopped by its own command, perhaps.
            _ = self.child.kill().await;
        }
    }
}

impl Drop for Supervisor {
    /// Its control socket closes with its run, so it ends the tree by itself, unless its
    /// command keeps it from that.
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            running.end(DROPPED_PATIENCE).await;
            drop(running);
            end_orphans().await;
        });
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        supervisors().remove(&self.0);
    }
}

fn supervisors() -> std::sync::MutexGuard<'static, BTreeSet<i32>> {
    sync::lock(&SUPERVISORS)
}

/// Has orphans fall to this process, and ends them whenever a child has ended. Never
/// returns.
pub(crate) async fn watch_orphans() {
    if let Err(error) = process::set_child_subreaper(Some(process::getpid())) {
        tracing::warn!(%error, "processes of a command that ends its supervisor may survive");
    }
    let Ok(mut child_ended) = signal(SignalKind::child()) else {
        return std::future::pending().await;
    };
    while child_ended.recv().await.is_some() {
        kill_orphans();
    }
}

/// Ends the supervisors that still run, and what they look after. For the end of the
/// server: they have been told by then.
pub(crate) async fn end_supervisors() {
    let patience = Instant::now() + DROPPED_PATIENCE;
    while !supervisors().is_empty() && Instant::now() < patience {
        sleep(TICK).await;
    }
    for process in tree::children() {
        if is_supervisor(&process) {
            _ = tree::send(&process, Signal::KILL);
        }
    }
    while !supervisors().is_empty() && Instant::now() < patience + KILL_PATIENCE {
        sleep(TICK).await;
    }
    end_orphans().await;
}

async fn end_orphans() -> Ended {
    let patience = Instant::now() + KILL_PATIENCE;
    let mut ended = Ended::default();
    loop {
        ended.left = kill_orphans();
        ended.orphans = ended.orphans.max(ended.left);
        if ended.left == 0 || patience < Instant::now() {
            return ended;
        }
        sleep(TICK).await;
    }
}

/// Kills every orphan with all below it, and reaps those that are dead. Returns how many
/// there were that lived.
fn kill_orphans() -> usize {
    let _none_starts = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let Some(own) = tree::read(process::getpid()) else { return 0 };
    let mut living = 0;
    for orphan in tree::children() {
        if is_supervisor(&orphan) || !is_of_a_command(&orphan, &own) {
            continue;
        }
        if !orphan.is_dead {
            living += 1;
            tree::signal_below(orphan.pid, Signal::KILL);
            _ = tree::send(&orphan, Signal::KILL);
        }
        // Nobody else waits for it.
        _ = process::waitpid(Some(orphan.pid), WaitOptions::NOHANG);
    }
    living
}

fn is_supervisor(process: &Process) -> bool {
    supervisors().contains(&process.pid.as_raw_nonzero().get())
}

/// Whatever a supervisor has started: it is in another session than we are, which it can
/// never enter, and it may gain no privileges, which it can never undo. LiteLLM and what
/// that starts are in ours.
fn is_of_a_command(process: &Process, own: &Process) -> bool {
    process.session != own.session && gains_no_privileges(process.pid)
}

fn gains_no_privileges(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    status.is_ok_and(|status| status.lines().any(|line| line == "NoNewPrivs:\t1"))
}
