//! Servers that follow a script, over real pipes.

mod http;
mod timeouts;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tempfile::TempDir;

use super::settings::{McpCommand, McpServerSettings, McpTransport};
use super::*;
use crate::own_endpoints::OwnEndpoints;
use crate::processes::test_support::runner;

const SERVER: &str = include_str!("../../tests/mcp/server.py");

/// Servers in a state directory of their own.
struct Ground {
    directory: TempDir,
    settings: McpSettings,
}

impl Ground {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(directory.path().join("server.py"), SERVER).unwrap();
        let backoff = vec![Duration::from_millis(1); 3];
        Self { directory, settings: McpSettings { backoff, ..McpSettings::default() } }
    }

    fn log(&self) -> std::path::PathBuf {
        self.directory.path().join("log")
    }

    fn server(mut self, name: &str, script: Value) -> Self {
        self.settings.servers.push(self.scripted(name, script));
        self
    }

    fn scripted(&self, name: &str, mut script: Value) -> McpServerSettings {
        script["log"] = json!(self.log());
        let path = self.directory.path().join("server.py");
        let command = McpCommand {
            program: "/usr/bin/python3".into(),
            arguments: vec![path.to_str().unwrap().to_owned(), script.to_string()],
            variables: vec![("SCRIPT_KEY".into(), crate::secret::Secret::new("sk-very-secret"))],
            directory: None,
            network: true,
        };
        let secrets = command.variables.iter().map(|(_, value)| value.clone()).collect();
        let transport = McpTransport::Stdio(command);
        McpServerSettings { secrets, ..McpServerSettings::new(name, transport) }
    }

    fn reach(&self) -> McpReach {
        let workspace = self.directory.path().to_owned();
        let (runner, kept) = (runner(), workspace.join("kept"));
        let launcher = McpLauncher { runner, sandboxes: McpSandboxes::Off, workspace, kept };
        let own = OwnEndpoints::new(&"http://127.0.0.1:4000/v1".parse().unwrap());
        McpReach { launcher, own }
    }

    async fn start(&self) -> McpServers {
        let servers = McpServers::new(self.settings.clone(), self.reach(), self.directory.path());
        servers.start();
        servers.ready_within(Duration::from_secs(60)).await;
        servers
    }

    fn heard(&self) -> Vec<String> {
        fs::read_to_string(self.log()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// How many messages the servers have heard: of a method, or answers with these words.
    fn count(&self, words: &str) -> usize {
        let is_it =
            |line: &&String| *line == words || (line.starts_with('{') && line.contains(words));
        self.heard().iter().filter(is_it).count()
    }

    /// Waits until they have heard so many.
    async fn hears(&self, words: &str, times: usize) {
        while self.count(words) < times {
            tokio::task::yield_now().await;
        }
    }
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does it.", "inputSchema": {"type": "object"}})
}

/// One server with one tool, which does this when it is called.
#[expect(clippy::needless_pass_by_value, reason = "each test writes its value in place")]
fn answering(actions: Value) -> Value {
    json!({"tools": [tool("do")], "on_call": actions})
}

async fn call(servers: &McpServers) -> Result<McpAnswer, McpFault> {
    let snapshot = servers.snapshot();
    servers.call("key", &snapshot.tools[0], Map::new(), None).await
}

/// Waits until the server is in such a state. A server that never is hangs the test.
async fn until(servers: &McpServers, name: &str, is_so: impl Fn(&McpState) -> bool) {
    let server = servers.server(name).unwrap();
    let mut status = server.status.subscribe();
    status.wait_for(|status| is_so(&status.state)).await.unwrap();
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn a_tool_is_listed_called_and_told_its_own_variables() {
    let ground = Ground::new().server("scripted", answering(json!([{"env": "HOME"}])));
    let servers = ground.start().await;

    let snapshot = servers.snapshot();
    assert_eq!(snapshot.tools[0].name, "mcp__scripted__do");
    assert_eq!(snapshot.tools[0].description, "[MCP server scripted] Does it.");
    let state = &servers.states()[0];
    assert_eq!((state.state.name(), state.version.as_deref()), ("ready", Some("1.2")));
    assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("unset".into())]);
}

