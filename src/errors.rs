//! Defines the errors of the API, with one table of their statuses, types and codes.

use std::time::Duration;

/// Every error code that a client can get, as a response or in a stream's error frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    InvalidJson,
    MissingField,
    InvalidValue,
    UnsupportedValue,
    RefusedField,
    UpstreamRejected,
    ToolNameConflict,
    UnknownToolCall,
    MissingToolResults,
    ContextLengthExceeded,
    HostMissing,
    InvalidApiKey,
    HostNotAllowed,
    OriginNotAllowed,
    ModeNotAllowed,
    PromptBlocked,
    UnknownRoute,
    NotFound,
    ModelNotFound,
    MethodNotAllowed,
    RequestTimeout,
    BodyTooLarge,
    UriTooLong,
    UnsupportedContentType,
    HeadersTooLarge,
    Cancelled,
    SessionBusy,
    ApprovalClosed,
    IdempotencyMismatch,
    TooManyRuns,
    TooManyWrongKeys,
    UpstreamRateLimited,
    UpstreamUnavailable,
    UpstreamAuth,
    UpstreamInvalid,
    UpstreamError,
    EmptyResponse,
    ShuttingDown,
    Overloaded,
    StoreUnavailable,
    UpstreamTimeout,
    Internal,
    StreamDied,
    TurnTimeLimit,
    SlowClient,
}

/// An error for the client: `{"error": {message, type, param, code}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// The request field at fault, such as `messages[2].content`.
    pub(crate) param: Option<String>,
    /// Sent as `Retry-After`, in whole seconds, rounded up.
    pub(crate) retry_after: Option<Duration>,
}

impl ErrorCode {
    pub(crate) const ALL: [Self; 45] = [
        Self::InvalidJson,
        Self::MissingField,
        Self::InvalidValue,
        Self::UnsupportedValue,
        Self::RefusedField,
        Self::UpstreamRejected,
        Self::ToolNameConflict,
        Self::UnknownToolCall,
        Self::MissingToolResults,
        Self::ContextLengthExceeded,
        Self::HostMissing,
        Self::InvalidApiKey,
        Self::HostNotAllowed,
        Self::OriginNotAllowed,
        Self::ModeNotAllowed,
        Self::PromptBlocked,
        Self::UnknownRoute,
        Self::NotFound,
        Self::ModelNotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::BodyTooLarge,
        Self::UriTooLong,
        Self::UnsupportedContentType,
        Self::HeadersTooLarge,
        Self::Cancelled,
        Self::SessionBusy,
        Self::ApprovalClosed,
        Self::IdempotencyMismatch,
        Self::TooManyRuns,
        Self::TooManyWrongKeys,
        Self::UpstreamRateLimited,
        Self::UpstreamUnavailable,
        Self::UpstreamAuth,
        Self::UpstreamInvalid,
        Self::UpstreamError,
        Self::EmptyResponse,
        Self::ShuttingDown,
        Self::Overloaded,
        Self::StoreUnavailable,
        Self::UpstreamTimeout,
        Self::Internal,
        Self::StreamDied,
        Self::TurnTimeLimit,
        Self::SlowClient,
    ];

