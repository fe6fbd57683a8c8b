//! What a server that was killed leaves behind, and what the next one makes of it.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

/// Starts over the files of a server that is gone.
fn after(upstream: &Upstream, gone: &Server) -> Builder {
    Server::builder(upstream)
        .free()
        .argument(&format!("--state-dir={}", gone.state_dir().display()))
        .argument(&format!("--workspace={}", gone.workspace().display()))
}

fn names(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.workspace()).expect("the workspace").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Has the model read a file and write it anew, and kills the server as it begins.
async fn kill_while_writing(server: &mut Server, upstream: &Upstream, content: &str) {
    let call = |tool, input: Value| calls(&[("c1", tool, input)]);
    upstream.round(call("Read", json!({ "file_path": "old.txt", "limit": 1 })));
    let input = json!({ "file_path": "old.txt", "content": content });
    upstream.round(call("Write", input));
    upstream.otherwise(says("Too late."));
    let progress = json!({ "toolhand": { "progress": "events" } });
    let mut stream = server.client().stream(&with(ask_streamed("Write."), progress)).await;
    stream.until_progress("tool_end").await;
    stream.until_progress("tool_start").await;

    kill_process(server.pid(), Signal::KILL).expect("our child is there");
    server.stop();
}

#[tokio::test]
async fn t24_a_killed_server_leaves_files_whole_and_no_litter_after_the_next_start() {
    let (one, two) = ("one\n".repeat(200_000), "two\n".repeat(200_000));
    let upstream = Upstream::start();
    let mut first = Server::builder(&upstream).free().file("old.txt", &one).start().await;
    kill_while_writing(&mut first, &upstream, &two).await;
    for content in [&one, &two, &one, &two] {
        let mut server = after(&upstream, &first).start().await;
        assert_eq!(names(&first), ["old.txt"]);
        let left = first.file("old.txt");
        assert!(left == one || left == two, "{} bytes", left.len());
        kill_while_writing(&mut server, &upstream, content).await;
    }
    drop(after(&upstream, &first).start().await);
    assert_eq!(names(&first), ["old.txt"]);
}

#[tokio::test]
async fn files_that_a_killed_server_had_not_finished_are_removed() {
    let upstream = Upstream::start();
    let mut first = Server::builder(&upstream).file("precious.txt", "keep\n").start().await;
    assert!(first.stop().expect("a status").success());
    // As they stand in the moment before a rename.
    let name = ".toolhand-0123456789abcdef0123456789abcdef.tmp";
    let notes = first.state_dir().join("unfinished");
    fs::write(first.workspace().join(name), "half").expect("a new file");
    symlink(first.workspace().join(name), notes.join(name)).expect("a new link");
    // A note that somebody else wrote, for a file that is none of ours.
    symlink(first.workspace().join("precious.txt"), notes.join("precious.txt")).expect("a link");

    drop(after(&upstream, &first).start().await);

    assert_eq!(names(&first), ["precious.txt"]);
    assert_eq!(fs::read_dir(notes).expect("a directory").count(), 0);
}
