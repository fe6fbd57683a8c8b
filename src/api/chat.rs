//! `POST /v1/chat/completions`.

pub(crate) mod validate;

use axum::response::Response;

/// Answers one chat completion.
pub(crate) async fn create(_input: validate::Validated) -> Response {
    unreachable!("landed by the turn loop")
}
