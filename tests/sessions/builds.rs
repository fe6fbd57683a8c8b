//! Tests one long command from end to end: it goes on in the background, the model works
//! meanwhile, is told how it ended and what it has changed, and reads the rest of its output.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::support::chunks::{calls, gate, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// Waits for a file, formats one that the model has read, and prints a lot.
const BUILD: &str = "echo begun; until [ -e go ]; do env sleep 0.01; done; \
                     sed -i 's/two/2/' formatted.txt; seq -f 'step %.0f' 5000; exit 3";

#[tokio::test]
async fn output_that_grows_is_no_changed_file() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let command = "echo one; until [ -e go ]; do env sleep 0.01; done; echo two";
    let start = json!({ "command": command, "run_in_background": true });
    upstream.round(calls(&[("b", "Bash", start)]));
    upstream.round([vec![gate("known")], says("Never.")].concat());
    let stream = server.client().stream(&ask_streamed("Start it.")).await;
    let started = answers_in(&upstream.request(1).await.json()).remove(0);
    let path = started.split_once("Its output: ").expect("the file").1.to_owned();
    upstream.forget_script();
    upstream.open("known");
    assert_eq!(stream.finish().await.text(), "Never.");
    let messages = json!([
        { "role": "user", "content": "Start it." },
        { "role": "assistant", "content": "Never." },
        { "role": "user", "content": "And now?" },
    ]);
    let read = || calls(&[("r", "Read", json!({ "file_path": path }))]);
    while fs::read_to_string(&path).expect("the output") != "one\n" {
        tokio::task::yield_now().await;
    }
    upstream.round(read());
    upstream.round([vec![gate("grown")], read()].concat());
    upstream.round(says("Done."));
    let body = with(ask_streamed(""), json!({ "messages": messages }));
    let stream = server.client().stream(&body).await;
    let first = answers_in(&upstream.request(3).await.json()).pop().expect("an answer");
    assert_eq!(first, "     1\tone");
    fs::write(server.workspace().join("go"), "").expect("a new file");
    while fs::read_to_string(&path).expect("the output") != "one\ntwo\n" {
        tokio::task::yield_now().await;
    }
    upstream.open("grown");
    assert_eq!(stream.finish().await.text(), "Done.");
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    let again = answers.last().expect("an answer");
    assert!(again.starts_with("     1\tone\n     2\ttwo"), "{again}");
    assert!(!again.contains("@@") && !again.contains("were changed"), "{again}");
}

#[tokio::test]
async fn the_model_works_on_while_a_build_runs_and_is_told_how_it_went() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free();
    let builder = builder.file("formatted.txt", "one\ntwo\n").file("own.txt", "old\n");
    let server = builder.start().await;
    let read = |id, file: &str| (id, "Read", json!({ "file_path": file }));
    let build = json!({ "command": BUILD, "timeout": 100, "description": "Build it" });
    let edit = json!({ "file_path": "own.txt", "old_string": "old", "new_string": "new" });
    upstream.round(calls(&[read("r1", "formatted.txt"), read("r2", "own.txt")]));
    upstream.round(calls(&[("b", "Bash", build)]));
    upstream.round(calls(&[("e", "Edit", edit)]));
    let glob = calls(&[("g", "Glob", json!({ "pattern": "*.txt" }))]);
    upstream.round([vec![gate("built")], glob].concat());
    let stream = server.client().stream(&ask_streamed("Build it.")).await;

    let sent = upstream.request(3).await.json();
    let answers = answers_in(&sent);
    let (said, path) = answers[2].split_once("\nIts output: ").expect("the file");
    assert!(said.starts_with("begun\nStill running after 0.1 s"), "{said}");
    assert!(answers[3].starts_with("Edited ") && !answers[3].contains("<reminder>"), "{answers:?}");
    let id = said.rsplit(' ').next().expect("an id").to_owned();
    let path = PathBuf::from(path);
    fs::write(server.workspace().join("go"), "").expect("a new file");
    while server.client().get("/toolhand/v1/tasks").await.json()["data"][0]["status"] == "running" {
        tokio::task::yield_now().await;
    }
    let rest = json!({ "file_path": path, "offset": 5000 });
    upstream.round(calls(&[("r3", "Read", rest)]));
    upstream.round(says("Step 5000 was the last."));
    upstream.open("built");

    assert_eq!(stream.finish().await.text(), "Step 5000 was the last.");
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    let told = &answers[4];
    assert!(told.contains("formatted.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"), "{told}");
    assert!(!told.contains("own.txt\n@@"), "{told}");
    let notice = format!(
        "Background task {id} (Build it) failed, exit code 3; output: {}\n</reminder>",
        path.display()
    );
    assert!(told.ends_with(&notice), "{told}");
    assert!(answers[5].starts_with("  5000\tstep 4999\n  5001\tstep 5000\n"), "{}", answers[5]);
    assert!(!answers[5].contains("<reminder>"), "told once: {}", answers[5]);
}
