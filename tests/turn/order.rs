//! Tests that any round of calls, however it arrives, has the same outcome as running its calls
//! one after the other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::answers_in;
use crate::support::chunks::{call, calls, end, gate, says};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::{Event, Transcript};
use crate::support::upstream::{Step, Upstream};

/// Enough cases to meet each pair of tools on one file several times.
const CASES: u32 = 64;

const NAMES: &[&str] = &["a.txt", "b.txt", "new.txt"];

/// A tool of the client's.
const CLIENTS: &str = "weather";

const MODELS: &str = r#"
    [[models]]
    match = "*sealed*"
    start = "sealed"
    [[models]]
    match = "*after_stream*"
    start = "after_stream"
"#;

type Call = (&'static str, Value);

/// The outcome of a turn: every answer in order, and every file.
#[derive(Debug, PartialEq)]
struct Outcome {
    answers: Vec<String>,
    files: BTreeMap<String, String>,
}

/// How a round arrives.
#[derive(Clone, Debug)]
struct Manner {
    /// The value of `start`, which decides when a call may start.
    start: &'static str,
    /// Whether the client declares a tool. Then exclusive calls wait for the end.
    has_client_tools: bool,
    /// Upstream pauses within each call and after it. At each pause it waits until this many of
    /// the calls that can have ended by then have done so (modulo their number). Empty: no
    /// pauses.
    awaited: Vec<usize>,
}

impl Manner {
    /// How many calls must be able to end once upstream has closed and sealed this many.
    fn can_end(&self, list: &[Call], closed: usize, sealed: usize) -> usize {
        let starts = |(at, (tool, _)): &(usize, &Call)| match (self.start, *tool) {
            ("after_stream", _) => false,
            (_, CLIENTS) => *at < sealed,
            (_, tool) if is_shared(tool) => *at < closed,
            (start, _) => start == "sealed" && !self.has_client_tools && *at < sealed,
        };
        let started = list.iter().enumerate().take_while(starts);
        started.filter(|(_, (tool, _))| *tool != CLIENTS).count()
    }

    /// How many ends upstream waits for at each gate of a round.
    fn awaited(&self, list: &[Call]) -> Vec<usize> {
        let ends = (0..list.len())
            .flat_map(|at| [self.can_end(list, at, at), self.can_end(list, at + 1, at)]);
        ends.zip(self.awaited.iter().cycle()).map(|(can, some)| some % (can + 1)).collect()
    }
}

fn is_shared(tool: &str) -> bool {
    ["Read", "Grep", "Glob"].contains(&tool)
}

/// Checks that each exclusive call ran alone: after all calls before it, before all behind it.
fn check_overlaps(list: &[Call], answer: &Transcript) {
    let mut ended = vec![false; list.len()];
    for event in answer.events.iter().map(Event::progress) {
        let at = event["id"].as_str().and_then(|id| id.strip_prefix('c')?.parse::<usize>().ok());
        let Some(at) = at else { continue };
        if event["type"] == "tool_end" {
            ended[at] = true;
        } else {
            let mut earlier = list[..at].iter().zip(&ended);
            let may_start = earlier
                .all(|((tool, _), ended)| *ended || (is_shared(tool) && is_shared(list[at].0)));
            assert!(may_start, "c{at} started too early: {:#?}", answer.events);
        }
    }
    assert!(ended.iter().all(|ended| *ended), "{:#?}", answer.events);
}

#[test]
fn the_outcome_is_that_of_running_the_calls_in_order() {
    check_outcomes(&(some_calls(), some_manner()), |turns, (list, manner)| {
        let (answer, at_once) = turns.at_once(&list, &manner);
        check_overlaps(&list, &answer);
        prop_assert_eq!(at_once, turns.in_order(&list));
        Ok(())
    });
}

/// The server's calls of such a round run, and leave no trace in the answer.
#[test]
fn a_round_of_both_kinds_leaves_nothing_but_the_clients_call() {
    let with_one = (some_calls(), any::<prop::sample::Index>()).prop_map(|(mut list, place)| {
        let place = place.index(list.len() + 1);
        list.insert(place, (CLIENTS, json!({ "city": "Lyon" })));
        (list, place)
    });
    check_outcomes(&(with_one, some_manner()), |turns, ((list, place), manner)| {
        let (answer, _) = turns.at_once(&list, &Manner { has_client_tools: true, ..manner });
        let calls = answer.message["tool_calls"].as_array().expect("a call");
        prop_assert_eq!(calls.len(), 1);
        prop_assert_eq!(&calls[0]["id"], &format!("c{place}"));
        prop_assert_eq!(answer.finish_reason.as_deref(), Some("tool_calls"));
        Ok(())
    });
}

fn check_outcomes<T: std::fmt::Debug>(
    cases: &impl Strategy<Value = T>,
    check: impl Fn(&Turns, T) -> Result<(), TestCaseError>,
) {
    let upstream = Upstream::start();
    let runtime = Runtime::new().expect("a runtime");
    let server = runtime.block_on(Server::builder(&upstream).free().tables(MODELS).start());
    let turns = Turns { upstream, server, runtime, count: Cell::new(0) };
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        // A shrink step in which a call never starts costs a whole timeout, so shrinking is
        // limited.
        max_shrink_time: 20_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(cases, |case| check(&turns, case));
    assert!(outcome.is_ok(), "{}", outcome.expect_err("a counterexample"));
}

fn some_manner() -> impl Strategy<Value = Manner> {
    let start = prop::sample::select(vec!["safe", "sealed", "sealed", "after_stream"]);
    let awaited = prop_oneof![Just(Vec::new()), prop::collection::vec(0..8_usize, 1..16)];
    (start, any::<bool>(), awaited).prop_map(|(start, has_client_tools, awaited)| Manner {
        start,
        has_client_tools,
        awaited,
    })
}

fn some_calls() -> impl Strategy<Value = Vec<Call>> {
    let name = prop::sample::select(NAMES);
    let word = prop::sample::select(vec!["one", "two", "three"]);
    let call = (0..6_u8, name, word).prop_map(|(kind, name, word)| match kind {
        0 => ("Read", json!({ "file_path": name })),
        1 => ("Write", json!({ "file_path": name, "content": format!("{word}\n{word}\n") })),
        2 => ("Edit", json!({ "file_path": name, "old_string": "one", "new_string": word })),
        3 => ("Grep", json!({ "pattern": word, "output_mode": "content" })),
        4 => ("Bash", json!({ "command": format!("echo {word} >> {name}") })),
        _ => ("Glob", json!({ "pattern": "*.txt" })),
    });
    prop::collection::vec(call, 1..8)
}

/// Where turns run, each in the same initial workspace.
struct Turns {
    upstream: Upstream,
    server: Server,
    runtime: Runtime,
    count: Cell<usize>,
}

impl Turns {
    /// Runs all calls in one round, which pauses at its gates.
    fn at_once(&self, list: &[Call], manner: &Manner) -> (Transcript, Outcome) {
        let model = self.begin(manner.start);
        let gates = if manner.awaited.is_empty() { 0 } else { 2 * list.len() };
        let gates: Vec<String> = (0..gates).map(|at| format!("{model}-{at}")).collect();
        self.upstream.round_of(&model, one_round(list, &gates));
        if list.iter().all(|(tool, _)| *tool != CLIENTS) {
            self.upstream.round_of(&model, says("Done."));
        }
        let progress = json!({ "progress": "events" });
        let mut body = with(ask_streamed("Go."), json!({ "model": model, "toolhand": progress }));
        if manner.has_client_tools {
            let function = json!({ "name": CLIENTS, "parameters": { "type": "object" } });
            body = with(body, json!({ "tools": [{ "type": "function", "function": function }] }));
        }
        let answer = self.runtime.block_on(async {
            let mut stream = self.server.client().stream(&body).await;
            let mut ended = 0;
            for (gate, awaited) in gates.iter().zip(manner.awaited(list)) {
                self.upstream.reached(gate).await;
                while ended < awaited {
                    stream.until_progress("tool_end").await;
                    ended += 1;
                }
                self.upstream.open(gate);
            }
            stream.finish().await
        });
        (answer, self.outcome())
    }

    /// Runs the calls of a round one by one.
    fn in_order(&self, list: &[Call]) -> Outcome {
        let model = self.begin("in-order");
        let ids: Vec<String> = (0..list.len()).map(|at| format!("c{at}")).collect();
        let round = list.iter().zip(&ids);
        let round = round.map(|((tool, input), id)| (id.as_str(), *tool, input.clone()));
        self.upstream.round_of(&model, calls(&round.collect::<Vec<_>>()));
        self.upstream.round_of(&model, says("Done."));
        let client = self.server.client();
        let one_by_one = json!({ "model": model, "parallel_tool_calls": false });
        let answer = self.runtime.block_on(client.chat(&with(ask("Go."), one_by_one)));
        assert_eq!(answer.text(), "Done.");
        self.outcome()
    }

    /// Resets the workspace. Returns the name of a model that no other turn uses.
    fn begin(&self, kind: &str) -> String {
        let workspace = self.server.workspace();
        for entry in fs::read_dir(&workspace).expect("the workspace").flatten() {
            fs::remove_file(entry.path()).expect("a file of ours");
        }
        for (name, content) in files_at_first() {
            fs::write(workspace.join(name), content).expect("a file");
        }
        let number = self.count.replace(self.count.get() + 1);
        format!("{kind}-{number}")
    }

    fn outcome(&self) -> Outcome {
        let last = self.upstream.requests().pop().expect("a request").json();
        let answers = answers_in(&last).iter().map(|answer| sorted_paths(answer)).collect();
        Outcome { answers, files: files(&self.server.workspace()) }
    }
}

/// The calls as one round, with a gate within each and one after it if there are gates.
fn one_round(list: &[Call], gates: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut gates = gates.iter();
    for ((tool, input), index) in list.iter().zip(0_u64..) {
        let mut pieces = call(index, &format!("c{index}"), tool, input);
        let closing = pieces.pop();
        let (within, behind) = (gates.next(), gates.next());
        steps.extend(pieces);
        steps.extend(within.map(|name| gate(name)));
        steps.extend(closing);
        steps.extend(behind.map(|name| gate(name)));
    }
    steps.into_iter().chain(end("tool_calls")).collect()
}

fn files_at_first() -> BTreeMap<String, String> {
    let files = [("a.txt", "one\ntwo\n"), ("b.txt", "two\nthree\n")];
    files.map(|(name, content)| (name.to_owned(), content.to_owned())).into()
}

/// Sorts Glob's paths. It lists the newest first, and two files may have the same time.
fn sorted_paths(answer: &str) -> String {
    // From the third repetition on, the answer ends with a note.
    let answer = answer.split("\n\n(This is the same call").next().unwrap_or_default();
    // What a round tells of files that commands have changed is no part of the answer.
    let answer = answer.split("\n\n<reminder>").next().unwrap_or_default();
    let mut lines: Vec<&str> = answer.lines().collect();
    if lines.iter().all(|line| NAMES.iter().any(|name| line.ends_with(name))) {
        lines.sort_unstable();
    }
    lines.join("\n")
}

fn files(workspace: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(workspace).expect("the workspace").flatten();
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("UTF-8");
        (name, fs::read_to_string(entry.path()).expect("text"))
    };
    entries.map(file).collect()
}
