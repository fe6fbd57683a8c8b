//! Measures clients that leave while upstream sends and a command runs.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::table::Line;
use crate::support::chunks::{call, finish, gate};
use crate::support::client::ask_streamed;
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

const CANCELS: usize = 500;
const UPSTREAM_WITHIN: Duration = Duration::from_secs(1);
const TREE_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn cancels() -> Line {
    let mut line = Line::new("cancels (R5)");
    let upstream = Upstream::start();
    // Sealed calls run while upstream still sends.
    let server = Server::builder(&upstream)
        .free()
        .config("upstream.end_timeout", r#""60s""#)
        .tables("\n[[models]]\nmatch = \"*\"\nstart = \"sealed\"\n")
        .start()
        .await;
    let before = resources::open_files(&server);
    let (mut closed, mut gone) = (Vec::new(), Vec::new());
    for number in 0..CANCELS {
        let (upstream_took, tree_took) = cancel(&upstream, &server, number).await;
        closed.push(upstream_took);
        gone.push(tree_took);
    }
    line.runs = CANCELS;
    for (what, mut took, most) in
        [("upstream closed", closed, UPSTREAM_WITHIN), ("tree gone", gone, TREE_WITHIN)]
    {
        took.sort();
        let p99 = took[took.len() * 99 / 100];
        line.note(format!("{what} p99 {} ms", p99.as_millis()));
        line.must(p99 <= most, || format!("{what} after {p99:?}"));
    }
    server.no_children().await;
    line.leaves(resources::remains(&server, before).await, 100);
    line
}

/// How long upstream's connection and the process tree outlived the client.
async fn cancel(upstream: &Upstream, server: &Server, number: usize) -> (Duration, Duration) {
    let alive = format!("alive-{number}");
    let path = server.workspace().join(&alive);
    mkfifoat(CWD, &path, Mode::RWXU).expect("a pipe");
    // One in ten ignores TERM.
    let deaf = if number.is_multiple_of(10) { "trap '' TERM; " } else { "" };
    let command = format!(
        "exec 9>{alive}; setsid sh -c \"{deaf}sleep 1000\" & (sleep 1000 &); echo up >&9; wait"
    );
    let script = [
        call(0, "c1", "Bash", &json!({ "command": command })),
        vec![finish("tool_calls"), gate("never")],
    ];
    upstream.round(script.concat());
    let (started, is_up) = oneshot::channel();
    let end = tokio::task::spawn_blocking(move || until_gone(&path, started));

    let stream = server.client().stream(&ask_streamed("Go.")).await;
    watch("the command", is_up).await.expect("it runs");
    let left = Instant::now();
    drop(stream);
    upstream.abandoned(number).await;
    let upstream_took = left.elapsed();
    let gone = watch("the end of the tree", end).await.expect("no panic");
    (upstream_took, gone.duration_since(left))
}

/// Every process of the tree holds the pipe open.
fn until_gone(path: &Path, started: oneshot::Sender<()>) -> Instant {
    let mut pipe = BufReader::new(fs::File::open(path).expect("a pipe"));
    let mut line = String::new();
    pipe.read_line(&mut line).expect("a line");
    let _nobody_waits = started.send(());
    pipe.read_to_string(&mut line).expect("the end");
    Instant::now()
}
