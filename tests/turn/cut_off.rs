//! Tests calls that the output limit or a content filter cuts off: how often the model is asked
//! again, and how the turn ends.

use serde_json::{Value, json};

use super::answers;
use crate::support::chunks::{call, call_head, call_piece, calls, end, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::Transcript;
use crate::support::upstream::{Step, Upstream};

/// A round that ends with `reason` within the arguments of its second call, or of its only one.
fn cut(first: Option<&str>, reason: &str) -> Vec<Step> {
    let bash = |label: &str| json!({ "command": format!("echo {label} >> ran.txt") });
    let whole = first.map(|label| call(0, "c1", "Bash", &bash(label))).unwrap_or_default();
    let half = vec![call_head(1, "c2", "Write"), call_piece(1, r#"{"file_path": "long.tx"#)];
    [whole, half, end(reason)].concat()
}

/// The answer to a request with `members`, and how often upstream was asked.
async fn asked(rounds: Vec<Vec<Step>>, members: Value) -> (Transcript, usize, String) {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("ran.txt", "").start().await;
    for round in rounds {
        upstream.round(round);
    }
    upstream.otherwise(says("Done."));
    let told = server.client().streamed(&with(ask_streamed("Write it."), members)).await;
    (told, upstream.requests().len(), server.file("ran.txt"))
}

#[tokio::test]
async fn u31_two_rounds_in_a_row_cut_off_within_a_call_end_the_turn() {
    for reason in ["length", "content_filter"] {
        let rounds = vec![cut(None, reason), cut(Some("b"), reason)];

        let (told, requests, ran) = asked(rounds, json!({})).await;

        assert_eq!(told.finish_reason.as_deref(), Some(reason));
        assert_eq!(requests, 2, "{reason}");
        assert_eq!(ran, "b\n", "what was whole has run");
    }
}

#[tokio::test]
async fn u31_a_round_that_was_not_cut_off_is_a_new_beginning() {
    let whole = calls(&[("c1", "Bash", json!({ "command": "echo a >> ran.txt" }))]);
    let rounds = vec![cut(None, "length"), whole, cut(None, "length")];

    let (told, requests, ran) = asked(rounds, json!({})).await;

    assert_eq!(told.finish_reason.as_deref(), Some("stop"));
    assert_eq!((requests, &*ran), (4, "a\n"));
}

#[tokio::test]
async fn u31_under_the_clients_own_limit_a_call_cut_off_ends_the_turn_at_once() {
    for limit in ["max_tokens", "max_completion_tokens"] {
        let (told, requests, _) = asked(vec![cut(None, "length")], json!({ limit: 16 })).await;

        assert_eq!(told.finish_reason.as_deref(), Some("length"), "{limit}");
        assert_eq!(requests, 1, "{limit}");
    }
}

#[tokio::test]
async fn u31_under_the_clients_own_limit_a_whole_call_is_worth_another_round() {
    let limits = json!({ "max_tokens": 16, "max_completion_tokens": null });

    let (told, requests, ran) = asked(vec![cut(Some("a"), "length")], limits).await;

    assert_eq!(told.finish_reason.as_deref(), Some("stop"));
    assert_eq!((requests, &*ran), (2, "a\n"));
}

#[tokio::test]
async fn u31_a_limit_that_is_null_is_none_of_the_clients() {
    let (told, requests, _) = asked(vec![cut(None, "length")], json!({ "max_tokens": null })).await;

    assert_eq!(told.finish_reason.as_deref(), Some("stop"));
    assert_eq!(requests, 2);
}

#[tokio::test]
async fn the_model_is_told_what_cut_its_call_off() {
    for (reason, words) in [("length", "output limit"), ("content_filter", "content filter")] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).free().start().await;
        upstream.round(cut(None, reason));
        upstream.round(says("Done."));

        server.client().streamed(&ask_streamed("Write it.")).await;

        let told = answers(&upstream, 1).await;
        assert!(told.len() == 1 && told[0].contains(words), "{told:?}");
    }
}

#[tokio::test]
async fn a_call_of_the_client_that_is_cut_off_goes_out_as_far_as_it_came() {
    let tool = json!({ "type": "function", "function": { "name": "weather" } });
    for reason in ["length", "content_filter"] {
        let half = vec![call_head(0, "c1", "weather"), call_piece(0, r#"{"city": "Ly"#)];

        let (told, requests, _) =
            asked(vec![[half, end(reason)].concat()], json!({ "tools": [tool] })).await;

        assert_eq!(told.finish_reason.as_deref(), Some(reason));
        assert_eq!(told.message["tool_calls"][0]["function"]["arguments"], r#"{"city": "Ly"#);
        assert_eq!(requests, 1);
    }
}
