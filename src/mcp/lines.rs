//! Lets the messages on a server's standard output through, one JSON object on each line, and
//! skips what is none of them.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::sync::oneshot;

use super::mended::mended;
use super::request_budget::{MessageKind, RequestBudget, TOO_MANY};
use super::stdio_requests::StdioRequests;

/// The longest message: a picture or a long text. A server that sends more is ended.
pub(super) const MAX_MESSAGE_BYTES: usize = 8 << 20;

pub(super) const TOO_LONG: &str = "it sent a message of more than 8 MiB";

/// Lines that are no messages. Some servers greet; one that says more than this is ended.
const MAX_NOISE_LINES: usize = 1_000;

/// Why nothing more is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LinesEnd {
    #[error("it closed its output")]
    Closed,
    #[error("{TOO_LONG}")]
    TooLong,
    #[error("it printed more than {MAX_NOISE_LINES} lines that are no messages")]
    Noise,
    #[error("{TOO_MANY_VALUES}")]
    Values,
    #[error("{TOO_MANY}")]
    Requests,
}

/// The deepest value of a message that is passed on. The protocol's own parser refuses the whole
/// message from 128 on, and with it every tool of a list in which one has such a schema.
const MAX_DEPTH: usize = 100;

/// The most values of a message. Parsed, each takes up to 200 bytes, and some are two in the text.
const MAX_VALUES: usize = 500_000;

pub(super) const TOO_MANY_VALUES: &str = "it sent a message of more than 500,000 values";

/// The messages of a server's output, to be read in its place. Ends when the server closes its
/// output or breaks a limit. Half a line at the end is no message.
///
/// It filters in the task that reads, since a task in between would delay each answer by a switch
/// of threads.
pub(super) struct Messages<R> {
    output: R,
    lines: Lines,
    /// The message that is being read, and how much of it was.
    message: Vec<u8>,
    read: usize,
    /// Told once, at the end.
    ended: Option<oneshot::Sender<LinesEnd>>,
}

/// Tells messages from other lines.
struct Lines {
    /// The beginning of a line.
    line: Vec<u8>,
    noise: usize,
    budget: RequestBudget,
    /// Those that wait for an answer of the server.
    requests: StdioRequests,
}

impl<R: AsyncBufRead + Unpin> Messages<R> {
    /// The receiver hears why nothing more comes, unless the messages are dropped before.
    pub(super) fn of(output: R, requests: StdioRequests) -> (Self, oneshot::Receiver<LinesEnd>) {
        let (ended, end) = oneshot::channel();
        let lines = Lines { line: Vec::new(), noise: 0, budget: RequestBudget::new(), requests };
        (Self { output, lines, message: Vec::new(), read: 0, ended: Some(ended) }, end)
    }

    fn end(&mut self, why: LinesEnd) {
        if let Some(ended) = self.ended.take() {
            // Nobody may want to know.
            _ = ended.send(why);
        }
    }
}

impl<R: AsyncBufRead + Unpin> AsyncRead for Messages<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.read == this.message.len() {
            if this.ended.is_none() {
                return Poll::Ready(Ok(()));
            }
            let mut output = Pin::new(&mut this.output);
            let Ok(bytes) = ready!(output.as_mut().poll_fill_buf(context)) else {
                this.end(LinesEnd::Closed);
                continue;
            };
            if bytes.is_empty() {
                this.end(LinesEnd::Closed);
                continue;
            }
            this.read = 0;
            match this.lines.take(bytes, &mut this.message) {
                Ok(taken) => output.consume(taken),
                Err(why) => this.end(why),
            }
        }
        let left = &this.message[this.read..];
        let given = left.len().min(into.remaining());
        into.put_slice(&left[..given]);
        this.read += given;
        Poll::Ready(Ok(()))
    }
}

impl Lines {
    /// Takes bytes up to the end of a line, and says how many. Leaves the line in `message` if it
    /// is whole and a message, else nothing.
    fn take(&mut self, bytes: &[u8], message: &mut Vec<u8>) -> Result<usize, LinesEnd> {
        message.clear();
        message.shrink_to(64 << 10);
        let end = memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |end| end + 1);
        if MAX_MESSAGE_BYTES < self.line.len() + taken {
            return Err(LinesEnd::TooLong);
        }
        self.line.extend_from_slice(&bytes[..taken]);
        if end.is_none() {
            return Ok(taken);
        }
        if let Cow::Owned(mended) = mended(&self.line) {
            self.line = mended;
        }
        if let Some(kind) = MessageKind::of(&self.line) {
            if kind.is_request() && !self.budget.take() {
                return Err(LinesEnd::Requests);
            }
            if let Some(mended) = self.requests.mended_answer(&kind, &self.line) {
                self.line = mended;
            }
            match MessageValues::of(&self.line) {
                MessageValues::Fit => std::mem::swap(message, &mut self.line),
                MessageValues::Pruned(pruned) => *message = pruned,
                MessageValues::TooMany => return Err(LinesEnd::Values),
            }
        } else if !self.line.trim_ascii().is_empty() {
            self.noise += 1;
            if MAX_NOISE_LINES < self.noise {
                return Err(LinesEnd::Noise);
            }
        }
        self.line.clear();
        self.line.shrink_to(64 << 10);
        Ok(taken)
    }
}

