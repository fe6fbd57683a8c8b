//! Tests `ask` against servers that are none of ours: web pages, garbage, half an answer,
//! redirects, control characters.

use serde_json::json;

use super::outputs::check_error;
use super::{Ask, Ended};
use crate::support::chunks::{error_frame, event, finish, gate, raw, says, text};
use crate::support::upstream::{Step, Upstream};

const KEY: &str = "th-key-of-a-test";

fn answer(status: u16, kind: &str, body: &str) -> Vec<Step> {
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    vec![Step::Answer { status, headers, body: body.as_bytes().to_vec() }]
}

async fn ask(upstream: &Upstream, steps: Vec<Step>) -> Ended {
    upstream.round(steps);
    let ask = Ask::at(&upstream.url(), &["-m", "m", "Go."]);
    ask.variable("TOOLHAND_API_KEY", KEY).run().await
}

#[tokio::test]
async fn what_is_no_answer_is_one_sentence() {
    let upstream = Upstream::start();
    let page = "<html><body>Sign in</body></html>";
    for (steps, reason) in [
        (answer(200, "text/html; charset=utf-8", page), "answered with a web page (200)"),
        (answer(502, "text/html", page), "answered with a web page (502)"),
        (answer(200, "text/event-stream", ""), "broke off before its end"),
        (answer(200, "application/json", ""), "the server's answer is empty"),
        (answer(200, "application/json", "[1]"), "is no chat completion: [1]"),
        (answer(200, "application/json", "{}"), "without its finish_reason"),
        (answer(200, "text/plain", "Welcome!"), "broke off before its end"),
        (answer(500, "text/plain", "oh \u{1b}[2J\nno"), r"an error (500): oh \x1b[2J\nno"),
        (answer(404, "application/json", ""), "an error (404): without a message"),
        (answer(401, "application/json", r#"{"error":{"message":"no"}}"#), "--key-file"),
        (vec![Step::Garbage(b"SSH-2.0-OpenSSH\r\n".to_vec()), Step::Close], "speaks no HTTP"),
        (vec![Step::Close], "closed the connection or speaks no HTTP"),
        (vec![Step::Reset], "closed the connection or speaks no HTTP"),
        (vec![raw("data: {nonsense}\n\n")], "is no chat completion: {nonsense}"),
        (vec![raw("data: \u{1b}]52;c;eA==\u{7}\n\n")], r"\x1b]52;c;eA==\x07"),
        (vec![raw(b"\xff\xfe\0\n\n")], "broke off before its end"),
        (vec![raw("data: [DONE]\n\n")], "without its finish_reason"),
        (vec![error_frame("no\u{202e}\r\nx")], r"no\u{202e}\x0d\nx"),
        (vec![raw("x".repeat(9 << 20))], "a line of more than 8388608 bytes"),
    ] {
        ask(&upstream, steps).await.check_failed(1, reason);
    }
}

#[tokio::test]
async fn what_came_of_half_an_answer_is_shown_and_it_failed() {
    let upstream = Upstream::start();
    for end in [Step::Close, Step::Reset, raw("data: {"), error_frame("broken")] {
        upstream.round(vec![text("Half"), gate("read"), end]);
        upstream.open("read");
        let ended = Ask::at(&upstream.url(), &["-m", "m", "Go."]).run().await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        // A reset may take the text with it.
        assert!("Half".starts_with(&ended.stdout), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    }
}

#[tokio::test]
async fn an_error_after_the_text_is_a_failure_even_if_the_text_was_whole() {
    let upstream = Upstream::start();

    let ended = ask(&upstream, vec![text("All."), finish("stop"), error_frame("late")]).await;

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), "All."));
    assert!(ended.stderr.contains("late"), "{ended:?}");
}

#[tokio::test]
async fn a_whole_answer_in_place_of_a_stream_is_shown() {
    let upstream = Upstream::start();
    let message = json!({ "role": "assistant", "content": "All.", "refusal": null });
    let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
    let body = json!({ "object": "chat.completion", "choices": choices }).to_string();

    let ended = ask(&upstream, answer(200, "application/json", &body)).await;

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "All."), "{ended:?}");
}

