//! Sessions that wait for somebody, or that are used, outlive the limits of the store.

use serde_json::{Value, json};

use super::mixed::weather;
use super::{after, assistant, conversation, user};
use crate::support::chunks::{calls, gate, says};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::disk::Disk;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::support::watch;

const YEAR: i64 = 3600 * 24 * 365;

/// Less than an empty database has: whatever may be forgotten is, at once.
fn full(builder: Builder) -> Builder {
    builder
        .config("sessions.max_bytes", r#""4KiB""#)
        .config("permissions.allow", r#"["Bash(sleep 1000)"]"#)
        .argument("--sandbox=off")
}

async fn names(server: &Server) -> Vec<String> {
    let page = server.client().get("/toolhand/v1/sessions").await.json();
    let sessions = page["data"].as_array().expect("sessions").iter();
    let mut names: Vec<String> =
        sessions.map(|session| session["name"].as_str().expect("a name").to_owned()).collect();
    names.sort();
    names
}

/// Plays a turn of a session of this name.
async fn play(server: &Server, name: &str, body: &Value) -> String {
    let client = server.client().header("x-toolhand-session", name);
    let answer = client.chat(body).await;
    assert_eq!(answer.status(), 200, "{name}");
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

/// Uses another session, and waits until it is forgotten: then all have been looked at.
async fn until_looked(server: &Server, upstream: &Upstream) {
    upstream.round(says("Hello."));
    play(server, "other", &ask("Hi")).await;
    let gone = async { while names(server).await.contains(&"other".to_owned()) {} };
    watch("the other session to be forgotten", gone).await;
}

async fn suspend(server: &Server, upstream: &Upstream) -> String {
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "echo x >> counter" }))]));
    play(server, "asked", &ask("Count.")).await
}

#[tokio::test]
async fn d11_no_session_that_waits_or_runs_is_forgotten_however_full_the_store_is() {
    let upstream = Upstream::start();
    let server = full(Server::builder(&upstream)).start().await;
    let question = suspend(&server, &upstream).await;
    upstream.round(calls(&[("w1", "weather", json!({ "city": "Lyon" }))]));
    play(&server, "client", &with(ask("Weather?"), weather())).await;
    let sleeps = json!({ "command": "sleep 1000", "run_in_background": true });
    upstream.round(calls(&[("b1", "Bash", sleeps)]));
    upstream.round(says("It runs."));
    play(&server, "task", &ask("Sleep.")).await;
    upstream.round(vec![gate("never")]);
    let detached = with(ask_streamed("Wait."), json!({ "toolhand": { "detach": true } }));
    let client = server.client().header("x-toolhand-session", "turn");
    let stream = client.stream(&detached).await;
    upstream.reached("never").await;
    drop(stream);

    until_looked(&server, &upstream).await;

    assert_eq!(names(&server).await, ["asked", "client", "task", "turn"]);
    upstream.open("never");
    // What is answered waits no longer.
    upstream.round(says("Counted."));
    let reply = conversation(&[user("Count."), assistant(&question), user("1")]);
    assert_eq!(play(&server, "asked", &reply).await, "Counted.");
    until_looked(&server, &upstream).await;
    assert!(!names(&server).await.contains(&"asked".to_owned()));
    assert_eq!(server.file("counter"), "x\n");
    upstream.forget_script();
}

#[tokio::test]
async fn d9_no_session_that_waits_is_forgotten_by_a_clock_that_jumped() {
    for ahead in [YEAR, -YEAR] {
        let upstream = Upstream::start();
        let disk = Disk::new();
        let mut home = full(disk.under(Server::builder(&upstream))).start().await;
        suspend(&home, &upstream).await;
        upstream.round(calls(&[("w1", "weather", json!({ "city": "Lyon" }))]));
        play(&home, "client", &with(ask("Weather?"), weather())).await;
        home.stop();
        disk.set_clock(ahead);
        let server = full(disk.under(after(&upstream, &home))).start().await;

        until_looked(&server, &upstream).await;

        assert_eq!(names(&server).await, ["asked", "client"], "{ahead}");
    }
}
