//! Lets the messages on a server's standard output through, one JSON object on each line, and
//! skips what is none of them.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::request_budget::{MessageKind, RequestBudget, TOO_MANY};

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
    #[error("{TOO_MANY}")]
    Requests,
    #[error("the connection was given up")]
    NotWanted,
}

/// The deepest value of a message that is passed on. The protocol's own parser refuses the whole
/// message from 128 on, and with it every tool of a list in which one has such a schema.
const MAX_DEPTH: usize = 100;

/// Copies messages until the server closes its output or breaks a limit. Half a line at the end is
/// no message.
pub(super) async fn copy_messages(
    mut from: impl AsyncBufRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> LinesEnd {
    let (mut line, mut noise, mut requests) = (Vec::new(), 0_usize, RequestBudget::new());
    loop {
        let Ok(piece) = from.fill_buf().await else { return LinesEnd::Closed };
        if piece.is_empty() {
            return LinesEnd::Closed;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(piece.len(), |end| end + 1);
        if MAX_MESSAGE_BYTES < line.len() + length {
            return LinesEnd::TooLong;
        }
        line.extend_from_slice(&piece[..length]);
        from.consume(length);
        if end.is_none() {
            continue;
        }
        if let Some(kind) = MessageKind::of(&line) {
            if kind.is_request() && !requests.take() {
                return LinesEnd::Requests;
            }
            let pruned = pruned(&line);
            if to.write_all(pruned.as_deref().unwrap_or(&line)).await.is_err() {
                return LinesEnd::NotWanted;
            }
        } else if !line.trim_ascii().is_empty() {
            noise += 1;
            if MAX_NOISE_LINES < noise {
                return LinesEnd::Noise;
            }
        }
        line.clear();
        line.shrink_to(64 << 10);
    }
}

/// The message with `null` in the place of each array and object that is nested too deep. `None`:
/// there is none.
pub(super) fn pruned(message: &[u8]) -> Option<Vec<u8>> {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let mut kept: Option<Vec<u8>> = None;
    for (place, byte) in message.iter().copied().enumerate() {
        let outer_depth = depth;
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
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
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(from: &[u8]) -> (String, LinesEnd) {
        let mut to = Vec::new();
        let end = copy_messages(from, &mut to).await;
        (String::from_utf8(to).unwrap(), end)
    }

    #[tokio::test]
    async fn m8_noise_is_skipped_and_half_a_line_is_no_message() {
        let message = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"ä\"}}\n";
        let noise = "starting…\n[1]\n{\"id\":1}\n\n{\"jsonrpc\":\"1.0\"}\n\"jsonrpc\"\n";
        let mut bytes = [noise, message, noise, message].concat().into_bytes();
        bytes.extend(b"{\"jsonrpc\":\"2.0\",\"x\":\"\xc3\"}\n{\"jsonrpc\":\"2.0\"");

        let expected = (message.repeat(2), LinesEnd::Closed);
        assert_eq!(check(&bytes).await, expected);
    }

    #[test]
    fn m5_what_is_nested_too_deep_is_taken_out_of_a_message() {
        let nested = |depth: usize, inner: &str| {
            let (open, close) = ("{\"a\":[".repeat(depth / 2), "]}".repeat(depth / 2));
            format!("{{\"b\":[{open}{inner}{close},\"[[\\\"{{\"]}}")
        };
        assert_eq!(pruned(nested(98, "1").as_bytes()), None);
        for inner in ["{}", "[]", "[1,\"]\",[]]"] {
            let kept = pruned(nested(98, inner).as_bytes()).unwrap();
            assert_eq!(String::from_utf8(kept).unwrap(), nested(98, "null"));
        }
        let kept = pruned(nested(100_000, "1").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(kept).unwrap(), nested(98, "null"));
        // More is closed than was opened.
        assert_eq!(pruned("]}]}[{".as_bytes()), None);
    }

    #[tokio::test]
    async fn m8_a_line_without_end_and_noise_without_end_end_the_server() {
        assert_eq!(check(&vec![b'x'; MAX_MESSAGE_BYTES + 1]).await.1, LinesEnd::TooLong);
        assert_eq!(check(&b"noise\n".repeat(1_000)).await.1, LinesEnd::Closed);
        assert_eq!(check(&b"noise\n".repeat(1_001)).await.1, LinesEnd::Noise);
    }
}
