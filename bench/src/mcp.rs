//! Measures MCP servers: a call beside one with the protocol's library alone, several at once, what
//! servers cost the start and the first turn, and what many tools cost a request.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ClientConfig};
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::Instant;
use toolhand::measured_calls::McpCalls;

use super::client::{Client, ask, milliseconds_since};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{CHUNKS, FIRST_WORD, ROUND, Upstream};

const SCRIPT: &str = include_str!("mcp_server.py");

/// Calls of one round; their number is what a round may have.
const CALLS: usize = 32;
/// Rounds of calls, and as many series of calls without the server beside each.
const ROUNDS: usize = 5;
/// Starts of the servers that are called. One process is a few per cent quicker than the next.
const STARTED: usize = 3;
/// Calls at once to a shared server.
const AT_ONCE: usize = 10;
const RUNS: usize = 7;
/// Servers whose start is measured, with MCP servers and without.
const STARTS: usize = 15;
/// MCP servers that answer, beside one that hangs.
const ANSWERING: usize = 7;
const TOOLS: usize = 500;
const REPEATS: usize = 101;
const FIRST_TURN_WAIT: Duration = Duration::from_millis(1500);

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let files = tempfile::tempdir().expect("a directory");
    let script = Script::write(&files);
    calls(upstream, report, &script).await;
    at_once(upstream, report, &script).await;
    starts(upstream, report, &script).await;
    first_turn(upstream, report, &script).await;
    many_tools(upstream, report, &script).await;
}

pub(crate) async fn measure_calls(upstream: &Upstream, report: &mut Report) {
    let files = tempfile::tempdir().expect("a directory");
    calls(upstream, report, &Script::write(&files)).await;
}

/// The script of our own server.
struct Script(PathBuf);

impl Script {
    fn write(files: &TempDir) -> Self {
        let path = files.path().join("server.py");
        std::fs::write(&path, SCRIPT).expect("a new file");
        Self(path)
    }

    /// A table of the configuration, and lines of it.
    fn table(&self, name: &str, argument: &str, more: &str) -> String {
        let arguments = json!([self.0, argument]);
        format!(
            "[mcp.servers.{name}]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n{more}\n"
        )
    }
}

/// What every server of this page has: no sandbox, whose cost is another row's, and no questions.
const ALLOWED: &str = "sandbox.mode = \"off\"\npermissions.allow = [\"mcp__one\"]\n\
                       mcp.first_turn_wait = \"60s\"\n";

/// A call through the pipeline, and one of a turn, which is committed and told of besides, beside one
/// with rmcp alone. Each has a server process of its own.
async fn calls(upstream: &Upstream, report: &mut Report, script: &Script) {
    let time_server = process::test_environment("mcp").join("bin/mcp-server-time");
    let time_arguments = json!({ "timezone": "Asia/Tokyo" });
    let own_command = ["/usr/bin/python3".into(), script.0.clone(), "2".into()];
    for (which, command, tool, arguments, bound) in [
        (
            "mcp-server-time",
            vec![time_server.clone(), "--local-timezone=UTC".into()],
            "get_current_time",
            time_arguments,
            Bound::AtMost(1.2),
        ),
        (
            "a server that answers at once",
            own_command.to_vec(),
            "echo",
            json!({ "text": "a" }),
            Bound::Free,
        ),
    ] {
        let (mut in_turns, mut in_pipeline, mut without) = (Vec::new(), Vec::new(), Vec::new());
        let called = Called { command, tool, arguments };
        for _ in 0..STARTED {
            let mut calling = Calling::start(upstream, &called).await;
            for run in 0..=ROUNDS {
                let in_turn = calling.in_a_turn(upstream, &called).await;
                let alone = calling.alone.times(CALLS).await;
                let through = calling.through_the_pipeline(&called).await;
                // The first of each finds nothing in the caches.
                if run > 0 {
                    in_turns.push(in_turn);
                    in_pipeline.extend(through);
                    without.extend(alone);
                }
            }
        }
        let (in_turns, through, without) = (median(in_turns), median(in_pipeline), median(without));
        let what = format!("an MCP call through the pipeline to rmcp alone, {which}, p50");
        let detail = format!("{through:.3} ms, alone {without:.3} ms");
        report.ratio(what, through / without, bound, detail);
        let what = format!("an MCP call of a turn to rmcp alone, {which}, p50");
        let detail =
            format!("{in_turns:.3} ms a call of {CALLS} in a round, alone {without:.3} ms");
        report.ratio(what, in_turns / without, Bound::Free, detail);
    }
}

