//! Replays the lists of tools that public servers send: each tool is offered, and a call that fits
//! its schema arrives as it was made.
//!
//! `public-lists.json.gz` holds names and schemas as the packages in it have sent them, with their
//! versions and without their texts.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use self::example::{Examples, Extent};
use super::{allowed, heard, offered_names};
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::{Call, answers_in};

mod example;

const LISTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/public-lists.json.gz");

/// How many calls the model makes at once.
const CALLS: usize = 20;

/// Their ids.
const IDS: &str = "abcdefghijklmnopqrst";

/// How many servers run beside each other.
const SERVERS: usize = 12;

fn lists() -> Vec<Value> {
    let output = Command::new("gzip").args(["-dc", LISTS]).output().expect("gzip");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("lists")
}

/// The name of a server of the test.
fn server_name(place: usize) -> &'static str {
    Box::leak(format!("s{place}").into_boxed_str())
}

/// A server that sends this list, and answers each call with its arguments.
fn script(list: &Value) -> Value {
    let mut tools = list["tools"].clone();
    for tool in tools.as_array_mut().expect("tools") {
        tool["description"] = "Does it.".into();
    }
    json!({ "tools": tools, "on_call": [{ "echo": 1 }] })
}

/// The name by which the model is offered a tool.
fn offered_name(server: &str, tool: &Value) -> String {
    let own = tool["name"].as_str().expect("a name").chars();
    let usable = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("mcp__{server}__{}", own.map(usable).collect::<String>())
}

/// What the model is offered of a list, in order.
fn advertised(server: &str, list: &Value) -> BTreeSet<String> {
    let tools = list["tools"].as_array().expect("tools").iter();
    tools.map(|tool| offered_name(server, tool)).collect()
}

/// The calls that the model makes of a list's tools, and how many tools have no example.
fn example_calls(server: &str, list: &Value) -> (Vec<Call>, usize) {
    let (mut all, mut without) = (Vec::new(), 0);
    for tool in list["tools"].as_array().expect("tools") {
        let name: &'static str = Box::leak(offered_name(server, tool).into_boxed_str());
        let examples = Examples::of(&tool["inputSchema"]);
        let made: Vec<Value> = [Extent::Required, Extent::All]
            .into_iter()
            .filter_map(|extent| examples.arguments(extent))
            .collect();
        without += usize::from(made.is_empty());
        all.extend(made.into_iter().map(|arguments| ("c", name, arguments)));
    }
    (all, without)
}

/// What the model is told of calls that it makes in one round.
async fn told_at_once(server: &Server, upstream: &Upstream, all: &[Call]) -> Vec<String> {
    upstream.round(calls(all));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    answers_in(&upstream.requests().pop().expect("a request").json())
}

/// Makes the calls, and returns those whose arguments did not arrive as they were.
async fn changed(server: &Server, upstream: &Upstream, all: &[Call]) -> Vec<String> {
    let mut changed = Vec::new();
    for some in all.chunks(CALLS) {
        let numbered: Vec<Call> = some
            .iter()
            .enumerate()
            .map(|(place, (_, name, made))| (&IDS[place..=place], *name, made.clone()))
            .collect();
        let answers = told_at_once(server, upstream, &numbered).await;
        for ((_, name, made), answer) in some.iter().zip(answers) {
            let arrived: Option<Value> = serde_json::from_str(&answer).ok();
            if arrived.as_ref() != Some(made) {
                changed.push(format!("{name}: {made} came as {answer}"));
            }
        }
    }
    changed
}

#[tokio::test]
async fn each_tool_of_public_servers_is_offered_and_valid_calls_arrive_unchanged() {
    let lists = lists();
    assert!(30 <= lists.len(), "{}", lists.len());
    let upstream = Upstream::start();
    let (mut made, mut without_example) = (0, Vec::new());
    for some in lists.chunks(SERVERS) {
        let named: Vec<_> =
            some.iter().enumerate().map(|(place, list)| (server_name(place), list)).collect();
        let servers: Vec<_> =
            named.iter().map(|(name, list)| (*name, script(list), "shared = true")).collect();
        let builder = allowed(&upstream, &servers).argument("--sandbox=off");
        let server = builder.start().await;
        let offered: BTreeSet<String> =
            offered_names(&server, &upstream).await.into_iter().collect();
        for (name, list) in named {
            let missing: Vec<_> = advertised(name, list).difference(&offered).cloned().collect();
            assert_eq!(missing, [""; 0], "{}: {:?}", list["package"], heard(&server, name));
            let (all, without) = example_calls(name, list);
            if 0 < without {
                without_example.push(format!("{}: {without}", list["package"]));
            }
            made += all.len();
            let changed = changed(&server, &upstream, &all).await;
            assert_eq!(changed, [""; 0], "{}", list["package"]);
        }
    }
    // What the generator of examples cannot make says nothing of the server.
    assert!(2_000 < made, "{made}");
    assert!(without_example.len() < 5, "{without_example:?}");
}
