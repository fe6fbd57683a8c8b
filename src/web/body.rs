//! Receives a body within its limits, as it is sent and as it is decompressed.

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder};
use futures::StreamExt as _;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::fetch_error::FetchError;

/// How each part of a body in gzip begins (RFC 1952).
const GZIP_MEMBER: &[u8] = &[0x1f, 0x8b];

/// How much a body may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) sent: usize,
    pub(super) decoded: usize,
}

/// A whole body.
#[derive(Debug)]
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
    let mut sent = Vec::new();
    let mut parts = response.bytes_stream();
    while let Some(part) = parts.next().await {
        sent.extend_from_slice(&part.map_err(|_| FetchError::Broken)?);
        if sent.len() > limits.sent {
            return Err(FetchError::TooLarge(limits.sent));
        }
    }
    let bytes = decode(encoding, &sent, limits.decoded).await?;
    Ok(Body { bytes, sent: sent.len() })
}

/// How the body is encoded. Several encodings, one inside the other, are for nobody's good.
fn encoding(headers: &HeaderMap) -> Result<Encoding, FetchError> {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    let lists: Vec<_> =
        values.map(|list| list.to_str().unwrap_or("?").to_ascii_lowercase()).collect();
    let names = lists.iter().flat_map(|list| list.split(',')).map(str::trim);
    let mut encodings = names.filter(|name| !matches!(*name, "" | "identity"));
    match (encodings.next(), encodings.next()) {
        (None, _) => Ok(Encoding::None),
        (Some("gzip" | "x-gzip"), None) => Ok(Encoding::Gzip),
        (Some("br"), None) => Ok(Encoding::Brotli),
        _ => Err(FetchError::Encoding),
    }
}

/// The body without its encoding. As browsers do, this takes a body of nothing for nothing, and
/// leaves out what follows the end of the encoded data.
async fn decode(encoding: Encoding, sent: &[u8], limit: usize) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    match encoding {
        _ if sent.is_empty() => {}
        Encoding::None => bytes.extend_from_slice(&sent[..sent.len().min(limit + 1)]),
        Encoding::Brotli => read(&mut BrotliDecoder::new(sent), &mut bytes, limit).await?,
        Encoding::Gzip => {
            let mut rest = sent;
            while rest.len() == sent.len() || rest.starts_with(GZIP_MEMBER) {
                let mut member = GzipDecoder::new(rest);
                read(&mut member, &mut bytes, limit).await?;
                rest = member.into_inner();
            }
        }
    }
    if bytes.len() > limit { Err(FetchError::TooLargeDecoded(limit)) } else { Ok(bytes) }
}

/// Reads on, until one byte more than the limit is there.
async fn read(
    decoder: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    limit: usize,
) -> Result<(), FetchError> {
    let room = (limit + 1).saturating_sub(bytes.len());
    let read = decoder.take(room as u64).read_to_end(bytes).await;
    if bytes.len() > limit {
        return Err(FetchError::TooLargeDecoded(limit));
    }
    read.map_err(|_| FetchError::Damaged).map(drop)
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
        assert_eq!(of(&["gzip,"]), Ok(Encoding::Gzip));
        assert_eq!(of(&["identity, identity"]), Ok(Encoding::None));
        assert_eq!(of(&["identity", "br"]), Ok(Encoding::Brotli));
        for refused in [&["gzip, gzip"][..], &["gzip", "gzip"], &["zstd"], &["deflate"], &["br,br"]]
        {
            assert_eq!(of(refused), Err(FetchError::Encoding), "{refused:?}");
        }
    }

    async fn gzip(text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = async_compression::tokio::bufread::GzipEncoder::new(text);
        encoder.read_to_end(&mut bytes).await.unwrap();
        bytes
    }

    #[tokio::test]
    async fn what_follows_encoded_data_is_left_out() {
        let one = gzip(b"one").await;
        let two = gzip(b"two").await;
        let decoded = async |bytes: &[&[u8]], limit| {
            let decoded = decode(Encoding::Gzip, &bytes.concat(), limit).await;
            decoded.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        for rest in [&b""[..], b"\0\0\0", b"JUNK", b"\x1f"] {
            assert_eq!(decoded(&[&one, rest], 9).await.as_deref(), Ok("one"));
            assert_eq!(decoded(&[&one, &two, rest], 9).await.as_deref(), Ok("onetwo"));
        }
        assert_eq!(decoded(&[&one, &two], 5).await, Err(FetchError::TooLargeDecoded(5)));
        assert_eq!(decoded(&[&one, &two[..two.len() - 4]], 9).await, Err(FetchError::Damaged));
        assert_eq!(decoded(&[b"plain"], 9).await, Err(FetchError::Damaged));
        assert_eq!(decode(Encoding::Brotli, &[0xff; 99], 9).await, Err(FetchError::Damaged));
        for encoding in [Encoding::None, Encoding::Gzip, Encoding::Brotli] {
            assert_eq!(decode(encoding, b"", 9).await, Ok(Vec::new()));
        }
    }
}