/// What is called, by three who have a process of the server each.
struct Called {
    command: Vec<PathBuf>,
    tool: &'static str,
    arguments: Value,
}

struct Calling {
    client: Client,
    pipeline: McpCalls,
    alone: Alone,
    _server: Process,
    _directory: TempDir,
}

impl Called {
    fn name(&self) -> String {
        format!("mcp__one__{}", self.tool)
    }

    fn table(&self, servers: &str) -> String {
        let (program, rest) = self.command.split_first().expect("a program");
        let variables = "{ PYTHONHASHSEED = \"0\" }";
        format!(
            "[{servers}.one]\ncommand = {}\nargs = {}\nenv = {variables}\n",
            json!(program),
            json!(rest)
        )
    }
}

impl Calling {
    async fn start(upstream: &Upstream, called: &Called) -> Self {
        let settings = format!("{ALLOWED}{}", called.table("mcp.servers"));
        let server = process::server(&upstream.url(), &settings).await;
        let directory = tempfile::tempdir().expect("a directory");
        let pipeline = McpCalls::start(directory.path(), &called.table("servers")).await;
        Self {
            client: Client::connect(server.address, &ask(ROUND, true, "none")).await,
            pipeline: pipeline.expect("a server of the configuration"),
            alone: Alone::start(called).await,
            _server: server,
            _directory: directory,
        }
    }

    /// What one more call of a round takes, in milliseconds.
    async fn in_a_turn(&mut self, upstream: &Upstream, called: &Called) -> f64 {
        let mut round = async |calls| {
            upstream.round(&called.name(), &called.arguments, calls);
            self.client.ask().await;
            milliseconds(upstream.start_latencies().pop().expect("a round"))
        };
        let (one, many) = (round(1).await, round(CALLS).await);
        (many - one) / count(CALLS - 1)
    }

    async fn through_the_pipeline(&self, called: &Called) -> impl Iterator<Item = f64> {
        let times = self.pipeline.times(&called.name(), &called.arguments, CALLS).await;
        times.expect("answers").into_iter().map(milliseconds)
    }
}

/// A client of the protocol's library, and its server.
struct Alone {
    client: RunningService<RoleClient, ClientConfig>,
    call: CallToolRequestParams,
    _server: Child,
}

impl Alone {
    async fn start(called: &Called) -> Self {
        let (program, rest) = called.command.split_first().expect("a program");
        let mut server = Command::new(program);
        server.args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Neither server shall differ by what this program's environment says to Python.
        server.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("PYTHONHASHSEED", "0");
        let mut server = server.kill_on_drop(true).spawn().expect("the server");
        let (output, its_input) = (server.stdout.take(), server.stdin.take());
        let transport = AsyncRwTransport::new(output.expect("piped"), its_input.expect("piped"));
        let client = ClientConfig::default().serve(transport).await.expect("it answers");
        let mut call = CallToolRequestParams::new(called.tool.to_owned());
        call.arguments = called.arguments.as_object().cloned();
        Self { client, call, _server: server }
    }

    /// The times of so many calls, one after the other.
    async fn times(&mut self, count: usize) -> Vec<f64> {
        let mut times = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            self.client.peer().call_tool(self.call.clone()).await.expect("an answer");
            times.push(milliseconds_since(start));
        }
        times
    }
}