#[tokio::test]
async fn m5_a_server_whose_definitions_take_too_long_does_not_start() {
    let mut ground = Ground::new().server("scripted", answering(json!([])));
    ground.settings.servers[0].start_timeout = Duration::from_secs(1);
    let _other_work = crate::blocking::DEFINITIONS.enter().await.unwrap();
    let servers = ground.start().await;
    let why = servers.states()[0].state.why().map(str::to_owned);
    assert_eq!(why.as_deref(), Some("it was not ready within 1s"));
}

#[tokio::test]
async fn m13_a_server_has_its_own_key_and_its_answer_does_not_show_it() {
    let ground = Ground::new().server("scripted", answering(json!([{"env": "SCRIPT_KEY"}])));
    let answer = call(&ground.start().await).await.unwrap();
    assert_eq!(answer.parts, [McpPart::Text("[secret]".into())]);
}

#[tokio::test]
async fn an_error_tells_neither_a_stack_nor_a_key() {
    let message = "no such row sk-very-secret\n  at main.py line 3";
    let error = json!({"code": -32000, "message": message, "data": {"trace": "at main.py"}});
    let ground = Ground::new().server("scripted", answering(json!([{"error": error}])));
    let fault = call(&ground.start().await).await.unwrap_err();
    assert_eq!(fault.0, "the MCP server scripted refuses this: no such row [secret]");
}

#[tokio::test]
async fn m4_a_definition_that_changes_is_taken_away_until_it_is_accepted() {
    let changed = json!({"name": "do", "description": "Sends.", "inputSchema": {"type": "object"}});
    let actions = json!([{"result": text("done")}, {"change": [changed, tool("new")]}]);
    let ground = Ground::new().server("scripted", answering(actions));
    let servers = ground.start().await;
    let before = servers.snapshot();
    let mut status = servers.server("scripted").unwrap().status.subscribe();

    call(&servers).await.unwrap();
    status.wait_for(|status| status.offers.tools.len() == 2).await.unwrap();

    let after = servers.snapshot();
    assert_eq!(after.tools.iter().map(|tool| &*tool.own_name).collect::<Vec<_>>(), ["new"]);
    assert!(after.withheld[0].why.contains("toolhand mcp accept scripted"), "{after:?}");
    let fault = servers.call("key", &before.tools[0], Map::new(), None).await.unwrap_err();
    assert!(fault.0.contains("is not offered any more: its definition has changed"), "{fault}");

    servers.accept("scripted").await.unwrap();
    assert_eq!(servers.snapshot().tools.len(), 2);
    assert_eq!(ground.count("tools/call"), 1);
}

#[tokio::test]
async fn m4_a_definition_that_changed_while_we_were_away_is_taken_away() {
    let ground = Ground::new().server("scripted", answering(json!([])));
    drop(ground.start().await);
    let mut other = ground;
    let mut script = answering(json!([]));
    script["tools"][0]["description"] = json!("Sends.");
    // The command is the same: the script changes by the file that it runs.
    let path = other.directory.path().join("server.py");
    let McpTransport::Stdio(command) = &other.settings.servers[0].transport else { panic!() };
    let started_with = command.arguments[1].clone();
    script["log"] = json!(other.log());
    let replaced =
        SERVER.replace("= read_script()", &format!("= json.loads({:?})", script.to_string()));
    fs::write(&path, replaced).unwrap();
    other.settings.first_turn_wait = Duration::ZERO;

    let snapshot = other.start().await.snapshot();

    assert!(snapshot.tools.is_empty() && snapshot.withheld.len() == 1, "{started_with}");
}

#[tokio::test]
async fn m4_a_tool_that_cannot_be_pinned_is_not_offered_until_it_can() {
    for policy in [PinPolicy::Changed, PinPolicy::All] {
        let script = answering(json!([{"result": text("done")}]));
        let mut ground = Ground::new().server("scripted", script);
        ground.settings.pin = policy;
        // A directory in the place of the file that is locked.
        let in_the_way = ground.directory.path().join("mcp-pins.lock");
        fs::create_dir(&in_the_way).unwrap();
        let servers = ground.start().await;

        let before = servers.snapshot();
        assert!(before.tools.is_empty());
        assert!(before.withheld[0].why.contains("could not be kept"), "{before:?}");
        assert_eq!(servers.states()[0].tools, 0);

        fs::remove_dir(&in_the_way).unwrap();
        assert!(call(&servers).await.is_ok());
        assert!(servers.snapshot().withheld.is_empty());
    }
}

