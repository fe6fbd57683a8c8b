//! The queue between a turn and its listener.
//!
//! Nothing waits in order to be merged, but pieces of one text that wait behind
//! a slow reader become one: frontends stall on thousands of tiny deltas. A turn
//! whose listener is far behind stops reading from upstream ([`Outbox::room`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::events::TurnEvent;

/// How much may wait before the turn stops reading: enough to ride out a short
/// stall, little enough for a thousand streams.
const HIGH_WATER: usize = 256 * 1024;

/// The turn's end.
#[derive(Debug)]
pub(crate) struct Outbox(Arc<Mutex<Queue>>);

/// The listener's end.
#[derive(Debug)]
pub(crate) struct Inbox(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<TurnEvent>,
    weight: usize,
    closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

pub(crate) fn outbox() -> (Outbox, Inbox) {
    let queue = Arc::<Mutex<Queue>>::default();
    (Outbox(Arc::clone(&queue)), Inbox(queue))
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().expect("no holder panics")
}

impl Outbox {
    pub(crate) fn push(&self, event: TurnEvent) {
        let mut queue = lock(&self.0);
        queue.weight += event.weight();
        let left = match queue.events.back_mut() {
            Some(last) => last.absorb(event),
            None => Some(event),
        };
        queue.events.extend(left);
        if let Some(reader) = queue.reader.take() {
            drop(queue);
            reader.wake();
        }
    }

    /// Resolves when the listener is not too far behind. Cancel-safe.
    pub(crate) async fn room(&self) {
        std::future::poll_fn(|context| {
            let mut queue = lock(&self.0);
            if queue.weight < HIGH_WATER {
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
        let mut queue = lock(&self.0);
        queue.closed = true;
        if let Some(reader) = queue.reader.take() {
            drop(queue);
            reader.wake();
        }
    }
}

impl Inbox {
    /// Everything that waits; `None` when the turn is gone and nothing is left.
    pub(crate) fn poll_take(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<VecDeque<TurnEvent>>> {
        let mut queue = lock(&self.0);
        if queue.events.is_empty() {
            if queue.closed {
                return Poll::Ready(None);
            }
            queue.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let events = std::mem::take(&mut queue.events);
        queue.weight = 0;
        if let Some(writer) = queue.writer.take() {
            drop(queue);
            writer.wake();
        }
        Poll::Ready(Some(events))
    }

    /// [`Self::poll_take`] as a future. Cancel-safe.
    pub(crate) async fn take(&mut self) -> Option<VecDeque<TurnEvent>> {
        std::future::poll_fn(|context| self.poll_take(context)).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn text(text: &str) -> TurnEvent {
        TurnEvent::Text(text.to_owned())
    }

    fn member(name: &str, text: &str) -> TurnEvent {
        TurnEvent::Member { name: name.to_owned(), text: text.to_owned() }
    }

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
    fn pieces_of_one_text_that_wait_become_one() {
        let (outbox, mut inbox) = outbox();

        for event in [text("a"), text("b"), member("m", "x"), member("m", "y"), text("c")] {
            outbox.push(event);
        }

        let expected = r#"[Text("ab"), Member { name: "m", text: "xy" }, Text("c")]"#;
        assert_eq!(take(&mut inbox), expected);
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
        assert!(outbox.room().now_or_never().is_none());

        inbox.take().await;

        outbox.room().await;
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
