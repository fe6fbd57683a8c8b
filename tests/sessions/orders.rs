//! No order of replies, decisions, answers of the client, retries and restarts runs an effect that
//! was not approved, or one approval twice.

use std::fs;

use serde_json::{Value, json};

use super::asking::{Talk, codes, marks, open, times_run};
use super::mixed::weather;
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

/// Orders of a round with a call of the client's and two commands that ask.
const MIXED_ORDERS: usize = 60;
const MIXED_STEPS: usize = 7;

/// What may happen in a conversation with such a round.
#[derive(Clone, Debug, PartialEq)]
enum Move {
    /// The client answers its call, or the person says this.
    Say(&'static str),
    /// The person says this of one of the commands.
    Line(usize, &'static str),
    /// The last request is sent again.
    Again,
    Decide(usize, &'static str),
    /// Both at the same moment.
    SayAndDecide(&'static str, usize, &'static str),
    Restart,
}

fn some_move(random: &mut SeededRandom) -> Move {
    let (reply, command) = (REPLIES[random.below(REPLIES.len())], random.below(2));
    let decision = ["allow", "deny"][random.below(2)];
    match random.below(12) {
        0..3 => Move::Say(reply),
        3..6 => Move::Line(command, ["1", "no"][random.below(2)]),
        6..8 => Move::Again,
        8 => Move::Decide(command, decision),
        9 => Move::SayAndDecide(reply, command, decision),
        _ => Move::Restart,
    }
}

/// A conversation, and what a person has said of each command first.
struct Played {
    talk: Talk,
    files: [String; 2],
    first: [Option<bool>; 2],
    question: String,
}

impl Played {
    /// The commands that the newest question asks about, with their codes.
    fn asked(&self) -> Vec<(usize, String)> {
        let named = |file: &String| self.question.contains(&format!(">> {file}"));
        let asked = (0..2).filter(|place| named(&self.files[*place]));
        asked.zip(codes(&self.question)).collect()
    }

    fn note(&mut self, command: usize, allows: bool) {
        self.first[command].get_or_insert(allows);
    }

    /// What the person says stands behind what the client answers.
    async fn say(&mut self, words: &str) {
        let calls = self.talk.calls();
        let Some((id, ..)) = calls.first() else {
            self.question = self.talk.say(words).await;
            return;
        };
        self.talk.answer(id, "sun");
        self.question = self.talk.send().await;
    }

    /// The words that the next request ends with, noted as what was decided.
    fn reply(&mut self, wanted: &Move) -> String {
        let awaits_client = !self.talk.calls().is_empty();
        let asked = if awaits_client { Vec::new() } else { self.asked() };
        if let Move::Line(command, choice) = wanted
            && let Some((_, code)) = asked.iter().find(|(place, _)| place == command)
        {
            self.note(*command, *choice == "1");
            return format!("{code} {choice}");
        }
        let (Move::Say(words) | Move::Line(_, words) | Move::SayAndDecide(words, ..)) = wanted
        else {
            panic!("{wanted:?} says nothing")
        };
        let allows = matches!(*words, "1" | "2" | "yes");
        for (place, _) in asked {
            self.note(place, allows);
        }
        (*words).to_owned()
    }
}

async fn decide_one(client: &Client, file: &str, decision: &str) -> bool {
    let approvals = open(client).await;
    let effect = format!(">> {file}");
    let is_it = |approval: &&Value| approval["effect"].to_string().contains(&effect);
    let Some(approval) = approvals.iter().find(is_it) else { return false };
    let answer = super::asking::decide(client, approval, &json!({ "decision": decision })).await;
    assert!([200, 409].contains(&answer.status()), "{answer:?}");
    answer.status() == 200
}

#[tokio::test]
async fn x5_no_order_of_steps_in_a_mixed_round_runs_what_was_not_approved_or_twice() {
    let upstream = Upstream::start();
    let mut home = Server::start(&upstream).await;
    home.stop();
    let mut server = start(&upstream, &home).await;
    let (mut ran_in_all, mut asked_in_all) = (0, 0);
    for order in 0..MIXED_ORDERS {
        let mut random = SeededRandom::new(17, u64::try_from(order).expect("small"));
        let files = ["a", "b"].map(|name| format!("{name}-{order}"));
        upstream.forget_script();
        upstream.round(calls(&[
            ("a", "Bash", marks(&files[0])),
            ("w", "weather", json!({ "city": "Lyon" })),
            ("b", "Bash", marks(&files[1])),
        ]));
        upstream.otherwise(says("I go on from here."));
        let talk = Talk::new(server.client()).with(weather());
        let mut played = Played { talk, files, first: [None; 2], question: String::new() };
        played.question = played.talk.say(&format!("Run number {order}.")).await;
        assert_eq!(played.talk.finish_reason(), "tool_calls");
        played.say("").await;
        asked_in_all += played.asked().len();
        let mut moves = Vec::new();
        for _ in 0..MIXED_STEPS {
            let wanted = some_move(&mut random);
            moves.push(wanted.clone());
            match &wanted {
                Move::Say(_) | Move::Line(..) => {
                    let words = played.reply(&wanted);
                    played.say(&words).await;
                }
                Move::Again => {
                    let mut again = played.talk.clone();
                    again.messages.pop();
                    again.client = again.client.header("x-stainless-retry-count", "1");
                    assert_eq!(again.send().await, played.question, "{moves:?}");
                }
                Move::Decide(command, decision) => {
                    let file = played.files[*command].clone();
                    if decide_one(&server.client(), &file, decision).await {
                        played.note(*command, *decision == "allow");
                    }
                }
                Move::SayAndDecide(_, command, decision) => {
                    let before = played.first[*command];
                    let (words, file) = (played.reply(&wanted), played.files[*command].clone());
                    let client = server.client();
                    let (decided, ()) =
                        tokio::join!(decide_one(&client, &file, decision), played.say(&words));
                    // The decision counts if it was taken.
                    if decided && before.is_none() {
                        played.first[*command] = Some(*decision == "allow");
                    }
                }
                Move::Restart => {
                    drop(server);
                    server = start(&upstream, &home).await;
                    played.talk.client = server.client();
                }
            }
            for (file, first) in played.files.iter().zip(played.first) {
                let times = times_run(&home, file);
                assert!(times <= usize::from(first == Some(true)), "{file} {times}: {moves:?}");
            }
        }
        ran_in_all += played.files.iter().map(|file| times_run(&home, file)).sum::<usize>();
    }
    assert_eq!(asked_in_all, 2 * MIXED_ORDERS);
    assert!(ran_in_all > MIXED_ORDERS / 4, "too little has run: {ran_in_all}");
    upstream.forget_script();
}
