//! Receives a body within its limits, as it is sent and as it is decompressed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder};
use futures::StreamExt as _;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt as _, BufReader};
use tokio_util::io::StreamReader;

use super::fetch_error::FetchError;

/// How much a body may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) sent: usize,
    pub(super) decoded: usize,
}

/// A whole body.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// Bytes as they were sent.
    pub(super) sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    None,
    Gzip,
    Brotli,
}

pub(super) async fn receive(response: Response, limits: BodyLimits) -> Result<Body, FetchError> {
    let encoding = encoding(response.headers())?;
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).is_ok_and(|announced| announced > limits.sent) {
        return Err(FetchError::TooLarge(limits.sent));
    }
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let stream = response.bytes_stream().map(move |bytes| {
        let bytes = bytes.map_err(io::Error::other)?;
        let before = counted.fetch_add(bytes.len(), Ordering::Relaxed);
        if before + bytes.len() > limits.sent {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(bytes)
    });
    let mut decoded = decoder(encoding, StreamReader::new(stream)).take(limits.decoded as u64 + 1);
    let mut bytes = Vec::new();
    let read = decoded.read_to_end(&mut bytes).await;
    let sent = sent.load(Ordering::Relaxed);
    if sent > limits.sent {
        return Err(FetchError::TooLarge(limits.sent));
    }
    if bytes.len() > limits.decoded {
        return Err(FetchError::TooLargeDecoded(limits.decoded));
    }
    match read {
        Ok(_) => Ok(Body { bytes, sent }),
        Err(error) if is_of_connection(&error) => Err(FetchError::Broken),
        Err(_) if encoding == Encoding::None => Err(FetchError::Broken),
        Err(_) => Err(FetchError::Damaged),
    }
}

/// Whether the connection is at fault, and not what came over it.
fn is_of_connection(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>()).is_some()
}

/// How the body is encoded. Nested encodings are refused.
fn encoding(headers: &HeaderMap) -> Result<Encoding, FetchError> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match (values.next(), values.next()) {
        (None, _) => return Ok(Encoding::None),
        (Some(encoding), None) => encoding.to_str().unwrap_or("?").trim().to_ascii_lowercase(),
        (Some(_), Some(_)) => return Err(FetchError::Encoding),
    };
    match encoding.as_str() {
        "" | "identity" => Ok(Encoding::None),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        "br" => Ok(Encoding::Brotli),
        _ => Err(FetchError::Encoding),
    }
}

fn decoder<'r>(
    encoding: Encoding,
    body: impl AsyncBufRead + Send + 'r,
) -> Pin<Box<dyn AsyncRead + Send + 'r>> {
    let body = BufReader::new(body);
    match encoding {
        Encoding::None => Box::pin(body),
        Encoding::Gzip => {
            let mut decoder = GzipDecoder::new(body);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        Encoding::Brotli => Box::pin(BrotliDecoder::new(body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w27_nested_and_unknown_encodings_are_refused() {
        let of = |values: &[&'static str]| {
            let values = values
                .iter()
                .map(|value| (CONTENT_ENCODING, reqwest::header::HeaderValue::from_static(value)));
            encoding(&values.collect())
        };
        assert_eq!(of(&[]), Ok(Encoding::None));
        assert_eq!(of(&[" GZIP "]), Ok(Encoding::Gzip));
        assert_eq!(of(&["br"]), Ok(Encoding::Brotli));
        for refused in [&["gzip, gzip"][..], &["gzip", "gzip"], &["zstd"], &["deflate"], &["br,br"]]
        {
            assert_eq!(of(refused), Err(FetchError::Encoding), "{refused:?}");
        }
    }
}
