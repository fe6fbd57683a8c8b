//! Reads a request's body. Checks its media type, and limits its size and time
//! (`docs/threats.md`, H14, H17, H18, H21).

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::errors::{ApiError, ErrorCode};
use crate::limits::Limits;
use crate::memory_budget::Reservation;

/// A body that arrives at this rate may take longer than `limits.body_time`.
const MIN_BYTES_PER_SECOND: u128 = 8_000;

/// Reads a whole JSON body without parsing it. The reservation counts its bytes until it
/// is dropped.
pub(crate) async fn read_json(
    request: Request,
    limits: &Limits,
    mut reservation: Reservation,
) -> Result<(Bytes, Reservation), ApiError> {
    let (parts, body) = request.into_parts();
    if media_type(&parts.headers)? != "application/json" {
        return Err(unsupported("Send the body with 'Content-Type: application/json'."));
    }
    let expected = declared_length(&parts.headers, limits.body)?;
    let mut incoming = Incoming::new(body, limits.body, limits.body_time);
    let mut whole = Vec::with_capacity(expected);
    while let Some(piece) = incoming.next().await? {
        reservation.hold(whole.len() + piece.len())?;
        whole.extend_from_slice(&piece);
    }
    Ok((whole.into(), reservation))
}

/// The media type in lower case, without parameters. Refuses a compressed body, because
/// its size is known only after decompression.
pub(crate) fn media_type(headers: &HeaderMap) -> Result<String, ApiError> {
    if headers.get_all(CONTENT_ENCODING).iter().any(|coding| coding != "identity") {
        return Err(unsupported("Send the body without a Content-Encoding."));
    }
    let mut sent = headers.get_all(CONTENT_TYPE).iter();
    let media_type = match (sent.next(), sent.next()) {
        (Some(one), None) => one.to_str().ok(),
        _ => None,
    };
    let essence = media_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    Ok(essence.trim().to_ascii_lowercase())
}

pub(crate) fn unsupported(message: &str) -> ApiError {
    ApiError::new(ErrorCode::UnsupportedContentType, message)
}

/// The announced length, or 0 if there is none. Refuses a length over the limit before
/// anything is read.
pub(crate) fn declared_length(headers: &HeaderMap, limit: usize) -> Result<usize, ApiError> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match length {
        Some(length) if length > limit => Err(too_large(limit)),
        length => Ok(length.unwrap_or(0)),
    }
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("The body is larger than this server takes ({limit} bytes).");
    ApiError::new(ErrorCode::BodyTooLarge, message)
}

/// A body as it arrives, limited in size and time.
#[derive(Debug)]
pub(crate) struct Incoming {
    body: Body,
    limit: usize,
    received: usize,
    timer: BodyTimer,
}

impl Incoming {
    pub(crate) fn new(body: Body, limit: usize, time: Duration) -> Self {
        Self { body, limit, received: 0, timer: BodyTimer::new(time) }
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let asked = Instant::now();
            let frame = timeout_at(asked + self.timer.left(), self.body.frame()).await;
            let frame = frame.map_err(|_| {
                ApiError::new(ErrorCode::RequestTimeout, "The body came too slowly.")
            })?;
            let Some(frame) = frame.transpose().map_err(|_| broken())? else { return Ok(None) };
            let Ok(piece) = frame.into_data() else { continue };
            self.received += piece.len();
            self.timer.count(piece.len(), asked.elapsed());
            if self.received > self.limit {
                return Err(too_large(self.limit));
            }
            return Ok(Some(piece));
        }
    }
}

fn broken() -> ApiError {
    ApiError::new(ErrorCode::InvalidValue, "The body is broken off or badly framed.")
}

/// Measures how long the server waits for the client. The time restarts whenever enough
/// bytes have come within it. Time in which upstream takes nothing does not count,
/// because then the server does not wait for the client.
#[derive(Clone, Copy, Debug)]
struct BodyTimer {
    time: Duration,
    waited: Duration,
    received: usize,
}

impl BodyTimer {
    fn new(time: Duration) -> Self {
        Self { time, waited: Duration::ZERO, received: 0 }
    }

    fn left(self) -> Duration {
        self.time.saturating_sub(self.waited)
    }

