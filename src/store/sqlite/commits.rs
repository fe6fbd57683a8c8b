//! Queues the commits for the writer's thread, which takes them in batches: what is written
//! together costs less. A commit that may wait for others does not wake the thread by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::StoreError;
use super::super::rows::Change;

/// More commits than this are not joined, so that the first ones do not wait long.
const MAX_JOINED: usize = 256;

/// How long a commit that may wait is kept for others: too short for a person to notice.
const TOGETHER: Duration = Duration::from_millis(2);

/// What a caller waits for.
pub(super) struct Commit {
    pub(super) changes: Vec<Change>,
    /// For how many others it may wait, up to [`TOGETHER`].
    pub(super) others: usize,
    pub(super) reply: oneshot::Sender<Result<(), StoreError>>,
}

enum Message {
    Commit(Commit),
    Close(oneshot::Sender<()>),
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Commits {
    messages: Sender<Message>,
    counts: Arc<Counts>,
}

/// The receiving half, in the writer's thread.
#[derive(Debug)]
pub(super) struct Incoming {
    messages: Receiver<Message>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Commits that are not handed out yet.
    queued: AtomicUsize,
    /// At how many of them the thread wants to be woken.
    wanted: AtomicUsize,
}

/// What the thread does next.
pub(super) enum Next {
    /// Writes these; then it ends, if somebody waits for that.
    Write(Vec<Commit>, Option<oneshot::Sender<()>>),
    /// Nothing came in time.
    Nothing,
    /// The sending half is gone, or the store is to be closed: then somebody waits for it.
    End(Option<oneshot::Sender<()>>),
}

pub(super) fn commits() -> (Commits, Incoming) {
    let (sender, receiver) = channel();
    let counts = Arc::<Counts>::default();
    let commits = Commits { messages: sender, counts: Arc::clone(&counts) };
    (commits, Incoming { messages: receiver, counts })
}

impl Commits {
    /// If `thread` has ended, `reply` is dropped with the commit.
    pub(super) fn push(&self, commit: Commit, thread: &Thread) {
        let may_wait = 0 < commit.others;
        let queued = self.counts.queued.fetch_add(1, Ordering::AcqRel) + 1;
        _ = self.messages.send(Message::Commit(commit));
        if !may_wait || self.counts.wanted.load(Ordering::Acquire) <= queued {
            thread.unpark();
        }
    }

    pub(super) fn close(&self, done: oneshot::Sender<()>, thread: &Thread) {
        _ = self.messages.send(Message::Close(done));
        thread.unpark();
    }
}

impl Incoming {
    /// The commits that wait, together with those that they may wait for.
    pub(super) fn next(&self, patience: Duration) -> Next {
        let first = match self.messages.recv_timeout(patience) {
            Ok(Message::Commit(first)) => first,
            Ok(Message::Close(done)) => return Next::End(Some(done)),
            Err(RecvTimeoutError::Timeout) => return Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => return Next::End(None),
        };
        let until = Instant::now() + TOGETHER;
        let mut others = first.others;
        let mut batch = vec![first];
        let mut end = None;
        while batch.len() < MAX_JOINED {
            match self.messages.try_recv() {
                Ok(Message::Commit(commit)) => {
                    others = others.min(commit.others);
                    batch.push(commit);
                }
                Ok(Message::Close(done)) => {
                    end = Some(done);
                    break;
                }
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if others < batch.len() || left.is_zero() {
                        break;
                    }
                    // The batch is counted as well.
                    self.counts.wanted.store(others + 1, Ordering::Release);
                    thread::park_timeout(left);
                }
            }
        }
        self.counts.wanted.store(usize::MAX, Ordering::Release);
        self.counts.queued.fetch_sub(batch.len(), Ordering::AcqRel);
        Next::Write(batch, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes commits that may wait for so many others, and returns the sizes of the batches.
    fn batches(others: &[usize]) -> Vec<usize> {
        let (commits, incoming) = commits();
        for others in others {
            let (reply, _) = oneshot::channel();
            let commit = Commit { changes: Vec::new(), others: *others, reply };
            commits.push(commit, &thread::current());
        }
        drop(commits);
        let mut sizes = Vec::new();
        while let Next::Write(batch, _) = incoming.next(Duration::ZERO) {
            sizes.push(batch.len());
        }
        assert_eq!(incoming.counts.queued.load(Ordering::Relaxed), 0);
        sizes
    }

    #[test]
    fn what_waits_is_taken_together_whatever_it_may_wait_for() {
        assert_eq!(batches(&[]), [0; 0]);
        assert_eq!(batches(&[0]), [1]);
        assert_eq!(batches(&[9, 0, 9, 1]), [4]);
        assert_eq!(batches(&[0; MAX_JOINED + 3]), [MAX_JOINED, 3]);
    }

    #[test]
    fn the_last_of_those_that_are_waited_for_wakes_the_thread() {
        let (commits, incoming) = commits();
        let push = |others| {
            let (reply, _) = oneshot::channel();
            commits.push(Commit { changes: Vec::new(), others, reply }, &thread::current());
        };
        incoming.counts.wanted.store(3, Ordering::Relaxed);
        push(2);
        push(2);
        push(2);
        // Without the third's wake-up these would wait for ever.
        thread::park();
        push(0);
        thread::park();

        let next = incoming.next(Duration::ZERO);

        assert!(matches!(next, Next::Write(batch, None) if batch.len() == 4));
    }

    #[test]
    fn what_came_before_the_end_is_handed_out_first() {
        let (commits, incoming) = commits();
        let (reply, _) = oneshot::channel();
        let commit = Commit { changes: Vec::new(), others: 7, reply };
        commits.push(commit, &thread::current());
        commits.close(oneshot::channel().0, &thread::current());

        let next = incoming.next(Duration::ZERO);

        assert!(matches!(next, Next::Write(batch, Some(_)) if batch.len() == 1));
    }
}
