//! Tests every route, and the checks before it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::agent::subagents::AgentServices;
use crate::agent::subagents::settings::SubagentSettings;
use crate::api::chat::validate::{Context, KeyBounds};
use crate::api::chat::{Chat, DeliveredFailures};
use crate::api::ready::Readiness;
use crate::api::status::About;
use crate::http::auth::{Authenticator, Key, Keys};
use crate::http::hosts::{AllowedHosts, HostPolicy};
use crate::http::peer::Peer;
use crate::limits::Limits;
use crate::memory_budget::MemoryBudget;
use crate::permissions::{KeptGrants, Mode, Permissions};
use crate::processes::sandbox::{Sandbox, SandboxSettings};
use crate::processes::{Environment, Runner};
use crate::session_files::SessionDirectories;
use crate::sessions::Sessions;
use crate::sessions::approval_settings::ApprovalSettings;
use crate::sessions::context_limits::KnownLimits;
use crate::sessions::pending_names::PendingNames;
use crate::sessions::recorder::Recorders;
use crate::sessions::request::Progress;
use crate::sessions::rest::Rest;
use crate::sessions::running::Running;
use crate::sessions::running::limits::RunLimits;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::tools::catalogue::ToolCatalogue;
use crate::tools::tasks::{AllTasks, TaskLimits};
use crate::upstream::settings::UnknownFields;
use crate::workspace::Workspace;
use crate::{agent, permissions, tools as tool_layer, upstream};

const KEY: &str = "Bearer th-key";
const ORIGIN: &str = "https://good.com";

/// Every route that needs a key, with a method that it takes.
const WITH_KEY: [(&str, &str); 26] = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/openai/gpt"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/moderations"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/audio/translations"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/images/edits"),
    ("POST", "/v1/images/variations"),
    ("POST", "/v1/responses/x/cancel"),
    ("GET", "/toolhand/v1/status"),
    ("GET", "/toolhand/v1/tools"),
    ("GET", "/toolhand/v1/sessions"),
    ("GET", "/toolhand/v1/sessions/mine"),
    ("DELETE", "/toolhand/v1/sessions/mine"),
    ("GET", "/toolhand/v1/turns"),
    ("GET", "/toolhand/v1/turns/x/stream"),
    ("POST", "/toolhand/v1/turns/x/cancel"),
    ("GET", "/toolhand/v1/tasks"),
    ("GET", "/toolhand/v1/approvals"),
    ("POST", "/toolhand/v1/approvals/x"),
    ("GET", "/openapi.yaml"),
];

fn state(keys: Keys) -> ApiState {
    let limits = Limits { body: 10_000, ..Limits::default() };
    // Nothing listens on port 1, so every probe and every forwarded request fails at
    // once.
    let url = "http://127.0.0.1:1/v1".parse().unwrap();
    let mut upstream = upstream::UpstreamSettings { url, retries: 0, ..Default::default() };
    upstream.passthrough.push("responses".to_owned());
    let upstream_settings = upstream;
    let memory_budget = MemoryBudget::new(limits.buffers);
    let upstream =
        upstream::Client::new(&upstream_settings, &limits, None, memory_budget.clone()).unwrap();
    let upstream = Arc::new(upstream);
    let store: Arc<dyn Store> = MemoryStore::new();
    let running = Arc::new(Running::new(Arc::clone(&store)));
    let chat = Chat {
        turns: sessions(Arc::clone(&upstream), memory_budget.clone(), &store, &running),
        runs: RunLimits::new(&limits),
        memory_budget: memory_budget.clone(),
        failures: DeliveredFailures::default(),
    };
    ApiState {
        forwarded: Arc::new(Routes::named(&upstream_settings.passthrough).unwrap()),
        hosts: Arc::new(HostPolicy {
            hosts: AllowedHosts::new("127.0.0.1:8787".parse().unwrap(), Vec::new()),
            origins: vec![ORIGIN.parse().unwrap()],
        }),
        authenticator: Arc::new(Authenticator::new(keys, limits.wrong_keys_per_minute, Vec::new())),
        chat: Arc::new(chat),
        rest: Arc::new(Rest {
            tasks: Arc::new(AllTasks::new(TaskLimits { tasks: 0, agents: 4 })),
            store,
            running,
            memory_budget: memory_budget.clone(),
            tools: ToolCatalogue::default(),
            kept_grants: Arc::new(KeptGrants::new(Path::new("/nonexistent"), &[])),
            mode: Mode::Default,
        }),
        validation: Arc::new(Context {
            catalogue: ToolCatalogue::default(),
            tools: tool_layer::ToolSettings::default(),
            limits: limits.clone(),
            unknown_fields: UnknownFields::Forward,
            mode: Mode::Default,
            workspaces: BTreeMap::new(),
            max_rounds: 1,
            background_models: Vec::new(),
            id_sources: Arc::default(),
            key: KeyBounds::default(),
        }),
        readiness: Arc::new(Readiness::new(Arc::clone(&upstream))),
        upstream,
        memory_budget,
        limits: Arc::new(limits),
        about: Arc::new(About {
            languages: None,
            started: Instant::now(),
            upstream_url: upstream_settings.url.to_string(),
            auth_required: true,
            workspace: "/work".into(),
            permission_mode: "default".into(),
            sandbox_mode: "off".into(),
            sandbox: no_sandbox(),
            features: Vec::new(),
            mcp: None,
        }),
    }
}

