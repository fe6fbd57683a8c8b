//! Frames the messages of a language server: a header with `Content-Length`, an empty line, and
//! as many bytes of JSON.
//!
//! The server may be in the hands of the repository that it looks at. So the length of a header
//! and of a message is bounded before anything is kept.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// The longest message. The symbols of a file of 10 MiB fit.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Servers send one or two header fields, of some thirty bytes each.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// Ends the header.
const HEADER_END: &[u8] = b"\r\n\r\n";

/// How far ahead the buffer for a body grows. The length that a server announces is only a claim.
const BODY_STEP: usize = 64 << 10;

/// Why what a server sends cannot be read any further. It follows the name of the server.
#[derive(Debug, thiserror::Error)]
pub(super) enum FramingError {
    #[error("sent a header of more than {MAX_HEADER_BYTES} bytes")]
    LongHeader,
    #[error("sent a header without a valid Content-Length")]
    NoLength,
    #[error("announced a message of {0} bytes; at most {MAX_MESSAGE_BYTES} are read")]
    LongMessage(usize),
    #[error("closed its output: {0}")]
    Io(#[from] io::Error),
}

/// Splits a stream into the bodies of its messages.
#[derive(Debug, Default)]
pub(super) struct MessageCodec {
    /// The length of the body whose header has been read.
    body: Option<usize>,
}

impl Decoder for MessageCodec {
    type Item = Bytes;
    type Error = FramingError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FramingError> {
        let length = match self.body {
            Some(length) => length,
            None => match header(buffer)? {
                Some(length) => *self.body.insert(length),
                None => return Ok(None),
            },
        };
        if buffer.len() < length {
            buffer.reserve((length - buffer.len()).min(BODY_STEP));
            return Ok(None);
        }
        self.body = None;
        Ok(Some(buffer.split_to(length).freeze()))
    }
}

impl Encoder<Bytes> for MessageCodec {
    type Error = FramingError;

    fn encode(&mut self, body: Bytes, buffer: &mut BytesMut) -> Result<(), FramingError> {
        let header = format!("Content-Length: {}\r\n\r\n", body.len());
        buffer.reserve(header.len() + body.len());
        buffer.extend_from_slice(header.as_bytes());
        buffer.extend_from_slice(&body);
        Ok(())
    }
}

/// Takes a whole header off the buffer, and returns the length of the body behind it.
fn header(buffer: &mut BytesMut) -> Result<Option<usize>, FramingError> {
    let searched = &buffer[..buffer.len().min(MAX_HEADER_BYTES)];
    let Some(end) = memchr::memmem::find(searched, HEADER_END) else {
        let is_too_long = MAX_HEADER_BYTES <= buffer.len();
        return if is_too_long { Err(FramingError::LongHeader) } else { Ok(None) };
    };
    let length = content_length(&buffer[..end]).ok_or(FramingError::NoLength)?;
    if MAX_MESSAGE_BYTES < length {
        return Err(FramingError::LongMessage(length));
    }
    buffer.advance(end + HEADER_END.len());
    Ok(Some(length))
}

/// The one `Content-Length` of a header. Two that differ would let two readers see two messages.
fn content_length(header: &[u8]) -> Option<usize> {
    let header = str::from_utf8(header).ok()?;
    let mut length = None;
    for field in header.split("\r\n") {
        let (name, value) = field.split_once(':')?;
        if !name.trim().eq_ignore_ascii_case("content-length") {
            continue;
        }
        let value = value.trim();
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let value: usize = is_number.then(|| value.parse().ok())??;
        if length.is_some_and(|earlier| earlier != value) {
            return None;
        }
        length = Some(value);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bodies: &[&str]) -> Vec<u8> {
        let mut buffer = BytesMut::new();
        for body in bodies {
            let body = Bytes::copy_from_slice(body.as_bytes());
            MessageCodec::default().encode(body, &mut buffer).unwrap();
        }
        buffer.to_vec()
    }

    /// Decodes `stream`, which arrives in pieces that end at these places.
    fn decoded(stream: &[u8], ends: &[usize]) -> Result<Vec<String>, String> {
        let (mut codec, mut buffer) = (MessageCodec::default(), BytesMut::new());
        let (mut bodies, mut start) = (Vec::new(), 0);
        for end in ends.iter().copied().chain([stream.len()]) {
            buffer.extend_from_slice(&stream[start..end]);
            start = end;
            while let Some(body) = codec.decode(&mut buffer).map_err(|error| error.to_string())? {
                bodies.push(String::from_utf8(body.to_vec()).unwrap());
            }
        }
        Ok(bodies)
    }

    #[test]
    fn messages_arrive_whole_however_they_are_split() {
        let bodies = ["{}", "", "{\"a\":\"\u{1f600}\r\n\r\n\"}", "[1]"];
        let stream = encoded(&bodies);
        for first in 0..=stream.len() {
            for second in [first, stream.len().min(first + 1), stream.len().min(first + 7)] {
                assert_eq!(decoded(&stream, &[first, second]).unwrap(), bodies);
            }
        }
        let every_byte: Vec<usize> = (1..stream.len()).collect();
        assert_eq!(decoded(&stream, &every_byte).unwrap(), bodies);
    }

    #[test]
    fn further_fields_and_any_case_are_read() {
        let stream = b"content-type: x; charset=utf-8\r\nCONTENT-LENGTH:  2 \r\n\r\n{}";
        assert_eq!(decoded(stream, &[]).unwrap(), ["{}"]);
    }

    #[test]
    fn a_header_that_says_no_length_ends_the_stream() {
        for header in [
            "\r\n\r\n{}",
            "Content-Length: \r\n\r\n",
            "Content-Length: -1\r\n\r\n",
            "Content-Length: +1\r\n\r\n",
            "Content-Length: 0x2\r\n\r\n{}",
            "Content-Length: 99999999999999999999999\r\n\r\n",
            "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
            "no field\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        ] {
            let error = decoded(header.as_bytes(), &[]).unwrap_err();
            assert_eq!(error, "sent a header without a valid Content-Length", "{header:?}");
        }
        let error = decoded(b"\xff\xfe: x\r\n\r\n", &[]).unwrap_err();
        assert!(error.contains("Content-Length"), "{error}");
    }

    #[test]
    fn an_endless_header_is_not_kept() {
        let (mut codec, mut buffer) = (MessageCodec::default(), BytesMut::new());
        let mut given = 0;
        let error = loop {
            buffer.extend_from_slice(&[b'a'; 1000]);
            given += 1000;
            if let Err(error) = codec.decode(&mut buffer) {
                break error;
            }
        };
        assert!(matches!(error, FramingError::LongHeader), "{error}");
        assert!(given <= MAX_HEADER_BYTES + 1000);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_announcement() {
        let (mut codec, mut buffer) = (MessageCodec::default(), BytesMut::new());
        buffer.extend_from_slice(b"Content-Length: 16777217\r\n\r\n");
        let error = codec.decode(&mut buffer).unwrap_err();
        assert!(matches!(error, FramingError::LongMessage(16_777_217)), "{error}");
        let mut buffer = BytesMut::from(&b"Content-Length: 16777216\r\n\r\n{"[..]);
        assert!(MessageCodec::default().decode(&mut buffer).unwrap().is_none());
        assert!(buffer.capacity() < 1 << 20, "a claim reserves nothing");
    }
}
