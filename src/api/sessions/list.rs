//! Answers `GET /toolhand/v1/sessions`: the sessions used last come first.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use serde::Deserialize;

use crate::api::request_context::RequestContext;
use crate::errors::{ApiError, ErrorCode};
use crate::sessions::rest::Rest;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    limit: Option<String>,
    /// The id or name of the last session of the page before.
    after: Option<String>,
}

pub(crate) async fn list(
    State(rest): State<Arc<Rest>>,
    context: RequestContext,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let Query(asked) = asked.map_err(|error| {
        ApiError::new(ErrorCode::InvalidValue, format!("The query cannot be read: {error}."))
    })?;
    let limit = limit(asked.limit.as_deref())?;
    Ok(Json(rest.sessions(context.scope, asked.after.as_deref(), limit).await?))
}

fn limit(text: Option<&str>) -> Result<usize, ApiError> {
    let Some(text) = text else { return Ok(DEFAULT_LIMIT) };
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let limit = text.parse().ok().filter(|limit| is_plain && (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| {
        let message = format!("limit must be a whole number from 1 to {MAX_LIMIT}.");
        ApiError::new(ErrorCode::InvalidValue, message).param("limit")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_plain_number_from_1_to_100() {
        for (text, expected) in [
            (None, Some(20)),
            (Some("1"), Some(1)),
            (Some("007"), Some(7)),
            (Some("100"), Some(100)),
        ] {
            assert_eq!(limit(text).ok(), expected);
        }
        let long = "9".repeat(1000);
        for text in ["", "0", "101", "-1", "+1", "1.0", "1e1", " 1", "٣", &long] {
            assert!(limit(Some(text)).is_err(), "{text}");
        }
    }
}
