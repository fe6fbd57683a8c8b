//! Tests the routes beside chat completions: models, status, tools, forwarded ones.

use serde_json::json;

use crate::support::chunks::{gate, raw, status};
use crate::support::client::Answer;
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Step, Upstream};

#[tokio::test]
async fn models_are_upstreams() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;

    let list = server.client().get("/v1/models").await;
    let one = server.client().get("/v1/models/scripted").await;
    let none = server.client().get("/v1/models/nobody").await;

    assert_eq!(list.status(), 200);
    assert_eq!(list.json()["object"], "list");
    assert_eq!(list.json()["data"][0]["id"], "scripted");
    assert_eq!(one.json()["id"], "scripted");
    assert_eq!(one.json()["object"], "model");
    assert_eq!(none.refusal(), (404, "model_not_found".to_owned()));
}

#[tokio::test]
async fn a_model_may_have_a_slash_in_its_name() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let models = json!([{ "id": "openai/gpt", "object": "model", "created": 1, "owned_by": "x" }]);
    upstream.answer("/v1/models", status(200, &json!({ "object": "list", "data": models })));

    assert_eq!(server.client().get("/v1/models/openai/gpt").await.json()["id"], "openai/gpt");
}

#[tokio::test]
async fn the_status_says_what_is_on() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("tools.enable", r#"["Read", "Grep"]"#)
        .config("upstream.passthrough", "[]")
        .start()
        .await;

    let status = server.client().get("/toolhand/v1/status").await;

    assert_eq!(status.status(), 200);
    let status = status.json();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["uptime_seconds"].is_u64(), "{status:#}");
    let reached = json!({ "url": upstream.url(), "reachable": true, "left_out": {}, "traits": [] });
    assert_eq!(status["upstream"], reached);
    assert_eq!(status["sandbox"]["mode"], "auto");
    let sandbox = &status["sandbox"];
    let trials = sandbox["trials"].as_array().expect("trials");
    let passed = trials.iter().find(|trial| trial["passed"] == true);
    let level = passed.map_or("none", |trial| trial["level"].as_str().expect("a level"));
    assert_eq!(sandbox["level"], level, "{sandbox:#}");
    assert!(!trials.is_empty(), "{sandbox:#}");
    for probe in passed.into_iter().flat_map(|trial| trial["probes"].as_array().expect("probes")) {
        assert_eq!(probe["held"], true, "{sandbox:#}");
    }
    assert_eq!(status["auth"]["required"], true);
    assert_eq!(status["permission_mode"], "default");
    assert_eq!(status["workspace"], server.workspace().to_str().expect("UTF-8"));
    let feature = |name: &str| {
        let features = status["features"].as_array().expect("features");
        let found = features.iter().find(|feature| feature["name"] == name).expect("it is told");
        (found["on"].as_bool().expect("on or off"), found["why"].as_str().expect("why").to_owned())
    };
    assert_eq!(feature("tools"), (true, "Read, Grep".to_owned()));
    for off in ["forwarded_routes", "cors"] {
        let (is_on, why) = feature(off);
        assert!(!is_on && !why.is_empty(), "{off}: {why}");
    }
}

#[tokio::test]
async fn the_status_follows_the_operators_words() {
    let server = Builder::new("http://127.0.0.1:9/v1").free().argument("--no-auth").start().await;

    let status = server.client().key(None).get("/toolhand/v1/status").await.json();

    assert_eq!(status["upstream"]["reachable"], false);
    let sandbox = &status["sandbox"];
    assert_eq!((&sandbox["mode"], &sandbox["level"]), (&json!("off"), &json!("none")));
    assert_eq!(sandbox["trials"], json!([]));
    assert_eq!(status["auth"]["required"], false);
    assert_eq!(status["permission_mode"], "bypassPermissions");
}

#[tokio::test]
async fn the_tools_are_listed_as_they_go_upstream() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(crate::support::chunks::says("Hi."));

    let listed = server.client().get("/toolhand/v1/tools").await.json();
    server.client().chat(&crate::support::client::ask("Hi")).await;

    let sent = upstream.request(0).await.json();
    assert_eq!(listed["data"], sent["tools"]);
}

