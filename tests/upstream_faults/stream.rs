//! Tests the forms that a stream may have, and the ways in which it may end.

use serde_json::json;

use super::{Rounds, body_of, check_refusal, stream_head};
use crate::support::chunks::{
    call, call_head, call_piece, delta, done, end, error_frame, event, finish, raw, says, status,
    text, usage,
};
use crate::support::client::{Client, ask, ask_streamed, with};
use crate::support::faults::{Asked, FaultUpstream, Step, answer, framed, head};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{self, Upstream};

/// A short answer with a four-byte character and a call in two pieces.
fn sample() -> String {
    let chunk = |delta: &str, rest: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}{rest}}}]}}\n\n")
    };
    let call = |rest: &str| chunk(&format!(r#"{{"tool_calls":[{{"index":0,{rest}}}]}}"#), "");
    [
        chunk(r#"{"content":"a🙂é"}"#, ""),
        call(r#""id":"c1","function":{"name":"Read","arguments":"{\"file_path\":"}"#),
        call(r#""function":{"arguments":"\"nötes.txt\"}"}"#),
        chunk("{}", r#","finish_reason":"tool_calls""#),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

/// Asks for the sample in a conversation of its own, and checks the outcome.
async fn check_sample(client: &Client, model: &str) {
    let body = with(ask_streamed("Hi"), json!({ "model": model }));
    let told = client.streamed(&body).await;
    assert_eq!(told.text(), "a🙂é\n\nThe notes say needle.", "{model}");
    assert_eq!(told.finish_reason.as_deref(), Some("stop"), "{model}");
}

/// Answers the first request of each model with what `first` makes of its name, and the second
/// request with a good answer.
fn twice(first: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> FaultUpstream {
    FaultUpstream::start(std::sync::Arc::new(move |request: &Asked| {
        let body = request.json();
        let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned();
        let last = last.expect("a message");
        if last["role"] != "tool" {
            return first(body["model"].as_str().expect("a model"));
        }
        let is_right = last["content"].as_str().is_some_and(|text| text.contains("needle"));
        let text = if is_right { "The notes say needle." } else { "I was told something else." };
        vec![Step::Bytes(super::stream_of(&says(text)))]
    }))
}

#[tokio::test]
async fn u11_every_spelling_of_a_stream_says_the_same() {
    let forms: Vec<(&str, String)> = vec![
        ("lf", sample()),
        ("crlf", sample().replace('\n', "\r\n")),
        ("cr", sample().replace('\n', "\r")),
        ("mixed", sample().replacen("\n\n", "\r\n\n", 1).replacen("\n\n", "\r\r", 1)),
        ("no-space", sample().replace("data: ", "data:")),
        ("lines", sample().replace("\"choices\":", "\ndata: \"choices\":\ndata: ")),
        ("fields", sample().replace("data:", "event: x\nid: 1\nretry: 5\n: why\ndata:")),
        ("bom", format!("\u{feff}{}", sample())),
        ("comments", format!(": hello\n\n{}", sample().replace("\n\n", "\n\n: ping\n\n"))),
        ("no-end", sample().trim_end().to_owned()),
    ];
    let names: Vec<&str> = forms.iter().map(|(name, _)| *name).collect();
    let of = forms.clone();
    let upstream = twice(move |model| {
        let (_, form) = of.iter().find(|(name, _)| *name == model).expect("a form");
        // Cuts each CRLF in two.
        let pieces = form.split_inclusive('\r').map(|piece| Step::Bytes(framed(piece.as_bytes())));
        let head = head("200 OK", &["transfer-encoding: chunked"]);
        let end = Step::Bytes(b"0\r\n\r\n".to_vec());
        std::iter::once(Step::Bytes(head)).chain(pieces).chain([end]).collect()
    });
    let server = Builder::new(&upstream.url()).file("nötes.txt", "needle\n").start().await;
    for name in names {
        check_sample(&server.client(), name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u12_a_cut_at_any_byte_changes_nothing() {
    const AT_ONCE: usize = 32;
    let sample = sample();
    let length = sample.len();
    let upstream = twice(move |model| {
        let cut: usize = model.parse().expect("a place");
        let (one, two) = sample.as_bytes().split_at(cut);
        let length = format!("content-length: {}", sample.len());
        let one = [head("200 OK", &[&length]), one.to_vec()].concat();
        // Long enough for the first half to be read alone.
        let breath = Step::Sleep(std::time::Duration::from_millis(2));
        vec![Step::Bytes(one), breath, Step::Bytes(two.to_vec())]
    });
    let server = Builder::new(&upstream.url()).file("nötes.txt", "needle\n").start().await;
    let mut running = tokio::task::JoinSet::new();
    for cut in 0..=length {
        let client = server.client();
        running.spawn(async move { check_sample(&client, &cut.to_string()).await });
        if running.len() == AT_ONCE {
            running.join_next().await.expect("one runs").expect("no panic");
        }
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic");
    }
}

/// Checks the error code and the text that a client gets for this round.
async fn check_broken(round: Vec<upstream::Step>, code: &str, text: &str) {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(round);
    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.code(), told.text()), (code, text));
    assert_eq!(told.finish_reason, None);
}

/// Plays a round with a whole call, the beginning of another, and then `death`. Checks that the
/// first call's answer is kept and the model goes on from it.
async fn check_salvaged(death: Vec<upstream::Step>) {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let bash = call(0, "c1", "Bash", &json!({ "command": "echo once >> ran.txt" }));
    upstream.round([bash, vec![call_head(1, "c2", "Bash"), call_piece(1, "{")], death].concat());
    upstream.round(says("Done."));

    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Done.");

    assert_eq!(server.file("ran.txt"), "once\n");
    let second = upstream.request(1).await.json();
    let messages = second["messages"].as_array().expect("messages");
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let ids: Vec<_> = calls.map(|call| call["id"].clone()).collect();
    assert_eq!(ids, ["c1"]);
}

#[tokio::test]
async fn u14_what_is_no_chunk_is_never_gone_over() {
    for garbage in ["{\"choices\":[{\"delta\"", "nonsense", "[]", "{\"choices\":7}", "{} {}"] {
        let garbage = raw(format!("data: {garbage}\n\n"));
        let round = [vec![text("I begin "), garbage.clone()], says("again")].concat();
        check_broken(round, "upstream_invalid", "I begin ").await;
        check_salvaged(vec![garbage]).await;
    }
}

#[tokio::test]
async fn u15_half_an_emoji_is_replaced() {
    let half = |half: &str| {
        raw(format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\\u{half}b\"}}}}]}}\n\n"))
    };
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![half("d83d"), half("de42")], says("on")].concat());

    let told = server.client().streamed(&ask_streamed("Hi")).await;

    assert_eq!(told.text(), "a\u{fffd}ba\u{fffd}bon");
    assert_eq!(told.finish_reason.as_deref(), Some("stop"));
}

#[tokio::test]
async fn u16_an_error_frame_is_an_error_wherever_it_comes() {
    check_broken(vec![text("Half"), error_frame("gone")], "upstream_error", "Half").await;
    // An error frame counts even after what looked like the end.
    let late = vec![text("Half"), finish("stop"), error_frame("gone"), done()];
    check_broken(late, "upstream_error", "Half").await;
    check_salvaged(vec![error_frame("gone")]).await;
}

#[tokio::test]
async fn u17_a_connection_that_ends_in_the_middle_is_an_error() {
    use upstream::Step::{Close, Reset};
    for death in [vec![Close], vec![Reset], vec![]] {
        let round = [vec![text("Half")], death.clone()].concat();
        check_broken(round, "stream_died", "Half").await;
        check_salvaged(death).await;
    }
}

#[tokio::test]
async fn u18_an_end_without_done_is_an_end() {
    use upstream::Step::{Close, Reset};
    for death in [vec![Close], vec![Reset], vec![]] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        upstream.round([vec![text("All."), finish("stop")], death].concat());
        let told = server.client().streamed(&ask_streamed("Hi")).await;
        assert_eq!((told.text(), told.finish_reason.as_deref()), ("All.", Some("stop")));
    }
}

#[tokio::test]
async fn u20_an_answer_without_text_or_call_is_asked_for_once_more() {
    let role = delta(&json!({ "role": "assistant", "content": "" }));
    for empty in [
        end("stop"),
        vec![finish("stop"), done()],
        vec![role.clone(), finish("stop"), usage(10, 0), done()],
        vec![role, finish("tool_calls"), done()],
        vec![delta(&json!({ "reasoning_content": "Hm." })), finish("stop"), done()],
    ] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
        upstream.round(empty.clone());
        upstream.round(empty.clone());
        check_refusal(&server.client().chat(&ask("Hi")).await, 502, "empty_response");

        upstream.round(empty.clone());
        upstream.round(says("There."));
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "There.");

        let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
        upstream.round([vec![text("I read.")], read.clone(), end("tool_calls")].concat());
        upstream.round(empty.clone());
        upstream.round(empty.clone());
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "I read.");

        // Only a tool ran and no text came, which is not an answer.
        upstream.round([read, end("tool_calls")].concat());
        upstream.round(empty.clone());
        upstream.round(empty);
        check_refusal(&server.client().chat(&ask("Hi")).await, 400, "empty_response");
    }
}

#[tokio::test]
async fn u21_done_is_the_end_whatever_stands_around_it() {
    let upstream = Upstream::start();
    let mut server = Server::start(&upstream).await;
    upstream.round([vec![done()], says("too late")].concat());
    upstream.round([vec![done()], says("too late")].concat());
    check_refusal(&server.client().chat(&ask("Hi")).await, 502, "empty_response");

    upstream.round([says("All."), vec![text(" More."), error_frame("late")]].concat());
    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("All.", Some("stop")));

    server.stop();
    let counted = server.log().matches("after [DONE]").count();
    assert_eq!(counted, 3, "{}", server.log());
}

#[tokio::test]
async fn u22_chunks_without_their_one_choice() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let elsewhere = json!({ "choices": [{ "index": 1, "delta": { "content": "not this" } }] });
    let figures = json!({ "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9 });
    let counted = event(&json!({ "choices": [], "usage": figures }));
    upstream.round(vec![text("One."), event(&elsewhere), finish("stop"), counted, done()]);
    let body = with(ask_streamed("Hi"), json!({ "stream_options": { "include_usage": true } }));
    let told = server.client().streamed(&body).await;
    assert_eq!(told.text(), "One.");
    assert_eq!(told.usage.expect("figures")["total_tokens"], 9);
}

/// JSON with neither choices nor usage nor an error.
const NOTHING: [&str; 8] = [
    r#"{"id":"x"}"#,
    r#"{"type":"ping"}"#,
    "{}",
    r#"{"choices":null}"#,
    r#"{"choices":null,"usage":null,"error":null}"#,
    r#"{"choices":[null]}"#,
    r#"{"choices":[]}"#,
    r#"{"usage":"none yet"}"#,
];

#[tokio::test]
async fn u22_what_brings_nothing_is_read_over() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let pings: Vec<_> = NOTHING.iter().map(|ping| raw(format!("data: {ping}\n\n"))).collect();
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    let between = |steps: Vec<upstream::Step>| {
        let each = steps.into_iter().map(|step| [pings.clone(), vec![step]].concat());
        each.collect::<Vec<_>>().concat()
    };
    upstream.round(between([read, end("tool_calls")].concat()));
    upstream.round(between([vec![text("One "), text("two.")], end("stop")].concat()));
    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("One two.", Some("stop")));
    assert_eq!(told.toolhand["tool_calls"], 1);

    // With nothing else in the stream, the answer has died; it is not garbage.
    for _ in 0..3 {
        upstream.round(pings.clone());
    }
    check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_error");
}

