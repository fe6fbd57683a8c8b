//! Answers requests of frontends that need neither a model nor a turn.

use axum::Json;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::encode::{Figures, fixed_stream};
use crate::sessions::running::shape::AnswerShape;

/// How Open WebUI's own prompts begin.
const TASK_PROMPT: &str = "### Task:";
/// The member of the answer that it asks for.
const FOLLOW_UPS: &str = "\"follow_ups\"";
const NO_FOLLOW_UPS: &str = r#"{"follow_ups": []}"#;

/// Whether a background call's prompt asks what the user could say next.
pub(super) fn asks_for_follow_ups(prompt: &str) -> bool {
    prompt.trim_start().starts_with(TASK_PROMPT) && prompt.contains(FOLLOW_UPS)
}

/// Whether the prompt quotes a question with this code: as a word of its own.
pub(super) fn quotes_code(prompt: &str, code: &str) -> bool {
    let is_word = |before: &str, after: &str| {
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    };
    let mut found = prompt.match_indices(code).filter(|_| !code.is_empty());
    found.any(|(at, code)| is_word(&prompt[..at], &prompt[at + code.len()..]))
}

/// While a person is asked, there is nothing to propose: a proposal would answer the question.
pub(super) fn no_follow_ups(shape: &AnswerShape) -> Response {
    answer(shape, NO_FOLLOW_UPS)
}

/// For a request that asks nothing: its list ends with answers to cards.
pub(super) fn nothing_to_do(shape: &AnswerShape) -> Response {
    answer(shape, "")
}

/// An answer that no model wrote.
fn answer(shape: &AnswerShape, text: &str) -> Response {
    let envelope = &shape.envelope;
    if shape.form.stream {
        let content_type = (CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        let body = fixed_stream(envelope, text, shape.form.include_usage);
        return ([content_type, super::NO_BUFFERING], body).into_response();
    }
    let completion = json!({
        "id": envelope.id,
        "object": "chat.completion",
        "created": envelope.created,
        "model": envelope.model,
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": text, "refusal": null },
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": Figures::from_usage(None),
    });
    Json(completion).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::Value;

    use super::*;
    use crate::ids::TurnId;
    use crate::sessions::request::Progress;
    use crate::sessions::running::shape::{AnswerForm, Envelope};

    #[test]
    fn a_call_for_follow_ups_is_known_by_its_prompt() {
        let prompt = "### Task:\nSuggest 3 questions.\n### Output:\n{ \"follow_ups\": [] }";
        assert!(asks_for_follow_ups(prompt));
        assert!(asks_for_follow_ups(&format!("\n {prompt}")));
        assert!(!asks_for_follow_ups("### Task:\nWrite a title: { \"title\": \"\" }"));
        assert!(!asks_for_follow_ups("What does \"follow_ups\" mean?"));
        assert!(!asks_for_follow_ups(""));
    }

    #[test]
    fn a_question_is_known_by_its_code_as_a_word() {
        for quoting in ["KXQZ", "ASSISTANT: **KXQZ** Run it?", "(code: KXQZ)", "AKXQZ KXQZ."] {
            assert!(quotes_code(quoting, "KXQZ"), "{quoting}");
        }
        for other in ["", "kxqz", "AKXQZ", "KXQZA", "KXQ Z", "éKXQZ"] {
            assert!(!quotes_code(other, "KXQZ"), "{other}");
        }
        assert!(!quotes_code("anything", ""));
    }

    fn shape(stream: bool) -> AnswerShape {
        let envelope = Envelope {
            id: "c".to_owned(),
            turn: TurnId::random(),
            created: 1,
            model: "m".to_owned(),
        };
        let form = AnswerForm { stream, include_usage: stream, progress: Progress::Cards };
        AnswerShape { envelope, form }
    }

    async fn body(response: Response) -> String {
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_fixed_answer_is_a_whole_completion() {
        let told: Value = serde_json::from_str(&body(no_follow_ups(&shape(false))).await).unwrap();
        let choice = &told["choices"][0];
        assert_eq!(choice["message"]["content"], r#"{"follow_ups": []}"#);
        assert_eq!((&choice["finish_reason"], &told["id"]), (&json!("stop"), &json!("c")));
        assert_eq!(told["usage"]["total_tokens"], 0);
    }

    #[tokio::test]
    async fn an_empty_answer_can_be_streamed() {
        insta::assert_snapshot!(body(nothing_to_do(&shape(true))).await, @r#"
        data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

        data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

        data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}

        data: [DONE]
        "#);
        let told = body(no_follow_ups(&shape(true))).await;
        assert!(told.contains(r#""content":"{\"follow_ups\": []}""#), "{told}");
    }
}
