//! Classifies a refusal by its status and text, because LiteLLM's statuses alone mislead.
//!
//! Measured on LiteLLM 1.106.2 without a database: a wrong master key gives 400, a missing one
//! a bare 500, an unknown model 400, a missing provider key 401 or 500.

use super::sentence::{has_any, says_nothing as is_silent};
use super::{Refusal, overflow};
use crate::openai::error_object::ErrorObject;

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A key is wrong or missing: toolhand's for LiteLLM, or LiteLLM's for the provider.
    Auth,
    UnknownModel,
    /// A provider has nothing for this request, whatever its words for that are.
    Unoffered,
    /// The URL does not lead to LiteLLM's API.
    WrongRoute,
    ContextLength,
    /// The model's provider has no such route.
    WrongKind,
    /// The request itself was refused.
    Rejected,
    /// The provider could not read what the model wrote.
    BadSample,
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

/// LiteLLM's own words for a model that it does not know.
const LITELLM_UNKNOWN_TEXTS: [&str; 2] =
    ["invalid model name passed", "no healthy deployments for"];

/// The code of a provider that does not know it.
const UNKNOWN_MODEL_CODE: &str = "model_not_found";

/// LiteLLM's words, with status 400, 404 or 500.
const WRONG_KIND_TEXTS: [&str; 3] =
    ["unsupported provider", "unmapped llm provider", "unable to map the custom llm provider"];

/// Words for a model that is not there, in an error with the status 404.
const ABSENT_TEXTS: [&str; 14] = [
    "not found",
    "not_found",
    "does not exist",
    "doesn't exist",
    "not exist",
    "no such",
    "unknown model",
    "invalid model",
    "not available",
    "unavailable",
    "not have access",
    "decommissioned",
    "deprecated",
    "not a valid model",
];

/// Words for an answer of a model that its provider could not read.
const BAD_SAMPLE_TEXTS: [&str; 28] = [
    "tool_use_failed",
    "output_parse_failed",
    "json_validate_failed",
    "failed to call a function",
    "tool call validation failed",
    "error parsing tool call",
    "failed to parse tool call",
    "could not parse tool call",
    "failed to parse input at pos",
    "malformed_function_call",
    "malformed function call",
    "malformed_tool_use",
    "requested tool does not exist",
    "malformed_tool_call",
    "malformed_model_output",
    "malformed tool call",
    "unexpected_tool_call",
    "failed to parse function call",
    "failed to parse the tool call",
    "could not parse the tool call",
    "error parsing function call",
    "invalid tool call generated",
    "the model generated an invalid tool call",
    "model output could not be parsed",
    "model produced invalid content",
    "unexpected tokens remaining in message header",
    "xml syntax error",
    "failed to generate json",
];

/// Words for a call of the history that LiteLLM cannot translate: no answer of the model is at fault.
const HISTORY_TEXTS: [&str; 2] = ["tool invoke)", "in the conversation history"];

impl Meaning {
    pub(super) fn from_status(refusal: &Refusal) -> Self {
        let is_bare = refusal.error.kind.is_none() && refusal.error.code.is_none();
        if refusal.status == 404 && is_bare && refusal.error.message == "Not Found" {
            return Self::WrongRoute;
        }
        Self::from_error(refusal.status, &refusal.error)
    }

    pub(super) fn from_frame(error: &ErrorObject) -> Self {
        Self::from_error(frame_status(error), error)
    }

    fn from_error(status: u16, error: &ErrorObject) -> Self {
        let text = [Some(&error.message), error.kind.as_ref(), error.code.as_ref()];
        let text = text.into_iter().flatten().map(|text| text.to_lowercase()).collect::<Vec<_>>();
        let says = |words: &[&str]| text.iter().any(|text| has_any(text, words));
        let exceeds = || text.iter().any(|text| overflow::is_told(text));
        match status {
            401 | 403 => Self::Auth,
            429 if text.iter().any(|text| overflow::is_beyond_its_share(text)) => {
                Self::ContextLength
            }
            429 => Self::RateLimited,
            400 | 422 | 500 if says(&BAD_SAMPLE_TEXTS) && !says(&HISTORY_TEXTS) => Self::BadSample,
            400 | 404 | 413 | 422 | 500 if exceeds() => Self::ContextLength,
            400 | 404 | 422 | 500 if says(&WRONG_KIND_TEXTS) => Self::WrongKind,
            400 | 500 if says(&KEY_TEXTS) => Self::Auth,
            400 if says(&LITELLM_UNKNOWN_TEXTS) || says(&[UNKNOWN_MODEL_CODE]) => {
                Self::UnknownModel
            }
            404 if is_silent(error) || (says(&["model"]) && says(&ABSENT_TEXTS)) => {
                Self::UnknownModel
            }
            404 => Self::Unoffered,
            // A timeout, a conflict, or LiteLLM's status for a failed provider.
            408 | 409 | 424 | 425 => Self::Failed,
            400..500 => Self::Rejected,
            _ => Self::Failed,
        }
    }
}

/// Whether LiteLLM itself does not know the model.
pub(super) fn is_unknown_to_litellm(error: &ErrorObject) -> bool {
    has_any(&error.message.to_lowercase(), &LITELLM_UNKNOWN_TEXTS)
}

/// LiteLLM's words where a provider's whole answer has no message, with status 400 or 500.
const EMPTY_ANSWER_TEXTS: [&str; 4] = [
    "invalid response object",
    "expecting value: line 1 column 1 (char 0)",
    "provider returned 'choices' that is not a list",
    "list index out of range",
];

/// Whether LiteLLM could not read a provider's whole answer because there was none.
pub(super) fn is_an_empty_answer(error: &ErrorObject) -> bool {
    has_any(&error.message.to_lowercase(), &EMPTY_ANSWER_TEXTS)
}

/// The status that an error frame names. Its code is a text, and may be `"None"`.
pub(super) fn frame_status(error: &ErrorObject) -> u16 {
    error.code.as_deref().and_then(|code| code.parse().ok()).unwrap_or(500)
}
