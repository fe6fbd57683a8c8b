//! Tests what is learnt of a model from its errors: the cases w12 to w14, w23 to w25, w46 and w51.

use serde_json::{Value, json};

use super::{answers, assistant_in};
use crate::settings::client_keys::{add, client};
use crate::support::chunks::{
    call, done, end, error_frame, event, finish, reasoning, says, status, whole,
};
use crate::support::client::{Client, ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

const MISSING: &str = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 4";

fn refusal(code: u16, message: &str) -> Vec<Step> {
    let error = json!({ "message": message, "type": "invalid_request_error", "code": code });
    status(code, &json!({ "error": error }))
}

async fn server(upstream: &Upstream) -> Server {
    Server::builder(upstream).file("notes.txt", "needle\n").start().await
}

fn reads(id: &str) -> Vec<Step> {
    call(0, id, "Read", &json!({ "file_path": "notes.txt" }))
}

fn thinks_and_reads(id: &str) -> Vec<Step> {
    [vec![reasoning("I think.")], reads(id), end("tool_calls")].concat()
}

fn only_reads(id: &str) -> Vec<Step> {
    [reads(id), end("tool_calls")].concat()
}

/// The reasoning in each message of the assistant's.
fn reasoning_in(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().expect("messages").iter();
    let assistants = messages.filter(|message| message["role"] == "assistant");
    assistants.map(|message| message["reasoning_content"].clone()).collect()
}

fn last_reasoning(upstream: &Upstream) -> Vec<Value> {
    reasoning_in(&upstream.requests().last().expect("a request").json())
}

async fn traits(client: &Client) -> Value {
    client.get("/toolhand/v1/status").await.json()["upstream"]["traits"].clone()
}

/// A turn whose second round does not think, at a provider that misses the member then.
async fn turn_that_misses(upstream: &Upstream, client: &Client) {
    upstream.round(thinks_and_reads("c1"));
    upstream.round(only_reads("c2"));
    upstream.round(refusal(400, MISSING));
    upstream.round(says("Done."));
    assert_eq!(client.streamed(&ask_streamed("Read.")).await.text(), "Done.");
}

#[tokio::test]
async fn wire_12_a_provider_that_misses_reasoning_gets_it_empty() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    turn_that_misses(&upstream, &server.client()).await;
    assert_eq!(last_reasoning(&upstream), [json!("I think."), json!("")]);

    // One that takes no empty text gets a blank.
    upstream.round(only_reads("c1"));
    upstream.round(refusal(400, MISSING));
    upstream.round(refusal(400, MISSING));
    upstream.round(says("Done."));
    assert_eq!(server.client().streamed(&ask_streamed("Again.")).await.text(), "Done.");
    assert_eq!(last_reasoning(&upstream), [json!(" ")]);
}

#[tokio::test]
async fn wire_13_nobody_else_is_touched_before_it_is_proven_twice() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let (alice, bob) = (add(&server, &["alice"]), add(&server, &["bob"]));
    let (alice, bob) = (client(&server, &alice), client(&server, &bob));
    turn_that_misses(&upstream, &alice).await;
    let known = traits(&bob).await;
    assert_eq!(known[0]["model"], "scripted");
    assert_eq!((&known[0]["member"], &known[0]["sense"]), (&json!("reasoning"), &json!("missing")));
    assert_eq!((&known[0]["proofs"], &known[0]["applied"]), (&json!(1), &json!(false)));
    assert_eq!(known[0]["evidence"], MISSING);

    let clean = async |expected: Vec<Value>| {
        upstream.round(thinks_and_reads("c1"));
        upstream.round(only_reads("c2"));
        upstream.round(says("Done."));
        assert_eq!(bob.streamed(&ask_streamed("Read.")).await.text(), "Done.");
        assert_eq!(last_reasoning(&upstream), expected);
    };
    clean(vec![json!("I think."), Value::Null]).await;
    turn_that_misses(&upstream, &alice).await;
    assert_eq!(traits(&bob).await[0]["applied"], true);
    clean(vec![json!("I think."), json!("")]).await;
}

