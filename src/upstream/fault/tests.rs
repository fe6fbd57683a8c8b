//! Tests the error that a client gets for every failure. The bodies are those of LiteLLM
//! 1.106.2.

use super::UpstreamTrait::{RefusesEagerInput, RefusesReasoning, RefusesTools};
use super::*;

fn status(status: u16, body: &str) -> Fault {
    Fault::Status(Refusal {
        status,
        error: ErrorObject::from_body(body),
        retry_after: Some(Duration::from_secs(7)),
        is_keyless: false,
    })
}

fn message(text: &str) -> String {
    serde_json::json!({"error": {"message": text, "type": "invalid_request_error", "code": "400"}})
        .to_string()
}

fn check(fault: &Fault, code: ErrorCode) {
    let error = fault.api_error();
    assert_eq!(error.code, code, "{fault}");
    assert!(!error.message.is_empty());
}

#[test]
fn a_wrong_master_key_is_our_own_trouble() {
    let body = r#"{"error":{"message":"No connected db.","type":"no_db_connection","param":null,"code":"400"}}"#;
    check(&status(400, body), ErrorCode::UpstreamAuth);
}

#[test]
fn no_key_at_all_is_a_500_in_litellms_words_and_asked_again() {
    let failed = |is_keyless, body| {
        let error = ErrorObject::from_body(body);
        Fault::Status(Refusal { status: 500, error, retry_after: None, is_keyless })
    };
    check(&failed(true, "Internal Server Error"), ErrorCode::UpstreamAuth);
    check(&failed(false, "Internal Server Error"), ErrorCode::UpstreamError);
    for body in ["", "Traceback", r#"{"error":{"message":"CUDA oom"}}"#] {
        check(&failed(true, body), ErrorCode::UpstreamError);
        assert!(failed(true, body).is_passing());
    }
    assert!(failed(true, "Internal Server Error").is_passing());
}

#[test]
fn an_unknown_model_is_not_found() {
    let fault = status(
        400,
        &message(
            "/chat/completions: Invalid model name passed in model=nope. Call `/v1/models` to view \
             available models for your key.",
        ),
    );
    check(&fault, ErrorCode::ModelNotFound);
    assert!(fault.allows_fallback() && !fault.is_passing());
    let provider = "litellm.NotFoundError: OpenAIException - The model `gpt-9` does not exist";
    check(&status(404, &message(provider)), ErrorCode::ModelNotFound);
}

#[test]
fn a_model_of_another_kind_is_the_requests_fault() {
    for (code, text) in [
        (
            500,
            "litellm.APIConnectionError: APIConnectionError: OpenAIException - Unsupported provider: openai",
        ),
        (
            400,
            "litellm.BadRequestError: Unmapped LLM provider for this endpoint. You passed model=x",
        ),
    ] {
        let fault = status(code, &message(text));
        check(&fault, ErrorCode::UpstreamRejected);
        assert!(!fault.is_passing() && !fault.api_error().message.contains("litellm."), "{text}");
    }
}

#[test]
fn a_body_that_python_printed_is_told_by_its_sentence() {
    for (body, told) in [
        ("{'error': {'message': 'no such thing', 'type': 'x', 'code': None}}", "no such thing"),
        ("{'error': {'message': \"it's no\", 'type': 'x'}}", "it's no"),
    ] {
        let text = format!("litellm.BadRequestError: OpenAIException - Error code: 400 - {body}");
        assert_eq!(status(400, &message(&text)).api_error().message, told);
    }
    let cut = "Error code: 400 - {'error': {'message': 'no";
    assert_eq!(status(400, &message(cut)).api_error().message, cut);
}

