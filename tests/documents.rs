//! Tests how notebooks, pictures and PDF files are read and changed, as client and model see it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::sessions::{after, assistant, conversation, user};
use crate::support::chunks::{calls, says, status};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::stream::Event;
use crate::support::upstream::Upstream;
use crate::support::watch;
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
    let calls = [("c1", "Edit", edit.clone()), read("c2"), ("c3", "Edit", edit)];
    let answers = told(&server, &upstream, &calls).await;
    let refusal =
        "Error: $WORKSPACE/analysis.ipynb is a notebook, and Edit could break its cells; ";
    assert_eq!(answers[0], format!("{refusal}read it, then use NotebookEdit"));
    assert_eq!(answers[2], format!("{refusal}use NotebookEdit"));
    assert_eq!(server.file("analysis.ipynb"), NOTEBOOK);
}

/// Writes these files of `tests/documents` into the workspace.
fn with_files(builder: Builder, names: &[&str]) -> Builder {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    for name in names {
        fs::copy(source.join(name), builder.workspace().join(name)).expect("a file of the tests");
    }
    builder
}

fn read_file(name: &str) -> Value {
    json!({ "file_path": name })
}

#[tokio::test]
async fn pictures_and_pages_reach_the_model() {
    let upstream = Upstream::start();
    let files = ["turned.jpg", "picture.webp", "three.pdf", "analysis.ipynb", "cut.png"];
    let server = with_files(Server::builder(&upstream), &files).start().await;
    let round = [
        ("c1", "Read", read_file("turned.jpg")),
        ("c2", "Read", json!({ "file_path": "three.pdf", "pages": "2" })),
        ("c3", "Read", json!({ "file_path": "analysis.ipynb", "offset": 3, "limit": 1 })),
        ("c4", "Read", read_file("picture.webp")),
        ("c5", "Read", read_file("cut.png")),
    ];
    let answers = told(&server, &upstream, &round).await;
    assert!(answers[0].starts_with("(image attached) $WORKSPACE/turned.jpg: JPEG, 60 x 40 pixels"));
    assert!(answers[1].starts_with("Page 2 of 3\nLine 1 on page 2: the café"), "{}", answers[1]);
    assert!(answers[2].contains("(image attached) PNG, 4 x 3 pixels"), "{}", answers[2]);
    assert_eq!(answers[3], "(image attached) $WORKSPACE/picture.webp: WebP, 30 x 20 pixels");
    assert!(answers[4].starts_with("Error: $WORKSPACE/cut.png is a PNG picture, but it is cut"));

    let body = upstream.requests().pop().expect("a request").json();
    let messages = body["messages"].as_array().expect("messages");
    let last = &messages.last().expect("a message");
    assert_eq!(last["role"], "user");
    let parts = last["content"].as_array().expect("parts");
    let of_type = |kind: &str| parts.iter().filter(|part| part["type"] == kind).count();
    assert_eq!((of_type("image_url"), of_type("text")), (3, 3), "{last}");
    let urls = parts.iter().filter_map(|part| part["image_url"]["url"].as_str());
    let kinds: Vec<_> = urls.map(|url| url.split(';').next().expect("a type")).collect();
    assert_eq!(kinds[1..], ["data:image/png", "data:image/webp"]);
}

/// The messages behind the question, when the model reads two pictures and is asked again.
async fn with_pictures(settings: &[(&str, &str)], tables: &str) -> Vec<Value> {
    let upstream = Upstream::start();
    let builder = with_files(Server::builder(&upstream), &["picture.png", "still.gif"]);
    let builder = settings.iter().fold(builder, |builder, (key, value)| builder.config(key, value));
    let server = builder.tables(tables).start().await;
    let round = [("c1", "Read", read_file("picture.png")), ("c2", "Read", read_file("still.gif"))];
    upstream.round(calls(&round));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    let body = upstream.requests().pop().expect("a request").json();
    let messages = body["messages"].as_array().expect("messages").clone();
    let asked = messages.iter().rposition(|message| message["role"] == "assistant");
    messages[asked.expect("calls") + 1..].to_vec()
}