#[tokio::test]
async fn a_further_route_is_forwarded_byte_for_byte() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).environment("TOOLHAND_UPSTREAM_API_KEY", "sk-up").start().await;
    let body = br#"{"model" : "m",  "input":["a","b"], "seed": 9007199254740993}"#;
    let answered = br#"{"data" :  [ 1.50 ]}"#;
    upstream.answer(
        "/v1/embeddings",
        vec![Step::Answer { status: 200, headers: Vec::new(), body: answered.to_vec() }],
    );

    let answer = server
        .client()
        .header("x-litellm-tags", "a")
        .send("POST", "/v1/embeddings", Some(body))
        .await;

    assert_eq!((answer.status(), &*answer.body), (200, &answered[..]));
    let sent = upstream.request_to("/v1/embeddings", 0).await;
    assert_eq!(sent.body, body);
    assert_eq!(sent.head.header("authorization"), Some("Bearer sk-up"));
    assert_eq!(sent.head.header("x-litellm-tags"), None);
}

#[tokio::test]
async fn a_forwarded_stream_comes_as_it_is_sent() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let answer = vec![raw("data: {\"text\":\"one\"}\n\n"), gate("half"), raw("data: [DONE]\n\n")];
    upstream.answer("/v1/completions", answer);

    let body = json!({ "model": "m", "prompt": "x", "stream": true });
    let client = server.client();
    let asking = client.post("/v1/completions", &body);
    let (answer, ()) = tokio::join!(asking, async {
        upstream.reached("half").await;
        upstream.open("half");
    });

    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.body, b"data: {\"text\":\"one\"}\n\ndata: [DONE]\n\n");
}

#[tokio::test]
async fn a_forwarded_body_steers_nothing() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for path in ["/v1/embeddings", "/v1/completions", "/v1/moderations", "/v1/rerank"] {
        let refused =
            server.client().post(path, &json!({ "model": "m", "api_base": "http://evil" })).await;
        assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{path}");
    }
}

fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let part = |(name, value): &(&str, &str)| {
        format!("--cut\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let parts: String = fields.iter().map(part).collect();
    format!("{parts}--cut--\r\n").into_bytes()
}

async fn upload(server: &Server, body: &[u8]) -> Answer {
    let client = server.client().header("content-type", "multipart/form-data; boundary=cut");
    client.send("POST", "/v1/audio/transcriptions", Some(body)).await
}

#[tokio::test]
async fn an_upload_is_forwarded_as_it_is() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.answer("/v1/audio/transcriptions", status(200, &json!({ "text": "hello" })));
    let body = form(&[("model", "whisper"), ("file", "RIFF....")]);

    let answer = upload(&server, &body).await;

    assert_eq!(answer.json(), json!({ "text": "hello" }));
    let sent = upstream.request_to("/v1/audio/transcriptions", 0).await;
    assert_eq!(sent.body, body);
    assert_eq!(sent.head.header("content-type"), Some("multipart/form-data; boundary=cut"));
}

#[tokio::test]
async fn an_upload_steers_nothing_either() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for fields in
        [&[("api_base", "http://evil"), ("model", "m")][..], &[("metadata[api_key]", "x")]]
    {
        let refused = upload(&server, &form(fields)).await;
        assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{fields:?}");
    }
}

#[tokio::test]
async fn the_document_of_the_routes_is_served() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;

    let document = server.client().get("/openapi.yaml").await;

    assert_eq!(document.status(), 200);
    assert_eq!(document.body, include_bytes!("../openapi.yaml"));
}

#[tokio::test]
async fn ready_says_whether_upstream_is_there() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let ready = server.client().key(None).get("/ready").await;
    assert_eq!((ready.status(), ready.json()), (200, json!({ "status": "ready" })));

    let server = Builder::new("http://127.0.0.1:9/v1").start().await;
    let ready = server.client().key(None).get("/ready").await;
    assert_eq!((ready.status(), ready.json()), (503, json!({ "status": "not_ready" })));
}

