//! Sends a body in one piece and counts it in the memory budget until it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::memory_budget::{Exhausted, Reservation};

/// hyper holds this until the client has taken the last byte.
#[derive(Debug)]
struct BudgetedBody {
    bytes: Option<Bytes>,
    _share: Reservation,
}

/// Counts `bytes` in `reservation` from now on.
pub(crate) fn budgeted_body(bytes: Bytes, mut reservation: Reservation) -> Result<Body, Exhausted> {
    reservation.hold(bytes.len())?;
    Ok(Body::new(BudgetedBody { bytes: Some(bytes), _share: reservation }))
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
