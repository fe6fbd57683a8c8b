//! What a person allows for the whole session.

use serde_json::json;

use super::asking::{Talk, builder, marks, server, times_run, write};
use super::{after, user};
use crate::support::chunks::{calls, says};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn runs(upstream: &Upstream, file: &str) {
    upstream.round(calls(&[("m", "Bash", marks(file))]));
}

/// A session in which the command that marks `a` is allowed, and has run once.
async fn granted(upstream: &Upstream, server: &Server) -> Talk {
    let mut talk = Talk::new(server.client()).with(json!({ "toolhand": { "session": "mine" } }));
    runs(upstream, "a");
    talk.say("Do it.").await;
    upstream.round(says("Done."));
    assert_eq!(talk.say("2").await, "Done.");
    assert_eq!(times_run(server, "a"), 1);
    talk
}

#[tokio::test]
async fn the_same_command_is_not_asked_about_again_and_another_is() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = granted(&upstream, &server).await;
    runs(&upstream, "a");
    runs(&upstream, "b");

    let question = talk.say("Again, and another.").await;

    assert!(question.contains(">> b"), "{question}");
    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (2, 0));
}

#[tokio::test]
async fn a_grant_survives_a_restart() {
    let upstream = Upstream::start();
    let mut first = server(&upstream).await;
    let mut talk = granted(&upstream, &first).await;
    first.stop();
    let server = after(&upstream, &first).argument("--sandbox=off").start().await;
    talk.client = server.client();
    runs(&upstream, "a");
    upstream.round(says("Done."));

    assert_eq!(talk.say("Again.").await, "Done.");

    assert_eq!(times_run(&first, "a"), 2);
}

#[tokio::test]
async fn a_fork_in_another_session_has_no_grants() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let talk = granted(&upstream, &server).await;
    for session in ["another", ""] {
        let members = match session {
            "" => json!({ "toolhand": { "session": "third" } }),
            name => json!({ "toolhand": { "session": name } }),
        };
        let mut fork = talk.clone().with(members);
        runs(&upstream, "a");

        let question = fork.say("Again.").await;

        assert!(question.contains("needs your approval"), "{question}");
        assert_eq!(times_run(&server, "a"), 1);
    }
}

#[tokio::test]
async fn edits_of_the_same_file_are_granted_by_whatever_tool() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let mut talk = Talk::new(server.client());
    upstream.round(calls(&[("w", "Write", write("new.txt"))]));
    talk.say("Write.").await;
    let edit = json!({ "file_path": "new.txt", "old_string": "new", "new_string": "newer" });
    upstream.round(calls(&[("e", "Edit", edit)]));
    upstream.round(calls(&[("w", "Write", write("other.txt"))]));

    let question = talk.say("allow for this session").await;

    assert_eq!(server.file("new.txt"), "newer\n");
    assert!(question.contains("other.txt"), "{question}");
    assert_eq!(talk.messages.last().map(|last| last["role"].clone()), Some("assistant".into()));
    assert_ne!(talk.messages.last(), Some(&user("")));
}
