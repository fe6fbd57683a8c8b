//! Classifies a refusal by its status and text, because LiteLLM's statuses alone mislead.
//!
//! Measured on LiteLLM 1.106.2 without a database: a wrong master key gives 400, a missing one
//! a bare 500, an unknown model 400, a missing provider key 401 or 500.

use super::Refusal;
use crate::openai::error_object::ErrorObject;

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A key is wrong or missing: toolhand's for LiteLLM, or LiteLLM's for the provider.
    Auth,
    UnknownModel,
    /// The URL does not lead to LiteLLM's API.
    WrongRoute,
    ContextLength,
    /// The model's provider has no such route.
    WrongKind,
    /// The request itself was refused.
    Rejected,
    RateLimited,
    /// Upstream, or the provider behind it, failed.
    Failed,
}

/// Texts that mean a missing or wrong key, with whatever status.
const KEY_TEXTS: [&str; 6] = [
    "no connected db",
    "missing credentials",
    "api key not valid",
    "invalid api key",
    "incorrect api key",
    "authenticationerror",
];

const UNKNOWN_MODEL_TEXTS: [&str; 3] =
    ["invalid model name passed", "no healthy deployments for", "model_not_found"];

/// LiteLLM's words, with status 400, 404 or 500.
const WRONG_KIND_TEXTS: [&str; 3] =
    ["unsupported provider", "unmapped llm provider", "unable to map the custom llm provider"];

const CONTEXT_TEXTS: [&str; 7] = [
    "contextwindowexceeded",
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceeds the context length",
    "exceeds the context window",
    "exceeds the maximum number of tokens",
];

impl Meaning {
    pub(super) fn from_status(refusal: &Refusal) -> Self {
        let is_bare = refusal.error.kind.is_none() && refusal.error.code.is_none();
        if refusal.status == 404 && is_bare && refusal.error.message == "Not Found" {
            return Self::WrongRoute;
        }
        Self::from_error(refusal.status, &refusal.error)
    }

    /// Classifies an error frame. Its code is a text, and may be `"None"`.
    pub(super) fn from_frame(error: &ErrorObject) -> Self {
        let status = error.code.as_deref().and_then(|code| code.parse().ok());
        Self::from_error(status.unwrap_or(500), error)
    }

    fn from_error(status: u16, error: &ErrorObject) -> Self {
        let text = [Some(&error.message), error.kind.as_ref(), error.code.as_ref()];
        let text = text.into_iter().flatten().map(|text| text.to_lowercase()).collect::<Vec<_>>();
        let says =
            |words: &[&str]| words.iter().any(|word| text.iter().any(|text| text.contains(word)));
        match status {
            401 | 403 => Self::Auth,
            429 => Self::RateLimited,
            400 | 404 | 413 | 422 if says(&CONTEXT_TEXTS) => Self::ContextLength,
            400 | 404 | 422 | 500 if says(&WRONG_KIND_TEXTS) => Self::WrongKind,
            400 | 500 if says(&KEY_TEXTS) => Self::Auth,
            400 if says(&UNKNOWN_MODEL_TEXTS) => Self::UnknownModel,
            404 => Self::UnknownModel,
            // A timeout, a conflict, or LiteLLM's status for a failed provider.
            408 | 409 | 424 | 425 => Self::Failed,
            400..500 => Self::Rejected,
            _ => Self::Failed,
        }
    }
}

/// Whether a refusal names a member that carries reasoning. The word `reasoning` counts only in
/// quotes, since ordinary sentences contain it too.
pub(super) fn names_reasoning(message: &str) -> bool {
    const MEMBERS: [&str; 3] = ["reasoning_content", "thinking_blocks", "reasoning_details"];
    let is_named = |quote: char| message.contains(&format!("{quote}reasoning{quote}"));
    MEMBERS.iter().any(|member| message.contains(member))
        || ['\'', '"', '`'].into_iter().any(is_named)
        || message.contains(".reasoning'")
}