/// What the values of a message come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageValues {
    Fit,
    /// Some were nested too deep. The message with `null` in the place of each of them.
    Pruned(Vec<u8>),
    TooMany,
}

impl MessageValues {
    pub(super) fn of(message: &[u8]) -> Self {
        let (mut count, mut depth, mut in_text, mut is_escaped) = (1, 0_usize, false, false);
        let mut kept: Option<Vec<u8>> = None;
        for (place, byte) in message.iter().copied().enumerate() {
            let outer_depth = depth;
            match byte {
                _ if std::mem::take(&mut is_escaped) => {}
                b'\\' if in_text => is_escaped = true,
                b'"' => in_text = !in_text,
                b',' if !in_text => count += 1,
                b'[' | b'{' if !in_text => {
                    count += 1;
                    depth += 1;
                }
                b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
                _ => {}
            }
            if outer_depth == MAX_DEPTH && depth == MAX_DEPTH + 1 {
                kept.get_or_insert_with(|| message[..place].to_vec()).extend(b"null");
            } else if outer_depth <= MAX_DEPTH
                && let Some(kept) = &mut kept
            {
                kept.push(byte);
            }
        }
        match kept {
            _ if MAX_VALUES < count => Self::TooMany,
            Some(kept) => Self::Pruned(kept),
            None => Self::Fit,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn check(from: &[u8]) -> (String, LinesEnd) {
        let (mut messages, end) = Messages::of(from, StdioRequests::default());
        let mut read = String::new();
        messages.read_to_string(&mut read).await.unwrap();
        (read, end.await.unwrap())
    }

    #[tokio::test]
    async fn m8_noise_is_skipped_and_half_a_line_is_no_message() {
        let message = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"ä\"}}\n";
        let noise = "starting…\n[1]\n{\"id\":1}\n\n{\"jsonrpc\":\"1.0\"}\n\"jsonrpc\"\n";
        let mut bytes = [noise, message, noise, message].concat().into_bytes();
        bytes.extend(b"{\"jsonrpc\":\"2.0\",\"x\":\"\xc3\"}\n{\"jsonrpc\":\"2.0\"");

        let cut = "{\"jsonrpc\":\"2.0\",\"x\":\"\u{fffd}\"}\n";
        let expected = (message.repeat(2) + cut, LinesEnd::Closed);
        assert_eq!(check(&bytes).await, expected);
    }

    #[test]
    fn m5_what_is_nested_too_deep_is_taken_out_of_a_message() {
        let nested = |depth: usize, inner: &str| {
            let (open, close) = ("{\"a\":[".repeat(depth / 2), "]}".repeat(depth / 2));
            format!("{{\"b\":[{open}{inner}{close},\"[[\\\"{{\"]}}")
        };
        let fits = |message: &str| MessageValues::of(message.as_bytes()) == MessageValues::Fit;
        assert!(fits(&nested(98, "1")));
        let pruned = MessageValues::Pruned(nested(98, "null").into_bytes());
        for inner in ["{}", "[]", "[1,\"]\",[]]"] {
            assert_eq!(MessageValues::of(nested(98, inner).as_bytes()), pruned);
        }
        assert_eq!(MessageValues::of(nested(100_000, "1").as_bytes()), pruned);
        // More is closed than was opened.
        assert!(fits("]}]}[{"));
    }

    #[tokio::test]
    async fn m8_a_line_without_end_and_noise_without_end_end_the_server() {
        assert_eq!(check(&vec![b'x'; MAX_MESSAGE_BYTES + 1]).await.1, LinesEnd::TooLong);
        assert_eq!(check(&b"noise\n".repeat(1_000)).await.1, LinesEnd::Closed);
        assert_eq!(check(&b"noise\n".repeat(1_001)).await.1, LinesEnd::Noise);
        let with =
            |values: &str| format!("{{\"jsonrpc\":\"2.0\",\"x\":[{values}]}}\n").into_bytes();
        let many = format!("{}[]", "[],".repeat(2_000_000));
        assert_eq!(check(&with(&many)).await.1, LinesEnd::Values);
        let text = format!("\"{}\"", "[,{".repeat(2_000_000));
        assert_eq!(check(&with(&text)).await.1, LinesEnd::Closed);
    }
}
