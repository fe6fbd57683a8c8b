//! Finds a provider's own sentence in an error text: LiteLLM quotes whole bodies, in JSON or as
//! Python prints them, between words of its own.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Deserializer, Value};

use super::redaction::redact;
use crate::openai::error_object::ErrorObject;

/// LiteLLM's names of errors in front of the provider's words, such as
/// `litellm.BadRequestError: OpenAIException - `.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^\s*(?:(?:litellm\.)?\w+(?:Error|Exception): |\w+(?:Error|Exception)(?: \w+Error)? - )",
    )
    .expect("a regular expression")
});

/// What Python prints of its own objects, such as `ssl:<ssl.SSLContext object at 0x7f00>`.
static PYTHON_OBJECT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?: ?\b\w+:)?<[\w.]+ object at 0x[0-9a-fA-F]+>").expect("a regular expression")
});

/// The title of an HTML page.
static TITLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?is)<title[^>]*>(.*?)</title>").expect("a regular expression"));

/// What LiteLLM adds behind the provider's words.
const SUFFIXES: [&str; 6] = [
    "\nmodel=",
    "\n\nLiteLLM: ",
    " Received Model Group=",
    "No fallback model group found",
    " Handle with `litellm.",
    "Traceback (most recent call last)",
];

/// Words of texts that give no reason.
const EMPTY_WORDS: [&str; 54] = [
    "a",
    "an",
    "and",
    "argument",
    "arguments",
    "bad",
    "been",
    "body",
    "by",
    "client",
    "code",
    "contains",
    "empty",
    "entity",
    "error",
    "errors",
    "exception",
    "failed",
    "failure",
    "from",
    "has",
    "http",
    "in",
    "internal",
    "invalid",
    "is",
    "large",
    "model",
    "no",
    "none",
    "null",
    "of",
    "or",
    "param",
    "parameter",
    "payload",
    "process",
    "processing",
    "provider",
    "rejected",
    "request",
    "response",
    "returned",
    "server",
    "status",
    "the",
    "to",
    "too",
    "unable",
    "unknown",
    "upstream",
    "was",
    "with",
    "your",
];

/// The provider's sentence, redacted; `None` if there is none. Of a page it is the title.
pub(super) fn of(error: &ErrorObject) -> Option<String> {
    let words =
        if is_page(&error.message) { title(&error.message)? } else { words(&error.message) };
    let sentence = redact(&words);
    (!sentence.is_empty()).then_some(sentence)
}