fn no_sandbox() -> Sandbox {
    let runner = Runner::new("/proc/self/exe", Environment::allowed([]), None);
    Sandbox::new(runner, SandboxSettings::default())
}

/// Sessions for the state of the router. No test here starts a turn.
fn sessions(
    upstream: Arc<upstream::Client>,
    memory_budget: MemoryBudget,
    store: &Arc<dyn Store>,
    running: &Arc<Running>,
) -> Sessions {
    let root = std::env::temp_dir();
    let workspace = Arc::new(Workspace::open(vec![root.clone()]).unwrap());
    let settings = permissions::PermissionSettings::default();
    let state_dir = root.join("state");
    let permissions = Permissions::new(
        &settings,
        &[],
        permissions::SandboxMode::Off,
        workspace,
        permissions::ExcludedPaths::below(&state_dir),
    )
    .unwrap();
    let info = upstream::ModelInfo::new(Arc::clone(&upstream));
    let context_limits = KnownLimits::new(Arc::default(), info);
    Sessions {
        agents: Arc::new(AgentServices {
            upstream: Arc::clone(&upstream),
            memory_budget: memory_budget.clone(),
            model_rules: Arc::default(),
            context_limits: Arc::new(context_limits.clone()),
            turns: agent::TurnSettings::default(),
            max_round_chars: 200_000,
            settings: SubagentSettings::default(),
        }),
        upstream,
        context_limits,
        home: "/".into(),
        tool_settings: tool_layer::ToolSettings::default(),
        permissions,
        hooks: crate::hooks::Hooks::default(),
        definitions: crate::definitions::Definitions::none(),
        mcp: None,
        settings: agent::TurnSettings::default(),
        approval: ApprovalSettings::default(),
        content_address: true,
        model_rules: Arc::default(),
        prompt: agent::prompt::PromptSettings::default(),
        progress: Progress::None,
        memory_budget,
        store: Arc::clone(store),
        running: Arc::clone(running),
        watcher: Arc::default(),
        directories: SessionDirectories::new(&state_dir, 0),
        tasks: Arc::new(AllTasks::new(TaskLimits { tasks: 0, agents: 4 })),
        names: PendingNames::default(),
        recorders: Recorders::default(),
        shutdown: CancellationToken::new(),
    }
}

struct Ask {
    request: axum::http::request::Builder,
    body: Body,
}

fn ask(method: &str, path: &str) -> Ask {
    let request = Request::builder().method(method).uri(path).header("host", "localhost:8787");
    Ask { request, body: Body::empty() }
}

