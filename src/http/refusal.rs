//! Writes the refusal of bytes that hyper could not parse as a request.

use axum::http::StatusCode;

use crate::errors::{ApiError, ErrorCode};
use crate::ids::RequestId;

/// Why a head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    HeadTooLarge,
    UriTooLong,
    NotHttp,
}

impl Refusal {
    /// Recognises the answer that hyper itself writes to a head that it cannot parse. Our
    /// own answers always have a request id.
    pub(super) fn from_hyper(written: &[u8]) -> Option<Self> {
        let status = written.strip_prefix(b"HTTP/1.1 ").or(written.strip_prefix(b"HTTP/1.0 "))?;
        let refusal = match status.get(..3)? {
            b"431" => Self::HeadTooLarge,
            b"414" => Self::UriTooLong,
            b"400" => Self::NotHttp,
            _ => return None,
        };
        let is_ours = written.windows(12).any(|bytes| bytes == b"x-request-id");
        (!is_ours).then_some(refusal)
    }

    /// The whole response, head and body.
    pub(super) fn response(self) -> String {
        let error = match self {
            Self::HeadTooLarge => {
                ApiError::new(ErrorCode::HeadersTooLarge, "The head of the request is too large.")
            }
            Self::UriTooLong => ApiError::new(ErrorCode::UriTooLong, "The URI is too long."),
            Self::NotHttp => ApiError::new(ErrorCode::InvalidValue, "This is not valid HTTP/1.1."),
        };
        let status = error.code.status();
        let reason = StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason());
        let body = error.body();
        format!(
            "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             x-request-id: {}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}",
            reason.unwrap_or_default(),
            body.len(),
            RequestId::random(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_answers_are_from_hyper() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";
        let ours = b"HTTP/1.1 400 Bad Request\r\nx-request-id: 1\r\n\r\n";

        assert_eq!(Refusal::from_hyper(bare), Some(Refusal::HeadTooLarge));
        assert_eq!(Refusal::from_hyper(ours), None);
        assert_eq!(Refusal::from_hyper(b"HTTP/1.1 100 Continue\r\n\r\n"), None);
        assert_eq!(Refusal::from_hyper(b"data: HTTP/1.1 400"), None);
    }
}