fn types_of(message: &Value) -> Vec<&str> {
    let parts = message["content"].as_array().expect("parts").iter();
    parts.map(|part| part["type"].as_str().expect("a type")).collect()
}

#[tokio::test]
async fn pictures_stand_where_the_operator_says_that_a_model_takes_them() {
    let rule = |images: &str| format!("[[models]]\nmatch = \"*\"\nimages = \"{images}\"\n");

    let behind = with_pictures(&[], "").await;
    assert_eq!(behind.len(), 3);
    assert!(
        behind[0]["content"].as_str().expect("text").ends_with("picture.png: PNG, 40 x 30 pixels")
    );
    assert_eq!(types_of(&behind[2]), ["text", "image_url", "text", "image_url"]);
    let name = behind[2]["content"][2]["text"].as_str().expect("text");
    assert!(name.starts_with("Answer 2, ") && name.ends_with("/still.gif:"), "{name}");

    let inside = with_pictures(&[], &rule("tool_message")).await;
    assert_eq!(inside.len(), 2);
    assert_eq!(types_of(&inside[0]), ["text", "text", "image_url"]);
    assert_eq!(inside[1]["content"][2], behind[2]["content"][3]);

    let nowhere = with_pictures(&[], &rule("none")).await;
    assert_eq!(nowhere.len(), 2);
    let said = nowhere[0]["content"].as_str().expect("text");
    assert!(said.starts_with("(image left out) /"), "{said}");
    assert!(said.ends_with("(not attached: this model takes no pictures)"), "{said}");
}

#[tokio::test]
async fn wire_24_pictures_that_a_model_refuses_are_left_out_with_a_note() {
    let refusal = |code: u16, message: &str| {
        status(code, &json!({ "error": { "message": message, "type": "x", "code": code } }))
    };
    for (code, message, is_lesson) in [
        (404, "No endpoints found that support image input", true),
        (400, "messages[3]: unknown variant `image_url`, expected `text`", true),
        (500, "image input is not supported - hint: you may need to provide the mmproj", true),
        (400, "Could not process image", false),
    ] {
        let upstream = Upstream::start();
        let server = with_files(Server::builder(&upstream), &["picture.png"]).start().await;
        upstream.round(calls(&[("c1", "Read", read_file("picture.png"))]));
        upstream.round(refusal(code, message));
        upstream.round(says("It is a picture that I cannot see."));
        let question = json!({ "role": "user", "content": "Look." });
        let list = |list: &[Value]| json!({ "model": "scripted", "messages": list });
        let first = server.client().chat(&list(std::slice::from_ref(&question))).await;
        assert_eq!(first.text(), "It is a picture that I cannot see.", "{message}");
        assert!(upstream.request(1).await.json().to_string().contains("image_url"));
        let sent = upstream.request(2).await.json();
        assert!(!sent.to_string().contains("image_url"), "{sent}");
        assert!(answers_in(&sent)[0].ends_with("(not attached: this model takes no pictures)"));
        let known = server.client().get("/toolhand/v1/status").await.json();
        let known = &known["upstream"]["traits"];
        assert_eq!(known[0]["member"] == "pictures", is_lesson, "{known}");

        // The same chat goes on, though its history has the picture.
        let said = json!({ "role": "assistant", "content": first.text() });
        let next = json!({ "role": "user", "content": "And?" });
        upstream.round(refusal(code, message));
        upstream.round(says("Nothing."));
        assert_eq!(server.client().chat(&list(&[question, said, next])).await.text(), "Nothing.");
        let sent = upstream.requests().pop().expect("a request").json();
        assert!(!sent.to_string().contains("image_url"), "{sent}");
        assert!(answers_in(&sent)[0].ends_with("(not attached: this model takes no pictures)"));
    }
}

