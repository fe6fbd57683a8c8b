//! Knows whether a stream is open on which a server over HTTP could still answer a request that it
//! has only accepted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long a stream may take to be opened for the first time, or again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The streams of one connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ListeningStreams(Arc<watch::Sender<StreamsState>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StreamsState {
    open: usize,
    /// The server has refused one.
    is_refused: bool,
}

/// A stream that is open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenStream(ListeningStreams);

impl ListeningStreams {
    pub(super) fn opened(&self) -> OpenStream {
        self.0.send_modify(|state| {
            state.open += 1;
            state.is_refused = false;
        });
        OpenStream(self.clone())
    }

    pub(super) fn refused(&self) {
        self.0.send_modify(|state| state.is_refused = true);
    }

    /// Waits until no answer can come over a stream.
    pub(super) async fn ended(&self) {
        let mut state = self.0.subscribe();
        loop {
            let opened = state.wait_for(|state| 0 < state.open || state.is_refused);
            match timeout(PATIENCE, opened).await {
                Ok(Ok(state)) if 0 < state.open => {}
                _ => return,
            }
            if state.wait_for(|state| state.open == 0).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn outside_47_an_answer_may_come_as_long_as_a_stream_is_open_or_may_open_again() {
        let streams = ListeningStreams::default();
        let began = Instant::now();
        streams.ended().await;
        assert_eq!(began.elapsed(), PATIENCE);

        let open = streams.opened();
        let ended = async {
            let began = Instant::now();
            streams.ended().await;
            began.elapsed()
        };
        let closing = async {
            sleep(Duration::from_secs(600)).await;
            drop(open);
            sleep(PATIENCE / 2).await;
            let again = streams.opened();
            sleep(PATIENCE).await;
            drop(again);
        };
        let (waited, ()) = tokio::join!(ended, closing);
        assert_eq!(waited, Duration::from_secs(600) + PATIENCE / 2 + 2 * PATIENCE);

        streams.refused();
        let began = Instant::now();
        streams.ended().await;
        assert!(began.elapsed().is_zero());
    }
}
