//! Whether a client takes what it is sent, and when it has been waited for enough.
//!
//! The kernel's word is what counts: a write that it takes is progress. As long as
//! it takes none, nothing more of the answer is asked for, so that the turn behind
//! it waits and merges what it has to say.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep};

/// How long the kernel is given to take a last word that nobody may ever read.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Shared by the wire of a connection and the answers that are sent over it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    stage: AtomicU8,
    /// The answer that waits for its turn to be sent.
    answer: AtomicWaker,
}

/// The kernel took all it was offered.
const FLOWING: u8 = 0;
/// It had no room the last time.
const BLOCKED: u8 = 1;
/// It has had none for too long: the connection comes to its end.
const OVERDUE: u8 = 2;

/// What an answer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    On,
    /// Say the last word.
    Stop,
}

impl Pace {
    pub(super) fn is_flowing(&self) -> bool {
        self.stage.load(Ordering::Acquire) == FLOWING
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.stage.load(Ordering::Acquire) == OVERDUE
    }

    /// Pending while what was handed over before still waits to be sent.
    pub(super) fn poll_go(&self, cx: &Context<'_>) -> Poll<Go> {
        if self.is_flowing() {
            return Poll::Ready(Go::On);
        }
        self.answer.register(cx.waker());
        match self.stage.load(Ordering::Acquire) {
            FLOWING => Poll::Ready(Go::On),
            OVERDUE => Poll::Ready(Go::Stop),
            _ => Poll::Pending,
        }
    }

    fn change(&self, from: u8, to: u8) {
        let changed =
            self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if changed && to != BLOCKED {
            self.answer.wake();
        }
    }
}

/// Counts the time without progress of one connection.
#[derive(Debug)]
pub(super) struct Stall {
    /// `limits.slow_client`.
    patience: Duration,
    /// Set while the kernel has no room.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// What a write without room comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    /// From now on the client is overdue; the last word is due.
    Overdue,
    /// The last word was not taken either.
    Gone,
}

impl Stall {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, alarm: None }
    }

    /// The kernel took something.
    pub(super) fn progress(&mut self, pace: &Pace) {
        if self.alarm.is_some() && !pace.is_overdue() {
            self.alarm = None;
            pace.change(BLOCKED, FLOWING);
        }
    }

    /// The kernel had no room. Wakes the task when it has had none for too long.
    pub(super) fn no_room(&mut self, pace: &Pace, cx: &mut Context<'_>) -> Verdict {
        pace.change(FLOWING, BLOCKED);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        if alarm.as_mut().poll(cx).is_pending() {
            return Verdict::Wait;
        }
        if pace.is_overdue() {
            return Verdict::Gone;
        }
        alarm.as_mut().reset(Instant::now() + LAST_WORD);
        pace.change(BLOCKED, OVERDUE);
        cx.waker().wake_by_ref();
        Verdict::Overdue
    }

    /// `limits.slow_client`.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }
}
