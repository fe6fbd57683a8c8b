//! Detects a client that takes nothing of its answer, and ends the answer after
//! `limits.slow_client` (`docs/threats.md`, H32).
//!
//! A write that the kernel accepts is progress. While it accepts none, no more of the
//! answer is requested. The turn behind it then waits and merges its events.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep};

use crate::sync;

/// How long the kernel has to accept the error event of an overdue client, which may
/// never read it.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Whether the client takes what it is sent. The wire and the answers of one connection
/// share this.
#[derive(Debug, Default)]
pub(super) struct WriteStall {
    stage: Mutex<Stage>,
    /// The answer that waits for permission to go on.
    answer: AtomicWaker,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The kernel accepted everything.
    #[default]
    Flowing,
    /// The kernel had no room for the last write.
    Blocked,
    /// The kernel has had no room for too long. The connection is about to end.
    Overdue,
}

/// What an answer may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    Continue,
    /// Send the terminal event and nothing else.
    Terminate,
}

impl WriteStall {
    pub(super) fn is_flowing(&self) -> bool {
        self.stage() == Stage::Flowing
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.stage() == Stage::Overdue
    }

    /// Pending while earlier bytes still wait to be sent.
    pub(super) fn poll_permission(&self, cx: &Context<'_>) -> Poll<Permission> {
        if self.is_flowing() {
            return Poll::Ready(Permission::Continue);
        }
        // Register before reading the stage, so that no change is missed.
        self.answer.register(cx.waker());
        match self.stage() {
            Stage::Flowing => Poll::Ready(Permission::Continue),
            Stage::Overdue => Poll::Ready(Permission::Terminate),
            Stage::Blocked => Poll::Pending,
        }
    }

    fn stage(&self) -> Stage {
        *sync::lock(&self.stage)
    }

    fn change(&self, from: Stage, to: Stage) {
        let mut stage = sync::lock(&self.stage);
        if *stage != from {
            return;
        }
        *stage = to;
        drop(stage);
        if to != Stage::Blocked {
            self.answer.wake();
        }
    }
}

/// Measures how long a connection makes no progress.
#[derive(Debug)]
pub(super) struct StallTimer {
    /// `limits.slow_client`.
    slow_client: Duration,
    /// Set while the kernel has no room.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// The reaction to a write for which the kernel had no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StallOutcome {
    Wait,
    /// The client has just become overdue, and must get its terminal event.
    Overdue,
    /// The kernel did not accept the terminal event either.
    GiveUp,
}

impl StallTimer {
    pub(super) fn new(slow_client: Duration) -> Self {
        Self { slow_client, alarm: None }
    }

    /// Resets the timer: the kernel accepted something.
    pub(super) fn progress(&mut self, stall: &WriteStall) {
        if self.alarm.is_some() && !stall.is_overdue() {
            self.alarm = None;
            stall.change(Stage::Blocked, Stage::Flowing);
        }
    }

    /// Starts the timer: the kernel had no room. Wakes the task when the time is over.
    pub(super) fn no_room(&mut self, stall: &WriteStall, cx: &mut Context<'_>) -> StallOutcome {
        stall.change(Stage::Flowing, Stage::Blocked);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(self.slow_client)));
        if alarm.as_mut().poll(cx).is_pending() {
            return StallOutcome::Wait;
        }
        if stall.is_overdue() {
            return StallOutcome::GiveUp;
        }
        alarm.as_mut().reset(Instant::now() + LAST_WRITE);
        stall.change(Stage::Blocked, Stage::Overdue);
        cx.waker().wake_by_ref();
        StallOutcome::Overdue
    }

    /// `limits.slow_client`.
    pub(super) fn slow_client(&self) -> Duration {
        self.slow_client
    }
}
