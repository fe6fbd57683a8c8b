//! Whatever the calls of a round are, the outcome is that of running them one
//! after the other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::answers_in;
use crate::support::chunks::{call, calls, end, says};
use crate::support::client::{ask, with};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

/// Enough to meet each pair of tools over one file several times.
const CASES: u32 = 64;

const NAMES: &[&str] = &["a.txt", "b.txt", "new.txt"];

type Call = (&'static str, Value);

/// What is left of a turn: every answer in order, every file.
#[derive(Debug, PartialEq)]
struct Outcome {
    answers: Vec<String>,
    files: BTreeMap<String, String>,
}

#[test]
fn the_outcome_is_that_of_running_the_calls_in_order() {
    let runtime = Runtime::new().expect("a runtime");
    let upstream = Upstream::start();
    let server = runtime.block_on(Server::builder(&upstream).free().start());
    let cases = Cell::new(0);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };

    let outcome = TestRunner::new(config).run(&some_calls(), |list| {
        let number = cases.replace(cases.get() + 1);
        let at_once =
            runtime.block_on(run(&upstream, &server, &format!("{number}-at-once"), |model| {
                upstream.round_of(model, one_round(&list));
                upstream.round_of(model, says("Done."));
            }));
        let in_order =
            runtime.block_on(run(&upstream, &server, &format!("{number}-in-order"), |model| {
                for (tool, input) in &list {
                    upstream.round_of(model, calls(&[("c", *tool, input.clone())]));
                }
                upstream.round_of(model, says("Done."));
            }));
        prop_assert_eq!(at_once, repeated_in_full(&list, in_order));
        Ok(())
    });

    assert!(outcome.is_ok(), "{}", outcome.expect_err("a counterexample"));
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

fn one_round(list: &[Call]) -> Vec<Step> {
    let calls = list.iter().zip(0_u64..);
    let calls =
        calls.flat_map(|((tool, input), index)| call(index, &format!("c{index}"), tool, input));
    calls.chain(end("tool_calls")).collect()
}

/// Runs a turn in the workspace as it always begins.
async fn run(upstream: &Upstream, server: &Server, model: &str, script: impl Fn(&str)) -> Outcome {
    let workspace = server.workspace();
    for entry in fs::read_dir(&workspace).expect("the workspace").flatten() {
        fs::remove_file(entry.path()).expect("a file of ours");
    }
    fs::write(workspace.join("a.txt"), "one\ntwo\n").expect("a file");
    fs::write(workspace.join("b.txt"), "two\nthree\n").expect("a file");
    script(model);

    let answer = server.client().chat(&with(ask("Go."), json!({ "model": model }))).await;

    assert_eq!(answer.text(), "Done.");
    let last = upstream.requests().pop().expect("a request").json();
    let answers = answers_in(&last).iter().map(|answer| sorted_paths(answer)).collect();
    Outcome { answers, files: files(&workspace) }
}

/// A later round answers a repeated call shorter, since the model has the answer;
/// calls of one round do not know of each other.
fn repeated_in_full(list: &[Call], mut outcome: Outcome) -> Outcome {
    for repeat in 1..list.len() {
        if outcome.answers[repeat].contains("has not changed since") {
            let first = (0..repeat).rev().find(|first| list[*first] == list[repeat]);
            let first = first.expect("a call that is repeated");
            let (before, after) = outcome.answers.split_at_mut(repeat);
            after[0].clone_from(&before[first]);
        }
    }
    outcome
}

/// Glob lists the newest first; two runs may give neighbours the same time.
fn sorted_paths(answer: &str) -> String {
    // The third time in a row it is said to be the third time.
    let answer = answer.split("\n\n(This is the same call").next().unwrap_or_default();
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
