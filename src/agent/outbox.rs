//! Implements the queue between a turn and its subscriber.
//!
//! Pieces of one text that wait behind a slow subscriber are merged, since frontends stall on
//! thousands of tiny deltas. Nothing is delayed in order to be merged. A turn whose subscriber
//! is far behind stops reading from upstream ([`Outbox::wait_for_room`]).

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::events::TurnEvent;

use crate::sync;

/// How many bytes may wait before the turn stops reading from upstream: enough for a short
/// stall of the subscriber, and affordable for a thousand streams.
const HIGH_WATER: usize = 64 * 1024;

/// The overhead of one event beside its text, in bytes.
const EVENT_OVERHEAD: usize = 64;

/// How many events may wait before they are handed over in the middle of a read. One read of
/// most models' answers brings fewer, and a frontend takes this many without a stall.
const BATCH: usize = 32;

/// The sending half, held by the turn.
#[derive(Debug)]
pub(crate) struct Outbox(Arc<Mutex<Queue>>);

/// The receiving half, held by the subscriber.
#[derive(Debug)]
pub(crate) struct Inbox(Arc<Mutex<Queue>>);

/// What both halves share.
#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<TurnEvent>,
    size_estimate: usize,
    closed: bool,
    /// The subscriber wants to be woken only for the end of the turn, or when `HIGH_WATER` is
    /// reached.
    waits_for_end: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

pub(crate) fn outbox() -> (Outbox, Inbox) {
    let queue = Arc::<Mutex<Queue>>::default();
    (Outbox(Arc::clone(&queue)), Inbox(queue))
}

impl Outbox {
    /// Queues an event without waking the subscriber; [`Self::flush`] does that. The event may
    /// be merged into the last one, but only if the subscriber is not waiting for it.
    pub(crate) fn push(&self, event: TurnEvent) {
        let mut queue = sync::lock(&self.0);
        // A registered waker means that the subscriber waits and would get the event at once.
        let is_behind = queue.reader.is_none() || queue.waits_for_end;
        let last = queue.events.back_mut().filter(|_| is_behind);
        // What is merged costs its text alone, or a slow client would stall the turn early.
        if let Some(added) = last.and_then(|last| last.absorb(&event)) {
            queue.size_estimate += added;
        } else {
            queue.size_estimate += event.size_estimate() + EVENT_OVERHEAD;
            queue.events.push_back(event);
        }
    }

    /// Wakes the subscriber if there is something for it.
    pub(crate) fn flush(&self) {
        let mut queue = sync::lock(&self.0);
        if !queue.is_due() {
            return;
        }
        if let Some(reader) = queue.reader.take() {
            drop(queue);
            reader.wake();
        }
    }

    /// Awaits `next`, and flushes the queue before it sleeps.
    ///
    /// Another task hands over the pieces of one socket read one by one. So this yields to that
    /// task once before it wakes the subscriber, and all pieces go out in one write. It never
    /// waits for bytes that have not arrived.
    pub(crate) async fn flush_before<T>(&self, next: impl Future<Output = T>) -> T {
        let mut next = pin!(next);
        let mut has_yielded = false;
        std::future::poll_fn(|context| {
            let polled = next.as_mut().poll(context);
            if polled.is_pending() {
                if has_yielded || !sync::lock(&self.0).is_awaited() {
                    self.flush();
                } else {
                    has_yielded = true;
                    context.waker().wake_by_ref();
                }
            }
            polled
        })
        .await
    }

    /// Hands over a batch to a waiting subscriber and yields to it. Only when the subscriber
    /// has tried to pass the events on can it be seen to be slow, and later events be merged.
    pub(crate) async fn hand_over(&self) {
        let is_due = {
            let queue = sync::lock(&self.0);
            queue.is_awaited() && queue.events.len() >= BATCH
        };
        if is_due {
            self.flush();
            tokio::task::yield_now().await;
        }
    }

    /// The estimated memory of the events that wait, in bytes.
    pub(crate) fn size_estimate(&self) -> usize {
        sync::lock(&self.0).size_estimate
    }

