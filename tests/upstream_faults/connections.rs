//! Tests faults of connections to upstream, of response heads and of statuses.

use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use serde_json::json;

use super::{Rounds, check_refusal, stream_of};
use crate::support::chunks::{says, status, text};
use crate::support::client::{ask, ask_streamed};
use crate::support::faults::{Step, answer, head};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn u1_who_refuses_or_has_no_name_is_unavailable() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let refusing = format!("http://{}/v1", gone.local_addr().expect("bound"));
    drop(gone);
    for url in [refusing.as_str(), "http://no-such-host.invalid/v1"] {
        let server =
            Builder::new(url).config("upstream.connect_timeout", r#""500ms""#).start().await;
        check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_unavailable");
    }
}

#[tokio::test]
async fn u1_a_connection_cut_before_a_word_is_tried_three_times() {
    for end in [Step::Reset, Step::Fin] {
        let (rounds, upstream) = Rounds::start_with(vec![end], []);
        let server = Builder::new(&upstream.url()).start().await;
        assert_eq!(server.client().chat(&ask("Hi")).await.refusal().0, 502);
        assert_eq!(rounds.connections(), 3);
    }
}

#[tokio::test]
async fn u1_bad_tls_is_not_tried_again() {
    let no_tls = vec![Step::Bytes(head("400 Bad Request", &["connection: close"])), Step::Hang];
    let (rounds, upstream) = Rounds::start_with(no_tls, []);
    let url = upstream.url().replace("http:", "https:");
    let server = Builder::new(&url).start().await;

    check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_unavailable");

    assert_eq!(rounds.connections(), 1);
}

/// A listener whose queue is full, so that the next connection hangs.
fn full_listener() -> (Vec<TcpStream>, SocketAddr, rustix::fd::OwnedFd) {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    listen(&listener, 0).expect("a bound socket");
    let address = getsockname(&listener).expect("bound").try_into().expect("an IP address");
    // The queue holds one connection.
    (vec![TcpStream::connect(address).expect("room for one")], address, listener)
}

#[tokio::test]
async fn u1_a_connection_that_hangs_is_given_up_three_times() {
    let (_queue, address, _listener) = full_listener();
    let server = Builder::new(&format!("http://{address}/v1"))
        .config("upstream.connect_timeout", r#""500ms""#)
        .config("turns.head_hold", r#""1ms""#)
        .start()
        .await;

    let streamed = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!(streamed.code(), "upstream_unavailable");
    check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_unavailable");
}

#[tokio::test]
async fn u6_a_failing_status_is_asked_twice_more() {
    for code in [500, 502, 503, 504, 529] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        let failure = status(code, &json!({ "error": { "message": "busy" } }));
        for round in [&failure, &failure, &says("There."), &failure, &failure, &failure] {
            upstream.round(round.clone());
        }

        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "There.", "{code}");
        check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_error");
    }
}

