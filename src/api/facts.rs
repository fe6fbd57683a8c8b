//! What is known of a request before its body is read.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;

use axum::extract::{FromRequestParts, Request};
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use uuid::Uuid;

use super::auth::KeyId;
use crate::upstream::TraceHeaders;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id we repeat.
const LONGEST_REQUEST_ID: usize = 128;

/// Whose request this is, and what it is called in logs and upstream.
#[derive(Clone, Debug)]
pub(crate) struct RequestFacts {
    pub(crate) request_id: RequestId,
    pub(crate) key_id: KeyId,
    /// What goes upstream with it: its id and its trace.
    pub(crate) upstream_headers: TraceHeaders,
}

/// The client's own id when it is fit to be repeated, else one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(String);

/// Who connected: the address of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl RequestId {
    pub(crate) fn random() -> Self {
        Self(format!("req_{}", Uuid::new_v4().simple()))
    }

    fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(REQUEST_ID).iter();
        match (sent.next(), sent.next()) {
            (Some(id), None) => Self::accept(id.as_bytes()).unwrap_or_else(Self::random),
            _ => Self::random(),
        }
    }

    fn accept(sent: &[u8]) -> Option<Self> {
        let is_printable = sent.iter().all(|byte| (b' '..=b'~').contains(byte));
        let fits = (1..=LONGEST_REQUEST_ID).contains(&sent.len());
        (is_printable && fits).then(|| Self(String::from_utf8_lossy(sent).into_owned()))
    }

    fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("printable ASCII is a header value")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Gives the request its id, and every response what all of them carry.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());

    let mut response = next.run(request).await;

    response.headers_mut().insert(REQUEST_ID, id.header());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl<S: Sync> FromRequestParts<S> for RequestFacts {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let request_id =
            parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::random);
        let key_id = parts.extensions.get::<KeyId>().cloned().unwrap_or_else(KeyId::nobody);
        let upstream_headers = TraceHeaders::new(&parts.headers, request_id.header());
        Ok(Self { request_id, key_id, upstream_headers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sent: &[&[u8]], kept: bool) {
        let mut headers = HeaderMap::new();
        for id in sent {
            headers.append(REQUEST_ID, HeaderValue::from_bytes(id).unwrap());
        }
        let id = RequestId::of(&headers).to_string();
        assert_eq!(sent.first().is_some_and(|sent| id.as_bytes() == *sent), kept, "{id}");
    }

    #[test]
    fn the_clients_id_is_kept_when_it_can_be_repeated() {
        check(&[b"abc-123"], true);
        check(&[&[b'x'; 128]], true);
        check(&[&[b'x'; 129]], false);
        check(&[b""], false);
        check(&["né".as_bytes()], false);
        check(&[b"one", b"two"], false);
        check(&[], false);
    }
}
