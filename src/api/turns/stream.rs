//! Answers `GET /toolhand/v1/turns/{turn}/stream`: tells what the turn said, and follows it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};

use crate::api::chat::Chat;
use crate::api::chat::numbered;
use crate::api::path_id::PathId;
use crate::api::request_context::RequestContext;
use crate::errors::{ApiError, ErrorCode};
use crate::http::headers::{SESSION, TURN, header_value};
use crate::sessions::rest::Rest;
use crate::sessions::running::Position;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(crate) async fn stream(
    State(rest): State<Arc<Rest>>,
    State(chat): State<Arc<Chat>>,
    context: RequestContext,
    headers: HeaderMap,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let position = position(&headers)?;
    let turn = rest.follow(context.scope, &id, position).await?;
    let session = (SESSION, header_value(turn.session.as_str()));
    let id = (TURN, header_value(turn.turn.as_str()));
    let keep_alive = chat.turns.settings().keep_alive;
    let response = numbered::follow(turn, position, keep_alive, chat.memory_budget.reservation());
    Ok(([session, id], response).into_response())
}

/// Where `Last-Event-ID` goes on. An empty one, as browsers send it, is none.
fn position(headers: &HeaderMap) -> Result<Position, ApiError> {
    let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) else {
        return Ok(Position::default());
    };
    let position = id.to_str().ok().and_then(|id| id.parse().ok());
    position.ok_or_else(|| {
        let message = "Last-Event-ID is not the id of an event of this stream.";
        ApiError::new(ErrorCode::InvalidValue, message).param("Last-Event-ID")
    })
}
