//! Ends processes that have lost their supervisor.
//!
//! A command may end the processes that look after it. Its own processes then become
//! children of the server, which is the subreaper above them. An orphan is a child in a
//! session of its own that is no supervisor, or the inner half of a bubblewrap whose outer half
//! was killed while it started. No server is above the halves that a killed one has left: the
//! next server ends those.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{self, Pid, Signal, WaitOptions};
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use super::protocol::CANCEL_GRACE;
use super::supervisor;
use super::tree::{self, Process};

use crate::sync;

/// How long a supervisor may take to end its tree when nobody waits for the answer. The
/// tree is then gone within two seconds.
const DROPPED_PATIENCE: Duration = CANCEL_GRACE.saturating_mul(2);

/// KILL works at once, except on a process that waits for a device.
const KILL_PATIENCE: Duration = Duration::from_millis(500);

/// How often killed processes are checked.
const TICK: Duration = Duration::from_millis(5);

/// The running supervisors by their process ids. A static, because the children belong to
/// the whole process.
static SUPERVISORS: Mutex<BTreeMap<i32, Occupation>> = Mutex::new(BTreeMap::new());

/// This process is about to end: nothing more is started ahead. Changed only while [`STARTING`]
/// is held for writing.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Held for reading while a supervisor is started, so that it is not taken for an orphan
/// before it is listed.
static STARTING: RwLock<()> = RwLock::new(());

/// Whether a supervisor has a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occupation {
    /// It was started ahead of the command. Nothing is lost when it ends.
    Waiting,
    Working,
}

/// A running supervisor. Dropping it ends the supervisor in the background.
#[derive(Debug)]
pub(super) struct Supervisor {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    listed: Listed,
    kept_alive: Option<KeptAlive>,
}

/// What a command needs until its last process has ended, also if nobody waits for it.
#[derive(Clone)]
pub(crate) struct KeptAlive(Arc<dyn Any + Send + Sync>);

impl KeptAlive {
    pub(crate) fn new(value: Arc<dyn Any + Send + Sync>) -> Self {
        Self(value)
    }

    /// Keeps something else besides.
    pub(crate) fn with(self, other: Arc<dyn Any + Send + Sync>) -> Self {
        Self(Arc::new((self, Self(other))))
    }
}

impl fmt::Debug for KeptAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeptAlive").field(&Arc::strong_count(&self.0)).finish()
    }
}

/// An entry of [`SUPERVISORS`] for as long as it lives.
#[derive(Debug)]
struct Listed(i32);

/// The outcome after a supervisor has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// The supervisor ended by itself and in order. Only then may its report count that
    /// nothing has run: a command that forges that report still runs.
    pub(super) in_order: bool,
    /// Living orphans that were found.
    pub(super) orphans: usize,
    /// Orphans that could not be ended.
    pub(super) left: usize,
}

impl Supervisor {
    pub(super) fn start(command: &mut tokio::process::Command) -> io::Result<Self> {
        Self::start_as(command, Occupation::Working)
    }

    /// Starts one that gets its job later, or never.
    pub(super) fn start_ahead(command: &mut tokio::process::Command) -> io::Result<Self> {
        Self::start_as(command, Occupation::Waiting)
    }

    fn start_as(command: &mut tokio::process::Command, occupation: Occupation) -> io::Result<Self> {
        // The signals of a terminal (Ctrl-C, Ctrl-\, Ctrl-Z, its closing) go to the process group
        // of the server, which decides what becomes of its commands.
        command.process_group(0);
        let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        if occupation == Occupation::Waiting && IS_ENDING.load(Ordering::Relaxed) {
            return Err(io::Error::other("the server is about to end"));
        }
        let child = command.spawn()?;
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        let listed = Listed(number.ok_or_else(|| io::Error::other("it has no number"))?);
        supervisors().insert(listed.0, occupation);
        Ok(Self { running: Some(Running { child, listed, kept_alive: None }) })
    }

    /// It is given a command, for which `kept_alive` must stay.
    pub(super) fn begin_work(&mut self, kept_alive: Option<KeptAlive>) {
        if let Some(running) = &mut self.running {
            supervisors().insert(running.listed.0, Occupation::Working);
            running.kept_alive = kept_alive;
        }
    }

    /// Whether its process has not ended. One that was just killed may not have yet.
    pub(super) fn is_alive(&mut self) -> bool {
        let child = self.running.as_mut().map(|running| running.child.try_wait());
        matches!(child, Some(Ok(None)))
    }

    #[cfg(test)]
    pub(super) fn process(&self) -> Option<Pid> {
        self.running.as_ref().and_then(|running| Pid::from_raw(running.listed.0))
    }

    /// Kills its process. Only for one that has no command.
    pub(super) fn kill(&mut self) {
        if let Some(running) = &mut self.running {
            // An error means that it has ended.
            _ = running.child.start_kill();
        }
    }

    /// Waits until the supervisor has exited, kills it after `patience`, and ends its
    /// orphans.
    pub(super) async fn end(mut self, patience: Duration) -> Ended {
        let Some(running) = &mut self.running else { return end_orphans().await };
        let in_order = running.end(patience).await;
        let kept_alive = running.kept_alive.take();
        self.running = None;
        let ended = end_orphans().await;
        drop(kept_alive);
        Ended { in_order, ..ended }
    }
}

impl Running {
    /// Returns whether the supervisor ended by itself and in order.
    async fn end(&mut self, patience: Duration) -> bool {
        if let Ok(status) = timeout(patience, self.child.wait()).await {
            return status.is_ok_and(|status| status.success());
        }
        // It may have been stopped by its own command.
        _ = self.child.kill().await;
        false
    }
}

