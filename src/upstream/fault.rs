//! Defines the ways in which upstream fails, and the error that a client gets for each.

mod complaints;
mod meaning;
mod overflow;
mod redaction;
mod sentence;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::assemble::MAX_CALLS;
use super::sse::guard::TooLarge;
use super::traits::UpstreamTrait;
use super::whole_body::BodyFault;
use crate::errors::{ApiError, ErrorCode};
use crate::memory_budget::Exhausted;
use crate::openai::error_object::ErrorObject;

pub(crate) use complaints::Complaints;
use meaning::Meaning;
pub(crate) use redaction::redact;

/// Bytes of an unexpected answer that the log shows.
pub(super) const MAX_EXCERPT: usize = 200;

/// A failed request or stream. `Display` is for the log, without keys. Clients get the
/// [`ApiError`] instead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// No connection: it was refused, the host is unknown, or `connect_timeout` passed.
    Unreachable(String),
    Tls(String),
    /// The connection broke before the response head, or did not speak HTTP.
    Reset(String),
    /// No response head within this time.
    FirstByte(Duration),
    /// No byte of the body within this time.
    Idle(Duration),
    /// Only comments, and no data, within this time.
    Comment(Duration),
    /// The body ended before the answer did, in order or not.
    Died(String),
    /// An event that is not a chunk. The text is for the log.
    Protocol(String),
    /// `{"error": …}` where a chunk was expected.
    Frame(ErrorObject),
    /// A status that is not a success.
    Status(Refusal),
    /// A redirect, which is not followed.
    Redirect(u16),
    /// A success whose body is not a completion. The text is its beginning, for the log.
    NotACompletion(String),
    TooLarge(TooLarge),
    /// More tool calls than one answer may have.
    TooManyCalls,
    /// The server's memory budget is used up.
    Overloaded,
}

/// A response with a failure status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) error: ErrorObject,
    /// How long upstream asks to wait, if it says so in a known form.
    pub(crate) retry_after: Option<Duration>,
    /// Whether the request carried no key.
    pub(crate) is_keyless: bool,
}

impl Fault {
    /// From a request that failed before its response head.
    pub(crate) fn from_request_error(error: &reqwest::Error) -> Self {
        let text = chain(error);
        if is_tls(error) {
            Self::Tls(text)
        } else if error.is_connect() || error.is_builder() {
            Self::Unreachable(text)
        } else {
            Self::Reset(text)
        }
    }

    /// From a body that broke off.
    pub(crate) fn from_body_error(error: &reqwest::Error) -> Self {
        Self::Died(chain(error))
    }

    /// From an answer that is no completion.
    pub(super) fn not_a_completion(body: &[u8]) -> Self {
        let excerpt = &body[..body.len().min(MAX_EXCERPT)];
        Self::NotACompletion(String::from_utf8_lossy(excerpt).into_owned())
    }