#[tokio::test]
async fn wire_51_a_typo_of_one_client_is_its_own() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let typo = r#"invalid "reasoning": effort must be one of low, medium, high"#;
    // The same request once more would get the same failure.
    for question in ["Read.", "Read it.", "Do read."] {
        upstream.round(thinks_and_reads("c1"));
        upstream.round(refusal(400, typo));
        upstream.round(refusal(400, typo));
        let body = with(ask(question), json!({ "reasoning": { "effort": "maximal" } }));
        let refused = server.client().chat(&body).await;
        assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()));
    }
    assert_eq!(traits(&server.client()).await, json!([]));

    upstream.round(thinks_and_reads("c1"));
    upstream.round(says("Done."));
    assert_eq!(server.client().streamed(&ask_streamed("Read.")).await.text(), "Done.");
    assert_eq!(last_reasoning(&upstream), [json!("I think.")]);
}

#[tokio::test]
async fn wire_14_a_chat_goes_on_with_a_model_that_misses_reasoning() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let of = |model: &str, messages: &[Value]| {
        with(ask(""), json!({ "model": model, "messages": messages, "stream": true }))
    };
    let mut messages = vec![json!({ "role": "user", "content": "Read." })];
    upstream.round(only_reads("c1"));
    upstream.round(says("It is a needle in a haystack."));
    let first = server.client().streamed(&of("plain", &messages)).await;
    messages.push(json!({ "role": "assistant", "content": first.text() }));
    messages.push(json!({ "role": "user", "content": "And?" }));

    upstream.round(refusal(400, MISSING));
    upstream.round(says("So."));

    assert_eq!(server.client().streamed(&of("kimi", &messages)).await.text(), "So.");
    assert_eq!(last_reasoning(&upstream), [json!(""), json!("")]);
}

#[tokio::test]
async fn a_signature_that_one_chat_got_wrong_is_no_lesson() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let invalid = "messages.1.thinking_blocks.0: Invalid `signature` in `thinking` block";
    for _ in 0..2 {
        upstream.round(thinks_and_reads("c1"));
        upstream.round(refusal(400, invalid));
        upstream.round(says("Done."));
        assert_eq!(server.client().streamed(&ask_streamed("Read.")).await.text(), "Done.");
    }
    assert_eq!(traits(&server.client()).await, json!([]));
}

#[tokio::test]
async fn wire_23_a_request_for_json_is_answered_without_the_servers_tools() {
    let format = json!({ "response_format": { "type": "json_object" } });
    for message in [
        "Function calling with a response mime type: 'application/json' is unsupported",
        "json mode cannot be combined with tool/function calling",
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        for number in 0..3 {
            if number < 2 {
                upstream.round(refusal(400, message));
            }
            upstream.round(says("{}"));
            let told = server.client().chat(&with(ask("Hi"), format.clone())).await;
            assert_eq!(told.text(), "{}", "{message}");
            let sent = upstream.requests().last().expect("a request").json();
            assert!(sent.get("tools").is_none() && sent["response_format"].is_object(), "{sent}");
        }
        assert_eq!(upstream.requests().len(), 5, "the third turn knows it");

        // A request for text keeps its tools.
        upstream.round(says("Hello."));
        server.client().chat(&ask("Hi")).await;
        assert!(upstream.requests().last().expect("a request").json()["tools"].is_array());
    }
}

#[tokio::test]
async fn wire_24_a_model_without_tools_answers_plainly() {
    for (code, message) in [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use."),
        (500, "tools param requires --jinja flag"),
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        upstream.round(refusal(code, message));
        upstream.round(says("Hello."));
        let told = server.client().chat(&ask("Hi")).await;
        assert_eq!((told.status(), told.text()), (200, "Hello.".to_owned()), "{message}");
        assert!(upstream.request(1).await.json().get("tools").is_none());
        assert_eq!(traits(&server.client()).await[0]["member"], "tools");
    }
}

#[tokio::test]
async fn wire_24_a_model_that_takes_neither_instructions_nor_tools_answers() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let gemma = "models/gemma-3-27b-it";
    upstream.round(refusal(400, &format!("Developer instruction is not enabled for {gemma}")));
    upstream.round(refusal(400, &format!("Function calling is not enabled for {gemma}")));
    upstream.round(says("Hello."));
    let messages = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": [{ "type": "text", "text": "Hi" }] },
        { "role": "assistant", "content": "Yes?" },
        { "role": "developer", "content": "Be kind." },
        { "role": "user", "content": "Well?" },
    ]);
    let body = with(ask(""), json!({ "messages": messages }));

    assert_eq!(server.client().chat(&body).await.text(), "Hello.");

    let sent = upstream.request(2).await.json();
    assert!(sent.get("tools").is_none(), "{sent}");
    let sent = sent["messages"].as_array().expect("messages");
    let roles = sent.iter().map(|message| message["role"].as_str().expect("a role"));
    let roles: Vec<_> = roles.collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let first = sent[0]["content"].as_array().expect("parts");
    assert!(first[0]["text"].as_str().expect("text").ends_with("Be brief."), "{first:?}");
    assert_eq!(first[1]["text"], "Hi");
    assert_eq!(sent[2]["content"], "Be kind.\n\nWell?");
    let known = traits(&server.client()).await;
    let members = known.as_array().expect("a list").iter().map(|known| &known["member"]);
    assert_eq!(members.collect::<Vec<_>>(), ["tools", "system messages"]);
}

