//! Tests what each provider gets through the real LiteLLM: tool calls and answers in its own
//! format, cache marks where they count, and a prefix that stays.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Builder, Up, drop_up, streamed};
use crate::support::client::with;
use crate::support::providers::{Captured, Provider, Providers, Said};

/// What comes after the models in the LiteLLM configuration that toolhand ships.
pub(super) fn shipped_settings() -> &'static str {
    const SHIPPED: &str = include_str!("../../litellm-config.yaml");
    let (_, settings) = SHIPPED.split_once("\nlitellm_settings:").expect("it has settings");
    &SHIPPED[SHIPPED.len() - settings.len() - "litellm_settings:".len()..]
}

/// Starts a chain in front of these providers, with files to read.
async fn start(providers: &Providers, settings: &str) -> Up {
    start_with(providers, settings, builder().await).await
}

pub(super) async fn builder() -> Builder {
    // Installs LiteLLM if necessary.
    drop(Up::shared().await);
    Builder::borrowing()
}

pub(super) async fn start_with(providers: &Providers, settings: &str, builder: Builder) -> Up {
    let yaml = providers.model_list() + settings;
    let up = builder.with_litellm(&yaml).start_aside().await;
    up.write("plums.txt", "blue plums\n");
    up
}

fn read(file: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": file }))
}

/// A tool of the client, which models may be offered but do not call here.
fn weather() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    json!({
        "type": "function",
        "function": { "name": "weather", "description": "Tells it.", "parameters": parameters },
    })
}

pub(super) fn question(provider: Provider, messages: Value) -> Value {
    let mut body = streamed("");
    body["model"] = provider.model().into();
    body["tools"] = json!([weather()]);
    body["messages"] = messages;
    body
}

/// Lets the model call tools in two rounds, answer, and answer once more. Returns the four
/// requests that arrived.
async fn converse(up: &Up, providers: &Providers, provider: Provider) -> Vec<Captured> {
    providers.say([
        Said::Calls(vec![read("notes.txt"), read("plums.txt")]),
        Said::Calls(vec![("Glob", json!({ "pattern": "*.txt" }))]),
        Said::Text("Both are ripe."),
        Said::Text("Very."),
    ]);
    let asked = json!({ "role": "user", "content": "What is ripe?" });
    let first = up.client().streamed(&question(provider, json!([asked]))).await;
    assert_eq!(first.text(), "Both are ripe.", "{provider:?}");
    assert_eq!(first.toolhand["rounds"], 3, "{provider:?}");

    let answered = json!({ "role": "assistant", "content": first.text() });
    let again = json!({ "role": "user", "content": "How ripe?" });
    let messages = json!([asked, answered, again]);
    let second = up.client().streamed(&question(provider, messages)).await;
    assert_eq!(second.text(), "Very.", "{provider:?}");

    let captured = providers.take();
    assert!(captured.iter().all(|request| request.provider == provider), "{captured:?}");
    assert_eq!(captured.len(), 4, "{provider:?}");
    captured
}

/// Checks that each call went all the way round, and has its own answer.
fn check_exchanges(requests: &[Captured]) {
    let expected = [
        ("Read", json!({ "file_path": "notes.txt" }), "the quince is ripe"),
        ("Read", json!({ "file_path": "plums.txt" }), "blue plums"),
        ("Glob", json!({ "pattern": "*.txt" }), "plums.txt"),
    ];
    for (request, calls) in requests.iter().zip([0, 2, 3]) {
        let provider = request.provider;
        let exchanges = request.exchanges();
        assert_eq!(exchanges.len(), calls, "{provider:?}: {exchanges:?}");
        for (found, (name, arguments, answer)) in exchanges.iter().zip(&expected) {
            assert_eq!((found.name.as_str(), &found.arguments), (*name, arguments), "{provider:?}");
            assert!(found.answer.contains(answer), "{provider:?}: {found:?}");
        }
    }
}

/// Checks that everything that a provider caches is the same bytes from request to request:
/// all members but the conversation, and of that what was there before.
fn check_prefix(requests: &[Captured]) {
    let conversation = requests[0].conversation();
    // The last request follows the client's own messages, of which it shares the first one with
    // the first request.
    for (earlier, later) in [(0, 1), (1, 2), (0, 3)] {
        let place = format!("{:?}, request {later}", requests[later].provider);
        let (before, now) = (requests[earlier].unmarked(), requests[later].unmarked());
        assert!(before.keys().eq(now.keys()), "{place}: {:?}", now.keys());
        for (name, value) in &before {
            let (value, now) = (value.get(), now[name].get());
            if name == conversation {
                let shared = value.strip_suffix(']').expect("a list");
                assert!(now.starts_with(shared), "{place}:\n{shared}\n{now}");
            } else {
                assert_eq!(now, value, "{place}: {name}");
            }
        }
    }
}

