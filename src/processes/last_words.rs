//! Keeps the end of what a program that stays says on its standard error, for the case that it ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::sync;
#[cfg(any(feature = "lsp", test))]
use crate::text;

/// Bytes that are kept of it.
const MAX_BYTES: usize = 4 << 10;

/// Characters of its last line that are told.
#[cfg(any(feature = "lsp", test))]
const MAX_CHARS: usize = 200;

/// How long after the end of its output a server's last line may take.
const PATIENCE: Duration = Duration::from_millis(200);

/// The end of what a program has said so far on its standard error. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&sync::lock(&self.0)).into_owned()
    }
}

/// Reads the standard error of a server, so that the server never waits for somebody to do it.
#[derive(Debug)]
pub(crate) struct LastWords {
    kept: StderrTail,
    over: CancellationToken,
    _reading: JoinSet<()>,
}

impl LastWords {
    #[cfg(any(feature = "lsp", test))]
    pub(crate) fn listen(errors: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self::listen_into(errors, StderrTail::default())
    }

    /// Keeps them where somebody can look before the program has ended.
    pub(crate) fn listen_into(
        mut errors: impl AsyncRead + Send + Unpin + 'static,
        kept: StderrTail,
    ) -> Self {
        let over = CancellationToken::new();
        let (into, done) = (kept.clone(), over.clone().drop_guard());
        let read = async move {
            let _done = done;
            let mut buffer = vec![0; MAX_BYTES];
            while let Ok(count @ 1..) = errors.read(&mut buffer).await {
                keep(&mut sync::lock(&into.0), &buffer[..count]);
            }
        };
        let mut reading = JoinSet::new();
        reading.spawn(read);
        Self { kept, over, _reading: reading }
    }

    /// Its last line, if it has said anything.
    #[cfg(any(feature = "lsp", test))]
    pub(crate) async fn line(&self) -> Option<String> {
        last_line(&self.text().await)
    }

    /// The last of what it has said, once it has ended.
    pub(crate) async fn text(&self) -> String {
        _ = timeout(PATIENCE, self.over.cancelled()).await;
        self.kept.text()
    }
}

fn keep(kept: &mut Vec<u8>, more: &[u8]) {
    kept.extend_from_slice(more);
    let surplus = kept.len().saturating_sub(MAX_BYTES);
    kept.drain(..surplus);
}

#[cfg(any(feature = "lsp", test))]
fn last_line(kept: &str) -> Option<String> {
    let lines = kept.lines().map(text::shown_line);
    let last = lines.rev().find(|line| !line.is_empty())?;
    Some(text::first_chars(&last, MAX_CHARS).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_line_is_kept_of_a_flood() {
        let flood = ["x".repeat(1 << 20), "\nError: \u{1b}[31mno\tsuch\u{202e} file\n\n".into()];
        let words = LastWords::listen(std::io::Cursor::new(flood.concat()));
        assert_eq!(words.line().await.unwrap(), "Error: [31mno such file");
        assert!(sync::lock(&words.kept.0).len() <= MAX_BYTES);
        assert_eq!(LastWords::listen(std::io::Cursor::new("")).line().await, None);
        let long = LastWords::listen(std::io::Cursor::new("y".repeat(9000)));
        assert_eq!(long.line().await.unwrap().len(), MAX_CHARS);
    }
}
