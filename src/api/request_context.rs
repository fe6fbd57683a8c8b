//! Extracts what a handler knows of a request before it reads the body.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::HeaderValue;
use axum::http::request::Parts;

use crate::http::client_key::ClientKey;
use crate::http::request_id::header_value;
use crate::ids::{KeyId, RequestId, Scope};
use crate::sessions::id_sources::{self, IdSources};
use crate::upstream::TraceHeaders;

/// The parts of a request that are available before its body is read.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    pub(crate) request_id: RequestId,
    pub(crate) key_id: KeyId,
    pub(crate) client_key: Arc<ClientKey>,
    /// What belongs to it is found by its requests alone.
    pub(crate) scope: Scope,
    /// Request id and trace, forwarded upstream.
    pub(crate) upstream_headers: TraceHeaders,
}

impl<S: Sync> FromRequestParts<S> for RequestContext
where
    Arc<IdSources>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let request_id =
            parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::random);
        let client_key = parts.extensions.get::<Arc<ClientKey>>().cloned();
        let client_key = client_key.unwrap_or_else(|| Arc::new(ClientKey::nobody()));
        let key_id = client_key.id.clone();
        let upstream_headers = TraceHeaders::new(&parts.headers, header_value(&request_id));
        let sources = Arc::<IdSources>::from_ref(state);
        let header = |name: &str| parts.headers.get(name).map(HeaderValue::as_bytes);
        let is_trusted = client_key.trust_forwarded_user;
        let user = id_sources::forwarded_user(header, &sources.user_headers, is_trusted);
        let scope = Scope::new(&key_id, user.as_deref());
        Ok(Self { request_id, key_id, client_key, scope, upstream_headers })
    }
}
