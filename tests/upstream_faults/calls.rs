//! Tests the ways in which providers write calls, and what becomes of each.

use serde_json::{Value, json};

use super::{Rounds, stream_of};
use crate::support::chunks::{call, calls, delta, done, end, event, finish, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::faults::Step;
use crate::support::server::{Builder, Server};
use crate::support::stream::Transcript;
use crate::support::sync;
use crate::support::upstream::{self, Upstream};

/// A delta with these entries of `tool_calls`.
fn entries(entries: &Value) -> upstream::Step {
    delta(&json!({ "tool_calls": entries }))
}

fn command(label: &str) -> String {
    json!({ "command": format!("echo {label} >> ran.txt") }).to_string()
}

/// The outcome of one round of unusual deltas.
struct Ran {
    told: Transcript,
    /// The lines that the commands wrote, in order.
    labels: Vec<String>,
    /// `(id, name, arguments)` of the calls that are sent back upstream.
    calls: Vec<(String, String, Value)>,
    answers: Vec<String>,
}

/// Plays the deltas, a proper end, and a second round.
async fn run(deltas: Vec<upstream::Step>) -> Ran {
    run_to([deltas, end("tool_calls")].concat()).await
}

async fn run_to(round: Vec<upstream::Step>) -> Ran {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("notes.txt", "needle\n").start().await;
    upstream.round(round);
    upstream.round(says("Done."));
    let told = server.client().streamed(&ask_streamed("Go on.")).await;
    let request = upstream.request(1).await.json();
    let messages = request["messages"].as_array().expect("messages");
    let of = |call: &Value| {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let arguments = serde_json::from_str(&text(&call["function"]["arguments"]));
        (text(&call["id"]), text(&call["function"]["name"]), arguments.expect("JSON"))
    };
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let answers = messages.iter().filter(|message| message["role"] == "tool");
    let ran = std::fs::read_to_string(server.workspace().join("ran.txt")).unwrap_or_default();
    Ran {
        told,
        labels: ran.lines().map(str::to_owned).collect(),
        calls: calls.map(of).collect(),
        answers: answers.map(|answer| answer["content"].as_str().expect("text").into()).collect(),
    }
}

/// Checks that the deltas are these calls, and that each ran once and in order.
async fn check(deltas: Vec<upstream::Step>, labels: &[&str]) -> Ran {
    let ran = run(deltas).await;
    assert_eq!(ran.labels, labels);
    assert_eq!(ran.calls.len(), labels.len(), "{:?}", ran.calls);
    let ids: std::collections::HashSet<&String> = ran.calls.iter().map(|(id, ..)| id).collect();
    assert!(ids.len() == labels.len() && !ids.contains(&String::new()), "{:?}", ran.calls);
    assert!(ran.told.text().ends_with("Done."), "{}", ran.told.text());
    ran
}

/// A whole call in one entry. Members that are null are left out.
fn whole(index: &Value, id: &Value, label: &str) -> Value {
    let mut entry = json!({ "index": index, "id": id, "type": "function",
                            "function": { "name": "Bash", "arguments": command(label) } });
    entry.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    entry
}

/// The arguments of a call in two halves.
fn halves(label: &str) -> (String, String) {
    let command = command(label);
    let (one, two) = command.split_at(command.len() / 2);
    (one.to_owned(), two.to_owned())
}

#[tokio::test]
async fn u23_without_an_index_an_id_is_a_new_call_and_none_goes_on() {
    let (one, two) = halves("a");
    check(
        vec![
            entries(&json!([{ "id": "x", "function": { "name": "Bash", "arguments": one } }])),
            entries(&json!([{ "function": { "arguments": two } }])),
            entries(&json!([whole(&Value::Null, &json!("y"), "b")])),
        ],
        &["a", "b"],
    )
    .await;
}

#[tokio::test]
async fn u24_two_calls_may_share_an_index() {
    let ran = check(
        vec![
            entries(&json!([whole(&json!(0), &json!("x"), "a")])),
            entries(&json!([whole(&json!(0), &json!("y"), "b")])),
        ],
        &["a", "b"],
    )
    .await;
    assert_eq!((&*ran.calls[0].0, &*ran.calls[1].0), ("x", "y"));
}

#[tokio::test]
async fn u25_the_first_index_may_be_one() {
    let (one, two) = halves("a");
    let head = json!([{ "index": 1, "id": "x", "function": { "name": "Bash", "arguments": one } }]);
    let tail = json!([{ "index": 1, "function": { "arguments": two } }]);
    check(vec![entries(&head), entries(&tail)], &["a"]).await;
}

#[tokio::test]
async fn u26_a_known_id_wins_over_the_index() {
    let (one, two) = halves("b");
    let head = json!([{ "index": 0, "id": "y", "function": { "name": "Bash", "arguments": one } }]);
    let tail = json!([{ "index": 1, "id": "y", "function": { "arguments": two } }]);
    check(
        vec![entries(&json!([whole(&json!(0), &json!("x"), "a")])), entries(&head), entries(&tail)],
        &["a", "b"],
    )
    .await;
}

#[tokio::test]
async fn u26_a_tail_without_an_id_may_come_under_another_index() {
    let (one, two) = halves("b");
    let head = json!([{ "index": 0, "id": "y", "function": { "name": "Bash", "arguments": one } }]);
    let tail = json!([{ "index": 1, "function": { "arguments": two } }]);
    check(
        vec![entries(&json!([whole(&json!(0), &json!("x"), "a")])), entries(&head), entries(&tail)],
        &["a", "b"],
    )
    .await;
}

#[tokio::test]
async fn u27_two_entries_of_one_index_are_one_call() {
    let (one, two) = halves("a");
    let both = json!([
        { "index": 0, "id": "x", "function": { "name": "Bash", "arguments": one } },
        { "index": 0, "function": { "arguments": two } },
    ]);
    check(vec![entries(&both)], &["a"]).await;
}

#[tokio::test]
async fn u28_ids_may_be_missing_or_repeated() {
    let (one, two) = halves("a");
    for id in [Value::Null, json!("")] {
        let head =
            json!([{ "index": 0, "id": id, "function": { "name": "Bash", "arguments": one } }]);
        let tail = json!([{ "index": 0, "id": id, "function": { "arguments": two } }]);
        check(vec![entries(&head), entries(&tail)], &["a"]).await;
    }
    for again in [json!("x"), Value::Null] {
        let head =
            json!([{ "index": 0, "id": "x", "function": { "name": "Bash", "arguments": one } }]);
        let tail = json!([{ "index": 0, "id": again, "function": { "arguments": two } }]);
        let ran = check(vec![entries(&head), entries(&tail)], &["a"]).await;
        assert_eq!(ran.calls[0].0, "x");
    }
}

#[tokio::test]
async fn u29_members_may_be_repeated_null_or_of_another_type() {
    let (one, two) = halves("a");
    let piece = |arguments: &str| {
        entries(
            &json!([{ "index": 0, "id": "x", "function": { "name": "Bash", "arguments": arguments } }]),
        )
    };
    check(vec![piece(&one), piece(""), piece(&two)], &["a"]).await;

    let null = entries(&json!([{ "index": 0, "function": null }]));
    let none = entries(&json!([{ "index": 0, "function": { "name": null, "arguments": null } }]));
    check(vec![piece(&one), null, none, piece(&two)], &["a"]).await;

    let arguments: Value = serde_json::from_str(&command("a")).expect("JSON");
    let object =
        json!([{ "index": 0, "id": "x", "function": { "name": "Bash", "arguments": arguments } }]);
    check(vec![entries(&object)], &["a"]).await;
}

#[tokio::test]
async fn u30_two_calls_of_one_id_are_two() {
    let ran = check(
        vec![
            entries(&json!([whole(&json!(0), &json!("x"), "a")])),
            entries(&json!([whole(&json!(1), &json!("x"), "b")])),
        ],
        &["a", "b"],
    )
    .await;
    assert_eq!(ran.calls[0].0, "x");
}

#[tokio::test]
async fn u31_what_is_cut_off_never_runs() {
    let (half, _) = halves("b");
    let first = call(0, "c1", "Bash", &serde_json::from_str(&command("a")).expect("JSON"));
    let second =
        json!([{ "index": 1, "id": "c2", "function": { "name": "Bash", "arguments": half } }]);
    let begun = [first, vec![entries(&second)]].concat();

    let ran = run_to([begun.clone(), end("length")].concat()).await;
    assert_eq!(ran.labels, ["a"]);
    assert!(ran.answers[1].contains("cut off by the output limit"), "{:?}", ran.answers);

    // LiteLLM shows a clean cut like this. The model must not be told that it made a mistake.
    for cut in [end("stop"), end("tool_calls"), vec![done()]] {
        let ran = run_to([begun.clone(), cut].concat()).await;
        assert_eq!(ran.labels, ["a"]);
        assert_eq!(ran.calls.len(), 1, "{:?}", ran.calls);
    }
}

#[tokio::test]
async fn u32_calls_count_and_the_reason_does_not() {
    for reason in ["stop", "tool_calls", "function_call", "end_turn", ""] {
        let deltas = vec![entries(&json!([whole(&json!(0), &json!("x"), "a")])), finish(reason)];
        assert_eq!(run_to([deltas, vec![done()]].concat()).await.labels, ["a"], "{reason:?}");
    }

    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![text("No call.")], end("tool_calls")].concat());
    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("No call.", Some("stop")));
    for _ in 0..2 {
        upstream.round(end("tool_calls"));
    }
    let refusal = server.client().chat(&ask("Hi")).await;
    assert_eq!(refusal.refusal(), (502, "empty_response".to_owned()));
}