#[test]
fn a_path_without_litellm_is_a_wrong_url() {
    let fault = status(404, r#"{"detail":"Not Found"}"#);
    check(&fault, ErrorCode::UpstreamInvalid);
    assert!(fault.api_error().message.contains("upstream.url"));
}

#[test]
fn a_missing_or_wrong_provider_key_is_never_told() {
    for (code, text) in [
        (401, "litellm.AuthenticationError: Missing Anthropic API Key - A call is being made"),
        (
            500,
            "litellm.InternalServerError: InternalServerError: OpenAIException - Missing \
             credentials. Please pass an `api_key`",
        ),
        (401, "Incorrect API key provided: sk-abcd1234"),
        (403, "litellm.APIError: APIError: OpenAIException - Project does not have access"),
        (400, "litellm.BadRequestError: GeminiException - API key not valid. Please pass one"),
    ] {
        let fault = status(code, &message(text));
        check(&fault, ErrorCode::UpstreamAuth);
        assert!(!fault.api_error().message.contains("litellm."), "{text}");
        assert!(!fault.is_passing());
    }
}

#[test]
fn a_conversation_that_is_too_long_keeps_its_sentence() {
    for file in ["anthropic", "deepseek", "ollama", "openai"] {
        let path = format!("{}/tests/streams/{file}-toolong.400.json", env!("CARGO_MANIFEST_DIR"));
        let fault = status(400, &std::fs::read_to_string(path).unwrap());
        check(&fault, ErrorCode::ContextLengthExceeded);
        assert!(!fault.api_error().message.contains("fallback"), "{}", fault.api_error().message);
    }
}

#[test]
fn a_refused_parameter_keeps_its_sentence_cleaned() {
    let text = "litellm.BadRequestError: OpenAIException - 'temperature' is unsupported, see \
                /usr/lib/python3/x.py\n\nLiteLLM: model group 'b400' failed";
    for code in [400, 413, 422] {
        let fault = status(code, &message(text));
        check(&fault, ErrorCode::UpstreamRejected);
        assert_eq!(
            fault.api_error().message,
            "litellm.BadRequestError: OpenAIException - 'temperature' is unsupported, see […]"
        );
        assert_eq!(fault.api_error().retry_after, None);
    }
    check(&status(400, ""), ErrorCode::UpstreamRejected);
}

#[test]
fn a_rate_limit_keeps_its_wait() {
    for file in ["anthropic", "deepseek", "ollama", "openai"] {
        let path =
            format!("{}/tests/streams/{file}-ratelimit.429.json", env!("CARGO_MANIFEST_DIR"));
        let fault = status(429, &std::fs::read_to_string(path).unwrap());
        check(&fault, ErrorCode::UpstreamRateLimited);
        assert_eq!(fault.api_error().retry_after, Some(Duration::from_secs(7)));
    }
}

#[test]
fn a_failed_provider_is_told_without_its_words() {
    for file in ["anthropic-die", "anthropic-error", "deepseek-die", "openai-die", "openai-error"] {
        let path = format!("{}/tests/streams/{file}-first.500.json", env!("CARGO_MANIFEST_DIR"));
        let fault = status(500, &std::fs::read_to_string(path).unwrap());
        check(&fault, ErrorCode::UpstreamError);
        assert!(!fault.api_error().message.contains("litellm."));
        assert!(fault.is_passing());
    }
}

#[test]
fn an_error_frame_is_judged_by_its_code_which_is_a_text() {
    let frame = |code: Option<&str>, text: &str| {
        let code = code.map(str::to_owned);
        Fault::Frame(ErrorObject { message: text.into(), code, ..ErrorObject::default() })
    };
    check(&frame(Some("500"), "gone"), ErrorCode::UpstreamError);
    check(&frame(Some("None"), "gone"), ErrorCode::UpstreamError);
    check(&frame(None, "gone"), ErrorCode::UpstreamError);
    check(&frame(Some("429"), "slow down"), ErrorCode::UpstreamRateLimited);
    check(&frame(Some("400"), "prompt is too long"), ErrorCode::ContextLengthExceeded);
    check(&frame(Some("401"), "no"), ErrorCode::UpstreamAuth);
}

#[test]
fn failures_of_the_road_have_their_codes() {
    let second = Duration::from_secs(1);
    check(&Fault::Unreachable("refused".into()), ErrorCode::UpstreamUnavailable);
    check(&Fault::Tls("unknown issuer".into()), ErrorCode::UpstreamUnavailable);
    check(&Fault::Reset("reset".into()), ErrorCode::UpstreamError);
    check(&Fault::FirstByte(second), ErrorCode::UpstreamTimeout);
    check(&Fault::Idle(second), ErrorCode::UpstreamTimeout);
    check(&Fault::Comment(second), ErrorCode::UpstreamTimeout);
    check(&Fault::Died("eof".into()), ErrorCode::StreamDied);
    check(&Fault::Protocol("eof".into()), ErrorCode::UpstreamInvalid);
    check(&Fault::Redirect(302), ErrorCode::UpstreamInvalid);
    check(&Fault::NotACompletion("<html>".into()), ErrorCode::UpstreamInvalid);
    check(&Fault::TooLarge(TooLarge::Line(1)), ErrorCode::UpstreamInvalid);
    check(&Fault::TooManyCalls, ErrorCode::UpstreamInvalid);
}

#[test]
fn a_page_is_no_sentence_to_pass_on() {
    for page in
        ["<html><head><title>413 at proxy-7</title></head></html>", " \n<!DOCTYPE html>\n<p>x"]
    {
        let error = status(413, page).api_error();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::UpstreamRejected, REJECTED));
    }
}