#[tokio::test]
async fn wire_28_a_server_that_takes_no_null_gets_an_empty_content() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let message = "invalid message content type: <nil>";
    let question = json!({ "role": "user", "content": "Read." });
    upstream.round(only_reads("c1"));
    upstream.round(refusal(400, message));
    upstream.round(only_reads("c2"));
    upstream.round(says("It is a needle in a haystack."));
    let first = with(ask(""), json!({ "messages": [question] }));
    let said = server.client().chat(&first).await.text();
    let contents = |sent: &Value| -> Vec<Value> {
        let messages = sent["messages"].as_array().expect("messages").iter();
        let assistants = messages.filter(|message| message["role"] == "assistant");
        assistants.map(|message| message["content"].clone()).collect()
    };
    assert_eq!(contents(&upstream.request(1).await.json()), [Value::Null]);
    assert_eq!(contents(&upstream.request(2).await.json()), [json!("")]);
    assert_eq!(contents(&upstream.request(3).await.json()), [json!(""), json!("")]);
    assert_eq!(traits(&server.client()).await[0]["member"], "null content");

    // The history of the next turn is as ever, and changed for this model alone.
    let next = json!({ "role": "user", "content": "And?" });
    let said = json!({ "role": "assistant", "content": said });
    upstream.round(refusal(400, message));
    upstream.round(says("So."));
    let second = with(ask(""), json!({ "messages": [question, said, next] }));
    assert_eq!(server.client().chat(&second).await.text(), "So.");
    let contents: Vec<_> = contents(&upstream.request(5).await.json());
    assert_eq!(contents[..2], [json!(""), json!("")]);
}

#[tokio::test]
async fn wire_24_an_answer_comes_in_the_form_that_the_model_has() {
    let says_whole =
        |text: &str| status(200, &whole(&json!({ "role": "assistant", "content": text }), "stop"));
    for message in [
        "Your organization must be verified to stream this model.",
        "This model doesn't support tool use in streaming mode.",
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        upstream.round(refusal(400, message));
        let read = json!([{ "id": "c1", "type": "function",
            "function": { "name": "Read", "arguments": "{\"file_path\":\"notes.txt\"}" } }]);
        let calls = json!({ "role": "assistant", "content": null, "tool_calls": read });
        upstream.round(status(200, &whole(&calls, "tool_calls")));
        upstream.round(says_whole("It is a needle."));

        let told = server.client().streamed(&ask_streamed("Read.")).await;

        assert_eq!(told.text(), "It is a needle.", "{message}");
        for number in [1, 2] {
            let sent = upstream.request(number).await.json();
            assert_eq!(sent["stream"], false);
            assert!(sent["tools"].is_array() && sent.get("stream_options").is_none(), "{sent}");
        }
        assert_eq!(traits(&server.client()).await[0]["member"], "stream");
    }

    // The other way round.
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(refusal(
        400,
        "This model only support stream mode, please enable the stream parameter.",
    ));
    upstream.round(says("Hello."));
    let alone = with(ask("Hi"), json!({ "tool_choice": "none" }));
    assert_eq!(server.client().chat(&alone).await.text(), "Hello.");
    assert_eq!(upstream.request(0).await.json()["stream"], false);
    assert_eq!(upstream.request(1).await.json()["stream"], true);
    assert_eq!(traits(&server.client()).await[0]["sense"], "missing");
}

#[tokio::test]
async fn wire_24_a_refusal_is_read_in_any_dress() {
    let message = "gemma:2b does not support tools";
    for body in [
        json!([{ "error": { "message": message, "code": 400 } }]),
        json!({ "object": "error", "message": message, "type": "BadRequestError", "code": 400 }),
        json!({ "errors": [{ "message": message }] }),
        json!({ "error": null, "message": message }),
        json!({ "detail": message }),
        json!({ "error_code": 336_003, "error_msg": message }),
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        upstream.round(status(400, &body));
        upstream.round(says("Hello."));
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hello.", "{body}");
        let known = traits(&server.client()).await;
        assert_eq!(known[0]["evidence"], message, "{body}");

        upstream.round(status(400, &body));
        let forced = with(ask("Hi"), json!({ "tool_choice": "required" }));
        let refused = server.client().chat(&forced).await;
        assert_eq!(refused.json()["error"]["message"], message, "{body}");
    }
}

