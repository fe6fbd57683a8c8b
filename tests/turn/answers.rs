//! Tests answers without tool calls.

use serde_json::{Value, json};

use crate::support::chunks::{
    call, calls, delta, done, end, event, finish, gate, reasoning, says, status, text, usage,
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

/// The client's view of one delta as a whole answer: the deltas of the chunks it gets, and the
/// message of the same answer unstreamed.
async fn answered(deltas: &[Value]) -> (Vec<Value>, Value) {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let round = || [deltas.iter().map(delta).collect(), end("stop")].concat();
    upstream.round(round());
    upstream.round(round());
    let streamed = server.client().streamed(&ask_streamed("Draw.")).await;
    assert_eq!(streamed.finish_reason.as_deref(), Some("stop"));
    let whole = server.client().chat(&ask("Draw.")).await;
    assert_eq!(whole.status(), 200);
    assert_eq!(upstream.requests().len(), 2, "nothing was asked twice");
    let told = streamed.events.iter().map(Event::delta).cloned().collect();
    (told, whole.json()["choices"][0]["message"].clone())
}

fn picture(name: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{name}") } })
}

fn numbered(mut entry: Value, index: u64) -> Value {
    entry["index"] = index.into();
    entry
}

#[tokio::test]
async fn pictures_are_an_answer() {
    let deltas = [
        json!({ "images": [picture("A")] }),
        json!({ "images": [picture("B"), picture("C")] }),
        // LiteLLM numbers images from 0 again in each chunk.
        json!({ "images": [numbered(picture("D"), 0)] }),
    ];

    let (told, message) = answered(&deltas).await;

    let images = told.iter().filter_map(|delta| delta["images"].as_array()).flatten();
    let expected: Vec<_> =
        (0..4).zip(["A", "B", "C", "D"]).map(|(at, name)| numbered(picture(name), at)).collect();
    assert_eq!(images.cloned().collect::<Vec<_>>(), expected);
    let whole = [picture("A"), picture("B"), picture("C"), numbered(picture("D"), 0)];
    assert_eq!(message["images"], json!(whole));
}

#[tokio::test]
async fn annotations_are_an_answer_and_are_kept_beside_text() {
    let cited = |url: &str| json!({ "type": "url_citation", "url_citation": { "url": url } });
    let deltas = [
        json!({ "annotations": [cited("a")] }),
        json!({ "content": "Text.", "annotations": [numbered(cited("b"), 7), cited("c")] }),
    ];
    for deltas in [&deltas[..1], &deltas[..]] {
        let (told, message) = answered(deltas).await;
        let count = if deltas.len() == 1 { 1 } else { 3 };
        let entries: Vec<_> =
            told.iter().filter_map(|delta| delta["annotations"].as_array()).flatten().collect();
        let indexes: Vec<_> = entries.iter().filter_map(|entry| entry["index"].as_u64()).collect();
        assert_eq!(indexes, [0, 7, 8][..count]);
        assert_eq!(message["annotations"].as_array().map(Vec::len), Some(count));
    }
}

#[tokio::test]
async fn a_content_that_is_a_list_is_an_answer() {
    let part = |text: &str| json!({ "type": "text", "text": text });
    let thought = json!({ "type": "thinking", "thinking": [part("hm")] });
    let deltas = [
        json!({ "content": [thought.clone(), part("One ")] }),
        json!({ "content": [part("two"), picture("A"), { "type": "sound", "data": "x" }] }),
        json!({ "content": "." }),
    ];

    let (told, message) = answered(&deltas).await;

    let texts: Vec<_> = told.iter().filter_map(|delta| delta["content"].as_str()).collect();
    assert_eq!(texts.concat(), "One two.");
    assert!(told.iter().all(|delta| !delta["content"].is_array()), "{told:?}");
    assert_eq!(message["content"], "One two.");
    assert_eq!(message["images"], json!([picture("A")]));
    assert_eq!(message["content_parts"], json!([{ "type": "sound", "data": "x" }]));
    let part = numbered(json!({ "type": "sound", "data": "x" }), 0);
    assert!(told.iter().any(|delta| delta["content_parts"] == json!([part])), "{told:?}");
    assert!(!format!("{told:?}{message:?}").contains("thinking"));

    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for _ in 0..2 {
        upstream.round([vec![delta(&json!({ "content": [thought] }))], end("stop")].concat());
    }
    let nothing = server.client().chat(&ask("Well?")).await;
    assert_eq!(nothing.refusal(), (502, "empty_response".to_owned()), "a thought is no answer");
}

#[tokio::test]
async fn lists_of_odd_entries_cannot_break_a_helper() {
    let deltas = [
        json!({ "content": "Text.", "images": [], "tags": ["a"], "deep": { "list": [{ "a": 1 }] } }),
        json!({ "images": [null, { "a": 1 }, [1], "x"], "tags": [{ "b": 1 }, 2], "deep": { "list": [{ "a": 2 }] } }),
        json!({ "images": [{ "index": "1" }, { "index": -1 }], "tags": ["c"], "thinking_blocks": [{}] }),
    ];

    let (told, _) = answered(&deltas).await;

    let entries = |path: &str| -> Vec<Value> {
        let lists = told.iter().filter_map(|delta| delta.pointer(path)?.as_array());
        lists.flatten().cloned().collect()
    };
    assert_eq!(
        entries("/images"),
        [json!({ "a": 1, "index": 0 }), json!({ "index": 1 }), json!({ "index": 2 })]
    );
    assert_eq!(entries("/tags"), [json!("a"), json!(2), json!("c")]);
    assert_eq!(
        entries("/deep/list"),
        [json!({ "a": 1, "index": 0 }), json!({ "a": 2, "index": 1 })]
    );
    assert!(told.iter().all(|delta| delta.get("thinking_blocks").is_none()));
}

#[tokio::test]
async fn what_was_no_text_goes_back_to_the_model() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let part = |text: &str| json!({ "type": "text", "text": text });
    let said = [
        json!({ "content": "I " }),
        json!({ "content": [part("draw"), picture("A")], "images": [picture("B")] }),
        json!({ "content": [part(" and read.")], "images": [picture("C")] }),
    ];
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    upstream.round([said.iter().map(delta).collect(), read.clone(), end("tool_calls")].concat());
    let parts = [json!({ "content": [part("Only ")] }), json!({ "content": [part("text.")] })];
    upstream.round([parts.iter().map(delta).collect(), read, end("tool_calls")].concat());
    upstream.round(says("Done."));

    let answer = server.client().streamed(&ask_streamed("Draw.")).await;

    assert_eq!(answer.text(), "I draw and read.\n\nOnly text.\n\nDone.");
    let asked = upstream.request(2).await.json();
    let said: Vec<_> = asked["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter(|message| message["role"] == "assistant")
        .collect();
    assert_eq!(said[0]["content"], json!([part("I draw"), picture("A"), part(" and read.")]));
    assert_eq!(said[0]["images"], json!([picture("B"), picture("C")]));
    assert_eq!(said[1]["content"], "Only text.");
}

#[tokio::test]
async fn members_beside_the_choices_stand_at_the_end() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let read = || call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    let chunk = |delta: Value, members: Value| {
        let chunk = json!({ "id": "up", "object": "o", "created": 1, "model": "m",
                            "choices": [{ "index": 0, "delta": delta }], "toolhand": "no", "obfuscation": "xx" });
        event(&with(chunk, members))
    };
    let first =
        || chunk(json!({ "content": "I read." }), json!({ "stale": true, "service_tier": "old" }));
    let last = || {
        let one = chunk(
            json!({ "content": "The " }),
            json!({ "citations": [{ "url": "u" }], "system_fingerprint": "fp", "service_tier": null }),
        );
        let two = chunk(
            json!({ "content": "end." }),
            json!({ "service_tier": "flex", "x_groq": { "id": 1.5 }, "x_large": "x".repeat(100_000) }),
        );
        let azure = event(&json!({ "choices": [], "prompt_filter_results": [] }));
        [vec![azure, one, two], end("stop")].concat()
    };
    let expected = json!({ "citations": [{ "url": "u" }], "system_fingerprint": "fp", "service_tier": "flex",
                           "x_groq": { "id": 1.5 }, "prompt_filter_results": [] });
    let check = |body: &Value| {
        for (name, value) in expected.as_object().expect("members") {
            assert_eq!(&body[name], value, "{name}");
        }
        let unwanted = ["stale", "x_large", "obfuscation"];
        assert!(unwanted.iter().all(|name| body.get(*name).is_none()), "{body}");
        assert!(body["toolhand"]["rounds"] == 2 && body["id"] != "up", "{body}");
    };

    upstream.round([vec![first()], read(), end("tool_calls")].concat());
    upstream.round(last());
    let streamed = server.client().streamed(&ask_streamed("Read.")).await;
    let chunks = streamed.events.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    for chunk in chunks {
        if chunk["choices"][0]["finish_reason"].is_string() {
            check(chunk);
        } else {
            assert!(chunk.get("citations").is_none() && chunk.get("service_tier").is_none());
        }
    }

    upstream.round([vec![first()], read(), end("tool_calls")].concat());
    upstream.round(last());
    check(&server.client().chat(&ask("Read.")).await.json());

    let whole = json!({ "object": "chat.completion", "citations": ["u"], "choices": [{
        "index": 0, "message": { "role": "assistant", "content": "Yes.", "annotations": [{ "a": 1 }] }, "finish_reason": "stop",
    }]});
    upstream.round(status(200, &whole));
    let answer = server.client().chat(&ask("Well?")).await.json();
    assert_eq!(answer["citations"], json!(["u"]));
    assert_eq!(answer["choices"][0]["message"]["annotations"], json!([{ "a": 1 }]));
}

#[tokio::test]
async fn a_whole_answer_says_whether_it_is_a_refusal() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Yes."));
    upstream.round([vec![delta(&json!({ "refusal": "No." }))], end("stop")].concat());

    let message = |body: Value| body["choices"][0]["message"].clone();
    let said = message(server.client().chat(&ask("Well?")).await.json());
    assert_eq!(said, json!({ "role": "assistant", "content": "Yes.", "refusal": null }));
    let refused = message(server.client().chat(&ask("Well?")).await.json());
    assert_eq!(refused, json!({ "role": "assistant", "content": null, "refusal": "No." }));
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
