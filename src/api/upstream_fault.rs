//! Turns an upstream fault into the error that the client sees.

use crate::errors::ApiError;
use crate::upstream::{Client, Fault};

/// Logs the whole fault. The client is told less.
pub(crate) fn to_api_error(fault: &Fault) -> ApiError {
    tracing::warn!(%fault, "upstream failed");
    fault.api_error()
}

/// The same for a request that names a model.
pub(crate) fn to_api_error_about(
    fault: &Fault,
    model: Option<&str>,
    upstream: &Client,
) -> ApiError {
    let error = to_api_error(fault);
    match model {
        Some(model) => upstream.settings().model_hints.explain(fault, error, model),
        None => error,
    }
}