#[tokio::test]
async fn u33_of_five_hundred_calls_thirty_two_are_looked_at() {
    let many: Vec<Value> =
        (0..500).map(|at| whole(&json!(at), &json!(format!("c{at}")), &at.to_string())).collect();

    let ran = run(vec![entries(&Value::Array(many))]).await;

    let expected: Vec<String> = (0..32).map(|at| at.to_string()).collect();
    assert_eq!(ran.labels, expected);
    assert_eq!((ran.calls.len(), ran.answers.len()), (500, 500));
    let refused = ran.answers[32..].iter().filter(|answer| answer.starts_with("Error: only 32"));
    assert_eq!(refused.count(), 468);
}

#[tokio::test]
async fn u33_more_than_ten_thousand_calls_are_an_error() {
    let in_one_text = command("a").repeat(10_050);
    let head = json!([{ "index": 0, "id": "c1", "function": { "name": "Bash", "arguments": in_one_text } }]);
    let read = json!({ "file_path": "notes.txt" }).to_string();
    let many = (0..10_050).map(|at| {
        let function = json!({ "name": "Read", "arguments": read });
        entries(&json!([{ "index": at, "id": format!("c{at}"), "function": function }]))
    });
    // Read starts while the model goes on, so a client must not send the request again.
    for (round, status) in [(vec![entries(&head)], 502), (many.collect(), 400)] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).free().file("notes.txt", "needle\n").start().await;
        upstream.round([round, end("tool_calls")].concat());

        let refusal = server.client().chat(&ask("Go on.")).await;

        assert_eq!(refusal.refusal(), (status, "upstream_invalid".to_owned()));
        assert!(!server.workspace().join("ran.txt").exists());
        assert_eq!(upstream.requests().len(), 1, "it is not asked again");
    }
}

