//! Tells a handler whose request it answers, and what goes upstream with it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use crate::http::headers::REQUEST_ID;
use crate::http::request_id::header_value;
use crate::ids::{KeyId, RequestId};

/// The only headers of a client that go upstream: LiteLLM obeys too many others.
const FORWARDED: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// What is known of a request before its body is read.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    pub(crate) request_id: RequestId,
    pub(crate) key_id: KeyId,
    /// The request's id and its trace.
    pub(crate) upstream_headers: HeaderMap,
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let request_id =
            parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::random);
        let key_id = parts.extensions.get::<KeyId>().cloned().unwrap_or_else(KeyId::nobody);
        let mut upstream_headers: HeaderMap = FORWARDED
            .into_iter()
            .filter_map(|name| Some((name.clone(), parts.headers.get(name)?.clone())))
            .collect();
        upstream_headers.insert(REQUEST_ID, header_value(&request_id));
        Ok(Self { request_id, key_id, upstream_headers })
    }
}