    /// How long upstream asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Whether the fault may pass: upstream was away or failed, and did not refuse this
    /// request.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Reset(_) | Self::Died(_) | Self::Protocol(_) => true,
            Self::Frame(_) | Self::Status(_) => {
                matches!(self.meaning(), Meaning::Failed | Meaning::RateLimited)
            }
            _ => false,
        }
    }

    /// Whether a fallback model may be asked once the retries are used up.
    pub(crate) fn allows_fallback(&self) -> bool {
        self.is_passing() || matches!(self.meaning(), Meaning::UnknownModel | Meaning::Unoffered)
    }

    /// What the provider refuses or misses of the request, as far as its text tells.
    pub(crate) fn complaints(&self) -> Complaints {
        let Some(error) = self.error() else { return Complaints::default() };
        match self.meaning() {
            Meaning::Rejected | Meaning::UnknownModel | Meaning::Unoffered => {
                Complaints::of(&sentence::words(&error.message))
            }
            // Some servers, and LiteLLM for some providers, refuse with 500.
            Meaning::Failed if self.is_500() => {
                Complaints::of_failure(&sentence::words(&error.message))
            }
            _ => Complaints::default(),
        }
    }

    /// Whether the request has more tokens than the model takes.
    pub(crate) fn exceeds_context(&self) -> bool {
        self.meaning() == Meaning::ContextLength
    }

    /// Whether the provider could not read what the model wrote. Another answer may be better.
    pub(crate) fn is_bad_sample(&self) -> bool {
        self.meaning() == Meaning::BadSample
    }

    /// Whether upstream refuses without a reason, as some do with requests that are too long.
    pub(crate) fn is_unexplained(&self) -> bool {
        let Self::Status(Refusal { status, error, .. }) = self else { return false };
        match status {
            413 => self.meaning() == Meaning::Rejected,
            400 | 500 => {
                matches!(self.meaning(), Meaning::Rejected | Meaning::Failed)
                    && sentence::says_nothing(error)
            }
            _ => false,
        }
    }

    /// Whether this is LiteLLM's face of an answer without a message that was not streamed.
    pub(crate) fn is_an_empty_answer(&self) -> bool {
        self.error().is_some_and(meaning::is_an_empty_answer)
    }

    /// Whether this can be one, where an empty answer came before.
    pub(crate) fn may_be_an_empty_answer(&self) -> bool {
        self.is_an_empty_answer() || self.meaning() == Meaning::Failed && self.is_500()
    }

    /// The provider's own sentence, redacted; `None` if it has none, or if it is LiteLLM's about
    /// routes that a provider does not have, which helps nobody.
    pub(crate) fn sentence(&self) -> Option<String> {
        let error = self.error().filter(|_| self.meaning() != Meaning::WrongKind)?;
        sentence::of(error)
    }

    /// Whether upstream has answered, with an error.
    pub(super) fn is_answer(&self) -> bool {
        self.error().is_some()
    }

    /// Whether it is LiteLLM itself that does not know the model, and not a provider.
    pub(super) fn is_unknown_to_litellm(&self) -> bool {
        self.error().is_some_and(|error| {
            self.meaning() == Meaning::UnknownModel && meaning::is_unknown_to_litellm(error)
        })
    }

    fn error(&self) -> Option<&ErrorObject> {
        match self {
            Self::Frame(error) | Self::Status(Refusal { error, .. }) => Some(error),
            _ => None,
        }
    }

    fn is_500(&self) -> bool {
        match self {
            Self::Status(refusal) => matches!(refusal.status, 500 | 501),
            Self::Frame(error) => meaning::frame_status(error) == 500,
            _ => false,
        }
    }

    fn meaning(&self) -> Meaning {
        match self {
            Self::Status(refusal) => Meaning::from_status(refusal),
            Self::Frame(error) => Meaning::from_frame(error),
            _ => Meaning::Failed,
        }
    }

    /// The error for the client. It never contains upstream's own text, except for the redacted
    /// message of a request that was refused.
    pub(crate) fn api_error(&self) -> ApiError {
        let (code, message) = match self {
            Self::Unreachable(_) | Self::Tls(_) => (ErrorCode::UpstreamUnavailable, UNREACHABLE),
            Self::Reset(_) => (ErrorCode::UpstreamError, RESET),
            Self::FirstByte(_) | Self::Idle(_) | Self::Comment(_) => {
                (ErrorCode::UpstreamTimeout, SILENT)
            }
            Self::Died(_) => (ErrorCode::StreamDied, DIED),
            Self::Protocol(_) => (ErrorCode::UpstreamInvalid, GARBAGE),
            Self::Redirect(_) | Self::NotACompletion(_) => {
                (ErrorCode::UpstreamInvalid, NO_COMPLETION)
            }
            Self::TooManyCalls => (ErrorCode::UpstreamInvalid, TOO_MANY_CALLS),
            Self::TooLarge(_) => (ErrorCode::UpstreamInvalid, TOO_LARGE),
            Self::Overloaded => return Exhausted.into(),
            Self::Frame(error) | Self::Status(Refusal { error, .. }) => {
                return self.refusal(error);
            }
        };
        ApiError::new(code, message)
    }

    /// The error for the client where nothing of an answer had come, so that no stream can have
    /// died.
    pub(crate) fn unanswered(&self) -> ApiError {
        match self {
            Self::Died(_) => ApiError::new(ErrorCode::UpstreamError, RESET),
            _ => self.api_error(),
        }
    }

    /// Whether a missing key may be the cause. LiteLLM answers a request without a key with
    /// exactly this text. Other servers use it for any failure, so the request is retried all
    /// the same.
    fn may_want_a_key(&self) -> bool {
        matches!(self, Self::Status(Refusal { status: 500, is_keyless: true, error, .. })
            if error.kind.is_none() && error.code.is_none() && error.message == "Internal Server Error")
    }

    fn bad_sample(&self) -> String {
        let told = self.sentence().map(|sentence| format!(" ({sentence})"));
        format!("{BAD_SAMPLE}{}; try again, or ask another model", told.unwrap_or_default())
    }

    fn refusal(&self, error: &ErrorObject) -> ApiError {
        let (code, message) = match self.meaning() {
            Meaning::Auth => (ErrorCode::UpstreamAuth, AUTH.to_owned()),
            Meaning::UnknownModel if self.is_unknown_to_litellm() => {
                (ErrorCode::ModelNotFound, UNKNOWN_MODEL.to_owned())
            }
            Meaning::UnknownModel => {
                let told = self.sentence().unwrap_or_else(|| UNKNOWN_MODEL.to_owned());
                (ErrorCode::ModelNotFound, told)
            }
            Meaning::Unoffered => {
                let told = self.sentence().unwrap_or_else(|| REJECTED.to_owned());
                (ErrorCode::UpstreamRejected, told)
            }
            Meaning::BadSample => (ErrorCode::UpstreamInvalid, self.bad_sample()),
            Meaning::WrongRoute => (ErrorCode::UpstreamInvalid, WRONG_ROUTE.to_owned()),
            Meaning::ContextLength => {
                (ErrorCode::ContextLengthExceeded, redacted_message_or(error, CONTEXT))
            }
            Meaning::Rejected => {
                (ErrorCode::UpstreamRejected, redacted_message_or(error, REJECTED))
            }
            Meaning::WrongKind => (ErrorCode::UpstreamRejected, WRONG_KIND.to_owned()),
            Meaning::RateLimited => (ErrorCode::UpstreamRateLimited, RATE_LIMITED.to_owned()),
            Meaning::Failed if self.may_want_a_key() => {
                (ErrorCode::UpstreamAuth, NO_KEY.to_owned())
            }
            Meaning::Failed => (ErrorCode::UpstreamError, FAILED.to_owned()),
        };
        let wait = self.retry_after().filter(|_| code == ErrorCode::UpstreamRateLimited);
        ApiError::new(code, message).retry_after(wait)
    }
}