#[tokio::test]
async fn u22_a_choice_may_be_null_or_have_no_delta() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let choices = |choices: &str| raw(format!("data: {{\"choices\":{choices}}}\n\n"));
    upstream.round(vec![
        text("One "),
        choices(r#"[{"index":0,"delta":null}]"#),
        choices(r#"[{"index":0}]"#),
        choices(r#"[null,{"index":0,"delta":{"content":"two."}}]"#),
        choices(r#"[{"index":0,"delta":null,"finish_reason":"stop"}]"#),
        done(),
    ]);
    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("One two.", Some("stop")));
}

#[tokio::test]
async fn a_reason_that_is_a_word_of_failure_is_an_error_frame() {
    for word in ["error", "network_error", "ERROR", "request_failed"] {
        check_broken([vec![text("Half")], end(word)].concat(), "upstream_error", "Half").await;
        check_broken(
            vec![text("Half"), finish("stop"), finish(word), done()],
            "upstream_error",
            "Half",
        )
        .await;
        check_salvaged(end(word)).await;

        // Nothing was forwarded, so the request is repeated, as after any error frame.
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        upstream.round(end(word));
        let whole = json!({ "object": "chat.completion", "choices": [{
            "index": 0, "message": { "role": "assistant", "content": "Half" }, "finish_reason": word,
        }]});
        upstream.round(status(200, &whole));
        upstream.round(says("There."));
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "There.", "{word}");
    }
}

#[tokio::test]
async fn of_several_reasons_one_that_cuts_off_counts() {
    for (reasons, told) in [
        (["stop", "length"], "length"),
        (["length", "stop"], "length"),
        (["stop", "content_filter"], "content_filter"),
        (["tool_calls", "stop"], "stop"),
        (["length", "content_filter"], "length"),
    ] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        let [first, second] = reasons;
        upstream.round(vec![text("One "), finish(first), text("two."), finish(second), done()]);
        let answer = server.client().streamed(&ask_streamed("Hi")).await;
        assert_eq!(answer.text(), "One two.", "{reasons:?}");
        assert_eq!(answer.finish_reason.as_deref(), Some(told), "{reasons:?}");
    }
}

