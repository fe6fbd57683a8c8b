//! Shows a streamed answer, event by event, until it has ended.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::time::timeout;

use super::answer::{Answer, Ending};
use super::error::{AskError, ErrorKind};
use super::screen::Screen;
use crate::upstream::sse::Event;
use crate::upstream::sse::guard::{SseGuard, SseLimits};

/// How long the server may be silent. It sends a comment every `turns.keep_alive` (10 s), and
/// holds its head back for `turns.head_hold` (10 s).
pub(super) const MAX_SILENCE: Duration = Duration::from_secs(300);
/// How long `[DONE]` may be missing after the `finish_reason`.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest line, as upstream's lines have it by default.
const MAX_LINE: usize = 8 << 20;

const DONE: &str = "[DONE]";

/// Shows the events of a stream until the answer has ended.
pub(super) async fn show_stream<E: Error>(
    mut reads: impl Stream<Item = Result<Bytes, E>> + Unpin,
    screen: &mut Screen,
) -> Result<Ending, AskError> {
    let mut guard = SseGuard::new(SseLimits { line: MAX_LINE, response: usize::MAX });
    let mut answer = Answer::default();
    loop {
        let within = if answer.has_ended() { END_TIMEOUT } else { MAX_SILENCE };
        match screen.during(timeout(within, reads.next())).await {
            Ok(Some(Ok(read))) => guard.push(read),
            // Only `[DONE]` is missing.
            Ok(Some(Err(_))) | Err(_) if answer.has_ended() => return answer.ending(),
            Ok(Some(Err(error))) => return Err(AskError::broken_off(&error)),
            Err(_) => return Err(AskError::silent(within)),
            Ok(None) => {
                let last = guard.finish();
                if let Some(data) = last.as_ref().and_then(Event::data) {
                    show(&data, &mut answer, screen)?;
                }
                if !answer.has_ended() {
                    return Err(AskError::cut("the connection was closed"));
                }
                return answer.ending();
            }
        }
        while let Some(event) = guard.next() {
            let event = event.map_err(|_| {
                let message = format!("the server sent a line of more than {MAX_LINE} bytes");
                AskError::new(ErrorKind::InvalidAnswer, message)
            })?;
            let Some(data) = event.data() else { continue };
            if data.trim() == DONE {
                return answer.ending();
            }
            show(&data, &mut answer, screen)?;
        }
    }
}

/// Shows what one event holds.
pub(super) fn show(
    payload: &str,
    answer: &mut Answer,
    screen: &mut Screen,
) -> Result<(), AskError> {
    if payload.trim() == DONE {
        return Ok(());
    }
    for shown in answer.read(payload)? {
        screen.show(&shown)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::stream;

    use super::*;

    const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n";
    const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

    /// Reads these pieces; after them the server is silent.
    async fn read(pieces: &'static [&'static str]) -> Result<Ending, String> {
        let pieces =
            pieces.iter().map(|piece| Ok::<_, io::Error>(Bytes::from_static(piece.as_bytes())));
        let reads = stream::iter(pieces).chain(stream::pending());
        let mut screen = Screen::silent();
        show_stream(reads, &mut screen).await.map_err(|error| error.sentence())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_falls_silent_is_given_up() {
        let silent = Err("the server has sent nothing for 300 s".to_owned());
        assert_eq!(read(&[]).await, silent);
        assert_eq!(read(&[TEXT, ": keep-alive\n\n"]).await, silent);
        assert_eq!(read(&[STOP]).await, Ok(Ending::Stopped));
    }
}