#[tokio::test]
async fn arguments_may_come_behind_the_finish_reason() {
    let head = |name: &str| json!([{ "index": 0, "id": "x", "function": { "name": name, "arguments": "" } }]);
    let piece = |text: &str| entries(&json!([{ "index": 0, "function": { "arguments": text } }]));
    let (one, two) = halves("a");
    for round in [
        vec![entries(&head("Bash")), finish("tool_calls"), piece(&one), piece(&two), done()],
        vec![entries(&head("Bash")), piece(&one), finish("tool_calls"), piece(&two), done()],
        vec![
            entries(&head("Bash")),
            piece("{}"),
            finish("tool_calls"),
            piece(&command("a")),
            done(),
        ],
    ] {
        let ran = run_to(round).await;
        assert_eq!(ran.labels, ["a"]);
        assert_eq!(ran.calls.len(), 1, "{:?}", ran.calls);
    }
}

#[tokio::test]
async fn an_empty_object_before_the_real_one_is_nothing() {
    let piece =
        |at: u64, text: &str| entries(&json!([{ "index": at, "function": { "arguments": text } }]));
    let head = |at: u64, text: &str| {
        let function = json!({ "name": "Bash", "arguments": text });
        entries(&json!([{ "index": at, "id": format!("c{at}"), "function": function }]))
    };
    check(vec![head(0, "{}"), piece(0, &command("a"))], &["a"]).await;
    check(vec![head(0, &format!(" {{ }}\n{}", command("a")))], &["a"]).await;
    let (one, two) = halves("b");
    check(
        vec![
            head(0, "{"),
            piece(0, "}"),
            head(1, "{}"),
            piece(0, &command("a")),
            piece(1, &one),
            piece(1, &two),
        ],
        &["a", "b"],
    )
    .await;
}

