//! Extracts what a handler knows of a request before it reads the body.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;

use crate::http::request_id::header_value;
use crate::ids::{KeyId, RequestId, Scope};
use crate::upstream::TraceHeaders;

/// The parts of a request that are available before its body is read.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    pub(crate) request_id: RequestId,
    pub(crate) key_id: KeyId,
    /// What belongs to it is found by its requests alone.
    pub(crate) scope: Scope,
    /// Cancelled when the key is revoked.
    pub(crate) revoked: CancellationToken,
    /// Request id and trace, forwarded upstream.
    pub(crate) upstream_headers: TraceHeaders,
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let request_id =
            parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::random);
        let key_id = parts.extensions.get::<KeyId>().cloned().unwrap_or_else(KeyId::nobody);
        let upstream_headers = TraceHeaders::new(&parts.headers, header_value(&request_id));
        let (scope, revoked) = (Scope::new(&key_id, None), CancellationToken::new());
        Ok(Self { request_id, key_id, scope, revoked, upstream_headers })
    }
}
