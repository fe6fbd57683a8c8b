//! Tests that every answer of the server fits `openapi.yaml`.

use std::process::Stdio;

use serde_json::{Value, json};
use syn::visit::{self, Visit};
use tokio::process::Command;

use crate::support::chunks::{calls, gate, says, status, text};
use crate::support::client::{Answer, ask, ask_streamed, with};
use crate::support::environment;
use crate::support::server::{KEY, Server};
use crate::support::stream::Event;
use crate::support::upstream::Upstream;

const DOCUMENT: &str = include_str!("../openapi.yaml");

fn document() -> Value {
    serde_saphyr::from_str(DOCUMENT).expect("the document is YAML")
}

/// Checks `value` against a schema of the document.
fn check(schema: &str, value: &Value) {
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{schema}"),
        "components": document()["components"],
    });
    let validator = jsonschema::validator_for(&root).expect("the document's schemas are valid");
    let broken: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(broken.is_empty(), "{schema}: {broken:#?} in {value:#}");
}

/// Checks that the document describes this answer of `method path`.
pub(crate) fn check_answer(method: &str, path: &str, answer: &Answer) {
    let document = document();
    let operation = &document["paths"][path][method];
    let status = answer.status().to_string();
    let mut told = &operation["responses"][&status];
    if let Some(shared) = told["$ref"].as_str() {
        told =
            document.pointer(shared.trim_start_matches('#')).expect("a response of the document");
    }
    assert!(!told.is_null(), "{method} {path} never answers {status}");
    let schema = &told["content"]["application/json"]["schema"]["$ref"];
    let schema =
        schema.as_str().unwrap_or_else(|| panic!("no schema for {method} {path} {status}"));
    check(schema.rsplit('/').next().expect("a name"), &answer.json());
}

#[tokio::test]
async fn completions_and_chunks_fit_the_document() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let own = json!({ "type": "function", "function": { "name": "weather" } });
    for _ in 0..2 {
        upstream.round(calls(&[
            ("c1", "Read", json!({ "file_path": "notes.txt" })),
            ("c2", "Read", json!({ "file_path": "missing.txt" })),
        ]));
        upstream.round(calls(&[("c3", "weather", json!({}))]));
    }
    let asked = json!({
        "tools": [own],
        "stream_options": { "include_usage": true },
        "toolhand": { "progress": "events" },
    });
    let body = with(ask_streamed("Read it."), asked.clone());
    check("ChatRequest", &body);

    let streamed = server.client().streamed(&body).await;
    let mut unstreamed = with(ask("Read it."), asked);
    unstreamed.as_object_mut().expect("an object").remove("stream_options");
    let whole = server.client().chat(&unstreamed).await;

    for event in &streamed.events {
        if let Event::Chunk(chunk) = event {
            check("Chunk", chunk);
        }
    }
    check_answer("post", "/v1/chat/completions", &whole);
}

#[tokio::test]
async fn refusals_and_failures_fit_the_document() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let path = "/v1/chat/completions";
    for code in [400, 401, 404, 429, 503] {
        let error = status(code, &json!({ "error": { "message": "no", "code": "1" } }));
        for _ in 0..if matches!(code, 429 | 503) { 3 } else { 1 } {
            upstream.round(error.clone());
        }
        check_answer("post", path, &server.client().chat(&ask("Hi")).await);
    }
    for client in [
        server.client().key(None),
        server.client().header("host", "evil.com"),
        server.client().header("content-type", "text/plain"),
    ] {
        check_answer("post", path, &client.chat(&ask("Hi")).await);
    }
    check_answer("post", path, &server.client().chat(&json!({})).await);
    check_answer("post", path, &server.client().send("DELETE", path, None).await);
}

#[tokio::test]
async fn what_a_name_used_twice_is_told_fits_the_document() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Hello."));
    let client = server.client().header("idempotency-key", "one");
    assert_eq!(client.chat(&ask("Hi")).await.status(), 200);

    let refused = client.chat(&ask("Something else")).await;

    assert_eq!(refused.status(), 422);
    check_answer("post", "/v1/chat/completions", &refused);
}

