//! Tests how notebooks, pictures and PDF files are read and changed, as client and model see it.

use serde_json::{Value, json};

use crate::sessions::{assistant, conversation, user};
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// Written by nbformat: a heading, a code cell with output, and one with an error.
const NOTEBOOK: &str = include_str!("documents/analysis.ipynb");

fn builder(upstream: &Upstream) -> Builder {
    Server::builder(upstream).file("analysis.ipynb", NOTEBOOK)
}

/// What the model is told of the calls of one round.
async fn told(server: &Server, upstream: &Upstream, round: &[(&str, &str, Value)]) -> Vec<String> {
    upstream.round(calls(round));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    let workspace = server.workspace().display().to_string();
    answers.into_iter().map(|answer| answer.replace(&workspace, "$WORKSPACE")).collect()
}

fn read(id: &'static str) -> (&'static str, &'static str, Value) {
    (id, "Read", json!({ "file_path": "analysis.ipynb" }))
}

fn replace(id: &'static str) -> (&'static str, &'static str, Value) {
    let arguments =
        json!({ "notebook_path": "analysis.ipynb", "cell_id": "load", "new_source": "total = 4" });
    (id, "NotebookEdit", arguments)
}

/// The notebook after [`replace`]: nothing else differs, to the last byte.
fn replaced() -> String {
    let (before, rest) = NOTEBOOK.split_once("   \"execution_count\": 1,\n").expect("a count");
    let (kept, rest) = rest.split_once("   \"outputs\": [").expect("outputs");
    let (_, after) = rest.split_once("total\"\n   ]\n").expect("a source");
    format!(
        "{before}   \"execution_count\": null,\n{kept}   \"outputs\": [],\n   \"source\": [\n    \
         \"total = 4\"\n   ]\n{after}"
    )
}

#[tokio::test]
async fn a_cell_is_changed_once_it_was_read_and_a_person_has_seen_how() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    upstream.round(calls(&[replace("c1"), read("c2")]));
    upstream.round(calls(&[replace("c3")]));
    let client = server.client();
    let first = client.chat(&ask("Change it.")).await;
    let question = first.text();
    let unread = &answers_in(&upstream.requests().pop().expect("a request").json())[0];
    assert!(unread.starts_with("Error: Must read file before editing: "), "{unread}");
    assert!(question.contains("analysis.ipynb"), "{question}");
    assert!(question.contains("+    \"total = 4\""), "{question}");
    assert_eq!(server.file("analysis.ipynb"), NOTEBOOK);

    upstream.round(says("Done."));
    let list = [user("Change it."), assistant(&question), user("1")];
    assert_eq!(client.chat(&conversation(&list)).await.text(), "Done.");
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    let answer = answers.last().expect("an answer");
    assert!(answer.starts_with("Updated cell load in "), "{answer}");
    assert_eq!(server.file("analysis.ipynb"), replaced());
}

#[tokio::test]
async fn the_mode_and_the_rules_of_edits_hold_for_cells() {
    let upstream = Upstream::start();
    let free = builder(&upstream).config("permissions.mode", r#""acceptEdits""#).start().await;
    upstream.round(calls(&[read("c1")]));
    let answers = told(&free, &upstream, &[replace("c2")]).await;
    assert_eq!(answers[1], "Updated cell load in $WORKSPACE/analysis.ipynb");
    assert_eq!(free.file("analysis.ipynb"), replaced());

    for rule in ["Edit(*.ipynb)", "NotebookEdit(analysis.*)", "NotebookEdit"] {
        let denied = builder(&upstream)
            .config("permissions.mode", r#""acceptEdits""#)
            .config("permissions.deny", &json!([rule]).to_string())
            .start()
            .await;
        let answers = told(&denied, &upstream, &[replace("c1")]).await;
        assert!(answers[0].starts_with("Error: "), "{rule}: {answers:?}");
        assert!(!answers[0].contains("Must read"), "{rule}: {answers:?}");
        assert_eq!(denied.file("analysis.ipynb"), NOTEBOOK, "{rule}");
    }
}

#[tokio::test]
async fn edit_leaves_notebooks_alone_and_names_the_tool_for_them() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("permissions.mode", r#""acceptEdits""#).start().await;
    let edit = json!({ "file_path": "analysis.ipynb", "old_string": "total", "new_string": "x" });
    let answers = told(&server, &upstream, &[("c1", "Edit", edit)]).await;
    assert_eq!(
        answers,
        ["Error: $WORKSPACE/analysis.ipynb is a notebook, and Edit could break its cells; use \
          NotebookEdit"]
    );
    assert_eq!(server.file("analysis.ipynb"), NOTEBOOK);
}
