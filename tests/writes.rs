//! Checks what Write and Edit leave behind where the disk fails: the old contents or the new, and
//! nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::disk::{Disk, Fault};
use crate::support::mount::Mount;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::answers;

const OLD: &str = "one\ntwo\n";

/// Calls that write: over a file, into it, a new one, and one in new directories.
fn writing() -> [(&'static str, Value); 4] {
    [
        ("Write", json!({ "file_path": "old.txt", "content": "new\n" })),
        ("Edit", json!({ "file_path": "old.txt", "old_string": "two", "new_string": "2" })),
        ("Write", json!({ "file_path": "new.txt", "content": "new\n" })),
        ("Write", json!({ "file_path": "a/b/new.txt", "content": "new\n" })),
    ]
}

fn builder(upstream: &Upstream) -> Builder {
    Server::builder(upstream).free().file("old.txt", OLD)
}

/// Lets the model read the old file and make the call. Returns the answer to that.
async fn answer(server: &Server, upstream: &Upstream, tool: &str, input: &Value) -> String {
    let before = upstream.requests().len();
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "old.txt" }))]));
    upstream.round(calls(&[("c2", tool, input.clone())]));
    upstream.round(says("Done."));
    server.client().chat(&ask("Write.")).await;
    answers(upstream, before + 2).await.pop().expect("an answer")
}

/// All files and directories below.
fn tree(root: &Path) -> Vec<String> {
    let mut paths: Vec<String> = ignore::WalkBuilder::new(root)
        .standard_filters(false)
        .build()
        .skip(1)
        .map(|entry| {
            entry.expect("readable").path().strip_prefix(root).expect("below").display().to_string()
        })
        .collect();
    paths.sort();
    paths
}

/// Nothing was written, and nothing is left of the attempt.
#[track_caller]
fn check_untouched(server: &Server) {
    assert_eq!(tree(&server.workspace()), ["old.txt"]);
    assert_eq!(server.file("old.txt"), OLD);
    assert_eq!(tree(&server.state_dir().join("unfinished")), [""; 0]);
}

#[tokio::test]
async fn t24_a_disk_that_fails_leaves_the_old_contents_and_no_litter() {
    const NO_SPACE: i32 = 28;
    const QUOTA: i32 = 122;
    const READ_ONLY: i32 = 30;
    const BROKEN: i32 = 5;
    let (upstream, disk) = (Upstream::start(), Disk::of_workspace());
    let server = disk.under(builder(&upstream)).start().await;
    for (number, told) in [
        (NO_SPACE, "No space left on device"),
        (QUOTA, "quota exceeded"),
        (READ_ONLY, "Read-only file system"),
        (BROKEN, "Input/output error"),
    ] {
        // The first write is that of the contents, the second the one that makes them last.
        for after in [0, 1] {
            for (tool, input) in writing() {
                disk.plan(Fault::Error(number), after);
                let answer = answer(&server, &upstream, tool, &input).await;
                assert!(disk.was_hit(), "{tool} {input} wrote nothing");
                assert!(answer.starts_with("Error: could not write "), "{answer}");
                assert!(answer.to_lowercase().contains(&told.to_lowercase()), "{answer}");
                check_untouched(&server);
            }
        }
    }
    disk.mend();
    for (tool, input) in writing() {
        let answer = answer(&server, &upstream, tool, &input).await;
        assert!(!answer.starts_with("Error"), "{answer}");
        fs::write(server.workspace().join("old.txt"), OLD).expect("our own");
    }
}

#[tokio::test]
async fn t24_a_server_that_is_killed_while_it_writes_leaves_the_old_contents_and_no_litter() {
    for (fault, after) in [(Fault::Kill, 0), (Fault::Tear, 0), (Fault::Kill, 1)] {
        for (tool, input) in writing().into_iter().take(3) {
            let (upstream, disk) = (Upstream::start(), Disk::of_workspace());
            let mut server = disk.under(builder(&upstream)).start().await;
            disk.plan(fault, after);
            upstream.round(calls(&[("c1", "Read", json!({ "file_path": "old.txt" }))]));
            upstream.round(calls(&[("c2", tool, input)]));
            upstream.otherwise(says("Too late."));
            assert_eq!(server.client().try_chat(&ask("Write.")).await, None);
            assert!(disk.was_hit(), "{tool} wrote nothing");
            server.stop();
            let again = Server::builder(&upstream)
                .free()
                .argument(&format!("--state-dir={}", server.state_dir().display()))
                .argument(&format!("--workspace={}", server.workspace().display()));
            drop(again.start().await);

            check_untouched(&server);
        }
    }
}

#[tokio::test]
async fn t24_a_full_disk_and_one_that_is_read_only_are_told() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free();
    let workspace = builder.workspace();
    let Some(_small) = Mount::small(&workspace, 64 << 10) else { return };
    fs::write(workspace.join("old.txt"), OLD).expect("there is room");
    let server = builder.start().await;
    for name in ["old.txt", "a/b/new.txt"] {
        let input = json!({ "file_path": name, "content": "x".repeat(100_000) });
        let told = answer(&server, &upstream, "Write", &input).await;
        assert!(told.contains("No space left on device"), "{told}");
        check_untouched(&server);
    }
    let Some(_mount) = Mount::read_only(&workspace) else { return };
    let again = Server::builder(&upstream).free();
    let again = again.argument(&format!("--workspace={}", workspace.display())).start().await;
    for (tool, input) in writing() {
        let told = answer(&again, &upstream, tool, &input).await;
        assert!(told.contains("Read-only file system"), "{told}");
        check_untouched(&server);
    }
}

#[tokio::test]
async fn t24_a_directory_without_the_right_to_write_is_told() {
    let upstream = Upstream::start();
    let builder = builder(&upstream);
    let (workspace, starter) = (builder.workspace(), builder.home().join("start.sh"));
    // Root may write everywhere, so the server gives that up.
    let program = env!("CARGO_BIN_EXE_toolhand");
    let script = format!(
        "#!/bin/sh\nif [ \"$(id -u)\" = 0 ]; then\n  \
         exec setpriv --bounding-set=-dac_override,-dac_read_search {program} \"$@\"\nfi\n\
         exec {program} \"$@\"\n"
    );
    fs::write(&starter, script).expect("a new file");
    fs::set_permissions(&starter, fs::Permissions::from_mode(0o700)).expect("our own");
    let server = builder.program(&starter).start().await;
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o555)).expect("our own");
    // A file that is there is written in place: see in_place.rs.
    for (tool, input) in writing().into_iter().skip(2) {
        let told = answer(&server, &upstream, tool, &input).await;
        assert!(told.contains("Permission denied"), "{told}");
        check_untouched(&server);
    }
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755)).expect("our own");
}
