//! Holds a request body in pieces, so that requests can share the bytes that they have in
//! common.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A request body in pieces. Its length is known, so it is sent with a `Content-Length`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestBody(VecDeque<Bytes>);

impl RequestBody {
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.0.push_back(piece);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    #[cfg(test)]
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter()
    }

    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.0.iter().flatten().copied().collect()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

impl From<RequestBody> for reqwest::Body {
    fn from(body: RequestBody) -> Self {
        Self::wrap(body)
    }
}
