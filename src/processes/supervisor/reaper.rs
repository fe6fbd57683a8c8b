//! Starts the command, reaps its tree and ends it.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use std::{env, thread};

use rustix::io::Errno;
use rustix::process::{self, Pid, Signal, WaitOptions, WaitStatus};
use tokio::time::Instant;

use super::crowd::Crowd;
use super::private_memory::PrivateMemory;
use super::{MAX_PROCESSES, launch, release_streams};
use crate::processes::protocol::{
    self, CANCEL_GRACE, Exit, FinalDirectory, Job, LaunchStep, Order, Report, StartFailure,
};
use crate::processes::{kernel, tree};

/// How often a tree that is being ended is signalled again, because it may have started
/// more processes.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// How often the processes of the machine are looked at: see [`Crowd::exceeds`].
const COUNT_EVERY: Duration = Duration::from_millis(25);

/// A command that keeps the processors busy must not keep this process from ending it. Only root
/// can be more urgent than others.
///
/// This is for the threads that take orders and reap. Among thousands of processes it is not
/// enough: each of them gets a share, and they grow to tens of thousands before it is this
/// process's turn. The thread that counts them is therefore a real-time one, where that is allowed.
const URGENT: i32 = -10;

/// KILL works at once, except on a process that waits for a device.
const KILL_PATIENCE: Duration = Duration::from_millis(500);

/// Everything that can happen while a command runs.
enum Event {
    Ended(WaitStatus),
    /// No descendant is left.
    Gone,
    /// The server orders the end, or has closed the socket.
    End(Duration),
}

struct Reaper {
    events: Receiver<Event>,
    reports: UnixStream,
    started_in: OsString,
    has_ended: bool,
    memory: PrivateMemory,
    crowd: Crowd,
    /// The kernel limits the processes; else this one counts them.
    is_limited: bool,
}

/// A new session has no terminal. The command leads only a process group in it, so it can
/// never get one. The monitor cannot begin one: it leads its process group.
pub(super) fn begin_session() -> io::Result<()> {
    process::setsid()?;
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

pub(super) fn run(
    job: Job,
    orders: BufReader<UnixStream>,
    mut reports: UnixStream,
    is_limited: bool,
) -> io::Result<()> {
    let crowd = Crowd::new(job.confinement.as_ref());
    let (command, started_in) = match start(&job, &crowd) {
        Ok(started) => started,
        Err((step, error)) => {
            let failure = StartFailure::new(step, &error);
            return protocol::write(&mut reports, &Report::NotStarted(failure));
        }
    };
    let memory = PrivateMemory::of(job.confinement.as_ref());
    drop(job);
    release_streams()?;

    _ = process::setpriority_process(None, URGENT);
    let (sender, events) = mpsc::channel();
    let reaper = sender.clone();
    thread::spawn(move || reap(command, &reaper));
    thread::spawn(move || take_orders(orders, &sender));
    if !is_limited {
        // It mostly sleeps.
        _ = kernel::run_before_others();
    }
    // Dropped before the end, for that comes without destructors: the server waits for it.
    Reaper { events, reports, started_in, has_ended: false, memory, crowd, is_limited }.watch();
    kernel::exit_now(0)
}

fn start(job: &Job, crowd: &Crowd) -> Result<(Pid, OsString), (LaunchStep, io::Error)> {
    let enter = || env::set_current_dir(&job.directory).and_then(|()| here());
    let started_in = enter().map_err(|error| (LaunchStep::Directory, error))?;
    Ok((launch::start(job, crowd.group())?, started_in))
}

/// Reaps the command and its orphans until no child is left.
fn reap(command: Pid, events: &Sender<Event>) {
    loop {
        let event = match process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => Event::Ended(status),
            Ok(_) | Err(Errno::INTR) => continue,
            // There is no child: see `tree::reap`.
            Err(_) => Event::Gone,
        };
        let is_last = matches!(event, Event::Gone);
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

fn take_orders(mut orders: BufReader<UnixStream>, events: &Sender<Event>) {
    while let Ok(Some(Order::End { grace })) = protocol::read(&mut orders) {
        _ = events.send(Event::End(grace));
    }
    _ = events.send(Event::End(CANCEL_GRACE));
}

impl Reaper {
    fn watch(mut self) {
        loop {
            match self.events.recv_timeout(COUNT_EVERY) {
                Ok(Event::Ended(status)) => self.report_end(status),
                Ok(Event::End(grace)) => return self.end_tree(grace),
                Err(RecvTimeoutError::Timeout) => {
                    if self.is_crowded() {
                        self.crowd.kill();
                        self.report(&Report::TooManyProcesses);
                        return self.end_tree(Duration::ZERO);
                    }
                }
                Ok(Event::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    return self.report_gone(0);
                }
            }
        }
    }

    /// Sends TERM, and after the grace KILL, repeatedly: processes started meanwhile get
    /// it in the next round.
    fn end_tree(&mut self, grace: Duration) {
        let running = tree::signal_all(Signal::TERM);
        let leftovers = if self.has_ended { running } else { 0 };
        let mut kill_at = Instant::now() + grace;
        let mut has_told = false;
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Ended(status)) => self.report_end(status),
                Ok(Event::End(grace)) => kill_at = kill_at.min(Instant::now() + grace),
                Ok(Event::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    return self.report_gone(leftovers);
                }
                // The grace is for who ends, and not for who goes on forking.
                Err(RecvTimeoutError::Timeout) if Instant::now() < kill_at && self.is_crowded() => {
                    kill_at = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if now < kill_at {
                continue;
            }
            let processes = self.crowd.kill();
            if kill_at + KILL_PATIENCE < now && !has_told {
                has_told = true;
                self.report(&Report::Stuck { processes });
            }
        }
    }

    /// Whether there are more processes than a command may have, where the kernel does not see
    /// to it.
    fn is_crowded(&mut self) -> bool {
        !self.is_limited && self.crowd.exceeds(MAX_PROCESSES)
    }

    fn report_end(&mut self, status: WaitStatus) {
        self.has_ended = true;
        let exit = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        };
        let moved = match here() {
            Ok(directory) if directory == self.started_in => FinalDirectory::Not,
            Ok(directory) => FinalDirectory::To(directory),
            Err(_) => FinalDirectory::Nowhere,
        };
        self.report(&Report::Ended { exit, moved });
    }

    fn report_gone(&mut self, leftovers: usize) {
        if let Some(dropped) = self.memory.written() {
            self.report(&Report::Dropped(dropped));
        }
        self.report(&Report::Gone { leftovers });
    }

    fn report(&mut self, report: &Report) {
        // Ignore a closed socket: the work is the same when nobody listens.
        _ = protocol::write(&mut self.reports, report);
    }
}

fn here() -> io::Result<OsString> {
    env::current_dir().map(Into::into)
}
