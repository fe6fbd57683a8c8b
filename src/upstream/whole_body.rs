//! Reads the whole body of a response, up to a limit.

use bytes::{Bytes, BytesMut};
use reqwest::Response;

/// Why a body could not be read whole.
#[derive(Debug)]
pub(crate) enum BodyFault {
    /// It is larger than this limit, in bytes.
    TooLarge(usize),
    /// The connection broke before its end.
    Broken(reqwest::Error),
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn whole_body(response: Response, most: usize) -> Result<Bytes, BodyFault> {
    whole_body_within(response, most, |_| Ok(())).await
}

/// The same, and before each piece is kept calls `reserve` with the size that the body then has.
pub(super) async fn whole_body_within<E: From<BodyFault>>(
    mut response: Response,
    most: usize,
    mut reserve: impl FnMut(usize) -> Result<(), E>,
) -> Result<Bytes, E> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(BodyFault::Broken)? {
        let size = body.len() + piece.len();
        if size > most {
            return Err(BodyFault::TooLarge(most).into());
        }
        reserve(size)?;
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}