#[tokio::test]
async fn what_stands_in_several_lines_upstream_is_one_line_here() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let spread = "{\ndata: \"choices\": [{\ndata: \"delta\": {\"content\": \"One.\", \"mood\": {\ndata: \"is\": \"calm\"}},\n\
                  data: \"logprobs\": {\ndata: \"content\": [\ndata: ]}}],\ndata: \"x_spread\": {\ndata: \"a\": 1}}";
    upstream.round([vec![raw(format!("data: {spread}\n\n"))], end("stop")].concat());
    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("One.", Some("stop")));
    assert!(told.events.iter().any(|event| event.delta()["mood"]["is"] == "calm"));
}

#[tokio::test]
async fn a_stream_that_dies_before_it_says_anything_is_an_upstream_that_failed() {
    let nothing = vec![Step::Bytes(stream_head()), Step::Fin];
    let ping = [stream_head(), b": ping\n\n".to_vec()].concat();
    let half = [stream_head(), body_of(&[call_head(0, "c1", "Read")])].concat();
    for steps in [
        nothing,
        vec![Step::Bytes(ping), Step::Reset],
        vec![Step::Bytes(half), Step::Fin],
        vec![Step::Bytes(answer("200 OK", &[], b""))],
    ] {
        let (rounds, upstream) = Rounds::start(vec![steps; 3]);
        let server = Builder::new(&upstream.url()).start().await;
        check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_error");
        assert_eq!(rounds.asked(), 3);
    }
}
