//! Extracts the id from a path. What cannot be read is an id that nobody has: it gets the same
//! answer as any other unknown one.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

#[derive(Clone, Debug)]
pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map_or_else(|_| String::new(), |Path(id)| id)))
    }
}