#[tokio::test]
async fn a_clients_call_has_no_empty_object_in_front() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let weather = json!({ "type": "function", "function": { "name": "weather", "parameters": { "type": "object" } } });
    for pieces in [vec!["{}", "{\"city\":", "\"Oslo\"}"], vec!["{", "}", "{\"city\":\"Oslo\"}"]] {
        let head =
            json!([{ "index": 0, "id": "c1", "function": { "name": "weather", "arguments": "" } }]);
        let piece =
            |text: &&str| entries(&json!([{ "index": 0, "function": { "arguments": text } }]));
        let pieces: Vec<_> = pieces.iter().map(piece).collect();
        upstream.round([vec![entries(&head)], pieces, end("tool_calls")].concat());
        let body = with(ask_streamed("Hi"), json!({ "tools": [weather] }));
        let told = server.client().streamed(&body).await;
        let calls = told.message["tool_calls"].as_array().expect("calls");
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!(calls[0]["function"]["arguments"], r#"{"city":"Oslo"}"#);
    }
    let head =
        json!([{ "index": 0, "id": "c1", "function": { "name": "weather", "arguments": "{}" } }]);
    upstream.round([vec![entries(&head)], end("tool_calls")].concat());
    let body = with(ask_streamed("Hi"), json!({ "tools": [weather] }));
    let told = server.client().streamed(&body).await;
    assert_eq!(told.message["tool_calls"][0]["function"]["arguments"], "{}");
}

#[tokio::test]
async fn t34_an_argument_of_ten_megabytes_is_not_taken() {
    let head = json!([{ "index": 0, "id": "c1", "function": { "name": "Bash", "arguments": "{\"command\":\"" } }]);
    let piece = entries(&json!([{ "index": 0, "function": { "arguments": "x".repeat(1 << 20) } }]));
    let last = entries(&json!([{ "index": 0, "function": { "arguments": "\"}" } }]));
    let ran = run([vec![entries(&head)], vec![piece; 10], vec![last]].concat()).await;
    assert_eq!(ran.calls[0].2, json!({}), "the history is bounded too");
    assert!(
        ran.answers[0].contains("longer than 1048576 bytes")
            && ran.answers[0].contains("smaller pieces"),
        "{}",
        ran.answers[0]
    );
}