impl Ask {
    fn with(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    fn key(self) -> Self {
        self.with("authorization", KEY)
    }

    fn json(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self.with("content-type", "application/json")
    }

    async fn send(self, router: &Router) -> Response {
        let mut request = self.request.body(self.body).unwrap();
        request.extensions_mut().insert(Peer([10, 0, 0, 1].into()));
        router.clone().oneshot(request).await.unwrap()
    }

    /// The status and the error code.
    async fn outcome(self, router: &Router) -> (u16, String) {
        let response = self.send(router).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

fn keys() -> Keys {
    Keys::Required(vec![Key::from_secret("k", "th-key")])
}

fn server() -> Router {
    router(state(keys()))
}

#[track_caller]
fn assert_error(outcome: (u16, String), status: u16, code: &str) {
    let (found_status, found_code) = outcome;
    assert_eq!((found_status, found_code.as_str()), (status, code));
}

/// The path of every route in the router, taken from axum's own debug output.
fn paths() -> BTreeSet<String> {
    let state = state(keys());
    // No route may be outside the two routers, where nothing would be checked.
    assert!(listed(&router(state.clone())).is_empty());
    assert!(listed(&guarded(state.clone())).is_empty());
    let mut paths = listed(&open_routes(&state));
    assert_eq!(paths.iter().collect::<Vec<_>>(), ["/", "/health", "/ready"]);
    paths.extend(listed(&routes_with_key(state)));
    paths
}

fn listed(router: &Router) -> BTreeSet<String> {
    let shown = format!("{router:?}");
    // The fallback routes follow the listed ones.
    let before = shown.split("fallback_router").next().unwrap_or_default();
    let quoted = before.split('"').skip(1).step_by(2);
    quoted.filter(|text| text.starts_with('/')).map(str::to_owned).collect()
}

/// A path that `pattern` matches.
fn example(pattern: &str) -> String {
    let pattern = pattern.replace("{*id}", "openai/gpt").replace("{*rest}", "x/cancel");
    pattern.replace("{session}", "mine").replace("{turn}", "x").replace("{approval}", "x")
}

#[tokio::test]
async fn h1_every_route_needs_a_key_whatever_the_method() {
    let server = server();
    let mut open = BTreeSet::new();
    for path in paths() {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "PROPFIND"] {
            let response = ask(method, &example(&path)).send(&server).await;
            if response.status() == 401 {
                assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
            } else {
                open.insert(path.clone());
            }
        }
    }
    assert_eq!(open.into_iter().collect::<Vec<_>>(), ["/", "/health", "/ready"]);
}

#[test]
fn the_routes_of_these_tests_are_all_there_are() {
    let known = WITH_KEY.iter().map(|(_, path)| (*path).to_owned());
    let known: BTreeSet<String> =
        known.chain(["/", "/health", "/ready", "/v1/responses"].map(str::to_owned)).collect();

    let there: BTreeSet<String> = paths().iter().map(|path| example(path)).collect();

    assert_eq!(there, known);
}

#[tokio::test]
async fn each_route_is_there_for_who_has_the_key() {
    let server = server();
    for (method, path) in WITH_KEY {
        if path == "/v1/chat/completions" {
            continue;
        }
        let (status, code) = ask(method, path).key().json("{}").outcome(&server).await;
        assert_ne!((status, code.as_str()), (404, "unknown_route"), "{method} {path}");
        assert_ne!(status, 405, "{method} {path}");
        assert_ne!(status, 401, "{method} {path}");
    }
}

#[tokio::test]
async fn health_and_readiness_are_open() {
    let server = server();
    let health = ask("GET", "/health").send(&server).await;
    assert_eq!(health.status(), 200);
    let body = health.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, r#"{"status":"ok"}"#);
    assert_error(ask("GET", "/ready").outcome(&server).await, 503, "");
    assert_error(ask("HEAD", "/").outcome(&server).await, 200, "");
    assert_error(ask("POST", "/health").outcome(&server).await, 405, "method_not_allowed");
}

#[tokio::test]
async fn h2_wrong_keys_are_all_the_same_and_cost_patience() {
    let server = server();
    let wrong = |key: &str| ask("GET", "/openapi.yaml").with("authorization", key);
    for key in ["Bearer th-kez", "Bearer x", "Bearer ' OR 1=1--"] {
        assert_error(wrong(key).outcome(&server).await, 401, "invalid_api_key");
    }
    for _ in 3..10 {
        assert_error(wrong("Bearer x").outcome(&server).await, 401, "invalid_api_key");
    }
    let response = wrong("Bearer x").send(&server).await;
    assert_eq!(response.status(), 429);
    assert!(response.headers().contains_key(RETRY_AFTER));
    assert_error(ask("GET", "/openapi.yaml").outcome(&server).await, 401, "invalid_api_key");
    assert_error(ask("GET", "/openapi.yaml").key().outcome(&server).await, 200, "");
}

#[tokio::test]
async fn h3_h4_one_key_in_one_place() {
    let server = server();
    let ask = || ask("GET", "/openapi.yaml");
    assert_error(ask().key().key().outcome(&server).await, 400, "invalid_value");
    assert_error(ask().with("x-api-key", "th-key").outcome(&server).await, 401, "invalid_api_key");
    assert_error(
        ask().with("cookie", "api_key=th-key").outcome(&server).await,
        401,
        "invalid_api_key",
    );
    assert_error(
        ask().with("authorization", "Basic th-key").outcome(&server).await,
        401,
        "invalid_api_key",
    );
    let query = super::tests::ask("GET", "/openapi.yaml?api_key=th-key");
    assert_error(query.outcome(&server).await, 401, "invalid_api_key");
}

#[tokio::test]
async fn h5_odd_paths_are_no_routes() {
    let server = server();
    for path in [
        "//v1/chat/completions",
        "/v1/../v1/models",
        "/v1/models/",
        "/v1/%2e%2e/v1/models",
        "/V1/models",
        "/v1/models;x",
        "/v1/key/generate",
        "/v1/mcp",
        "/v1",
        "//",
    ] {
        assert_error(ask("GET", path).key().outcome(&server).await, 404, "unknown_route");
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_one() {
    let response = ask("GET", "/v1/chat/completions").key().send(&server()).await;

    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()[ALLOW], "POST");
}

#[tokio::test]
async fn host_and_origin_come_before_the_key() {
    let server = server();
    let response = ask("GET", "/v1/models").with("origin", "https://evil.com").send(&server).await;
    assert_eq!(response.status(), 403);
    assert!(!response.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    let request = Request::builder().uri("/v1/models").header("host", "evil.com");
    let response = server.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 403);
}

#[tokio::test]
async fn h15_a_foreign_page_without_an_origin_may_load_the_open_routes_alone() {
    let server = server();
    for (path, status) in
        [("/", 200), ("/health", 200), ("/ready", 503), ("/v1/models", 403), ("/no", 403)]
    {
        let outcome = ask("GET", path).with("sec-fetch-site", "cross-site").outcome(&server);
        assert_eq!(outcome.await.0, status, "{path}");
    }
}

#[tokio::test]
async fn h13_only_allowed_origins_have_their_preflight_answered() {
    let server = server();
    let preflight = |origin: &str| {
        ask("OPTIONS", "/v1/chat/completions")
            .with("origin", origin)
            .with("access-control-request-method", "POST")
            .with("access-control-request-headers", "authorization,content-type")
            .with("access-control-request-private-network", "true")
    };
    let allowed = preflight(ORIGIN).send(&server).await;
    assert_eq!(allowed.status(), 200);
    assert_eq!(allowed.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], ORIGIN);
    assert_eq!(allowed.headers()["access-control-allow-headers"], "authorization,content-type");
    let foreign = preflight("https://evil.com").send(&server).await;
    assert_eq!(foreign.status(), 403);
    let told = foreign.headers().keys().any(|name| name.as_str().starts_with("access-control"));
    assert!(!told);
    let answer = ask("GET", "/v1/models").with("origin", ORIGIN).send(&server).await;
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], ORIGIN);
}