#[tokio::test]
async fn m6_a_server_that_never_answers_leaves_the_others_alone() {
    let mut ground = Ground::new()
        .server("good", answering(json!([{"result": text("done")}])))
        .server("mute", json!({"on_initialize": [{"hang": 1}]}))
        .server("listless", json!({"on_list": [{"hang": 1}]}));
    for server in &mut ground.settings.servers[1..] {
        server.start_timeout = Duration::from_millis(50);
    }
    ground.settings.backoff = Vec::new();
    let servers = ground.start().await;

    let states: Vec<_> = servers.states().iter().map(|server| server.state.name()).collect();
    assert_eq!(states, ["ready", "off", "off"]);
    assert!(call(&servers).await.is_ok());
}

#[tokio::test]
async fn a_tool_that_the_server_has_no_more_is_not_called() {
    let actions = json!([{"result": text("done")}, {"change": []}]);
    let ground = Ground::new().server("scripted", answering(actions));
    let servers = ground.start().await;
    let before = servers.snapshot();
    let mut status = servers.server("scripted").unwrap().status.subscribe();
    call(&servers).await.unwrap();
    status.wait_for(|status| status.offers.tools.is_empty()).await.unwrap();

    let fault = servers.call("key", &before.tools[0], Map::new(), None).await.unwrap_err();

    let why = "mcp__scripted__do is not offered any more: the server has it no more";
    assert_eq!(fault.0, why);
}

#[tokio::test]
async fn m6_a_call_that_is_never_answered_times_out_and_the_server_is_told() {
    let mut ground = Ground::new().server("scripted", answering(json!([{"hang": 1}])));
    ground.settings.servers[0].timeout = Duration::from_millis(50);
    let servers = ground.start().await;

    let fault = call(&servers).await.unwrap_err();

    assert!(fault.0.contains("whether the call took effect is unknown"), "{fault}");
    ground.hears("notifications/cancelled", 1).await;
    assert_eq!(ground.count("tools/call"), 1);
}

/// A server that lists the tool `do` and then does this.
fn listing(then: &Value) -> Value {
    json!({"on_list": [{"result": {"tools": [tool("do")]}}, then]})
}

#[tokio::test]
async fn m6_a_server_that_reads_no_more_is_given_up_and_keeps_no_call() {
    let mut ground = Ground::new().server("scripted", listing(&json!({"deaf": "stay"})));
    ground.settings.servers[0].timeout = Duration::from_millis(50);
    let servers = ground.start().await;
    let tool = servers.snapshot().tools[0].clone();
    let large = Map::from_iter([("text".into(), json!("x".repeat(1 << 20)))]);

    let calls = (0..3).map(|_| servers.call("key", &tool, large.clone(), None));
    for answer in futures::future::join_all(calls).await {
        let fault = answer.unwrap_err();
        assert!(fault.0.contains("whether"), "{fault}");
    }
    until(&servers, "scripted", |state| {
        matches!(state, McpState::Off(why) | McpState::Failed(why) if why == "it does not read its input")
    })
    .await;
}

#[tokio::test]
async fn m7_a_server_that_closes_its_input_and_lives_on_is_ended() {
    let mut ground = Ground::new().server("scripted", listing(&json!({"deaf": "close"})));
    ground.settings.backoff = Vec::new();
    let servers = ground.start().await;

    assert!(call(&servers).await.is_err());

    let closed = McpState::Off("it closed its input".into());
    until(&servers, "scripted", |state| *state == closed).await;
}

#[tokio::test]
async fn m9_a_result_that_is_no_object_is_malformed_wherever_it_comes() {
    for result in [json!(5), json!("x"), json!(true)] {
        let actions = json!([{"result": result}]);
        let mut script = answering(actions.clone());
        script["capabilities"] = json!({"tools": {}, "prompts": {}, "resources": {}});
        script["answers"] = json!({
            "prompts/list": result, "resources/list": result, "resources/read": result,
        });
        let mut ground = Ground::new()
            .server("scripted", script)
            .server("listless", json!({"on_list": actions}));
        ground.settings.backoff = Vec::new();
        let servers = ground.start().await;

        let fault = call(&servers).await.unwrap_err();
        assert!(fault.0.contains("is malformed"), "{fault}");
        let fault = servers.read_resource("key", "scripted", "x://1").await.unwrap_err();
        assert!(fault.0.contains("is malformed"), "{fault}");
        let states: Vec<_> = servers.states().into_iter().map(|server| server.state).collect();
        let off = McpState::Off("its list of tools is malformed".into());
        assert_eq!(states, [McpState::Ready, off], "{result}");
    }
}