const UNREACHABLE: &str =
    "upstream cannot be reached: check that LiteLLM runs and that upstream.url is right";
const RESET: &str = "upstream closed the connection before it answered";
const SILENT: &str = "upstream did not answer in time";
const DIED: &str = "upstream's stream ended before the answer did";
const GARBAGE: &str = "upstream sent something that is no chat completion chunk";
const NO_COMPLETION: &str =
    "upstream's answer is no chat completion: check that upstream.url ends in /v1";
const TOO_LARGE: &str = "upstream's answer is larger than limits.line or limits.response allow";
const TOO_MANY_CALLS: &str = "the model made more tool calls in one message than can be taken";
const AUTH: &str = "upstream refused a key: check upstream.api_key_file, and the provider's key in \
                    LiteLLM's configuration";
const NO_KEY: &str = "upstream failed, and no key is sent to it: if it is a LiteLLM with a master \
                      key, set TOOLHAND_UPSTREAM_API_KEY or upstream.api_key_file";
const UNKNOWN_MODEL: &str = "upstream has no model of this name: GET /v1/models lists those it has";
const WRONG_ROUTE: &str = "upstream has no such route: check that upstream.url ends in /v1";
const WRONG_KIND: &str =
    "the provider of this model does not offer what was asked: ask a model that is made for it";