#[tokio::test]
async fn the_root_says_where_to_go_and_nothing_else() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("server.allowed_hosts", r#"["chat.lan"]"#).start().await;
    let nobody = server.client().key(None);

    let root = nobody.get("/").await;
    let named = nobody.clone().header("host", "chat.lan").get("/").await;
    let posted = nobody.send("POST", "/", None).await;

    assert_eq!(root.status(), 200);
    assert_eq!(root.header("content-type"), Some("text/plain; charset=utf-8"));
    let text = String::from_utf8(root.body.clone()).expect("UTF-8");
    assert!(text.contains(&format!("http://{}/v1\n", server.address())), "{text}");
    assert!(text.contains("/openapi.yaml") && text.contains("README.md"), "{text}");
    let state_dir = server.state_dir().display().to_string();
    for secret in [env!("CARGO_PKG_VERSION"), &upstream.url(), &state_dir] {
        assert!(!text.contains(secret), "{text}");
    }
    // The host is the operator's: a proxy with TLS may stand before the server.
    let text = String::from_utf8(named.body).expect("UTF-8");
    assert!(text.contains("the address of this page, followed by v1"), "{text}");
    assert_eq!(posted.refusal(), (405, "method_not_allowed".to_owned()));
    let foreign = nobody.header("host", "evil.com").get("/").await;
    assert_eq!(foreign.refusal(), (403, "host_not_allowed".to_owned()));
}

#[tokio::test]
async fn a_path_that_is_no_route_is_told_the_right_one() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let base = format!("http://{}/v1", server.address());
    for (method, path, told) in [
        ("POST", "/chat/completions", base.as_str()),
        ("GET", "/models", &base),
        ("POST", "/v1/v1/chat/completions", &base),
        ("POST", "//v1/embeddings", "/v1/embeddings"),
        ("POST", "/v1/responses", "openai.chat("),
        ("POST", "/v1/responses", "OpenAIChatCompletionsModel"),
        ("GET", "/v1/responses/resp_1", "chat completions"),
        ("POST", "/api/chat", "Ollama"),
        ("POST", "/v1/messages", "Anthropic"),
        ("GET", "/v1", "base URL"),
    ] {
        let answer = server.client().send(method, path, None).await;
        assert_eq!(answer.refusal(), (404, "unknown_route".to_owned()), "{path}");
        let message = answer.json()["error"]["message"].as_str().expect("words").to_owned();
        assert!(message.contains(told), "{path}: {message}");
    }
}

#[tokio::test]
async fn the_responses_route_is_forwarded_where_the_operator_names_it() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("upstream.passthrough", r#"["responses"]"#).start().await;
    upstream.answer("/v1/responses", status(200, &json!({ "id": "resp_1" })));

    let answer = server.client().post("/v1/responses", &json!({ "model": "m" })).await;
    let embeddings = server.client().post("/v1/embeddings", &json!({ "model": "m" })).await;

    assert_eq!(answer.json(), json!({ "id": "resp_1" }));
    assert_eq!(embeddings.refusal(), (404, "unknown_route".to_owned()));
    assert!(embeddings.json()["error"]["message"].to_string().contains("upstream.passthrough"));
}

#[tokio::test]
async fn an_unknown_model_is_named_wherever_it_is_asked_for() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let gone = json!({ "error": { "message": "Invalid model name passed in model=scriptd",
        "type": "invalid_request_error", "param": null, "code": "400" } });
    upstream.round(status(400, &gone));
    upstream.round(status(400, &gone));
    upstream.answer("/v1/embeddings", status(400, &gone));
    let client = server.client();
    let body = json!({ "model": "scriptd", "messages": [{ "role": "user", "content": "Hi" }] });

    let chat = client.chat(&body).await;
    let streamed = client
        .post(
            "/v1/chat/completions",
            &crate::support::client::with(body, json!({ "stream": true })),
        )
        .await;
    let embeddings = client.post("/v1/embeddings", &json!({ "model": "scriptd" })).await;
    let shown = client.get("/v1/models/scriptd").await;

    for (answer, told) in [
        (chat, "GET /v1/models"),
        (streamed, "GET /v1/models"),
        (embeddings, "GET /v1/models"),
        (shown, "did you mean scripted?"),
    ] {
        assert_eq!(answer.refusal(), (404, "model_not_found".to_owned()));
        let error = &answer.json()["error"];
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("\"scriptd\"") && message.contains(told), "{message}");
        assert_eq!(error["param"], "model");
    }
}