#[tokio::test]
async fn progress_of_a_strange_form_is_no_harm() {
    let upstream = Upstream::start();
    let chunk = |delta| event(&json!({ "choices": [{ "index": 0, "delta": delta }] }));
    let name = "R\u{1b}[2J\nead";
    let steps = vec![
        chunk(json!({ "toolhand": { "type": "tool_end", "id": "c9", "tool": name } })),
        chunk(json!({ "toolhand": { "type": "tool_start", "id": "c1", "tool": name } })),
        chunk(json!({ "toolhand": { "type": "surprise", "id": 7 } })),
        chunk(json!({ "toolhand": { "type": "hook", "message": "a\u{1b}[2J\nb" } })),
        chunk(json!({ "toolhand": "text" })),
    ];

    let ended = ask(&upstream, [steps, says("All.")].concat()).await;

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "All."));
    assert_eq!(
        ended.stderr,
        "✓ R\\x1b[2J\\nead (0 ms, 0 characters)\n→ R\\x1b[2J\\nead\n! a hook says: a [2J b\n"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_target_gets_no_key() {
    let (upstream, target) = (Upstream::start(), Upstream::start());
    for status in [301, 302, 307, 308] {
        let headers = vec![("location".to_owned(), format!("{}/chat/completions", target.url()))];
        let steps = vec![Step::Answer { status, headers, body: Vec::new() }];
        ask(&upstream, steps).await.check_failed(1, "redirects are not followed");
    }
    assert!(target.all_requests().is_empty());
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_shown() {
    let upstream = Upstream::start();
    let body =
        json!({ "error": { "message": format!("{KEY} is wrong"), "code": "x" } }).to_string();

    let ended = ask(&upstream, answer(401, "application/json", &body)).await;
    ended.check_failed(1, "[key] is wrong");

    upstream.round(answer(401, "application/json", &body));
    let json = Ask::at(&upstream.url(), &["-m", "m", "--json", "Go."]);
    let ended = json.variable("TOOLHAND_API_KEY", KEY).run().await;
    check_error(&ended, 1, "x");
    assert!(!format!("{ended:?}").contains(KEY), "{ended:?}");
}

#[tokio::test]
async fn json_of_a_server_that_is_none_is_an_error_object() {
    let upstream = Upstream::start();
    for (steps, code) in [
        (answer(200, "text/html", "<html>"), "invalid_answer"),
        (answer(200, "application/json", "nonsense"), "invalid_answer"),
        (answer(200, "application/json", r#"{"choices":[]}"#), "invalid_answer"),
        (vec![Step::Close], "connection_lost"),
        (answer(503, "text/plain", "later"), "server_error"),
    ] {
        upstream.round(steps);
        let ended = Ask::at(&upstream.url(), &["-m", "m", "--json", "Go."]).run().await;
        check_error(&ended, 1, code);
    }
}

#[tokio::test]
async fn where_nothing_listens_up_is_named() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let url = format!("http://{address}");
    Ask::at(&url, &["Go."]).run().await.check_failed(6, "`toolhand up`");

    let ended = Ask::at(&url, &["--json", "Go."]).run().await;
    check_error(&ended, 6, "no_server");
}

#[tokio::test]
async fn a_list_without_models_asks_for_one() {
    for (body, reason) in [
        (r#"{"object":"list","data":[]}"#, "lists no model; name one with --model"),
        (r#"{"data":[{"name":"x"}]}"#, "is no list of models"),
        ("<html>", "is no list of models"),
    ] {
        let upstream = Upstream::start();
        upstream.answer("/v1/models", answer(200, "application/json", body));
        Ask::at(&upstream.url(), &["Go."]).run().await.check_failed(1, reason);
    }
}

#[tokio::test]
async fn a_url_that_is_none_is_a_mistake_of_usage() {
    for url in ["localhost:8787", "ftp://localhost", "http://me:th-secret-key@localhost"] {
        let ended = Ask::at(url, &["Go."]).run().await;
        ended.check_failed(2, "--server: ");
        assert!(!ended.stderr.contains("secret"), "{ended:?}");
    }
}