#[tokio::test]
async fn m6_a_server_that_lists_no_prompts_has_its_tools() {
    let mut script = answering(json!([{"result": text("done")}]));
    script["capabilities"] = json!({"tools": {}, "prompts": {}});
    script["answers"] = json!({"prompts/list": "never"});
    let mut ground = Ground::new().server("scripted", script);
    ground.settings.servers[0].start_timeout = Duration::from_secs(3);
    let servers = ground.start().await;

    assert!(call(&servers).await.is_ok());
}

#[tokio::test]
async fn m6_a_call_that_nobody_waits_for_is_cancelled() {
    let ground = Ground::new().server("scripted", answering(json!([{"hang": 1}])));
    let servers = ground.start().await;

    tokio::select! {
        _ = call(&servers) => panic!("it was answered"),
        () = ground.hears("tools/call", 1) => {}
    }

    ground.hears("notifications/cancelled", 1).await;
}

#[tokio::test]
async fn m7_a_server_that_dies_in_a_call_is_restarted_and_the_call_is_not_repeated() {
    let ground = Ground::new().server("scripted", answering(json!([{"exit": 7}])));
    let servers = ground.start().await;

    let fault = call(&servers).await.unwrap_err();
    assert_eq!(
        fault.0,
        "the MCP server scripted ended while this call ran; whether it took effect is unknown"
    );
    ground.hears("initialize", 2).await;
    until(&servers, "scripted", |state| *state == McpState::Ready).await;
    assert_eq!(ground.count("tools/call"), 1);
}

#[tokio::test]
async fn m7_a_server_that_dies_at_each_start_is_off_after_three_restarts() {
    let ground = Ground::new().server("scripted", json!({"on_start": [{"exit": 1}]}));
    let servers = ground.start().await;
    until(&servers, "scripted", |state| matches!(state, McpState::Off(_))).await;
    assert_eq!(servers.states()[0].state.why(), Some("exit code 1"));
}

#[tokio::test]
async fn m8_noise_and_a_flood_of_errors_are_skipped_and_a_long_line_ends_the_server() {
    let noise = json!([{"raw": {"text": "noise\n", "times": 500}}, {"stderr": 4_000_000}]);
    let mut script = answering(json!([{"raw": {"text": "xxxxxxxxxx", "times": 1_000_000}}]));
    script["on_start"] = noise;
    let mut ground = Ground::new().server("scripted", script);
    ground.settings.backoff = Vec::new();
    let servers = ground.start().await;
    assert_eq!(servers.states()[0].state, McpState::Ready);

    call(&servers).await.unwrap_err();

    until(&servers, "scripted", |state| matches!(state, McpState::Off(_))).await;
    assert_eq!(servers.states()[0].state.why(), Some("it sent a message of more than 8 MiB"));
}

#[tokio::test]
async fn m9_foreign_ids_are_dropped_and_requests_are_refused() {
    let ask = |id: u32, method: &str| {
        json!({"send": {"id": id, "method": method, "params": {
            "messages": [], "maxTokens": 1, "message": "?", "requestedSchema": {"type": "object", "properties": {}},
        }}})
    };
    let answer = |id: u32| json!({"send": {"id": id, "result": text("foreign")}});
    let actions = json!([
        answer(999), answer(0), ask(1, "sampling/createMessage"), ask(2, "elicitation/create"),
        ask(3, "roots/list"), {"result": text("done")}, {"result": text("again")},
    ]);
    let ground = Ground::new().server("scripted", answering(actions));
    let servers = ground.start().await;

    assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("done".into())]);
    ground.hears("-32601", 3).await;
    assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("done".into())]);
}