#[test]
fn only_a_refusal_says_what_is_refused() {
    let of = |code, text: &str| status(code, &message(text)).complaints().traits;
    let eager = "Unknown parameter: 'tools[0].function.eager_input_streaming'.";
    for code in [400, 422] {
        assert_eq!(of(code, "'reasoning_content' is unsupported"), [RefusesReasoning]);
        assert_eq!(of(code, eager), [RefusesEagerInput]);
    }
    for code in [401, 429, 500, 503] {
        assert_eq!(of(code, "'reasoning_content' is unsupported"), []);
        assert_eq!(of(code, eager), []);
    }
    assert_eq!(of(404, "No endpoints found that support tool use."), [RefusesTools]);
    assert_eq!(of(500, "tools param requires --jinja flag"), [RefusesTools]);
    assert_eq!(Fault::Idle(Duration::ZERO).complaints().traits, []);
}

#[test]
fn wire_24_a_404_keeps_the_providers_sentence() {
    for (text, code) in [
        ("No endpoints found matching your data policy.", ErrorCode::UpstreamRejected),
        ("No allowed providers are left for it.", ErrorCode::UpstreamRejected),
        ("The model `gpt-9` does not exist", ErrorCode::ModelNotFound),
        ("model 'llama' not found, try pulling it first", ErrorCode::ModelNotFound),
    ] {
        let fault = status(404, &message(text));
        check(&fault, code);
        assert_eq!(fault.api_error().message, text);
        assert!(fault.allows_fallback());
    }
    let through = "litellm.NotFoundError: AnthropicException - {\"type\":\"error\",\"error\":\
                   {\"type\":\"not_found_error\",\"message\":\"model: claude-9\"}}";
    let error = status(404, &message(through)).api_error();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ModelNotFound, "model: claude-9"));
}

#[test]
fn wire_46_a_call_that_the_provider_could_not_read_is_a_bad_sample() {
    for (code, text) in [
        (
            400,
            "litellm.BadRequestError: GroqException - {\"error\":{\"message\":\"Failed to call a \
             function. Please adjust your prompt.\",\"type\":\"invalid_request_error\",\"code\":\
             \"tool_use_failed\",\"failed_generation\":\"<function=Read>\"}}",
        ),
        (400, "tool call validation failed: attempted to call tool 'x'"),
        (500, "error parsing tool call: raw='{', err=unexpected end of JSON input"),
    ] {
        let fault = status(code, &message(text));
        assert!(fault.is_bad_sample() && !fault.is_passing(), "{text}");
        check(&fault, ErrorCode::UpstreamInvalid);
    }
    let code = Some("tool_use_failed".to_owned());
    let frame =
        Fault::Frame(ErrorObject { message: "Failed".into(), code, ..ErrorObject::default() });
    assert!(frame.is_bad_sample());
    for text in [
        "temperature must be below 2",
        "Failed to parse tool call arguments for tool 'x' (Anthropic tool invoke). Error: y",
    ] {
        assert!(!status(400, &message(text)).is_bad_sample(), "{text}");
    }
}

#[test]
fn a_model_group_of_litellms_is_no_part_of_the_request() {
    let text = "litellm.BadRequestError: OpenAIException - temperature is not supported\n\n\
                LiteLLM: model group 'reasoning' failed with the error above.";
    assert_eq!(status(400, &message(text)).complaints().traits, []);
}

#[test]
fn litellm_has_words_of_its_own_for_a_whole_answer_without_a_message() {
    for (code, text) in [
        (
            400,
            "Invalid request format: litellm.InternalServerError: Invalid response object Traceback",
        ),
        (500, "OpenAIException - Expecting value: line 1 column 1 (char 0)"),
        (
            500,
            "litellm.APIError: LiteLLM: provider returned 'choices' that is not a list (NoneType).",
        ),
    ] {
        assert!(status(code, &message(text)).is_an_empty_answer(), "{text}");
    }
    let other = status(500, &message("CUDA out of memory"));
    assert!(!other.is_an_empty_answer() && other.may_be_an_empty_answer());
    assert!(!status(503, &message("busy")).may_be_an_empty_answer());
}

#[test]
fn wire_25_a_refusal_without_a_reason_is_known() {
    for (code, text) in [(400, "Bad Request"), (413, "Payload Too Large"), (500, "")] {
        assert!(status(code, text).is_unexplained(), "{code} {text}");
    }
    assert!(status(413, "<html>413</html>").is_unexplained());
    for (code, text) in [(400, "temperature must be below 2"), (500, "CUDA error"), (503, "")] {
        assert!(!status(code, text).is_unexplained(), "{code} {text}");
    }
}

#[test]
fn the_log_is_told_without_keys() {
    let fault = status(401, &message("Incorrect API key provided: sk-abcd1234efgh"));
    assert_eq!(
        fault.to_string(),
        "status 401: Incorrect API key provided: […] (invalid_request_error)"
    );
}
