//! Tests that the server's own files are refused by every name.

use std::fs;

use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::mount::Mount;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Calls every file tool on this path, and returns the answers that the model gets.
async fn touch(upstream: &Upstream, server: &Server, path: &str) -> Vec<String> {
    let asked = upstream.requests().len();
    let file = |more: Value| {
        let mut input = json!({ "file_path": path });
        input.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("too"));
        input
    };
    upstream.round(calls(&[
        ("c1", "Read", file(json!({}))),
        ("c2", "Grep", json!({ "pattern": ".", "path": path })),
        ("c3", "Write", file(json!({ "content": "x" }))),
        ("c4", "Edit", file(json!({ "old_string": "a", "new_string": "b" }))),
    ]));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    crate::turn::answers(upstream, asked + 1).await
}

async fn check_refused(upstream: &Upstream, server: &Server, path: &str) {
    for answer in touch(upstream, server, path).await {
        assert!(answer.contains("the server's own state directory"), "{path}: {answer}");
    }
}

async fn start() -> (Upstream, Server) {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("plain.txt", "a\n").start().await;
    let further = server.state_dir().join("sessions/one");
    fs::create_dir_all(&further).expect("a new directory");
    fs::write(further.join("plan.md"), "a\n").expect("a new file");
    fs::write(server.state_dir().join("keys.toml"), "a\n").expect("a new file");
    (upstream, server)
}

#[tokio::test]
async fn t32_a_hard_link_to_a_file_of_ours_is_refused_as_the_file_is() {
    let (upstream, server) = start().await;
    let workspace = server.workspace();
    for (ours, link) in [("keys.toml", "innocent.txt"), ("sessions/one/plan.md", "sub/deep.txt")] {
        fs::create_dir_all(workspace.join("sub")).expect("a directory");
        fs::hard_link(server.state_dir().join(ours), workspace.join(link)).expect("a link");
        check_refused(&upstream, &server, link).await;
        assert_eq!(fs::read_to_string(server.state_dir().join(ours)).expect("ours"), "a\n");
    }
    // Hard links among other files are allowed.
    fs::hard_link(workspace.join("plain.txt"), workspace.join("twin.txt")).expect("a link");
    assert!(touch(&upstream, &server, "twin.txt").await[0].contains('a'));
}

#[tokio::test]
async fn t32_a_mount_of_our_directory_is_refused_as_the_directory_is() {
    let (upstream, server) = start().await;
    let (workspace, state) = (server.workspace(), server.state_dir());
    for name in ["whole", "part", "nested/parent"] {
        fs::create_dir_all(workspace.join(name)).expect("a directory");
    }
    fs::write(workspace.join("file"), "").expect("a file");
    let mounts = [
        Mount::bind(&state, workspace.join("whole")),
        Mount::bind(&state.join("sessions"), workspace.join("part")),
        Mount::bind(&state.join("keys.toml"), workspace.join("file")),
    ];
    if mounts.iter().any(Option::is_none) {
        // Only root may mount, and not in every environment.
        return;
    }
    for path in [
        "whole/keys.toml",
        "whole/sessions/one/plan.md",
        "whole/new.txt",
        "whole/new/er.txt",
        "part/one/plan.md",
        "part/one/new.txt",
        "file",
    ] {
        check_refused(&upstream, &server, path).await;
    }
}
