//! A server of which each client key has a process of its own.

use std::collections::BTreeSet;

use rustix::process::Pid;
use serde_json::json;

use super::{allowed, doing, text};
use crate::settings::client_keys::{add, client, key_command};
use crate::support::chunks::{calls, says};
use crate::support::client::{Client, ask};
use crate::support::processes::{living_parent, wait_for_end};
use crate::support::resources::processes_of;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

/// The processes of the MCP server.
fn processes(server: &Server) -> BTreeSet<i32> {
    let all = processes_of(&server.workspace().join("server.py")).into_iter();
    all.map(|process| process.as_raw_nonzero().get()).collect()
}

/// Has the model call the server for this client. Returns the process that was started for it.
async fn started_for(client: &Client, server: &Server, upstream: &Upstream) -> Pid {
    let before = processes(server);
    used_by(client, upstream).await;
    let new = processes(server).difference(&before).copied().next().expect("a new process");
    Pid::from_raw(new).expect("a number")
}

async fn used_by(client: &Client, upstream: &Upstream) {
    upstream.round(calls(&[("c", "mcp__s__do", json!({}))]));
    upstream.round(says("Done."));
    assert_eq!(client.chat(&ask("Do it.")).await.text(), "Done.");
    let told = upstream.requests().pop().expect("a request").json().to_string();
    assert!(told.contains("it is done"), "{told}");
}

#[tokio::test]
async fn x7_a_revoked_keys_own_mcp_process_ends_and_no_other() {
    let upstream = Upstream::start();
    let script = doing(json!([{ "result": text("it is done") }]));
    let builder = allowed(&upstream, &[("s", script, "scope = \"key\"")]);
    let server = builder.argument("--sandbox=off").start().await;
    let (alice_key, bob_key) = (add(&server, &["alice"]), add(&server, &["bob"]));
    let (alice, bob) = (client(&server, &alice_key), client(&server, &bob_key));
    let of_first = started_for(&server.client(), &server, &upstream).await;
    let of_alice = started_for(&alice, &server, &upstream).await;
    let of_bob = started_for(&bob, &server, &upstream).await;

    assert!(key_command(&server, &["revoke", "alice"]).status.success());

    // Nobody asks anything meanwhile.
    let ended = tokio::task::spawn_blocking(move || wait_for_end(of_alice));
    watch("the process of the revoked key to end", ended).await.expect("no panic");
    assert!(living_parent(of_bob).is_some() && living_parent(of_first).is_some());
    let before = processes(&server);
    used_by(&bob, &upstream).await;
    used_by(&server.client(), &upstream).await;
    assert_eq!(processes(&server), before);
}
