//! Follows what tools advise the model to do: each advice works in the state in which it is given.

use std::fs;

use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

mod literals;

/// An advice, how a model comes by it, and what it does then.
struct Advice {
    /// As the source has it, or enough of it to tell it from others.
    source: &'static str,
    /// A part of the answer that gives it.
    told: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
    /// The last of these is answered with the advice.
    before: Vec<(&'static str, Value)>,
    /// What the advice says. None of these fails.
    then: Vec<(&'static str, Value)>,
}

/// Sentences that look like advice, and why no call follows them.
const NOT_FOLLOWED: &[(&str, &str)] = &[
    ("Use it for work of several steps", "describes a tool"),
    ("Use it where the user must decide", "describes a tool"),
    ("Use one of those that are listed when the task", "describes a tool"),
    ("Use it before work that is large", "describes a tool"),
    ("so give commands all they need as arguments", "describes a tool"),
    ("Use it for searches and work whose details", "describes a tool"),
    ("Go on with this plan?", "is asked of a person"),
    ("Go on with what you know, and say what you assumed", "names no call"),
    ("If the command has to read it, {}", "ends in what is open here: `bash::masked_paths`"),
    ("go on with cursor", "needs an MCP server with many resources: `list_mcp_resources`"),
    ("To search file contents, use Grep", "describes a tool"),
    ("To change a part of a file, use Edit", "describes a tool"),
    ("go on where the answer says PARTIAL", "describes a tool"),
    ("when you use these results", "is about the answer to the user"),
    ("it is of no use any more", "is about the list of todos, as the model sees fit"),
    ("delete some that are of no use any more", "is about the model's own tasks"),
    ("it changed while it was being read; read it again", "comes of a race"),
    ("the file changed while it was being read; read it again", "comes of a race"),
    ("has changed since a person approved its edit", "comes of a race with a person"),
    ("the approval came too late and counts as declined", "is up to a person"),
    ("give `allowed_domains` or `blocked_domains`", "needs a search engine: `web::search`"),
    ("give `server`: one of", "needs two MCP servers: `mcp::real`"),
    ("the host of the URL is written in an unusual way", "leads to the network"),
    ("which needs an approval; call again with", "is up to a person: `agents::asking`"),
    ("in plan mode only Explore and Plan can be started", "is followed in `sessions::plan_mode`"),
    ("(PARTIAL: none of {total} lines", "comes of a limit under one line: `read::tests`"),
    ("no right to read it", "states a fact"),
    ("that may hold secrets; give the path of such a file", "leads to a person's approval"),
];

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": path }))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("Edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
}

fn replace_cell(source: &str) -> (&'static str, Value) {
    let arguments =
        json!({ "notebook_path": "a.ipynb", "cell_id": "cell-0", "new_source": source });
    ("NotebookEdit", arguments)
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": path, "content": content }))
}

fn with(call: (&'static str, Value), more: &[(&str, Value)]) -> (&'static str, Value) {
    let (tool, mut arguments) = call;
    for (name, value) in more {
        arguments[*name] = value.clone();
    }
    (tool, arguments)
}

const NOTEBOOK: &str = r#"{"cells": [{"cell_type": "markdown", "metadata": {}, "source": ["a"]}, {"cell_type": "markdown", "metadata": {}, "source": ["b"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}"#;

/// Two versions of the notebook, as git leaves them.
fn conflict() -> String {
    let theirs = NOTEBOOK.replace(r#"["b"]"#, r#"["c"]"#);
    format!("<<<<<<< HEAD\n{NOTEBOOK}\n=======\n{theirs}\n>>>>>>> theirs\n")
}

fn gbk() -> Vec<u8> {
    b"int x; /* \xb1\xe4\xc1\xbf \xba\xaf\xca\xfd */\n".to_vec()
}

fn advice_of_edit() -> Vec<Advice> {
    let text = |content: &str| vec![("a.txt", content.as_bytes().to_vec())];
    let notebook = || vec![("a.ipynb", NOTEBOOK.as_bytes().to_vec())];
    vec![
        Advice {
            source: "Must read file before editing",
            told: "Must read file before editing",
            files: text("one\n"),
            before: vec![edit("a.txt", "one", "two")],
            then: vec![read("a.txt"), edit("a.txt", "one", "two"), write("a.txt", "three\n")],
        },
        Advice {
            source: "Edit could break its cells; read it, then use NotebookEdit",
            told: "read it, then use NotebookEdit",
            files: notebook(),
            before: vec![edit("a.ipynb", "a", "b")],
            then: vec![read("a.ipynb"), replace_cell("c")],
        },
        Advice {
            source: "Edit could break its cells; use NotebookEdit",
            told: "use NotebookEdit",
            files: notebook(),
            before: vec![read("a.ipynb"), edit("a.ipynb", "a", "b")],
            then: vec![replace_cell("c")],
        },
        Advice {
            source: "It is text, so use Edit",
            told: "It is text, so use Edit",
            files: vec![("a.ipynb", conflict().into_bytes())],
            before: vec![read("a.ipynb"), replace_cell("c")],
            then: vec![edit("a.ipynb", &conflict(), NOTEBOOK), replace_cell("c")],
        },
        Advice {
            source: "add text around it to make it",
            told: "add text around it to make it unique, or set replace_all",
            files: text("one 1\none 2\n"),
            before: vec![read("a.txt"), edit("a.txt", "one", "two")],
            then: vec![
                edit("a.txt", "one 1", "two 1"),
                with(edit("a.txt", "o", "0"), &[("replace_all", json!(true))]),
            ],
        },
        Advice {
            source: "which only creates a file or fills an empty one; give the text to replace",
            told: "give the text to replace",
            files: text("one\n"),
            before: vec![read("a.txt"), edit("a.txt", "", "two")],
            then: vec![edit("a.txt", "one", "two")],
        },
        Advice {
            source: "give either old_string and new_string, or edits",
            told: "give either old_string and new_string, or edits",
            files: text("one\n"),
            before: vec![read("a.txt"), ("Edit", json!({ "file_path": "a.txt" }))],
            then: vec![
                edit("a.txt", "one", "two"),
                (
                    "Edit",
                    json!({
                        "file_path": "a.txt",
                        "edits": [{ "old_string": "two", "new_string": "three" }],
                    }),
                ),
            ],
        },
        Advice {
            source: "so leave out the numbers and the tab after them",
            told: "leave out the numbers and the tab",
            files: text("one\n"),
            before: vec![read("a.txt"), edit("a.txt", "     1\tone", "two")],
            then: vec![edit("a.txt", "one", "two")],
        },
        Advice {
            source: "It nearly matches: ",
            told: r#"as a JSON string: "one\u200b\u0020""#,
            files: text("one\u{200b} \n"),
            before: vec![read("a.txt"), edit("a.txt", "one\n", "two\n")],
            then: vec![edit("a.txt", "one\u{200b}\u{20}\n", "two\n")],
        },
    ]
}

fn advice_on_encodings() -> Vec<Advice> {
    let named = |name: &str| [("encoding", json!(name))];
    let insert = || edit("a.c", "int x;", "int x; // 修改");
    let source = || vec![("a.c", gbk())];
    let utf_8 = || vec![("a.c", "int x; // für\n".as_bytes().to_vec())];
    vec![
        Advice {
            source: "is not known; give a name such as \\\"gbk\\\", \\\"shift_jis\\\"",
            told: "give a name such as \"gbk\"",
            files: source(),
            before: vec![read("a.c"), with(insert(), &named("latin9000"))],
            then: vec![with(insert(), &named("gbk"))],
        },
        Advice {
            source: "If you know the encoding, call again with it",
            told: "call again with it",
            files: source(),
            before: vec![read("a.c"), insert()],
            then: vec![with(insert(), &named("gbk"))],
        },
        Advice {
            source: "some of its bytes are no text in that. Leave `encoding` out",
            told: "Leave `encoding` out",
            files: vec![("a.c", b"int x; // caf\xe9\n".to_vec())],
            before: vec![read("a.c"), with(edit("a.c", "x", "y"), &named("gbk"))],
            then: vec![edit("a.c", "x", "y")],
        },
        Advice {
            source: "and not in the ISO encoding that is named for the file",
            told: "give `\"encoding\": \"windows-1252\"`",
            files: vec![
                (".editorconfig", b"[*.c]\ncharset = latin1\n".to_vec()),
                ("a.c", b"int x; // caf\xe9\n".to_vec()),
            ],
            before: vec![read("a.c"), edit("a.c", "int x;", "int x; /* € */")],
            then: vec![with(edit("a.c", "int x;", "int x; /* € */"), &named("windows-1252"))],
        },
        Advice {
            source: "so leave `encoding` out; {named} is not it",
            told: "so leave `encoding` out",
            files: utf_8(),
            before: vec![read("a.c"), with(insert(), &named("gbk"))],
            then: vec![insert()],
        },
    ]
}

fn advice_of_read() -> Vec<Advice> {
    let document = |name: &str| {
        let path = format!("{}/tests/documents/{name}", env!("CARGO_MANIFEST_DIR"));
        fs::read(path).expect("a file of the tests")
    };
    let text = || vec![("d/a.txt", b"one\ntwo\n".to_vec())];
    let pdf = || vec![("a.pdf", document("twelve.pdf"))];
    let pages = |pages: &str| with(read("a.pdf"), &[("pages", json!(pages))]);
    vec![
        Advice {
            source: "go on with offset {line} and column {end}",
            told: "go on with offset 1 and column 10001",
            files: long_line(),
            before: vec![with(read("long.txt"), &[("column", json!(1))])],
            then: vec![with(read("long.txt"), &[("offset", json!(1)), ("column", json!(10_001))])],
        },
        Advice {
            source: "list it with Glob",
            told: "list it with Glob",
            files: text(),
            before: vec![read("d")],
            then: vec![("Glob", json!({ "path": "d", "pattern": "*" }))],
        },
        Advice {
            source: "go on with offset {end}",
            told: "go on with offset 2",
            files: text(),
            before: vec![with(read("d/a.txt"), &[("limit", json!(1))])],
            then: vec![with(read("d/a.txt"), &[("offset", json!(2))])],
        },
        Advice {
            source: "go on with offset {next}",
            told: "go on with offset 2",
            files: vec![("a.ipynb", NOTEBOOK.into())],
            before: vec![with(read("a.ipynb"), &[("limit", json!(1))])],
            then: vec![with(read("a.ipynb"), &[("offset", json!(2))])],
        },
        Advice {
            source: "go on with pages {next}",
            told: "go on with pages 2",
            files: pdf(),
            before: vec![pages("1")],
            then: vec![pages("2"), pages("2-3")],
        },
        Advice {
            source: "give one page, such as",
            told: "give one page, such as \"3\", or a range, such as \"1-5\"",
            files: pdf(),
            before: vec![pages("x")],
            then: vec![pages("3"), pages("1-5")],
        },
        Advice {
            source: "say which ones with pages",
            told: "say which ones with pages, such as \"1-12\"",
            files: pdf(),
            before: vec![read("a.pdf")],
            then: vec![pages("1-12")],
        },
    ]
}

/// A file with one line that is too long to show.
fn long_line() -> Vec<(&'static str, Vec<u8>)> {
    let line = "x".repeat(3_000) + "needle" + &"y".repeat(30_000);
    vec![("long.txt", line.into_bytes())]
}

fn advice_of_searches() -> Vec<Advice> {
    let files = || vec![("d/e/a.txt", b"one\n}two\n".to_vec()), ("d/.env", b"one\n".to_vec())];
    let glob = |pattern: &str| ("Glob", json!({ "pattern": pattern }));
    let grep = |arguments: Value| ("Grep", arguments);
    vec![
        Advice {
            source: "To list what is in it, use the pattern",
            told: "use the pattern ",
            files: files(),
            before: vec![glob("e")],
            then: vec![glob("d/e/**")],
        },
        Advice {
            source: "the glob has `..` behind a wildcard; put it first, or set path",
            told: "put it first, or set path",
            files: files(),
            before: vec![glob("d/*/../*.txt")],
            then: vec![glob("d/e/../e/*.txt")],
        },
        Advice {
            source: "; use glob instead",
            told: "use glob instead",
            files: files(),
            before: vec![grep(json!({ "pattern": "one", "type": "жж" }))],
            then: vec![grep(json!({ "pattern": "one", "glob": "*.txt" }))],
        },
        Advice {
            source: "To match across lines, set multiline to true",
            told: "set multiline to true",
            files: files(),
            before: vec![grep(json!({ "pattern": "one\\n" }))],
            then: vec![grep(json!({ "pattern": "one\\n", "multiline": true }))],
        },
        Advice {
            source: "To match a brace literally, put a backslash before it",
            told: "put a backslash before it",
            files: files(),
            before: vec![grep(json!({ "pattern": "x{" }))],
            then: vec![grep(json!({ "pattern": "\\}two" }))],
        },
        Advice {
            source: "(parentheses are plain characters: there are no groups such as !(a|b)",
            told: "for a choice, use {a,b}",
            files: files(),
            before: vec![glob("**/+(a|b).txt")],
            then: vec![glob("**/{a,b}.txt")],
        },
        Advice {
            source: "(parentheses in glob are plain characters",
            told: "use {a,b} for a choice",
            files: files(),
            before: vec![grep(json!({ "pattern": "one", "glob": "+(a|b).txt" }))],
            then: vec![grep(json!({ "pattern": "one", "glob": "{a,b}.txt" }))],
        },
        Advice {
            source: "(lines of over ",
            told: "set -o and put .{0,80} before and after",
            files: long_line(),
            before: vec![grep(json!({ "pattern": "needle", "output_mode": "content" }))],
            then: vec![
                grep(json!({
                    "pattern": ".{0,80}needle.{0,80}", "output_mode": "content", "-o": true,
                })),
                with(read("long.txt"), &[("offset", json!(1)), ("column", json!(2_990))]),
            ],
        },
        Advice {
            source: "so it is the name of a directory; give that of a file",
            told: "give that of a file",
            files: files(),
            before: vec![write("new/", "x")],
            then: vec![write("new/a.txt", "x")],
        },
    ]
}

fn advice_of_commands_and_agents() -> Vec<Advice> {
    let bash =
        |command: &str, more: &[(&str, Value)]| with(("Bash", json!({ "command": command })), more);
    let task = |more: &[(&str, Value)]| {
        with(("Task", json!({ "description": "Look", "prompt": "Look." })), more)
    };
    vec![
        Advice {
            source: "if it needs more time, give a larger timeout",
            told: "give a larger timeout",
            files: vec![],
            before: vec![bash("sleep 0.3", &[("timeout", json!(20))])],
            then: vec![bash("sleep 0.3", &[("timeout", json!(60_000))])],
        },
        Advice {
            source: "use run_in_background for what must keep running",
            told: "use run_in_background",
            files: vec![],
            before: vec![bash("sleep 600 & echo started", &[])],
            then: vec![bash("sleep 600", &[("run_in_background", json!(true))])],
        },
        Advice {
            source: "there is no agent type {name}; use one of",
            told: "use one of: general-purpose",
            files: vec![],
            before: vec![task(&[("subagent_type", json!("zzz"))])],
            then: vec![task(&[("subagent_type", json!("general-purpose"))])],
        },
        Advice {
            source: "there is no model {name:?} for agents; use one of",
            told: "use one of: inherit",
            files: vec![],
            before: vec![task(&[("model", json!("zzz"))])],
            then: vec![task(&[("model", json!("inherit"))])],
        },
    ]
}

fn all() -> Vec<Advice> {
    let mut all = advice_of_edit();
    all.extend(advice_on_encodings());
    all.extend(advice_of_read());
    all.extend(advice_of_searches());
    all.extend(advice_of_commands_and_agents());
    all
}

/// Makes the calls one after the other, and returns their answers.
async fn answers_to(advice: &Advice) -> Vec<String> {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free();
    for (name, content) in &advice.files {
        let path = builder.workspace().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("our own directory");
        fs::write(path, content).expect("our own file");
    }
    let server = builder.start().await;
    let follows = |index: usize| index >= advice.before.len();
    for (index, (tool, arguments)) in advice.before.iter().chain(&advice.then).enumerate() {
        let id = format!("c{index}");
        upstream.round(calls(&[(id.as_str(), *tool, arguments.clone())]));
        if *tool == "Task" && follows(index) {
            upstream.round(says("The agent has looked."));
        }
    }
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    answers_in(&upstream.requests().pop().expect("a request").json())
}

#[tokio::test]
async fn every_advice_works_in_the_state_in_which_it_is_given() {
    let mut faults = Vec::new();
    for advice in all() {
        let answers = answers_to(&advice).await;
        let (before, then) = answers.split_at(advice.before.len());
        let given = before.last().expect("an answer");
        let Advice { source, told, .. } = &advice;
        if !given.contains(told) {
            faults.push(format!("{source}: not told: {given}"));
        }
        assert_eq!(then.len(), advice.then.len(), "{source}: {answers:?}");
        let is_failure =
            |answer: &&String| answer.starts_with("Error: ") || answer.starts_with("No ");
        let failed = then.iter().filter(is_failure);
        faults.extend(failed.map(|answer| format!("{source}: followed: {answer}")));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Every sentence of the kind that tells the model what to do is followed by a test, or says why
/// no test can.
#[test]
fn every_advice_in_the_source_is_followed() {
    let followed: Vec<&str> = all().iter().map(|advice| advice.source).collect();
    let known: Vec<&str> =
        followed.iter().copied().chain(NOT_FOLLOWED.iter().map(|(text, _)| *text)).collect();
    let found = literals::advice_in_the_source();
    assert!(found.len() > 30, "{}", found.len());
    let is_known = |literal: &str| known.iter().any(|text| literal.contains(text));
    let new: Vec<&(String, String)> =
        found.iter().filter(|(_, literal)| !is_known(literal)).collect();
    assert!(new.is_empty(), "add it to the table, or the reason why it cannot be: {new:#?}");
    let is_there = |text: &str| found.iter().any(|(_, literal)| literal.contains(text));
    let reasons = NOT_FOLLOWED.iter().map(|(text, _)| *text);
    let gone: Vec<&str> = reasons.filter(|text| !is_there(text)).collect();
    assert!(gone.is_empty(), "no longer in the source: {gone:#?}");
}