/// The title of a page. Python prints its line breaks as `\n`.
fn title(page: &str) -> Option<String> {
    let title = TITLE.captures(page)?.get(1)?.as_str().replace("\\n", " ");
    Some(title.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether the text gives no reason for the refusal.
pub(super) fn says_nothing(error: &ErrorObject) -> bool {
    if is_page(&error.message) {
        return true;
    }
    let words = words(&error.message).to_lowercase();
    let mut words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.all(|word| {
        let is_status = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
        is_status || EMPTY_WORDS.binary_search(&word).is_ok()
    })
}

/// Whether the text has any of these words in it. Both are in lower case.
pub(super) fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Whether the text is an HTML page, such as a proxy's. Some providers put a status in such
/// brackets.
pub(super) fn is_page(message: &str) -> bool {
    let name = without_frame(message).strip_prefix('<');
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!'))
}

/// The provider's words, without what LiteLLM puts around them.
pub(super) fn words(message: &str) -> String {
    let text = without_frame(message);
    quoted(text).unwrap_or_else(|| PYTHON_OBJECT.replace_all(text, "").trim().to_owned())
}

/// The text that LiteLLM has put words of its own around.
fn without_frame(message: &str) -> &str {
    let mut text = message;
    for suffix in SUFFIXES {
        text = text.split(suffix).next().unwrap_or_default();
    }
    text = innermost(text);
    while let Some(prefix) = PREFIX.find(text) {
        text = &text[prefix.end()..];
    }
    bytes_literal(text.trim())
}

/// The text in bytes that Python has printed, `b'…'`.
fn bytes_literal(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix('b')?.strip_prefix(quote)?.strip_suffix(quote);
    inside('\'').or_else(|| inside('"')).unwrap_or(text)
}

/// The sentence in a body that the text quotes as JSON.
fn quoted(text: &str) -> Option<String> {
    let start = text.find('{')?;
    let mut values = Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let body = values.next()?.ok()?;
    let inner = [&body["error"]["message"], &body["error"], &body["message"], &body["detail"]];
    let sentence = inner.into_iter().find_map(Value::as_str)?;
    // A gateway quotes the body of the provider behind it.
    Some(quoted(sentence).unwrap_or_else(|| sentence.to_owned()))
}

/// The provider's own sentence in a message that quotes its whole body as Python prints it.
pub(super) fn innermost(message: &str) -> &str {
    const BODY: &str = "{'error': {'message': ";
    let Some((_, quoted)) = message.split_once(BODY) else { return message };
    let inside = |quote: char| {
        let (sentence, _) = quoted.strip_prefix(quote)?.split_once(&format!("{quote}, '"))?;
        Some(sentence)
    };
    // Python takes the other quotes where the text has one.
    inside('\'').or_else(|| inside('"')).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: &str) -> ErrorObject {
        ErrorObject { message: message.to_owned(), ..ErrorObject::default() }
    }

    #[track_caller]
    fn check(message: &str, expected: &str) {
        assert_eq!(of(&error(message)).as_deref(), Some(expected));
    }

    #[test]
    fn a_providers_sentence_stands_alone() {
        check("litellm.InternalServerError: AnthropicError - Overloaded", "Overloaded");
        check(
            "litellm.RateLimitError: AnthropicException - b'{\"type\": \"error\", \"error\": {\"type\": \
             \"rate_limit_error\", \"message\": \"This request would exceed your rate limit\"}}'\n\n\
             LiteLLM: model group 'x' failed with the error above.",
            "This request would exceed your rate limit",
        );
        check(
            "litellm.BadRequestError: Ollama_chatException - {\"error\": \"it is too long\"}",
            "it is too long",
        );
        check(
            "Provider returned error: {\"error\":{\"message\":\"prompt is too long\",\"code\":400}}",
            "prompt is too long",
        );
        check("Error code: 400 - {'error': {'message': 'no', 'type': 'x'}}", "no");
        check("model 'x' not found", "model 'x' not found");
        check("broken {\"error\": ", "broken {\"error\":");
    }

    #[test]
    fn a_page_and_an_empty_text_are_no_sentence() {
        assert_eq!(of(&error("<html><h1>413</h1></html>")), None);
        assert_eq!(of(&error(" \n")), None);
        assert_eq!(
            of(&error("litellm.APIError: Traceback (most recent call last):\n  File")),
            None
        );
    }

    #[test]
    fn of_a_page_the_title_is_told() {
        let page = "<html><head><title>\n 502 Bad  Gateway</title></head><h1>no</h1></html>";
        check(page, "502 Bad Gateway");
        check(
            &format!("litellm.BadGatewayError: AnthropicException BadGatewayError - b'{page}'"),
            "502 Bad Gateway",
        );
        check("<!DOCTYPE html><TITLE lang=en>Blocked</TITLE>{\"message\": \"x\"}", "Blocked");
        check("litellm.APIError: XException - b'<html><title>\\n No</title>'", "No");
        assert!(says_nothing(&error(&format!("AnthropicException - b'{page}'"))));
    }

    #[test]
    fn what_python_prints_of_itself_is_left_out() {
        check(
            "litellm.InternalServerError: AnthropicException - Cannot connect to host here:9 \
             ssl:<ssl.SSLContext object at 0x7fdf94ece720> [Connect call failed]. Handle with \
             `litellm.InternalServerError`.",
            "Cannot connect to host here:9 [Connect call failed].",
        );
        check("OpenAIException - b'no such thing'", "no such thing");
        check("Overloaded\nTraceback (most recent call last):\n  File \"x\"", "Overloaded");
    }

    #[test]
    fn the_words_without_a_meaning_are_in_order() {
        assert!(EMPTY_WORDS.is_sorted());
    }

    #[test]
    fn some_texts_give_no_reason() {
        for text in [
            "",
            "Bad Request",
            "400 status code (no body)",
            "Provider returned error",
            "Request contains an invalid argument.",
            "litellm.BadRequestError: OpenAIException - Bad Request",
            "Internal Server Error",
            "<html>400</html>",
            "{\"error\": {\"message\": \"Invalid request\"}}",
        ] {
            assert!(says_nothing(&error(text)), "{text}");
        }
        for text in ["temperature must be below 2", "unknown parameter: 'top_k'", "CUDA error"] {
            assert!(!says_nothing(&error(text)), "{text}");
        }
    }
}
