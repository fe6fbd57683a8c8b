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

/// Runs `work` until it ends. The first SIGINT or SIGTERM cancels its token; the second
/// one drops it.
pub(crate) fn run_until_stopped<F>(
    work: impl FnOnce(CancellationToken) -> F,
) -> Result<ExitCode, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let runtime = Runtime::new()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let stop = CancellationToken::new();
        let mut work = pin!(work(stop.clone()));
        tokio::select! {
            done = &mut work => return done.map(|()| ExitCode::SUCCESS),
            _ = signals.next() => stop.cancel(),
        }
        tokio::select! {
            done = work => done.map(|()| ExitCode::SUCCESS),
            code = signals.next() => Ok(ExitCode::from(code)),
        }
    });
    // A thread that still blocks must not delay the exit.
    runtime.shutdown_background();
    outcome
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
