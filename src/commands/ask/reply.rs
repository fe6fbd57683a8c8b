//! Reads a person's reply to a question, at the terminal.

use std::io;

use super::error::{AskError, ErrorKind};
use super::output::to_stderr;

const PROMPT: &str = "> ";

/// The next line that is not empty; `None` at the end of the input (Ctrl-D).
pub(super) async fn read() -> Result<Option<String>, AskError> {
    loop {
        to_stderr(PROMPT);
        let reading = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().read_line(&mut line).map(|length| (length, line))
        });
        let read = reading.await.unwrap_or_else(|died| Err(io::Error::other(died)));
        let (length, line) = read.map_err(|error| {
            let message = format!("the reply cannot be read from the terminal: {error}");
            AskError::new(ErrorKind::Usage, message)
        })?;
        match line.trim() {
            "" if length == 0 => return Ok(None),
            "" => {}
            reply => return Ok(Some(reply.to_owned())),
        }
    }
}
