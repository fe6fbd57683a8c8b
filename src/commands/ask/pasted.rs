//! Reads the lines that were pasted at the terminal behind a first one, so that all of them are one
//! question.

use std::io::{self, Stdin};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::error::{AskError, ErrorKind};
use super::reply;

/// What a terminal hands over within this time was pasted together. Nobody types as quickly.
const GAP: Duration = Duration::from_millis(50);

/// Bytes of one read. A paste may take several.
const READ: usize = 4096;

/// Whether a line waits, as one does that was typed while an answer came.
pub(super) async fn has_line() -> bool {
    in_background(|| waits(&io::stdin(), Duration::ZERO)).await.unwrap_or(false)
}

/// What was pasted behind the line that was read last, up to the end of a line. It is empty if that
/// line was typed.
pub(super) async fn rest() -> Result<String, AskError> {
    let mut text = in_background(read_pasted).await?;
    // The last line of a paste often has no end. The person gives it one.
    if !text.is_empty()
        && !text.ends_with('\n')
        && let Some(end) = reply::read_line().await?
    {
        text.push_str(&end);
    }
    Ok(text.replace("\r\n", "\n"))
}

async fn in_background<T: Send + 'static>(
    look: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, AskError> {
    let looked = tokio::task::spawn_blocking(look).await;
    let looked = looked.unwrap_or_else(|died| Err(io::Error::other(died)));
    looked.map_err(|error| {
        let message = format!("the question cannot be read from the terminal: {error}");
        AskError::new(ErrorKind::Usage, message)
    })
}

/// Reads all that comes without a gap. The lines before went through a buffer of their own, which is
/// empty: a terminal hands over one line at a time.
fn read_pasted() -> io::Result<String> {
    let stdin = io::stdin();
    let mut pasted = Vec::new();
    while waits_for_any(&stdin)? {
        let mut piece = [0; READ];
        match rustix::io::read(&stdin, &mut piece)? {
            0 => break,
            length => pasted.extend_from_slice(&piece[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&pasted).into_owned())
}

/// Whether anything comes within the gap, also a line without an end. A terminal does not tell of
/// that one as long as it edits lines.
fn waits_for_any(stdin: &Stdin) -> io::Result<bool> {
    let edits_lines = tcgetattr(stdin)?;
    let mut edits_nothing = edits_lines.clone();
    edits_nothing.local_modes.remove(LocalModes::ICANON);
    tcsetattr(stdin, OptionalActions::Now, &edits_nothing)?;
    let has_any = waits(stdin, GAP);
    // What has come is handed over as a line from now on.
    tcsetattr(stdin, OptionalActions::Now, &edits_lines)?;
    has_any
}

fn waits(stdin: &Stdin, time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    Ok(0 < poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&time))?)
}