    /// The error with this `code`.
    pub(crate) fn named(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == code)
    }

    /// The status, `type` and `code` of each error. A code that only occurs in error frames has
    /// the status that a response would have had.
    const fn row(self) -> (u16, &'static str, &'static str) {
        const INVALID: &str = "invalid_request_error";
        const UPSTREAM: &str = "upstream_error";
        const SERVER: &str = "server_error";
        match self {
            Self::InvalidJson => (400, INVALID, "invalid_json"),
            Self::MissingField => (400, INVALID, "missing_field"),
            Self::InvalidValue => (400, INVALID, "invalid_value"),
            Self::UnsupportedValue => (400, INVALID, "unsupported_value"),
            Self::RefusedField => (400, INVALID, "refused_field"),
            Self::UpstreamRejected => (400, INVALID, "upstream_rejected"),
            Self::ToolNameConflict => (400, INVALID, "tool_name_conflict"),
            Self::UnknownToolCall => (400, INVALID, "unknown_tool_call"),
            Self::MissingToolResults => (400, INVALID, "missing_tool_results"),
            Self::ContextLengthExceeded => (400, INVALID, "context_length_exceeded"),
            Self::HostMissing => (400, INVALID, "host_missing"),
            Self::InvalidApiKey => (401, "authentication_error", "invalid_api_key"),
            Self::HostNotAllowed => (403, "permission_error", "host_not_allowed"),
            Self::OriginNotAllowed => (403, "permission_error", "origin_not_allowed"),
            Self::ModeNotAllowed => (403, "permission_error", "mode_not_allowed"),
            Self::PromptBlocked => (403, "permission_error", "prompt_blocked"),
            Self::UnknownRoute => (404, "not_found_error", "unknown_route"),
            Self::NotFound => (404, "not_found_error", "not_found"),
            Self::ModelNotFound => (404, "not_found_error", "model_not_found"),
            Self::MethodNotAllowed => (405, INVALID, "method_not_allowed"),
            Self::RequestTimeout => (408, INVALID, "request_timeout"),
            Self::BodyTooLarge => (413, INVALID, "body_too_large"),
            Self::UriTooLong => (414, INVALID, "uri_too_long"),
            Self::UnsupportedContentType => (415, INVALID, "unsupported_content_type"),
            Self::HeadersTooLarge => (431, INVALID, "headers_too_large"),
            Self::Cancelled => (409, "conflict_error", "cancelled"),
            Self::SessionBusy => (409, "conflict_error", "session_busy"),
            Self::ApprovalClosed => (409, "conflict_error", "approval_closed"),
            Self::IdempotencyMismatch => (422, INVALID, "idempotency_mismatch"),
            Self::TooManyRuns => (429, "rate_limit_error", "too_many_runs"),
            Self::TooManyWrongKeys => (429, "rate_limit_error", "too_many_wrong_keys"),
            Self::UpstreamRateLimited => (429, "rate_limit_error", "upstream_rate_limited"),
            Self::UpstreamUnavailable => (502, UPSTREAM, "upstream_unavailable"),
            Self::UpstreamAuth => (502, UPSTREAM, "upstream_auth"),
            Self::UpstreamInvalid => (502, UPSTREAM, "upstream_invalid"),
            Self::UpstreamError => (502, UPSTREAM, "upstream_error"),
            Self::EmptyResponse => (502, UPSTREAM, "empty_response"),
            Self::ShuttingDown => (503, SERVER, "shutting_down"),
            Self::Overloaded => (503, SERVER, "overloaded"),
            Self::StoreUnavailable => (503, SERVER, "store_unavailable"),
            Self::UpstreamTimeout => (504, UPSTREAM, "upstream_timeout"),
            Self::Internal => (500, SERVER, "internal"),
            Self::StreamDied => (502, UPSTREAM, "stream_died"),
            Self::TurnTimeLimit => (504, SERVER, "turn_time_limit"),
            Self::SlowClient => (408, INVALID, "slow_client"),
        }
    }

    pub(crate) const fn status(self) -> u16 {
        self.row().0
    }

    /// The `type` member.
    pub(crate) const fn kind(self) -> &'static str {
        self.row().1
    }

    pub(crate) const fn as_str(self) -> &'static str {
        self.row().2
    }
}

/// `words` cut to `bytes` bytes, with `…` at the end if it was longer.
fn shortened(mut words: String, bytes: usize) -> String {
    if words.len() > bytes {
        let end = (0..=bytes).rev().find(|end| words.is_char_boundary(*end)).unwrap_or(0);
        words.truncate(end);
        words.push('…');
    }
    words
}

impl ApiError {
    /// Cuts a long message: an error that quotes the request must not send it back whole.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        const MAX_MESSAGE: usize = 4000;
        Self {
            code,
            message: shortened(message.into(), MAX_MESSAGE),
            param: None,
            retry_after: None,
        }
    }

    pub(crate) fn param(mut self, param: impl Into<String>) -> Self {
        const MAX_PARAM: usize = 300;
        self.param = Some(shortened(param.into(), MAX_PARAM));
        self
    }

    pub(crate) fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// The body `{"error": {…}}`, on one line.
    pub(crate) fn body(&self) -> String {
        serde_json::json!({ "error": {
            "message": self.message,
            "type": self.code.kind(),
            "param": self.param,
            "code": self.code.as_str(),
        }})
        .to_string()
    }
}