    fn count(&mut self, bytes: usize, waited: Duration) {
        self.received += bytes;
        self.waited += waited;
        if self.received as u128 * 1_000 >= MIN_BYTES_PER_SECOND * self.time.as_millis() {
            *self = Self::new(self.time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use tokio::time::sleep;

    use super::*;
    use crate::memory_budget::MemoryBudget;

    const TYPE: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    async fn read(headers: &[(&str, &str)], body: Body) -> Result<Bytes, ErrorCode> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let limits = Limits { body: 100_000, ..Limits::default() };
        let reservation = MemoryBudget::new(1 << 20).reservation();
        let read = read_json(request.body(body).unwrap(), &limits, reservation).await;
        read.map(|(bytes, _)| bytes).map_err(|error| error.code)
    }

    /// A body of this many pieces, one each second.
    fn dripping(bytes: usize, pieces: usize) -> Body {
        Body::from_stream(stream::unfold(0, move |sent| async move {
            sleep(Duration::from_secs(1)).await;
            (sent < pieces).then(|| (Ok::<_, Infallible>(Bytes::from(vec![b' '; bytes])), sent + 1))
        }))
    }

    #[tokio::test]
    async fn takes_json_and_nothing_else() {
        assert_eq!(read(&[TYPE], Body::from("{}")).await.unwrap(), "{}");
        for headers in [
            &[][..],
            &[("content-type", "text/plain")],
            &[("content-type", "application/x-www-form-urlencoded")],
            &[("content-type", "multipart/form-data; boundary=x")],
            &[("content-type", "application/jsonx")],
            &[TYPE, TYPE],
            &[TYPE, ("content-encoding", "gzip")],
        ] {
            let refused = read(headers, Body::from("{}")).await.unwrap_err();
            assert_eq!(refused, ErrorCode::UnsupportedContentType, "{headers:?}");
        }
    }

    #[tokio::test]
    async fn refuses_what_is_too_large_announced_or_not() {
        let announced = read(&[TYPE, ("content-length", "100001")], Body::empty()).await;
        assert_eq!(announced.unwrap_err(), ErrorCode::BodyTooLarge);
        let crossing = read(&[TYPE], Body::from(vec![b' '; 100_001])).await;
        assert_eq!(crossing.unwrap_err(), ErrorCode::BodyTooLarge);
        assert!(read(&[TYPE], Body::from(vec![b' '; 100_000])).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn h21_a_slow_body_has_its_time_and_no_more() {
        let started = Instant::now();
        assert_eq!(read(&[TYPE], dripping(1, 100)).await.unwrap_err(), ErrorCode::RequestTimeout);
        assert_eq!(started.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn h21_a_body_that_keeps_coming_may_take_longer() {
        let mut incoming =
            Incoming::new(dripping(8_100, 100), usize::MAX, Limits::default().body_time);
        let mut received = 0;
        while let Some(piece) = incoming.next().await.unwrap() {
            received += piece.len();
        }
        assert_eq!(received, 810_000);
    }

    #[tokio::test(start_paused = true)]
    async fn h21_a_burst_buys_no_time_for_a_drip() {
        let burst = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![b' '; 1_000_000]))]);
        let drip = dripping(7_900, 1_000).into_data_stream();
        let body = Body::from_stream(burst.chain(drip.map(|piece| Ok(piece.unwrap()))));
        let mut incoming = Incoming::new(body, usize::MAX, Limits::default().body_time);
        let started = Instant::now();

        let refused = loop {
            match incoming.next().await {
                Ok(piece) => assert!(piece.is_some()),
                Err(error) => break error,
            }
        };

        assert_eq!(refused.code, ErrorCode::RequestTimeout);
        assert_eq!(started.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn h21_time_that_nobody_waited_for_the_client_does_not_count() {
        let time = Limits::default().body_time;
        let mut incoming = Incoming::new(dripping(10, 4), usize::MAX, time);
        for _ in 0..4 {
            // Upstream takes nothing for this long.
            sleep(time * 2).await;
            assert!(incoming.next().await.unwrap().is_some());
        }
        assert!(incoming.next().await.unwrap().is_none());
    }
}