const CONTEXT: &str = "the conversation is too long for this model";
const REJECTED: &str = "upstream refused the request";
const BAD_SAMPLE: &str = "the provider could not read the call that its model wrote";
const RATE_LIMITED: &str = "upstream's rate limit is reached: try again later";
const FAILED: &str = "upstream failed to answer: its log says why";

/// Upstream's message, redacted, or `instead` if it has none. An HTML page, such as a proxy's,
/// has none.
fn redacted_message_or(error: &ErrorObject, instead: &str) -> String {
    let is_page = sentence::is_page(&error.message);
    let text = if is_page { String::new() } else { redact(sentence::innermost(&error.message)) };
    if text.is_empty() { instead.to_owned() } else { text }
}

impl From<Exhausted> for Fault {
    fn from(_: Exhausted) -> Self {
        Self::Overloaded
    }
}

impl From<BodyFault> for Fault {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge(most) => TooLarge::Response(most).into(),
            BodyFault::Broken(error) => Self::from_body_error(&error),
        }
    }
}

impl From<TooLarge> for Fault {
    fn from(too_large: TooLarge) -> Self {
        Self::TooLarge(too_large)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "no connection: {}", redact(why)),
            Self::Tls(why) => write!(f, "no TLS connection: {}", redact(why)),
            Self::Reset(why) => write!(f, "connection lost before the head: {}", redact(why)),
            Self::FirstByte(time) => write!(f, "no response head within {time:?}"),
            Self::Idle(time) => write!(f, "no byte within {time:?}"),
            Self::Comment(time) => write!(f, "only comments for {time:?}"),
            Self::Died(why) => write!(f, "the stream died: {}", redact(why)),
            Self::Protocol(why) => write!(f, "no chunk: {}", redact(why)),
            Self::Frame(error) => write!(f, "error in the stream: {}", logged(error)),
            Self::Status(refusal) => {
                write!(f, "status {}: {}", refusal.status, logged(&refusal.error))
            }
            Self::Redirect(status) => write!(f, "redirect {status}, not followed"),
            Self::NotACompletion(excerpt) => write!(f, "no completion: {}", redact(excerpt)),
            Self::TooLarge(TooLarge::Line(cap)) => write!(f, "a line over {cap} bytes"),
            Self::TooLarge(TooLarge::Response(cap)) => write!(f, "a response over {cap} bytes"),
            Self::TooManyCalls => write!(f, "more than {MAX_CALLS} tool calls in one answer"),
            Self::Overloaded => f.write_str("limits.buffers is used up"),
        }
    }
}

impl Error for Fault {}

fn logged(error: &ErrorObject) -> String {
    match error.kind.as_deref() {
        Some(kind) => format!("{} ({})", redact(&error.message), redact(kind)),
        None => redact(&error.message),
    }
}

/// The error and its causes, without the URL.
fn chain(error: &reqwest::Error) -> String {
    let mut text = String::from(if error.is_timeout() { "timed out" } else { "failed" });
    for cause in causes(error) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source())
}

/// Whether TLS failed, for instance over a certificate that is not trusted. A retry does not
/// help then.
fn is_tls(error: &reqwest::Error) -> bool {
    causes(error).any(holds_tls)
}

/// Whether this error is or wraps a TLS error. An I/O error does not report what it wraps as
/// its source, and may wrap another I/O error.
fn holds_tls(cause: &(dyn Error + 'static)) -> bool {
    let io = cause.downcast_ref::<std::io::Error>();
    cause.is::<rustls::Error>()
        || io.and_then(std::io::Error::get_ref).is_some_and(|inside| holds_tls(inside))
}

#[cfg(test)]
mod tests;