#[tokio::test]
async fn outside_47_an_error_that_names_no_request_ends_the_only_call_that_waits() {
    for id in [json!(null), json!(""), json!("unknown")] {
        let error = json!({"code": -32_700, "message": "Maximum stack depth exceeded"});
        let actions = json!([{"send": {"id": id, "error": error}}]);
        let servers = Ground::new().server("scripted", answering(actions)).start().await;
        let why = call(&servers).await.unwrap_err().0;
        assert_eq!(why, "the MCP server scripted refuses this: Maximum stack depth exceeded");
        assert_eq!(servers.states()[0].state, McpState::Ready);
    }
    let error = json!({"send": {"id": null, "error": {"code": 1, "message": "no key"}}});
    let script = json!({"tools": [tool("do")], "on_initialize": [error]});
    let mut ground = Ground::new().server("scripted", script);
    ground.settings.backoff = Vec::new();
    let servers = ground.start().await;
    until(&servers, "scripted", |state| matches!(state, McpState::Off(_))).await;
    let why = servers.states()[0].state.why().map(str::to_owned).unwrap();
    assert!(why.contains("it refuses to be initialized: no key"), "{why}");
}

#[tokio::test]
async fn outside_53_without_a_sandbox_no_directory_is_made_for_a_server() {
    let ground = Ground::new().server("scripted", answering(json!([{"result": text("done")}])));
    let kept = ground.reach().launcher.kept;
    let servers = ground.start().await;
    assert!(call(&servers).await.is_ok());
    assert!(!kept.exists());
}

#[tokio::test]
async fn a_list_whose_cursor_leads_in_a_circle_ends() {
    let pages = json!([[tool("a")], [tool("b")]]);
    let ground = Ground::new().server("scripted", json!({"pages": pages}));
    let snapshot = ground.start().await.snapshot();
    assert_eq!(snapshot.tools.len(), 2);
    assert_eq!(ground.count("tools/list"), 64);
}

#[tokio::test]
async fn a_list_with_a_tool_that_is_none_keeps_the_others() {
    let tools = json!([tool("a"), {"name": 5}, {"name": "b"}, tool("c")]);
    let ground = Ground::new().server("scripted", json!({"tools": tools}));
    let snapshot = ground.start().await.snapshot();
    // What has no schema takes any object.
    assert_eq!((snapshot.tools.len(), snapshot.withheld.len()), (3, 1));
}

#[tokio::test]
async fn a_server_of_scope_key_is_started_for_each_key_that_calls_it() {
    let mut ground = Ground::new().server("scripted", answering(json!([{"result": text("done")}])));
    ground.settings.servers[0].scope = McpScope::Key;
    let servers = ground.start().await;
    let snapshot = servers.snapshot();

    for key in ["a", "b", "a"] {
        servers.call(key, &snapshot.tools[0], Map::new(), None).await.unwrap();
    }

    assert_eq!(ground.count("initialize"), 3);
}

#[tokio::test]
async fn a_server_whose_list_changes_without_end_is_listed_now_and_then() {
    let tools = json!([{"name": "do", "inputSchema": {"type": "object"}}]);
    let list = json!([{"result": {"tools": tools}}, {"change": tools}]);
    let script = json!({"on_list": list, "on_call": [{"result": text("done")}]});
    let began = Instant::now();
    let ground = Ground::new().server("scripted", script);
    let servers = ground.start().await;

    for _ in 0..100 {
        assert!(call(&servers).await.is_ok());
    }

    let lists = ground.count("tools/list");
    let most = 2 + began.elapsed().as_millis() / server::REFRESH_INTERVAL.as_millis();
    assert!(u128::try_from(lists).unwrap() <= most, "{lists} lists, at most {most}");
}

#[tokio::test]
async fn a_server_that_refuses_initialize_is_discovered() {
    let mut script = answering(json!([{"result": text("done")}]));
    script["on_initialize"] = json!([{"error": {"code": -32601, "message": "unknown method"}}]);
    script["answers"] = json!({"server/discover": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "2.0"}},
    }});
    let ground = Ground::new().server("scripted", script);
    let servers = ground.start().await;

    assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("done".into())]);
    assert_eq!(servers.states()[0].version.as_deref(), Some("2.0"));
    assert_eq!(ground.heard(), ["initialize", "server/discover", "tools/list", "tools/call"]);
}