/// Checks which of the tools say that their arguments may come early.
fn check_eager(request: &Captured) {
    let places = request.places_of("eager_input_streaming");
    if request.provider != Provider::Anthropic {
        assert_eq!(places, [""; 0], "{:?}", request.provider);
        return;
    }
    let body = request.json();
    for tool in body["tools"].as_array().expect("tools") {
        let expected = if tool["name"] == "weather" { Value::Null } else { true.into() };
        assert_eq!(tool["eager_input_streaming"], expected, "{tool}");
    }
    assert!(!places.is_empty(), "{body}");
}

#[tokio::test]
async fn tool_calls_go_all_the_way_round_in_each_providers_format_and_the_prefix_stays() {
    let providers = Providers::start();
    let up = start(&providers, shipped_settings()).await;

    for provider in Provider::ALL {
        let requests = converse(&up, &providers, provider).await;
        check_exchanges(&requests);
        check_prefix(&requests);
        requests.iter().for_each(check_eager);
        let marks = requests.iter().map(|request| request.places_of("cache_control"));
        let marks: Vec<Vec<String>> = marks.collect();
        if provider != Provider::Anthropic {
            assert_eq!(marks, [[""; 0]; 4], "{provider:?}");
            continue;
        }
        // The whole system text, and the last block of the last turn.
        let expected = [
            "/messages/0/content/0/cache_control",
            "/messages/2/content/1/cache_control",
            "/messages/4/content/0/cache_control",
            "/messages/6/content/0/cache_control",
        ];
        assert_eq!(marks, expected.map(|last| [last, "/system/0/cache_control"]));
        assert_eq!(requests[0].json()["system"].as_array().map(Vec::len), Some(1));
    }
    drop_up(up).await;
}

#[tokio::test]
async fn without_the_shipped_setting_no_request_has_a_cache_mark() {
    let providers = Providers::start();
    let settings = shipped_settings();
    let without = settings.replace("\n  enable_anthropic_prompt_caching: true\n", "\n");
    assert_ne!(without, settings);
    let up = start(&providers, &without).await;

    let requests = converse(&up, &providers, Provider::Anthropic).await;

    check_exchanges(&requests);
    for request in requests {
        assert_eq!(request.places_of("cache_control"), [""; 0]);
    }
    drop_up(up).await;
}

/// The pictures in a request, as base64, wherever the provider's format has them.
pub(super) fn pictures(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| pictures(item, found)),
        Value::Object(members) => {
            // Anthropic has `source.data`, Gemini `inline_data.data`, OpenAI a `data:` URL.
            let data = members.get("data").or_else(|| members.get("url")).and_then(Value::as_str);
            found.extend(data.map(|data| data.rsplit(',').next().unwrap_or(data).to_owned()));
            members.values().for_each(|member| pictures(member, found));
        }
        _ => {}
    }
}

#[tokio::test]
async fn a_picture_and_a_page_reach_the_model_in_each_providers_format() {
    const PICTURE: &[u8] = include_bytes!("../documents/picture.png");
    const DOCUMENT: &[u8] = include_bytes!("../documents/three.pdf");
    let providers = Providers::start();
    let up = start(&providers, shipped_settings()).await;
    fs::write(up.workspace().join("picture.png"), PICTURE).expect("a new file");
    fs::write(up.workspace().join("three.pdf"), DOCUMENT).expect("a new file");

    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::Gemini] {
        providers.say([
            Said::Calls(vec![
                ("Read", json!({ "file_path": "picture.png" })),
                ("Read", json!({ "file_path": "three.pdf", "pages": "2" })),
            ]),
            Said::Text("A picture and a page."),
            Said::Text("Both."),
        ]);
        let asked = json!({ "role": "user", "content": "What is there?" });
        // Each of them says the same words.
        let session = json!({ "toolhand": { "session": provider.model() } });
        let question = |messages| with(question(provider, messages), session.clone());
        let first = up.client().streamed(&question(json!([asked]))).await;
        assert_eq!(first.text(), "A picture and a page.", "{provider:?}");
        let answered = json!({ "role": "assistant", "content": first.text() });
        let again = json!({ "role": "user", "content": "How many?" });
        let messages = json!([asked, answered, again]);
        assert_eq!(up.client().streamed(&question(messages)).await.text(), "Both.");

        let captured = providers.take();
        assert_eq!(captured.len(), 3, "{provider:?}");
        for request in &captured[1..] {
            let body = request.json();
            let mut found = Vec::new();
            pictures(&body, &mut found);
            assert_eq!(found, [STANDARD.encode(PICTURE)], "{provider:?}: {body}");
            let text = body.to_string();
            assert!(text.contains("Page 2 of 3"), "{provider:?}: {text}");
            assert!(text.contains("picture.png: PNG"), "{provider:?}: {text}");
        }
        check_prefix_of_pictures(&captured[1], &captured[2]);
    }
    drop_up(up).await;
}

/// The conversation up to the picture is the same bytes in the next turn.
fn check_prefix_of_pictures(earlier: &Captured, later: &Captured) {
    let conversation = earlier.conversation();
    let (before, now) = (earlier.unmarked(), later.unmarked());
    let shared = before[conversation].get().strip_suffix(']').expect("a list").to_owned();
    assert!(now[conversation].get().starts_with(&shared), "{:?}", earlier.provider);
}