impl Drop for Supervisor {
    /// The control socket closes with the run, so the supervisor ends the tree itself
    /// unless its command prevents that.
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            running.end(DROPPED_PATIENCE).await;
            let kept_alive = running.kept_alive.take();
            drop(running);
            end_orphans().await;
            drop(kept_alive);
        });
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        supervisors().remove(&self.0);
    }
}

fn supervisors() -> std::sync::MutexGuard<'static, BTreeMap<i32, Occupation>> {
    sync::lock(&SUPERVISORS)
}

/// Makes this process adopt orphans. Called before it starts any program.
pub(crate) fn adopt_orphans() {
    if let Err(error) = process::set_child_subreaper(Some(process::getpid())) {
        tracing::warn!(%error, "processes of a command that ends its supervisor may survive");
    }
}

/// Ends orphans whenever a child has ended. Never returns.
pub(crate) async fn watch_orphans() {
    let Ok(mut child_ended) = signal(SignalKind::child()) else {
        return std::future::pending().await;
    };
    while child_ended.recv().await.is_some() {
        kill_orphans();
    }
}

/// Ends the supervisors that still run, their commands, and what they have left. Called at the
/// end of this process, when they have already been told to stop.
pub(crate) async fn end_supervisors() {
    let patience = Instant::now() + DROPPED_PATIENCE;
    {
        let _no_start = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        IS_ENDING.store(true, Ordering::Relaxed);
    }
    kill_supervisors(|occupation| occupation == Occupation::Waiting);
    while is_at_work() && Instant::now() < patience {
        sleep(TICK).await;
    }
    kill_supervisors(|_| true);
    while is_at_work() && Instant::now() < patience + KILL_PATIENCE {
        sleep(TICK).await;
    }
    end_orphans().await;
}

fn kill_supervisors(which: impl Fn(Occupation) -> bool) {
    for process in tree::children() {
        if occupation(&process).is_some_and(&which) {
            _ = tree::send(&process, Signal::KILL);
        }
    }
}

/// Whether any supervisor has a command.
fn is_at_work() -> bool {
    supervisors().values().any(|occupation| *occupation == Occupation::Working)
}

/// `None`: it is no supervisor.
fn occupation(process: &Process) -> Option<Occupation> {
    supervisors().get(&process.pid.as_raw_nonzero().get()).copied()
}

async fn end_orphans() -> Ended {
    let patience = Instant::now() + KILL_PATIENCE;
    let mut ended = Ended::default();
    loop {
        let found = kill_orphans();
        ended.left = found.living;
        ended.orphans = ended.orphans.max(ended.left);
        // One that died while the list was read has left its children to this process, and
        // the list does not have them yet.
        let is_last = found.living == 0 && found.dead == 0;
        if is_last || patience < Instant::now() {
            return ended;
        }
        sleep(TICK).await;
    }
}

/// The orphans that one look at the children of this process has found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    living: usize,
    dead: usize,
}

/// Kills every orphan with its descendants, and reaps the dead ones.
fn kill_orphans() -> Found {
    let _no_start = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let mut found = Found::default();
    let Some(own) = tree::read(process::getpid()) else { return found };
    for orphan in tree::children() {
        if occupation(&orphan).is_some() {
            continue;
        }
        if !belongs_to_a_command(&orphan, &own) && !is_half_started(&orphan) {
            continue;
        }
        if orphan.is_dead {
            found.dead += 1;
        } else {
            found.living += 1;
            tree::signal_below(orphan.pid, Signal::KILL);
            _ = tree::send(&orphan, Signal::KILL);
        }
        // Nothing else waits for this process.
        _ = process::waitpid(Some(orphan.pid), WaitOptions::NOHANG);
    }
    found
}

/// Whether a process belongs to a command. Such a process is in another session than the
/// server and can never enter the server's. It has `no_new_privs`, which cannot be
/// undone. LiteLLM and its children are in the server's session.
fn belongs_to_a_command(process: &Process, own: &Process) -> bool {
    process.session != own.session && gains_no_privileges(process.pid)
}

/// Ends the bubblewraps that were killed halfway through their start together with their server.
/// What their inner halves wait for never comes. Returns how many there were.
pub(crate) fn kill_stranded_bubblewraps() -> usize {
    let all = tree::all();
    let left: Vec<&Process> = all.iter().filter(|process| is_half_started(process)).collect();
    for process in &left {
        _ = tree::send(process, Signal::KILL);
    }
    left.len()
}

/// Whether this is the inner half of a bubblewrap that this user's server has started, without
/// its outer half, which leads the process group. Nobody waits for such a process: the server
/// knows only the outer half.
fn is_half_started(process: &Process) -> bool {
    process.is_bubblewrap
        && !process.is_dead
        && process.parent != process.group
        && gains_no_privileges(process.pid)
        && is_first_of_its_namespace(process.pid)
        && starts_our_supervisor(process.pid)
}

/// Whether a process of this user is the first one of its namespace of processes.
fn is_first_of_its_namespace(pid: Pid) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))
    else {
        return false;
    };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let own = process::getuid().as_raw().to_string();
    let is_own = field("Uid:").and_then(|ids| ids.split_whitespace().next()) == Some(&own);
    let number = field("NSpid:").and_then(|numbers| numbers.split_whitespace().next_back());
    is_own && number == Some("1")
}

fn starts_our_supervisor(pid: Pid) -> bool {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    let line = line.unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == supervisor::COMMAND.as_bytes())
}

fn gains_no_privileges(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    status.is_ok_and(|status| status.lines().any(|line| line == "NoNewPrivs:\t1"))
}