#[tokio::test]
async fn a_server_that_refuses_to_be_discovered_too_says_why() {
    let refused = json!([{"error": {"code": -32601, "message": "not me\nat main.py"}}]);
    let mut ground = Ground::new().server("scripted", json!({"on_initialize": refused}));
    ground.settings.backoff = Vec::new();
    let servers = ground.start().await;
    let states = servers.states();
    assert_eq!(states[0].state.why(), Some("it refuses to be initialized: not me"));
}

#[tokio::test]
async fn m9_an_answer_that_comes_late_is_dropped_and_the_next_call_gets_its_own() {
    let script = json!({"tools": [tool("do"), tool("slow")], "calls": {
        "slow": [{"hang": 1}],
        "do": [{"late": text("late")}, {"result": text("own")}],
    }});
    let ground = Ground::new().server("scripted", script);
    let servers = ground.start().await;
    let tools = servers.snapshot().tools;
    let client = servers.server("scripted").unwrap().now().client.unwrap();
    let moment = Duration::from_millis(50);
    let timeouts = RequestTimeouts { silent: moment, total: moment };
    let fault = client.call("slow", Map::new(), timeouts, None).await.unwrap_err();
    assert_eq!(fault, RequestFault::TimedOut);
    ground.hears("notifications/cancelled", 1).await;

    let answer = servers.call("key", &tools[0], Map::new(), None).await;
    assert_eq!(answer.unwrap().parts, [McpPart::Text("own".into())]);
}

#[tokio::test]
async fn m9_a_server_that_asks_for_input_is_given_none() {
    let asks = json!({"resultType": "input_required", "inputRequests": {"who": {
        "method": "elicitation/create",
        "params": {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}},
    }}});
    let ground = Ground::new().server("scripted", answering(json!([{"result": asks}])));
    let fault = call(&ground.start().await).await.unwrap_err();
    assert_eq!(fault.0, "the server asked for input, which toolhand does not support");
    assert_eq!(ground.count("tools/call"), 1);
}

#[tokio::test]
async fn m6_a_list_that_never_comes_takes_no_other_with_it() {
    let mut script = answering(json!([]));
    script["capabilities"] = json!({"tools": {}, "prompts": {}, "resources": {}});
    script["answers"] = json!({
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
        "resources/templates/list": "never",
    });
    let mut ground = Ground::new().server("scripted", script);
    ground.settings.servers[0].start_timeout = Duration::from_secs(3);

    let snapshot = ground.start().await.snapshot();

    let offered = (snapshot.tools.len(), snapshot.prompts.len(), snapshot.resources.len());
    assert_eq!(offered, (1, 1, 1));
}

#[tokio::test]
async fn changed_lists_of_prompts_and_resources_are_listed_again() {
    let lists = |name: &str| {
        json!({"answers": {
            "prompts/list": {"prompts": [{"name": name}]},
            "resources/list": {"resources": [{"uri": format!("note://{name}"), "name": name}]},
            "resources/templates/list": {"resourceTemplates": []},
        }})
    };
    let changed = |what: &str| {
        let method = format!("notifications/{what}/list_changed");
        json!({"send": {"method": method}})
    };
    let mut script = lists("old");
    script["tools"] = json!([tool("prompts"), tool("resources")]);
    script["capabilities"] = json!({
        "tools": {}, "prompts": {"listChanged": true}, "resources": {"listChanged": true},
    });
    script["calls"] = json!({
        "prompts": [{"set": lists("new")}, changed("prompts"), {"result": text("done")}],
        "resources": [{"set": lists("newer")}, changed("resources"), {"result": text("done")}],
    });
    let ground = Ground::new().server("scripted", script);
    let servers = ground.start().await;
    let mut status = servers.server("scripted").unwrap().status.subscribe();
    let tools = servers.snapshot().tools;
    assert_eq!(servers.snapshot().prompts[0].name, "old");

    for (tool, name) in tools.iter().zip(["new", "newer"]) {
        servers.call("key", tool, Map::new(), None).await.unwrap();
        let is_new = |status: &Status| {
            let Offers { prompts, resources, .. } = &*status.offers;
            prompts[0].name == name && resources[0].uri == format!("note://{name}")
        };
        status.wait_for(is_new).await.unwrap();
    }
}