#[tokio::test]
async fn a_round_has_at_most_twenty_pictures() {
    let upstream = Upstream::start();
    let server = with_files(Server::builder(&upstream), &["picture.png"]).start().await;
    let ids: Vec<String> = (0..22).map(|number| format!("c{number}")).collect();
    let round: Vec<_> =
        ids.iter().map(|id| (id.as_str(), "Read", read_file("picture.png"))).collect();

    let answers = told(&server, &upstream, &round).await;

    assert!(!answers[19].contains("not attached"), "{answers:?}");
    assert!(answers[19].starts_with("(image attached) $WORKSPACE/"), "{answers:?}");
    assert!(answers[20].starts_with("(image left out) $WORKSPACE/"), "{answers:?}");
    assert!(
        answers[20].contains("(1 of these pictures not attached: one message takes at most 20"),
        "{answers:?}"
    );
    let body = upstream.requests().pop().expect("a request").json();
    let last = body["messages"].as_array().expect("messages").last().expect("a message");
    assert_eq!(types_of(last).len(), 40);
}

#[tokio::test]
async fn a_picture_is_told_by_its_size_and_outlives_a_question_and_a_restart() {
    let upstream = Upstream::start();
    let builder = with_files(Server::builder(&upstream), &["picture.png"]);
    let mut server = builder.start().await;
    let write = json!({ "file_path": "new.txt", "content": "x" });
    upstream.round(calls(&[("c1", "Read", read_file("picture.png")), ("c2", "Write", write)]));
    upstream.round(says("Done."));
    let progress = json!({ "toolhand": { "progress": "events" } });
    let asked = with(ask_streamed("Go."), progress.clone());
    let question = server.client().streamed(&asked).await;
    let ends: Vec<Value> = question
        .events
        .iter()
        .map(Event::progress)
        .filter(|event| event["type"] == "tool_end")
        .cloned()
        .collect();
    let size = fs::metadata(server.workspace().join("picture.png")).expect("a file").len();
    let told = json!([{
        "media_type": "image/png", "width": 40, "height": 30, "bytes": size, "index": 0
    }]);
    assert_eq!(ends[0]["pictures"], told, "{ends:?}");
    assert!(!ends[0].to_string().contains("base64"), "{ends:?}");
    server.stop();
    let server = after(&upstream, &server).start().await;

    let messages = json!([
        { "role": "user", "content": "Go." },
        { "role": "assistant", "content": question.text() },
        { "role": "user", "content": "1" },
    ]);
    let reply = with(with(ask_streamed(""), progress), json!({ "messages": messages }));
    assert_eq!(server.client().streamed(&reply).await.text(), "Done.");

    let body = upstream.requests().pop().expect("a request").json();
    let messages = body["messages"].as_array().expect("messages");
    let picture = messages.iter().find(|message| message["content"][1]["type"] == "image_url");
    assert!(picture.is_some(), "{body}");
}

/// Whether a process of the server reads a document.
fn has_worker(server: &Server) -> bool {
    let parent = format!("PPid:\t{}\n", server.pid().as_raw_nonzero());
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let read = |path: &Path, name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    processes.map(|process| process.path()).any(|process| {
        read(&process, "cmdline").contains("__worker") && read(&process, "status").contains(&parent)
    })
}

#[tokio::test]
async fn t33_the_reader_of_a_document_ends_with_its_turn() {
    let upstream = Upstream::start();
    let server = with_files(Server::builder(&upstream), &["inflating.pdf"]).start().await;
    upstream.round(calls(&[("c1", "Read", read_file("inflating.pdf"))]));
    let stream = server.client().stream(&ask_streamed("Go.")).await;
    let started = async {
        while !has_worker(&server) {
            tokio::task::yield_now().await;
        }
    };
    watch("the reader to start", started).await;
    drop(stream);
    server.no_children().await;
}