#[tokio::test]
async fn what_a_full_server_says_fits_the_document() {
    let upstream = Upstream::start();
    // Each refusal waits a second for room, so that the kept connection must last longer.
    let server = Server::builder(&upstream).config("limits.connections", "1");
    let server = server.config("limits.header_time", r#""10m""#).start().await;
    let client = server.client();
    let _kept = client.connect().await;
    for (path, asked) in [
        ("/v1/models", "/v1/models"),
        ("/v1/models/{model}", "/v1/models/scripted"),
        ("/openapi.yaml", "/openapi.yaml"),
        ("/toolhand/v1/status", "/toolhand/v1/status"),
        ("/toolhand/v1/tools", "/toolhand/v1/tools"),
        ("/toolhand/v1/sessions", "/toolhand/v1/sessions"),
        ("/toolhand/v1/turns", "/toolhand/v1/turns"),
        ("/toolhand/v1/tasks", "/toolhand/v1/tasks"),
        ("/toolhand/v1/approvals", "/toolhand/v1/approvals"),
    ] {
        let refused = client.get(asked).await;
        assert_eq!(refused.status(), 503);
        check_answer("get", path, &refused);
    }
    check_answer("post", "/v1/chat/completions", &client.chat(&ask("Hi")).await);
}

#[tokio::test]
async fn what_is_told_of_the_server_fits_the_document() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for (path, asked) in [
        ("/v1/models", "/v1/models"),
        ("/v1/models/{model}", "/v1/models/scripted"),
        ("/v1/models/{model}", "/v1/models/nobody"),
        ("/ready", "/ready"),
        ("/toolhand/v1/status", "/toolhand/v1/status"),
        ("/toolhand/v1/tools", "/toolhand/v1/tools"),
        ("/toolhand/v1/sessions", "/toolhand/v1/sessions?limit=1"),
        ("/toolhand/v1/sessions", "/toolhand/v1/sessions?limit=0"),
        ("/toolhand/v1/sessions", "/toolhand/v1/sessions?after=nobody"),
        ("/toolhand/v1/sessions/{session}", "/toolhand/v1/sessions/nobody"),
        ("/toolhand/v1/turns", "/toolhand/v1/turns"),
        ("/toolhand/v1/tasks", "/toolhand/v1/tasks"),
        ("/toolhand/v1/turns/{turn}/stream", "/toolhand/v1/turns/nobody/stream"),
        ("/toolhand/v1/approvals", "/toolhand/v1/approvals"),
    ] {
        check_answer("get", path, &server.client().get(asked).await);
    }
}

#[tokio::test]
async fn what_is_told_of_a_turn_fits_the_document() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(vec![text("I begin "), gate("never")]);
    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until_text().await;
    let turn = stream.head.header("x-toolhand-turn").expect("a turn").to_owned();

    let turns = server.client().get("/toolhand/v1/turns").await;
    let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
    let cancelled = server.client().send("POST", &cancel, None).await;

    assert_eq!(turns.json()["data"][0]["id"], turn);
    check_answer("get", "/toolhand/v1/turns", &turns);
    assert_eq!(cancelled.status(), 200);
    check_answer("post", "/toolhand/v1/turns/{turn}/cancel", &cancelled);
}

/// Schemathesis makes requests that fit the document and requests that do not, and
/// compares the answers with the document. It knows no event streams; other tests cover
/// those.
#[tokio::test]
async fn schemathesis_finds_nothing_to_complain_about() {
    let environment = environment("schemathesis").await;
    let upstream = Upstream::start();
    upstream.otherwise(says("Hello."));
    // It tries wrong keys, too.
    let server =
        Server::builder(&upstream).config("limits.wrong_keys_per_minute", "1000000").start().await;

    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(environment.join("bin/schemathesis"))
        .arg(format!("--config-file={root}/tests/schemathesis/schemathesis.toml"))
        .args(["run", &format!("{root}/openapi.yaml")])
        .arg(format!("--url=http://{}", server.address()))
        .arg(format!("--header=Authorization: Bearer {KEY}"))
        // It writes its notes into the working directory.
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null())
        .output()
        .await
        .expect("schemathesis");

    let told = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{failed}");
}

#[test]
fn the_document_lists_every_route() {
    let mut routes = Routes::default();
    routes.visit_file(&syn::parse_file(include_str!("../src/api/router.rs")).expect("Rust"));
    routes.visit_file(&syn::parse_file(include_str!("../src/api/passthrough.rs")).expect("Rust"));
    routes.0.sort();

    let document = document();
    let paths = document["paths"].as_object().expect("paths");
    let mut told: Vec<String> = paths.keys().cloned().collect();
    told.sort();
    assert_eq!(told, routes.0);
}

/// The paths of `.route("…", …)` and of the forwarded groups.
#[derive(Default)]
struct Routes(Vec<String>);

impl<'ast> Visit<'ast> for Routes {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "route"
            && let Some(path) = call.args.first().and_then(literal)
        {
            self.0.push(path.replace("{*id}", "{model}"));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if item.ident == "GROUPS" {
            visit::visit_item_const(self, item);
        }
    }

    /// `("audio", &["audio/speech", …])`
    fn visit_expr_tuple(&mut self, group: &'ast syn::ExprTuple) {
        if let Some(syn::Expr::Reference(members)) = group.elems.get(1)
            && let syn::Expr::Array(members) = &*members.expr
        {
            let members = members.elems.iter().filter_map(literal);
            self.0.extend(members.map(|member| format!("/v1/{member}")));
        }
    }
}

fn literal(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

#[test]
fn the_document_lists_every_error_code() {
    let rows = include_str!("../src/errors.rs").lines();
    let rows = rows.filter(|line| line.trim_start().starts_with("Self::") && line.contains("=> ("));
    let known: Vec<&str> = rows.filter_map(|line| line.rsplit('"').nth(1)).collect();
    assert!(!known.is_empty());
    assert_eq!(document()["components"]["schemas"]["ErrorCode"]["enum"], json!(known));
}

#[test]
fn a_plain_answer_and_a_bare_error_do_not_fit_each_other() {
    // The checks above would prove nothing if every value fitted.
    let error = json!({ "error": { "message": "no", "type": "server_error", "param": null, "code": "internal" } });
    check("Error", &error);
    assert!(std::panic::catch_unwind(|| check("Completion", &error)).is_err());
}