/// Ten calls at once to a server whose calls may overlap.
async fn at_once(upstream: &Upstream, report: &mut Report, script: &Script) {
    let table = script.table("one", "2", "shared = true");
    let server = process::server(&upstream.url(), &format!("{ALLOWED}{table}")).await;
    let mut client = Client::connect(server.address, &ask(ROUND, true, "none")).await;
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        for (times, count) in [(&mut one, 1), (&mut many, AT_ONCE)] {
            upstream.round("mcp__one__wait", &json!({}), count);
            let time = client.time().await;
            if run > 0 {
                times.push(time);
            }
        }
    }
    let (one, many) = (median(one), median(many));
    let detail = format!("{many:.1} ms, one {one:.1} ms");
    report.ratio("ten MCP calls at once to one", many / one, Bound::AtMost(1.3), detail);
}

/// The time until the server listens, with eight MCP servers of which one hangs, and with none.
async fn starts(upstream: &Upstream, report: &mut Report, script: &Script) {
    let settings = eight(script, "3s");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        for (times, settings) in [(&mut with, settings.as_str()), (&mut without, "")] {
            let start = Instant::now();
            let server = process::server(&upstream.url(), settings).await;
            times.push(milliseconds_since(start));
            drop(server);
        }
    }
    let (with, without) = (median(with), median(without));
    let detail = format!("{with:.1} ms, {without:.1} ms with none");
    let what = "listening with eight MCP servers, one of which hangs";
    report.ratio(what, with / without, Bound::AtMost(1.05), detail);
}

/// The first turn beside the longest that it may wait for servers.
async fn first_turn(upstream: &Upstream, report: &mut Report, script: &Script) {
    let settings = eight(script, &format!("{}ms", FIRST_TURN_WAIT.as_millis()));
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let server = process::server(&upstream.url(), &settings).await;
        let mut client = Client::connect(server.address, &ask(CHUNKS, true, "none")).await;
        times.push(client.time_until(FIRST_WORD).await);
    }
    let (first, wait) = (median(times), FIRST_TURN_WAIT.as_secs_f64() * 1000.0);
    let detail = format!("{first:.1} ms to the first word, the wait {wait:.0} ms");
    report.ratio(
        "the first turn to mcp.first_turn_wait",
        first / wait,
        Bound::AtMost(1.05),
        detail,
    );
}

fn eight(script: &Script, first_turn_wait: &str) -> String {
    let answering = (0..ANSWERING).map(|number| script.table(&format!("s{number}"), "2", ""));
    let tables: String = answering.chain([script.table("hanging", "hang", "")]).collect();
    format!("sandbox.mode = \"off\"\nmcp.first_turn_wait = \"{first_turn_wait}\"\n{tables}")
}

/// What 500 tools of MCP servers add to a request.
async fn many_tools(upstream: &Upstream, report: &mut Report, script: &Script) {
    let table = script.table("one", &TOOLS.to_string(), "");
    let with = process::server(&upstream.url(), &format!("{ALLOWED}{table}")).await;
    let without = process::server(&upstream.url(), "").await;
    let mut times = [Vec::new(), Vec::new()];
    let mut clients = [connect(&with).await, connect(&without).await];
    for _ in 0..REPEATS {
        for (client, times) in clients.iter_mut().zip(&mut times) {
            times.push(client.time_until(FIRST_WORD).await);
        }
    }
    let [with, without] = times.map(median);
    let detail = format!("{with:.3} ms, {without:.3} ms without");
    let what = format!("{TOOLS} MCP tools, a request");
    report.milliseconds(what, with - without, Bound::AtMost(5.0), detail);
}

/// A client whose server has had its first request.
async fn connect(server: &Process) -> Client {
    let mut client = Client::connect(server.address, &ask(CHUNKS, true, "none")).await;
    client.times(10).await;
    client
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a number of calls")]
fn count(calls: usize) -> f64 {
    calls as f64
}
