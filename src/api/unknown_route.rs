//! Answers requests to paths that are no routes, and says which route was probably meant.

use std::sync::Arc;

use axum::extract::{Request, State};

use super::passthrough::Routes;
use crate::errors::{ApiError, ErrorCode};
use crate::http::hosts::HostPolicy;
use crate::text;

/// What clients put before a route, in place of `/v1` or beside it.
const PREFIXES: [&str; 6] = ["v1", "v0", "v2", "v1beta", "api", "openai"];

/// The most parts of a path that are looked at.
const MAX_PARTS: usize = 16;

/// How much of the path the error repeats.
const MAX_PATH: usize = 300;

const RESPONSES: &str = "This server speaks chat completions, not the Responses API: use \
    openai.chat(…) in the AI SDK, OpenAIChatCompletionsModel in the Agents SDK, and \
    client.chat.completions in OpenAI's SDKs.";
const MESSAGES: &str = "This server speaks OpenAI's chat completions, not Anthropic's Messages \
    API: POST /v1/chat/completions.";
const OLLAMA: &str = "This server does not speak Ollama's API: add it to the client as an \
    OpenAI-compatible endpoint.";
const DOCUMENT: &str = "GET /openapi.yaml describes the routes.";
const NOT_FORWARDED: &str = "It is not forwarded here: its operator can name it in \
    upstream.passthrough.";
const BASE_ALONE: &str = "This is the base URL of a client, and no route: clients append \
    /chat/completions or /models to it.";

pub(crate) async fn answer(
    State(policy): State<Arc<HostPolicy>>,
    State(routes): State<Arc<Routes>>,
    request: Request,
) -> ApiError {
    let path = request.uri().path();
    let url = policy.hosts.own_url(request.headers());
    let shown = text::shortened(path, MAX_PATH);
    let mut message = format!("There is no route {} {shown}.", request.method());
    if let Some(hint) = hint(path, &routes, url.as_deref()) {
        message.push(' ');
        message.push_str(&hint);
    }
    ApiError::new(ErrorCode::UnknownRoute, message)
}

/// What the client probably wants. `url` is this server's own, as the client reached it.
fn hint(path: &str, routes: &Routes, url: Option<&str>) -> Option<String> {
    let lower = path.to_ascii_lowercase();
    let parts: Vec<&str> =
        lower.split('/').filter(|part| !part.is_empty()).take(MAX_PARTS).collect();
    let prefixes = parts.iter().take_while(|part| PREFIXES.contains(part)).count();
    let route = parts[prefixes..].join("/");
    let fixed = match route.as_str() {
        "" if prefixes > 0 => BASE_ALONE,
        _ if is_beneath(&route, "responses") => RESPONSES,
        _ if is_beneath(&route, "messages") => MESSAGES,
        "chat" | "generate" | "tags" | "embed" | "show" | "ps" | "version" if parts[0] == "api" => {
            OLLAMA
        }
        "docs" | "redoc" | "swagger" | "openapi.json" => DOCUMENT,
        _ if is_served(&route, routes) => return wrong_base(&route, path, url),
        _ if Routes::could_contain(&route) => NOT_FORWARDED,
        // Azure's clients and old ones name the model in the path.
        _ => {
            let known = ["chat/completions", "embeddings", "completions"];
            let meant = known.into_iter().find(|known| route.ends_with(&format!("/{known}")))?;
            return wrong_base(meant, path, url);
        }
    };
    Some(fixed.to_owned())
}

fn is_beneath(route: &str, above: &str) -> bool {
    route.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_served(route: &str, routes: &Routes) -> bool {
    route == "chat/completions" || is_beneath(route, "models") || routes.contains(route)
}

/// Names the path that was meant, unless it is the one that was asked for.
fn wrong_base(route: &str, path: &str, url: Option<&str>) -> Option<String> {
    let meant = format!("/v1/{route}");
    if meant == path {
        return None;
    }
    let here = url.map(|url| format!(": {url}/v1")).unwrap_or_default();
    Some(format!("Did you mean {meant}? The base URL of a client ends in /v1, once{here}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        let routes = Routes::named(&["embeddings".to_owned(), "files".to_owned()]).unwrap();
        let found = hint(path, &routes, Some("http://localhost:1"));
        assert_eq!(found.as_deref(), expected, "{path}");
    }

    #[track_caller]
    fn check_meant(path: &str, meant: &str) {
        let hint = format!(
            "Did you mean {meant}? The base URL of a client ends in /v1, once: \
             http://localhost:1/v1."
        );
        check(path, Some(&hint));
    }

    #[test]
    fn a_path_without_v1_or_with_too_much_is_told_the_base_url() {
        for path in [
            "/chat/completions",
            "//v1/chat/completions",
            "/v1/v1/chat/completions",
            "/v1//chat/completions",
            "/V1/Chat/Completions",
            "/api/v1/chat/completions",
            "/v1/chat/completions/",
            "/openai/deployments/gpt/chat/completions",
        ] {
            check_meant(path, "/v1/chat/completions");
        }
        check_meant("/models", "/v1/models");
        check_meant("/api/models/a/b", "/v1/models/a/b");
        check_meant("/embeddings", "/v1/embeddings");
        check_meant("/v1/engines/ada/embeddings", "/v1/embeddings");
        check_meant("/files/x", "/v1/files/x");
    }

    #[test]
    fn other_apis_are_told_what_this_one_speaks() {
        check("/v1/responses", Some(RESPONSES));
        check("/responses/resp_1/cancel", Some(RESPONSES));
        check("/v1/messages", Some(MESSAGES));
        check("/api/chat", Some(OLLAMA));
        check("/api/tags", Some(OLLAMA));
        check("/docs", Some(DOCUMENT));
        check("/v1", Some(BASE_ALONE));
        check("/v1/", Some(BASE_ALONE));
    }

    #[test]
    fn a_route_that_could_be_forwarded_says_so() {
        check("/v1/completions", Some(NOT_FORWARDED));
        check("/v1/audio/speech", Some(NOT_FORWARDED));
        check("/batches", Some(NOT_FORWARDED));
    }

    #[test]
    fn the_rest_gets_no_hint() {
        for path in ["/v1/key/generate", "/nowhere", "/chat", "/v1/responsesx", "/v1/mcp", "//"] {
            check(path, None);
        }
        check(&"/v1".repeat(10_000), Some(BASE_ALONE));
    }
}
