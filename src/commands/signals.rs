//! Waits for SIGINT, SIGTERM and SIGHUP. For a server the first asks it to stop, and the second
//! ends it at once.

use std::fs;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Failure, say};
use crate::free_memory;
use crate::processes;

/// SIGHUP comes when the terminal closes.
const HANGUP: u8 = 128 + 1;
/// The exit status of a program that SIGINT ended: 128 and its number.
pub(crate) const INTERRUPTED: u8 = 128 + 2;
pub(crate) const TERMINATED: u8 = 128 + 15;

/// How work that was not at fault itself came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The signal came before the work was done. The exit status says which it was.
    Interrupted,
    /// It failed, and has said why.
    Failed,
}

/// Runs `work` until it ends. The first signal cancels its token; the second one drops it.
pub(crate) fn run_until_stopped<F>(
    work: impl FnOnce(CancellationToken) -> F,
) -> Result<ExitCode, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    run_to_outcome(|stop| {
        let work = work(stop);
        async { work.await.map(|()| Outcome::Done) }
    })
}

/// The same for work that tells more of its end.
pub(crate) fn run_to_outcome<F>(
    work: impl FnOnce(CancellationToken) -> F,
) -> Result<ExitCode, Failure>
where
    F: Future<Output = Result<Outcome, Failure>>,
{
    free_memory::return_large_at_once();
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(free_memory::return_of_thread)
        .build()?;
    processes::adopt_orphans();
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let stop = CancellationToken::new();
        let mut first = INTERRUPTED;
        let mut ending = pin!(async {
            let outcome = work(stop.clone()).await;
            // Also those that this process has started and lost in its last moment.
            processes::end_supervisors().await;
            outcome
        });
        tokio::select! {
            outcome = &mut ending => return outcome.map(|outcome| exit_code(outcome, first)),
            code = signals.next() => first = code,
        }
        stop.cancel();
        tokio::select! {
            outcome = ending => outcome.map(|outcome| exit_code(outcome, first)),
            code = signals.next() => Ok(ExitCode::from(code)),
        }
    });
    // A thread that still blocks must not delay the exit.
    runtime.shutdown_background();
    outcome
}

fn exit_code(outcome: Outcome, signal: u8) -> ExitCode {
    match outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Interrupted => ExitCode::from(signal),
        Outcome::Failed => ExitCode::FAILURE,
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The signal of a terminal that closes. `None` where this process was started to ignore it.
    hangup: Option<Signal>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// The exit status for the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => {
                end_echo();
                INTERRUPTED
            }
            _ = self.terminate.recv() => TERMINATED,
            () = received(&mut self.hangup) => HANGUP,
        }
    }
}

/// Waits for a signal; for ever where it is ignored.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether this process was started by `nohup`, which lets it outlive its terminal. Waiting for
/// the signal would undo that.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit stands for signal 1, which is SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// Ends the line in which a terminal has shown `^C`, so that nothing is said behind it.
fn end_echo() {
    if io::stderr().is_terminal() {
        say("");
    }
}
