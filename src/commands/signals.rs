//! Waits for signals. The first asks the server to stop; the second ends it at once.

use std::io;
use std::pin::pin;
use std::process::ExitCode;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Failure;

/// The exit status of a program that SIGINT ended: 128 and its number.
const INTERRUPTED: u8 = 128 + 2;
const TERMINATED: u8 = 128 + 15;

/// How work that was not at fault itself came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The signal came before the work was done. The exit status says which it was.
    Interrupted,
    /// It failed, and has said why.
    Failed,
}

/// Runs `work` until it ends. The first SIGINT or SIGTERM cancels its token; the second
/// one drops it.
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
    let runtime = Runtime::new()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let stop = CancellationToken::new();
        let mut work = pin!(work(stop.clone()));
        let first = tokio::select! {
            done = &mut work => return done.map(|outcome| exit_code(outcome, INTERRUPTED)),
            code = signals.next() => code,
        };
        stop.cancel();
        tokio::select! {
            done = work => done.map(|outcome| exit_code(outcome, first)),
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
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The exit status for the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}