    /// Resolves when the subscriber is less than `HIGH_WATER` behind. Cancel-safe.
    pub(crate) async fn wait_for_room(&self) {
        std::future::poll_fn(|context| {
            let mut queue = sync::lock(&self.0);
            if queue.size_estimate < HIGH_WATER {
                return Poll::Ready(());
            }
            queue.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut queue = sync::lock(&self.0);
        queue.closed = true;
        if let Some(reader) = queue.reader.take() {
            drop(queue);
            reader.wake();
        }
    }
}

impl Queue {
    /// Whether there is enough in the queue to wake the subscriber.
    fn is_due(&self) -> bool {
        let enough = if self.waits_for_end { HIGH_WATER } else { 1 };
        self.closed || self.size_estimate >= enough
    }

    /// Whether the subscriber sleeps and there is enough to wake it.
    fn is_awaited(&self) -> bool {
        self.reader.is_some() && self.is_due()
    }
}

impl Inbox {
    /// For an answer that is sent whole: from now on the subscriber is woken only at the end of
    /// the turn, or when too much waits.
    pub(crate) fn wait_for_end(&mut self) {
        sync::lock(&self.0).waits_for_end = true;
    }

    /// For a subscriber that follows the stream of such an answer: it is woken for each event.
    pub(crate) fn wait_for_each(&mut self) {
        sync::lock(&self.0).waits_for_end = false;
    }

    /// Takes all events that wait. `None` when the turn is gone and the queue is empty.
    pub(crate) fn poll_take(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<VecDeque<TurnEvent>>> {
        let mut queue = sync::lock(&self.0);
        if !queue.is_due() {
            queue.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        if queue.events.is_empty() {
            return Poll::Ready(None);
        }
        let events = std::mem::take(&mut queue.events);
        queue.size_estimate = 0;
        if let Some(writer) = queue.writer.take() {
            drop(queue);
            writer.wake();
        }
        Poll::Ready(Some(events))
    }

    /// [`Self::poll_take`] as a future.
    #[cfg(test)]
    pub(crate) async fn take(&mut self) -> Option<VecDeque<TurnEvent>> {
        std::future::poll_fn(|context| self.poll_take(context)).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::agent::events::samples::{member, text};

    fn take(inbox: &mut Inbox) -> String {
        let events = inbox.take().now_or_never().expect("something waits").expect("open");
        format!("{events:?}")
    }

    #[test]
    fn each_piece_goes_at_once_to_a_reader_that_keeps_up() {
        let (outbox, mut inbox) = outbox();

        outbox.push(text("a"));
        assert_eq!(take(&mut inbox), r#"[Text("a")]"#);
        outbox.push(text("b"));
        assert_eq!(take(&mut inbox), r#"[Text("b")]"#);
    }

    #[test]
    fn pieces_stay_apart_for_a_reader_that_waits_for_them() {
        let (outbox, mut inbox) = outbox();
        assert!(inbox.take().now_or_never().is_none());

        outbox.push(text("a"));
        outbox.push(text("b"));

        assert_eq!(take(&mut inbox), r#"[Text("a"), Text("b")]"#);
    }

    #[test]
    fn pieces_of_one_text_that_wait_become_one() {
        let (outbox, mut inbox) = outbox();

        for event in [text("a"), text("b"), member("m", "x"), member("m", "y"), text("c")] {
            outbox.push(event);
        }

        let expected = r#"[Text("ab"), Member { name: "m", text: "xy" }, Text("c")]"#;
        assert_eq!(take(&mut inbox), expected);
    }

    #[tokio::test]
    async fn the_listener_is_woken_when_the_turn_has_to_wait() {
        let (outbox, mut inbox) = outbox();
        let listening = inbox.take();
        let speaking = async {
            tokio::task::yield_now().await;
            outbox.push(text("a"));
            outbox.flush_before(tokio::task::yield_now()).await;
        };

        let (heard, ()) = futures::join!(listening, speaking);

        assert_eq!(heard.map(|events| events.len()), Some(1));
    }

    #[tokio::test]
    async fn a_patient_reader_hears_of_the_end_and_of_much() {
        let (outbox, mut inbox) = outbox();
        inbox.wait_for_end();
        outbox.push(text("a"));
        assert!(inbox.take().now_or_never().is_none());

        outbox.push(text(&"b".repeat(HIGH_WATER)));
        assert!(inbox.take().now_or_never().is_some());

        outbox.push(text("c"));
        drop(outbox);
        assert_eq!(take(&mut inbox), r#"[Text("c")]"#);
    }

    #[test]
    fn what_is_merged_costs_its_text_alone() {
        let (outbox, _inbox) = outbox();

        for _ in 0..HIGH_WATER / 8 {
            outbox.push(text("abc"));
        }
        for _ in 0..HIGH_WATER / 8 {
            outbox.push(member("reasoning_content", "abc"));
        }

        assert!(outbox.wait_for_room().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_long_burst_is_handed_over_before_its_end() {
        let (outbox, mut inbox) = outbox();
        let listening = async {
            let mut sizes = Vec::new();
            while let Some(events) = inbox.take().await {
                sizes.push(events.len());
            }
            sizes
        };
        let speaking = async {
            for _ in 0..2 * BATCH {
                outbox.hand_over().await;
                outbox.push(text("a"));
            }
            drop(outbox);
        };

        let (sizes, ()) = futures::join!(listening, speaking);

        assert_eq!(sizes, [BATCH, BATCH]);
    }

    #[test]
    fn members_of_different_names_stay_apart() {
        let (outbox, mut inbox) = outbox();

        outbox.push(member("a", "x"));
        outbox.push(member("b", "y"));

        assert_eq!(inbox.take().now_or_never().flatten().map(|events| events.len()), Some(2));
    }

    #[tokio::test]
    async fn a_turn_waits_for_a_reader_far_behind() {
        let (outbox, mut inbox) = outbox();
        outbox.push(text(&"x".repeat(HIGH_WATER)));
        assert!(outbox.wait_for_room().now_or_never().is_none());

        inbox.take().await;

        outbox.wait_for_room().await;
    }

    #[tokio::test]
    async fn the_listener_learns_that_the_turn_is_gone() {
        let (outbox, mut inbox) = outbox();
        outbox.push(text("last words"));
        drop(outbox);

        assert!(inbox.take().await.is_some());
        assert!(inbox.take().await.is_none());
    }
}