#[tokio::test]
async fn wire_24_a_title_over_a_history_of_calls_has_the_tools_along() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let title = server.client().header("x-openwebui-task", "title_generation");
    let function = json!({ "name": "Read", "arguments": "{}" });
    let messages = json!([
        { "role": "user", "content": "Read." },
        { "role": "assistant", "content": null,
            "tool_calls": [{ "id": "c1", "type": "function", "function": function }] },
        { "role": "tool", "tool_call_id": "c1", "content": "needle" },
        { "role": "user", "content": "### Task:\nA title, please." },
    ]);
    let says_whole =
        |text: &str| status(200, &whole(&json!({ "role": "assistant", "content": text }), "stop"));
    let body = with(ask(""), json!({ "messages": messages, "stream": false }));
    upstream.round(says_whole("Needles"));
    assert_eq!(title.chat(&body).await.text(), "Needles");
    let sent = upstream.request(0).await.json();
    assert!(!sent["tools"].as_array().expect("tools").is_empty());
    assert_eq!(sent["tool_choice"], "none");

    // Where there are no calls there are no tools.
    upstream.round(says_whole("Greetings"));
    assert_eq!(title.chat(&with(ask("Hi"), json!({ "stream": false }))).await.text(), "Greetings");
    let sent = upstream.request(1).await.json();
    assert!(sent.get("tools").is_none() && sent.get("tool_choice").is_none(), "{sent}");
}

#[tokio::test]
async fn wire_24_tools_that_the_client_wants_called_are_not_left_out() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let message = "gemma:2b does not support tools";
    upstream.round(refusal(400, message));
    let body = with(ask("Hi"), json!({ "tool_choice": "required" }));
    let refused = server.client().chat(&body).await;
    assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()));
    assert_eq!(refused.json()["error"]["message"], message);
}

#[tokio::test]
async fn wire_24_a_404_says_what_the_provider_says() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let message = "No endpoints found matching your data policy.";
    upstream.round(refusal(404, message));
    let refused = server.client().chat(&ask("Hi")).await;
    assert_eq!(refused.json()["error"]["message"], message);
    assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()));
}

#[tokio::test]
async fn wire_24_the_choice_none_over_a_history_of_calls_sends_the_tools_along() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(only_reads("c1"));
    upstream.round(says("It is a needle in a haystack."));
    let question = json!({ "role": "user", "content": "Read." });
    let first = server.client().chat(&with(ask(""), json!({ "messages": [question] }))).await;
    let said = json!({ "role": "assistant", "content": first.text() });
    let next = json!({ "role": "user", "content": "A title?" });
    let messages = json!({ "messages": [question, said, next], "tool_choice": "none" });

    // What it calls all the same does not run.
    upstream.round(call(0, "c2", "Bash", &json!({ "command": "touch ran" })));
    upstream.round(says("Needles."));
    let told = server.client().chat(&with(ask(""), messages)).await;

    assert_eq!(told.text(), "Needles.");
    for number in [2, 3] {
        let sent = upstream.request(number).await.json();
        assert!(!sent["tools"].as_array().expect("tools").is_empty());
        assert_eq!(sent["tool_choice"], "none");
    }
    assert!(!server.workspace().join("ran").exists());
}

