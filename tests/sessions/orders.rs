//! No order of replies, decisions, retries and restarts runs an effect that was not approved, or
//! one approval twice.

use std::fs;

use serde_json::{Value, json};

use super::{after, assistant, conversation, user};
use crate::support::chunks::{calls, says};
use crate::support::client::Client;
use crate::support::seeded::SeededRandom;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Orders that are played, and steps of each.
const ORDERS: usize = 60;
const STEPS: usize = 6;

/// What a person, an SDK or an operator may do about an open question.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Reply(&'static str),
    /// The same reply, as an SDK sends it again.
    Retry(&'static str),
    Decide(&'static str),
    Restart,
    /// A new list that ends with the same words.
    Edited,
}

const REPLIES: [&str; 6] = ["1", "yes", "3", "no", "2", "what for?"];

fn step(random: &mut SeededRandom) -> Step {
    match random.below(10) {
        0..4 => Step::Reply(REPLIES[random.below(REPLIES.len())]),
        4..6 => Step::Retry(REPLIES[random.below(REPLIES.len())]),
        6..8 => Step::Decide(["allow", "deny"][random.below(2)]),
        8 => Step::Edited,
        _ => Step::Restart,
    }
}

fn allows(step: Step) -> Option<bool> {
    match step {
        Step::Reply(reply) | Step::Retry(reply) => Some(matches!(reply, "1" | "2" | "yes")),
        Step::Decide(decision) => Some(decision == "allow"),
        Step::Restart | Step::Edited => None,
    }
}

#[tokio::test]
async fn x5_no_order_of_steps_runs_what_was_not_approved_or_one_approval_twice() {
    let upstream = Upstream::start();
    let mut home = Server::start(&upstream).await;
    home.stop();
    let mut server = start(&upstream, &home).await;
    for order in 0..ORDERS {
        let mut random = SeededRandom::new(5, u64::try_from(order).expect("small"));
        upstream.forget_script();
        let file = format!("ran-{order}");
        let command = json!({ "command": format!("echo ran >> {file}") });
        upstream.round(calls(&[("c", "Bash", command)]));
        upstream.otherwise(says("I go on from here."));
        let question = server.client().chat(&conversation(&[go(order)])).await.text();
        let mut first_decision = None;
        let mut played = Vec::new();
        for _ in 0..STEPS {
            let step = step(&mut random);
            played.push(step);
            if step == Step::Restart {
                drop(server);
                server = start(&upstream, &home).await;
            } else {
                play(step, order, &question, &server.client()).await;
            }
            first_decision = first_decision.or(allows(step));
            let ran = fs::read_to_string(home.workspace().join(&file)).unwrap_or_default();
            assert!(ran.is_empty() || ran == "ran\n", "twice: {played:?}");
            let may_have_run = first_decision == Some(true);
            assert!(ran.is_empty() || may_have_run, "unapproved: {played:?}");
        }
    }
    upstream.forget_script();
}

async fn start(upstream: &Upstream, home: &Server) -> Server {
    after(upstream, home).argument("--sandbox=off").start().await
}

fn go(order: usize) -> Value {
    user(&format!("Run number {order}."))
}

async fn play(step: Step, order: usize, question: &str, client: &Client) {
    let list = |reply: &str| conversation(&[go(order), assistant(question), user(reply)]);
    let answer = match step {
        Step::Reply(reply) => client.chat(&list(reply)).await,
        Step::Retry(reply) => {
            client.clone().header("x-stainless-retry-count", "1").chat(&list(reply)).await
        }
        Step::Edited => {
            let edited = [user("Run nothing."), assistant("Which one do you mean?"), user("1")];
            client.chat(&conversation(&edited)).await
        }
        Step::Decide(decision) => return decide(decision, client).await,
        Step::Restart => return,
    };
    assert_eq!(answer.status(), 200, "{}", String::from_utf8_lossy(&answer.body));
}

/// Decides the newest open approval, if there is one.
async fn decide(decision: &str, client: &Client) {
    let open = client.get("/toolhand/v1/approvals").await.json();
    let Some(id) = open["data"][0]["id"].as_str() else { return };
    let body = json!({ "decision": decision, "scope": "once" });
    let answer = client.post(&format!("/toolhand/v1/approvals/{id}"), &body).await;
    assert!([200, 409].contains(&answer.status()), "{answer:?}");
}