#[tokio::test]
async fn what_does_not_parse_is_told_in_one_way_with_its_position() {
    for (arguments, position) in [
        (r#"{"command":tru}"#, "line 1 column 15"),
        (r#"{"command":"touch ran.txt"} x"#, "byte 29"),
        ("[1]", "byte 1"),
    ] {
        let head = json!([{ "index": 0, "id": "c1", "function": { "name": "Bash", "arguments": arguments } }]);
        let ran = run(vec![entries(&head)]).await;
        let answer = &ran.answers[0];
        let is_told =
            answer.starts_with("Error: invalid input: the arguments are not one JSON object: ");
        assert!(is_told && answer.contains(position), "{answer}");
        assert!(ran.labels.is_empty());
    }
}

#[tokio::test]
async fn u34_a_name_that_is_none_is_answered_with_those_that_are() {
    for name in ["bash", "functions.Bash", " Bash", "Bash ", "Nothing", "BASH"] {
        let arguments: Value = serde_json::from_str(&command("a")).expect("JSON");
        let ran = run(call(0, "c1", name, &arguments)).await;
        assert!(ran.labels.is_empty(), "{name:?} ran");
        let answer = &ran.answers[0];
        let lists = ["Read", "Bash", "Grep"].iter().all(|tool| answer.contains(tool));
        assert!(answer.starts_with("Error: ") && lists, "{name:?}: {answer}");
    }
}

#[tokio::test]
async fn u35_a_model_in_circles_is_told_so_and_has_an_end() {
    let read = calls(&[("c1", "Read", json!({ "file_path": "missing.txt" }))]);
    let (rounds, upstream) = Rounds::start(vec![vec![Step::Bytes(stream_of(&read))]; 200]);
    // With a known context nobody asks upstream for it.
    let context = "[[models]]\nmatch = \"*\"\ncontext = 10000000\n";
    let server = Builder::new(&upstream.url()).tables(context).start().await;

    let told = server.client().streamed(&ask_streamed("Go on and on.")).await;

    assert_eq!(told.finish_reason.as_deref(), Some("length"));
    assert_eq!(rounds.asked(), 100);
    let asked = sync::lock(&rounds.asked);
    let answers = crate::turn::answers_in(&asked[99].json());
    let told: Vec<bool> = answers.iter().map(|answer| answer.contains("something else")).collect();
    assert_eq!(told[..3], [false, false, true], "{answers:?}");
    assert!(told[2..].iter().all(|told| *told), "{answers:?}");
}

#[tokio::test]
async fn u36_odd_figures_are_no_trouble() {
    for odd in [
        json!({ "prompt_tokens": -5, "completion_tokens": 1e30, "total_tokens": "many" }),
        json!({ "prompt_tokens": 1.5, "completion_tokens": null, "total_tokens": [] }),
        json!({ "prompt_tokens": u64::MAX, "completion_tokens": u64::MAX, "total_tokens": u64::MAX }),
        json!("none"),
        json!([]),
    ] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
        let figures = event(&json!({ "choices": [], "usage": odd }));
        let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
        upstream.round([read, vec![finish("tool_calls"), figures.clone(), done()]].concat());
        upstream.round(vec![text("There."), finish("stop"), figures, done()]);
        let body = with(ask_streamed("Hi"), json!({ "stream_options": { "include_usage": true } }));

        let told = server.client().streamed(&body).await;

        assert_eq!(told.text(), "There.", "{odd}");
        if let Some(usage) = told.usage {
            let figures = ["prompt_tokens", "completion_tokens", "total_tokens"];
            assert!(figures.iter().all(|name| usage[name].is_u64()), "{odd}: {usage}");
        }
        assert_eq!(server.client().get("/health").await.status(), 200);
    }
}
