//! Turns an upstream fault into the error that the client sees.

use crate::errors::ApiError;
use crate::upstream::Fault;

/// Logs the whole fault. The client is told less.
pub(crate) fn to_api_error(fault: &Fault) -> ApiError {
    tracing::warn!(%fault, "upstream failed");
    fault.api_error()
}