#[tokio::test]
async fn wire_46_a_call_that_the_provider_could_not_read_is_asked_for_again() {
    let failed = json!({ "error": { "message": "Failed to call a function. Please adjust your prompt.",
        "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "<f" } });
    for bad in [
        status(400, &failed),
        vec![event(&failed)],
        vec![finish("malformed_tool_use"), done()],
        vec![finish("UNEXPECTED_TOOL_CALL"), done()],
        refusal(500, "error parsing tool call: raw='{\"a\"'"),
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        upstream.round(only_reads("c1"));
        upstream.round(bad.clone());
        upstream.round(says("Done."));
        assert_eq!(server.client().streamed(&ask_streamed("Read.")).await.text(), "Done.");
        assert_eq!(answers(&upstream, 2).await.len(), 1);

        upstream.round(bad.clone());
        upstream.round(bad.clone());
        let refused = server.client().chat(&ask("Read.")).await;
        assert_eq!(refused.refusal(), (502, "upstream_invalid".to_owned()));
    }
}

#[tokio::test]
async fn an_answer_that_stays_empty_costs_two_requests_also_where_the_second_is_a_500() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(vec![finish("stop"), done()]);
    upstream.round(refusal(500, "litellm.InternalServerError: list index out of range"));
    let refused = server.client().chat(&ask("Hi")).await;
    assert_eq!(refused.refusal(), (502, "empty_response".to_owned()));
    assert_eq!(upstream.requests().len(), 2);

    // The same where nothing is streamed.
    let text = "litellm.InternalServerError: Expecting value: line 1 column 1 (char 0)";
    upstream.round(refusal(500, text));
    upstream.round(refusal(500, text));
    let alone = with(ask("Hi"), json!({ "tool_choice": "none" }));
    assert_eq!(server.client().chat(&alone).await.refusal(), (502, "empty_response".to_owned()));

    // Any other failure of the second request is one.
    upstream.round(vec![finish("stop"), done()]);
    upstream.round(refusal(503, "busy"));
    upstream.round(says("There."));
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "There.");
}

/// A chat that no unknown model need take.
fn long_chat() -> Value {
    let mut messages = Vec::new();
    for number in 1..=8 {
        let question = format!("Question {number}: {}", "of plums and pears ".repeat(1500));
        messages.push(json!({ "role": "user", "content": question }));
        messages.push(json!({ "role": "assistant", "content": format!("Answer {number}.") }));
    }
    messages.push(json!({ "role": "user", "content": "And?" }));
    with(ask_streamed(""), json!({ "messages": messages }))
}

#[tokio::test]
async fn wire_25_a_long_request_that_is_refused_in_any_words_becomes_shorter() {
    for (code, message) in [
        (400, "Range of input length should be [1, 30720]"),
        (500, "the request exceeds the available context size"),
        (400, "Bad Request"),
        (413, ""),
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        upstream.round(refusal(code, message));
        upstream.round(says("They spoke of plums."));
        upstream.round(says("So."));
        assert_eq!(server.client().streamed(&long_chat()).await.text(), "So.", "{message}");
        let sizes: Vec<_> = upstream.requests().iter().map(|sent| sent.body.len()).collect();
        assert!(sizes[2] < sizes[0] / 2, "{sizes:?}");
    }
}

#[tokio::test]
async fn wire_25_a_long_request_that_fails_in_the_stream_or_in_silence_becomes_shorter() {
    let within = json!({ "choices": null, "error_type": "BadRequestError",
        "error_message": "This model's maximum context length is 8192 tokens." });
    for refused in [
        vec![vec![event(&within)]],
        vec![vec![event(&json!({ "error": { "message": "context_overflow" } }))]],
        vec![vec![done()], vec![done()]],
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        for answer in &refused {
            upstream.round(answer.clone());
        }
        upstream.round(says("They spoke of plums."));
        upstream.round(says("So."));
        assert_eq!(server.client().streamed(&long_chat()).await.text(), "So.", "{refused:?}");
        let sizes: Vec<_> = upstream.requests().iter().map(|sent| sent.body.len()).collect();
        assert!(sizes[sizes.len() - 1] < sizes[0] / 2, "{sizes:?}");
    }
}

#[tokio::test]
async fn wire_25_a_short_request_that_is_refused_without_a_reason_is_refused() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(refusal(400, "Bad Request"));
    let refused = server.client().chat(&ask("Hi")).await;
    assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()));
}

#[tokio::test]
async fn a_lesson_from_an_error_frame_counts_as_one_from_a_status() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let frame =
        json!({ "error": { "message": "'reasoning_content' is unsupported", "code": "400" } });
    upstream.round(thinks_and_reads("c1"));
    upstream.round(vec![event(&frame)]);
    upstream.round(says("Done."));
    assert_eq!(server.client().streamed(&ask_streamed("Read.")).await.text(), "Done.");
    let sent = upstream.request(2).await.json();
    assert_eq!(assistant_in(&sent).get("reasoning_content"), None);
    assert_eq!(traits(&server.client()).await[0]["sense"], "refused");

    // A frame that says nothing of it is a failure as ever.
    upstream.round(vec![error_frame("gone")]);
    upstream.round(says("There."));
    assert_eq!(server.client().streamed(&ask_streamed("Hi")).await.text(), "There.");
}
