//! Answers of text alone.

use serde_json::json;

use crate::support::chunks::{
    call, calls, delta, done, end, finish, gate, reasoning, says, text, usage,
};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::Event;
use crate::support::upstream::Upstream;

#[tokio::test]
async fn text_is_passed_on_as_it_comes() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![text("Hello "), gate("half"), text("there.")], end("stop")].concat());

    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    assert_eq!(stream.until_text().await, "Hello ");
    upstream.reached("half").await;
    upstream.open("half");
    let answer = stream.finish().await;

    assert_eq!(answer.text(), "Hello there.");
    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
    assert_eq!(answer.usage, None, "nobody asked for figures");
    assert_eq!(answer.toolhand["rounds"], 1);
    assert_eq!(answer.toolhand["tool_calls"], 0);
    assert!(answer.toolhand["duration_ms"].is_u64(), "{}", answer.toolhand);
    assert_eq!(answer.head.header("cache-control"), Some("no-store"));
    assert_eq!(answer.head.header("x-toolhand-turn"), answer.toolhand["turn"].as_str());
    assert_eq!(answer.head.header("x-toolhand-session"), answer.toolhand["session"].as_str());
    assert!(answer.head.header("x-request-id").is_some());
}

#[tokio::test]
async fn an_answer_in_one_piece_has_the_shape_of_a_completion() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Hello there."));

    let answer = server.client().header("x-request-id", "mine-1").chat(&ask("Hi")).await;

    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    let body = answer.json();
    assert_eq!(body["object"], "chat.completion");
    let choices = body["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), 1);
    assert_eq!(choices[0]["index"], 0);
    assert_eq!(choices[0]["finish_reason"], "stop");
    assert_eq!(choices[0]["message"]["role"], "assistant");
    assert_eq!(choices[0]["message"]["content"], "Hello there.");
    assert_eq!(body["usage"]["total_tokens"], 15);
    assert_eq!(body["toolhand"]["rounds"], 1);
    assert_eq!(upstream.request(0).await.head.header("x-request-id"), Some("mine-1"));
}

#[tokio::test]
async fn the_models_reasoning_streams_through() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let thought = vec![reasoning("Let me "), reasoning("think."), text("Yes.")];
    upstream.round([thought, end("stop")].concat());

    let answer = server.client().streamed(&ask_streamed("Well?")).await;

    assert_eq!(answer.reasoning(), "Let me think.");
    assert_eq!(answer.text(), "Yes.");
}

#[tokio::test]
async fn unknown_members_of_deltas_are_kept_and_lists_are_not() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let odd = delta(&json!({
        "content": "Yes.", "mood": "calm", "thinking_blocks": [{ "type": "thinking" }],
    }));
    upstream.round([vec![odd], end("stop")].concat());

    let answer = server.client().streamed(&ask_streamed("Well?")).await;

    let moods = answer.events.iter().filter(|event| event.delta()["mood"] == "calm");
    assert_eq!(moods.count(), 1);
    assert_eq!(answer.text(), "Yes.");
}

#[tokio::test]
async fn figures_are_summed_over_the_rounds_and_sent_when_asked_for() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round([vec![text("Done."), finish("stop"), usage(100, 7)], vec![done()]].concat());

    let asked = json!({ "stream_options": { "include_usage": true } });
    let answer = server.client().streamed(&with(ask_streamed("Read it."), asked)).await;

    let figures = answer.usage.as_ref().expect("a usage chunk");
    assert_eq!(figures["prompt_tokens"], 110);
    assert_eq!(figures["completion_tokens"], 12);
    assert_eq!(figures["total_tokens"], 122);
    assert_eq!(answer.toolhand["context_tokens"], 100);
    let last = answer.events.iter().rev().find(|event| **event != Event::Done);
    let Some(Event::Chunk(last)) = last else { panic!("no last chunk") };
    assert_eq!(last["choices"], json!([]));
}

#[tokio::test]
async fn a_round_without_figures_is_counted() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(vec![text("Yes."), finish("stop"), done()]);

    let answer = server.client().streamed(&ask_streamed("Well?")).await;

    assert_eq!(answer.toolhand["rounds_without_usage"], 1);
}

#[tokio::test]
async fn text_of_two_rounds_is_parted_by_a_blank_line() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    upstream.round([vec![text("I look.")], read, end("tool_calls")].concat());
    upstream.round(says("It is there."));

    let answer = server.client().chat(&ask("Look.")).await;

    assert_eq!(answer.text(), "I look.\n\nIt is there.");
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_so_is_sound() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let refusal = || {
        let pieces = ["I ", "will not."].map(|piece| delta(&json!({ "refusal": piece })));
        [pieces.to_vec(), end("stop")].concat()
    };
    let sound =
        [json!({ "id": "a", "transcript": "he" }), json!({ "data": "QUJD", "transcript": "y" })];
    let sound = sound.map(|piece| delta(&json!({ "audio": piece })));
    upstream.round(refusal());
    upstream.round(refusal());
    upstream.round([sound.to_vec(), end("stop")].concat());

    let streamed = server.client().streamed(&ask_streamed("Do it.")).await;
    let whole = server.client().chat(&ask("Do it.")).await.json();
    let heard = server.client().chat(&ask("Say it.")).await.json();

    assert_eq!(streamed.finish_reason.as_deref(), Some("stop"));
    assert_eq!(whole["choices"][0]["message"]["refusal"], "I will not.");
    assert_eq!(
        heard["choices"][0]["message"]["audio"],
        json!({ "id": "a", "transcript": "hey", "data": "QUJD" })
    );
    assert_eq!(upstream.requests().len(), 3, "nothing was asked twice");
}

#[tokio::test]
async fn an_end_without_done_is_an_end() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(vec![text("Yes."), finish("stop"), gate("never")]);

    let answer = server.client().streamed(&ask_streamed("Well?")).await;

    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
    upstream.abandoned(0).await;
}

#[tokio::test]
async fn a_reason_openai_does_not_know_is_a_stop() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![text("Yes.")], end("eos_token")].concat());
    upstream.round([vec![text("Yes.")], end("tool_calls")].concat());
    upstream.round(vec![text("Yes."), done()]);

    for _ in 0..3 {
        let answer = server.client().streamed(&ask_streamed("Well?")).await;
        assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
    }
}
