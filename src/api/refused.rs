//! Fields that could steer routing or spend someone's key: they never go upstream.

use super::json::Object;
use crate::openai::error::{ApiError, ErrorCode};

const NAMES: [&str; 30] = [
    "api_base",
    "base_url",
    "api_key",
    "api_version",
    "api_type",
    "custom_llm_provider",
    "extra_headers",
    "extra_body",
    "extra_query",
    "headers",
    "organization",
    "deployment_id",
    "fallbacks",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "model_list",
    "model_info",
    "user_config",
    "proxy_server_request",
    "num_retries",
    "max_retries",
    "timeout",
    "stream_timeout",
    "cache",
    "caching",
    "no-log",
    "tags",
    "guardrails",
    "prompt_id",
    "prompt_variables",
];

const PREFIXES: [&str; 9] = [
    "litellm_",
    "mock_",
    "aws_",
    "azure_",
    "vertex_",
    "watsonx_",
    "oci_",
    "input_cost",
    "output_cost",
];

const PARTS: [&str; 8] =
    ["api_key", "api_base", "base_url", "endpoint", "credential", "secret", "password", "role_arn"];

const SUFFIXES: [&str; 2] = ["_url", "_token"];

/// Whether a top-level field of that name, or a member of `metadata`, is refused.
/// Case and surrounding space are no way around it.
pub(crate) fn is_refused(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    NAMES.contains(&name.as_str())
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || PARTS.iter().any(|part| name.contains(part))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Refuses a body that has such a field, or such a member of `metadata`.
pub(crate) fn check(fields: &Object<'_>) -> Result<(), ApiError> {
    if let Some(name) = fields.keys().find(|name| is_refused(name)) {
        return Err(refusal(name));
    }
    match fields.get("metadata").and_then(Object::of) {
        Some(metadata) => check_beneath("metadata", &metadata),
        None => Ok(()),
    }
}

/// At any depth: what reads metadata may well look into it.
fn check_beneath(place: &str, object: &Object<'_>) -> Result<(), ApiError> {
    for (name, value) in object.members() {
        let place = format!("{place}.{name}");
        if is_refused(name) {
            return Err(refusal(&place));
        }
        if let Some(inner) = Object::of(value) {
            check_beneath(&place, &inner)?;
        }
    }
    Ok(())
}

/// The error that names the field.
pub(crate) fn refusal(name: &str) -> ApiError {
    ApiError::new(
        ErrorCode::RefusedField,
        format!("The field {name:?} is not accepted: it could change where requests go."),
    )
    .param(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_by_name_prefix_part_and_end() {
        for name in [
            "api_base",
            "base_url",
            "api_key",
            "api_version",
            "extra_headers",
            "extra_body",
            "custom_llm_provider",
            "fallbacks",
            "mock_response",
            "litellm_params",
            "no-log",
            "vertex_project",
            "input_cost_per_token",
            "my_api_key_2",
            "s3_endpoint_x",
            "aws_role_name",
            "assume_role_arn",
            "callback_url",
            "session_token",
            "API_BASE",
            " api_key ",
        ] {
            assert!(is_refused(name), "{name}");
        }
    }

    #[test]
    fn lets_what_clients_send_through() {
        for name in [
            "model",
            "messages",
            "max_tokens",
            "max_completion_tokens",
            "prompt_cache_key",
            "safety_identifier",
            "reasoning_effort",
            "metadata",
            "user",
            "logit_bias",
            "top_k",
            "response_format",
            "chat_template_kwargs",
            "web_search_options",
            "service_tier",
            "input",
            "file",
            "image",
            "image[]",
            "timestamp_granularities[]",
        ] {
            assert!(!is_refused(name), "{name}");
        }
    }
}
