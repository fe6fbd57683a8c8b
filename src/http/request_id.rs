//! Gives each request an id, and each response the headers that all responses have.

use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use super::headers::REQUEST_ID;
use crate::ids::RequestId;

/// Puts a [`RequestId`] into the extensions of the request.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(id.clone());

    let mut response = next.run(request).await;

    response.headers_mut().insert(REQUEST_ID, header_value(&id));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The client's own id if it is valid, else a new one.
fn request_id(headers: &HeaderMap) -> RequestId {
    let mut sent = headers.get_all(REQUEST_ID).iter();
    let given = match (sent.next(), sent.next()) {
        (Some(id), None) => RequestId::from_client(id.as_bytes()),
        _ => None,
    };
    given.unwrap_or_else(RequestId::random)
}

pub(crate) fn header_value(id: &RequestId) -> HeaderValue {
    HeaderValue::from_str(id.as_str()).expect("printable ASCII is a header value")
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
        let id = request_id(&headers).to_string();
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
