//! Writes to a server's standard input, and notices when the server does not read it any more: its
//! requests would wait without end.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// A server's standard input.
#[derive(Debug)]
pub(super) struct ServerInput<W> {
    input: W,
    /// How long the server may read nothing while something waits for it.
    patience: Duration,
    /// Runs while something waits.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Told once, at the end.
    ended: Option<oneshot::Sender<InputEnd>>,
}

/// Why nothing more can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InputEnd {
    #[error("it does not read its input")]
    Stalled,
    #[error("it closed its input")]
    Closed,
}

impl<W: AsyncWrite + Unpin> ServerInput<W> {
    /// The receiver hears why nothing more can be written, unless the input is dropped before.
    pub(super) fn to(input: W, patience: Duration) -> (Self, oneshot::Receiver<InputEnd>) {
        let (ended, end) = oneshot::channel();
        (Self { input, patience, stalled: None, ended: Some(ended) }, end)
    }

    fn end(&mut self, why: InputEnd) -> io::Error {
        if let Some(ended) = self.ended.take() {
            // Nobody may want to know.
            _ = ended.send(why);
        }
        io::Error::new(io::ErrorKind::BrokenPipe, why)
    }

    /// Passes on what came of writing, unless it has been pending for too long.
    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(Ok(written)) => {
                self.stalled = None;
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(self.end(InputEnd::Closed))),
            Poll::Pending => {
                let patience = self.patience;
                let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
                ready!(stalled.as_mut().poll(context));
                Poll::Ready(Err(self.end(InputEnd::Stalled)))
            }
        }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for ServerInput<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.input).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.input).poll_flush(context);
        self.watched(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    #[tokio::test(start_paused = true)]
    async fn m6_a_server_that_reads_nothing_is_given_up_and_a_slow_one_is_not() {
        let (ours, mut theirs) = duplex(10);
        let (mut input, end) = ServerInput::to(ours, PATIENCE);
        let mut writing = JoinSet::new();
        writing.spawn(async move { (input.write_all(&[0; 100]).await, input) });
        // It reads a little, each time before it is given up.
        for _ in 0..5 {
            sleep(PATIENCE / 2).await;
            theirs.read_exact(&mut [0; 10]).await.unwrap();
        }
        let began = Instant::now();
        assert_eq!(end.await, Ok(InputEnd::Stalled));
        assert_eq!(began.elapsed(), PATIENCE);
        let (written, _input) = writing.join_next().await.unwrap().unwrap();
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn m7_a_closed_input_is_noticed() {
        let (ours, theirs) = duplex(10);
        drop(theirs);
        let (mut input, end) = ServerInput::to(ours, PATIENCE);
        assert!(input.write_all(b"x").await.is_err());
        assert_eq!(end.await, Ok(InputEnd::Closed));
    }
}