#[tokio::test]
async fn every_response_has_an_id_and_is_not_stored() {
    let server = server();
    for path in ["/health", "/nowhere", "/v1/models"] {
        let response = ask("GET", path).with("x-request-id", "mine 1").send(&server).await;
        assert_eq!(response.headers()["x-request-id"], "mine 1");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    }
    let response = ask("GET", "/health").with("x-request-id", &"x".repeat(129)).send(&server).await;
    assert!(response.headers()["x-request-id"].to_str().unwrap().starts_with("req_"));
}

#[tokio::test]
async fn a_body_is_checked_in_order_kind_size_json_content() {
    let server = server();
    for path in ["/v1/chat/completions", "/v1/embeddings"] {
        let post = || ask("POST", path).key();
        let text = post().with("content-type", "text/plain").outcome(&server).await;
        assert_error(text, 415, "unsupported_content_type");
        let multipart = post().with("content-type", "multipart/form-data; boundary=x");
        assert_error(multipart.outcome(&server).await, 415, "unsupported_content_type");
        let large = post().json(" ".repeat(10_001)).send(&server).await;
        assert_eq!(
            (large.status().as_u16(), &large.headers()["connection"] == "close"),
            (413, true)
        );
        assert_error(post().json("{").outcome(&server).await, 400, "invalid_json");
        assert_error(post().json("[]").outcome(&server).await, 400, "invalid_value");
        let refused = r#"{"api_base": "http://evil"}"#;
        assert_error(post().json(refused).outcome(&server).await, 400, "refused_field");
    }
}