#[tokio::test]
async fn u6_once_a_delta_went_out_nothing_is_asked_again() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(vec![text("I begin "), upstream::Step::Reset]);

    assert_eq!(server.client().streamed(&ask_streamed("Hi")).await.code(), "stream_died");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn u7_a_key_that_upstream_refuses_is_never_shown() {
    const KEY: &str = "sk-upstream-0123456789abcdef";
    for code in [401, 403] {
        let upstream = Upstream::start();
        let mut server = Server::builder(&upstream)
            .environment("TOOLHAND_UPSTREAM_API_KEY", KEY)
            .config("log.level", r#""debug""#)
            .start()
            .await;
        let told = format!("Incorrect API key provided: {KEY}. See /root/.litellm");
        upstream.round(status(code, &json!({ "error": { "message": told, "code": "1" } })));

        let refusal = server.client().chat(&ask("Hi")).await;

        check_refusal(&refusal, 502, "upstream_auth");
        assert_eq!(refusal.header("x-should-retry"), Some("false"), "{:?}", refusal.head);
        let body = String::from_utf8_lossy(&refusal.body).into_owned();
        assert!(!body.contains(KEY) && !body.contains("Incorrect"), "{body}");
        assert_eq!(upstream.requests()[0].head.header("authorization"), Some(&*bearer(KEY)));
        upstream.round(status(code, &json!({ "error": { "message": told, "code": "1" } })));
        let streamed = server.client().chat(&ask_streamed("Hi")).await;
        check_refusal(&streamed, 502, "upstream_auth");
        assert_eq!(streamed.header("x-should-retry"), Some("false"), "{:?}", streamed.head);
        server.stop();
        assert!(server.log().contains(&format!("status {code}")), "{}", server.log());
        assert!(!server.log().contains(KEY), "{}", server.log());
    }
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

#[tokio::test]
async fn u8_a_redirect_is_not_followed() {
    let elsewhere = Upstream::start();
    for code in [301, 302, 303, 307, 308] {
        let there = format!("location: {}/chat/completions", elsewhere.url());
        let moved = answer(&format!("{code} Moved"), &[&there], b"over there");
        let (rounds, upstream) = Rounds::start([vec![Step::Bytes(moved)]]);
        let server = Builder::new(&upstream.url()).start().await;

        check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_invalid");

        assert_eq!(rounds.asked(), 1, "{code}");
    }
    assert!(elsewhere.all_requests().is_empty());
}

#[tokio::test]
async fn u9_a_page_is_no_completion_and_its_beginning_is_logged() {
    let page = format!("<html>Sign in here. {}</html>", "x".repeat(5000));
    let page = answer("200 OK", &["content-type: text/html; charset=utf-8"], page.as_bytes());
    let (_rounds, upstream) = Rounds::start([vec![Step::Bytes(page)]]);
    let mut server = Builder::new(&upstream.url()).start().await;

    check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_invalid");

    server.stop();
    assert!(server.log().contains("Sign in here."), "{}", server.log());
    assert!(!server.log().contains(&"x".repeat(200)), "{}", server.log());
}

#[tokio::test]
async fn u10_the_content_type_does_not_decide_what_an_answer_is() {
    let message = json!({ "role": "assistant", "content": "Whole." });
    let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
    let whole = json!({ "id": "x", "object": "chat.completion", "created": 1, "choices": choices });
    let whole = whole.to_string();
    let events = super::body_of(&says("Whole."));
    for (kind, body) in [
        ("content-type: application/json", whole.as_bytes()),
        ("content-type: text/event-stream", whole.as_bytes()),
        ("x-nothing: 1", whole.as_bytes()),
        ("x-nothing: 1", &events),
        ("content-type: text/event-stream; charset=utf-8", &events),
        ("content-type: application/json", &events),
    ] {
        let (_rounds, upstream) =
            Rounds::start([vec![Step::Bytes(answer("200 OK", &[kind], body))]]);
        let server = Builder::new(&upstream.url()).start().await;
        let told = server.client().streamed(&ask_streamed("Hi")).await;
        assert_eq!(
            (told.text(), told.finish_reason.as_deref()),
            ("Whole.", Some("stop")),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn u37_a_huge_head_and_other_protocols_are_errors_with_an_end() {
    let huge = head("200 OK", &[&format!("x-huge: {}", "x".repeat(1 << 20))]);
    let many = head("200 OK", &vec!["x-many: 1"; 5000]);
    // HTTP/2: an empty SETTINGS frame, then GOAWAY.
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let go_away = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
    let http2 = [&settings[..], &go_away].concat();
    for head in [huge, many, http2] {
        let steps = vec![Step::Bytes(head), Step::Fin];
        let (rounds, upstream) = Rounds::start([steps.clone(), steps.clone(), steps]);
        let server = Builder::new(&upstream.url()).start().await;
        check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_error");
        assert_eq!(rounds.asked(), 3);
        // The server still works.
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Done.");
    }
}

#[tokio::test]
async fn u37_a_compressed_stream_is_refused() {
    // The server asks for no compression and unpacks none, so a decompression bomb has no
    // effect.
    for coding in ["gzip", "br", "zstd", "deflate"] {
        let lines = ["content-type: text/event-stream", &format!("content-encoding: {coding}")];
        let (rounds, upstream) =
            Rounds::start([vec![Step::Bytes(answer("200 OK", &lines, b"\x1f\x8b\x08\x00zip"))]]);
        let server = Builder::new(&upstream.url()).start().await;
        check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_invalid");
        assert_eq!(rounds.asked(), 1, "{coding}");
    }
}

#[tokio::test]
async fn heads_that_only_inform_are_gone_over() {
    let early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    let whole = [early.to_vec(), stream_of(&says("There."))].concat();
    let (_rounds, upstream) = Rounds::start([vec![Step::Bytes(whole)]]);
    let server = Builder::new(&upstream.url()).start().await;
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "There.");
}

#[tokio::test]
async fn fallback_models_are_asked_once_the_retries_are_used_up() {
    let failure = |code: u16, message: &str| {
        status(code, &json!({ "error": { "message": message, "code": code.to_string() } }))
    };
    // (what the first model answers, how often it is asked)
    for (first, times) in [
        (failure(503, "busy"), 3),
        (failure(429, "slow down"), 3),
        (failure(404, "no such model"), 1),
        (failure(400, "Invalid model name passed in model=scripted"), 1),
    ] {
        let upstream = Upstream::start();
        let builder = Server::builder(&upstream);
        let fallbacks = r#"{ "scripted" = ["second", "third"] }"#;
        let server = builder.config("upstream.fallbacks", fallbacks).start().await;
        for _ in 0..times {
            upstream.round_of("scripted", first.clone());
        }
        upstream.round_of("second", failure(404, "nor this"));
        upstream.round_of("third", says("There."));

        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "There.");
        assert_eq!(upstream.requests().len(), times + 2);
    }

    // Another model would refuse the request too, so it is not asked.
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream);
    let fallbacks = r#"{ "scripted" = ["second"] }"#;
    let server = builder.config("upstream.fallbacks", fallbacks).start().await;
    for (code, expected) in [(400, "upstream_rejected"), (401, "upstream_auth")] {
        upstream.round_of("scripted", failure(code, "temperature is too high"));
        assert_eq!(server.client().chat(&ask("Hi")).await.refusal().1, expected);
    }
}