#[tokio::test]
async fn a_field_of_an_upload_is_refused_even_when_it_comes_late() {
    let body = "--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nsound\r\n\
                --x\r\nContent-Disposition: form-data; name=\"api_base\"\r\n\r\nhttp://evil\r\n--x--";
    let mut upload = ask("POST", "/v1/audio/transcriptions")
        .key()
        .with("content-type", "multipart/form-data; boundary=x");
    upload.body = body.into();

    let (status, _) = upload.outcome(&server()).await;

    // Upstream is not reachable either. It matters only that the request is not accepted.
    assert!(matches!(status, 400 | 502), "{status}");
}

#[tokio::test]
async fn an_upstream_that_is_away_is_said_to_be() {
    let server = server();
    assert_error(
        ask("GET", "/v1/models").key().outcome(&server).await,
        502,
        "upstream_unavailable",
    );
    let post = ask("POST", "/v1/embeddings").key().json(r#"{"input": "x"}"#);
    assert_error(post.outcome(&server).await, 502, "upstream_unavailable");
    let status = ask("GET", "/toolhand/v1/status").key().send(&server).await;
    let body = status.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["upstream"]["reachable"], false);
    assert_eq!(body["upstream"]["url"], "http://127.0.0.1:1/v1");
}

#[tokio::test]
async fn what_one_key_has_asked_for_is_nothing_to_another() {
    let keys = vec![Key::from_secret("a", "th-key"), Key::from_secret("b", "th-other")];
    let server = router(state(Keys::Required(keys)));
    let asked = |key: &'static str, question: &str| {
        let body =
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{question}"}}]}}"#);
        let ask = ask("POST", "/v1/chat/completions").with("authorization", key);
        ask.with("idempotency-key", "one").json(body).outcome(&server)
    };
    assert_error(asked(KEY, "Hi").await, 502, "upstream_unavailable");
    assert_error(asked("Bearer th-other", "Hello").await, 502, "upstream_unavailable");
}

#[tokio::test]
async fn a_handler_that_panics_is_an_answer() {
    let router = Router::new()
        .route("/", get(|| async { assert!(std::env::args().count() == 0, "on purpose") }))
        .layer(CatchPanicLayer::custom(errors::panicked));

    assert_error(ask("GET", "/").outcome(&router).await, 500, "internal");
}

#[tokio::test]
async fn without_auth_no_key_is_asked_for() {
    let open = router(state(Keys::NotRequired));

    assert_error(ask("GET", "/toolhand/v1/tools").outcome(&open).await, 200, "");
}
