//! No order of replies with codes runs what was not approved, or one approval twice: from lists that
//! show an earlier question, from clients that leave the history to the server, with codes of other
//! questions and conversations, and across restarts.

use serde_json::{Value, json};

use super::asking::{codes, marks, times_run};
use super::{after, assistant, conversation, user};
use crate::support::chunks::{calls, says};
use crate::support::client::{Client, with};
use crate::support::seeded::SeededRandom;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const ORDERS: usize = 40;
const STEPS: usize = 12;

/// So many commands the model wants to run in one conversation, one after another.
const COMMANDS: usize = 4;

/// A question that somebody was shown.
#[derive(Clone, Debug)]
struct ShownQuestion {
    /// The command that it is about.
    command: usize,
    code: String,
    text: String,
}

/// How a reply is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Behind this question, in a list that begins with it.
    List,
    /// In a list that shows the model's words in the place of the question.
    Without,
    /// With the history of the server.
    Server,
}

#[derive(Debug)]
struct Order {
    name: String,
    files: Vec<String>,
    shown: Vec<ShownQuestion>,
    /// The commands that somebody has allowed, if the reply counted.
    allowed: Vec<bool>,
    /// The commands that were denied behind their own question before anybody allowed them.
    denied: Vec<bool>,
}

impl Order {
    /// Notes the question at the end of an answer.
    fn note(&mut self, text: &str) {
        let asks = |file: &String| text.contains(&format!(">> {file}\n"));
        let command = self.files.iter().position(asks);
        let (Some(command), Some(code)) = (command, codes(text).pop()) else { return };
        self.shown.push(ShownQuestion { command, code, text: text.to_owned() });
    }

    fn body(&self, way: Way, question: &ShownQuestion, words: &str) -> Value {
        let members = match way {
            Way::Server => json!({ "session": self.name, "history": "server" }),
            Way::List | Way::Without => json!({ "session": self.name }),
        };
        let text = if way == Way::Without { "I go on." } else { &question.text };
        let list = match way {
            Way::Server => vec![user(words)],
            _ => vec![user("Go."), assistant(text), user(words)],
        };
        with(conversation(&list), json!({ "toolhand": members }))
    }

    /// Notes what a reply with this choice says of a command. A denial behind a question that was
    /// asked again since may be asked again itself.
    fn decide(&mut self, command: usize, choice: &str, (way, of): (Way, usize)) {
        let newest = self.shown.iter().rposition(|shown| shown.command == command);
        if matches!(choice, "1" | "yes" | "2") {
            self.allowed[command] = true;
        } else if way == Way::List && newest == Some(of) && !self.allowed[command] {
            self.denied[command] = true;
        }
    }

    fn assert_only_approved_ran(&self, home: &Server, played: &[String]) {
        for (command, file) in self.files.iter().enumerate() {
            let may_run = self.allowed[command] && !self.denied[command];
            let times = times_run(home, file);
            assert!(times <= usize::from(may_run), "{file} {times}: {played:#?}");
        }
    }
}

#[tokio::test]
async fn x14_no_order_of_replies_with_codes_runs_what_was_not_approved_or_twice() {
    let upstream = Upstream::start();
    let mut home = Server::start(&upstream).await;
    home.stop();
    let mut server = start(&upstream, &home).await;
    let mut foreign: Vec<String> = vec!["BCDF".to_owned()];
    let mut ran_in_all = 0;
    for number in 0..ORDERS {
        let mut random = SeededRandom::new(34, u64::try_from(number).expect("small"));
        let files: Vec<_> = (0..COMMANDS).map(|command| format!("f{number}-{command}")).collect();
        upstream.forget_script();
        for file in &files {
            upstream.round(calls(&[("c", "Bash", marks(file))]));
        }
        upstream.otherwise(says("I go on from here."));
        let name = format!("order-{number}");
        let (allowed, denied) = (vec![false; COMMANDS], vec![false; COMMANDS]);
        let mut order = Order { name, files, shown: Vec::new(), allowed, denied };
        let first = conversation(&[user("Go.")]);
        let first = with(first, json!({ "toolhand": { "session": order.name } }));
        order.note(&server.client().chat(&first).await.text());
        let mut played = Vec::new();
        for _ in 0..STEPS {
            if random.happens(8) {
                drop(server);
                server = start(&upstream, &home).await;
                played.push("restart".to_owned());
                continue;
            }
            let (way, words) = step(&mut order, &mut random, &foreign);
            played.push(format!("{way:?} {words:?}"));
            let of = random.below(order.shown.len());
            let answer = reply(&mut order, (way, of, &words), &server.client()).await;
            order.note(&answer);
            order.assert_only_approved_ran(&home, &played);
        }
        foreign.extend(order.shown.iter().map(|question| question.code.clone()));
        ran_in_all += order.files.iter().map(|file| times_run(&home, file)).sum::<usize>();
    }
    assert!(ran_in_all > ORDERS / 2, "too little has run: {ran_in_all}");
    upstream.forget_script();
}

async fn start(upstream: &Upstream, home: &Server) -> Server {
    after(upstream, home).argument("--sandbox=off").start().await
}

/// What somebody sends next.
fn step(order: &mut Order, random: &mut SeededRandom, foreign: &[String]) -> (Way, String) {
    let way = *random.pick(&[Way::List, Way::Server, Way::Server, Way::Without]);
    let choice = *random.pick(&["1", "1", "yes", "2", "3", "no"]);
    let code = match random.below(10) {
        0..6 => order.shown[random.below(order.shown.len())].code.clone(),
        6..8 => random.pick(foreign).clone(),
        _ => String::new(),
    };
    (way, format!("{code} {choice}").trim().to_owned())
}

/// Sends it, behind the shown question `of`. Notes what it decides before it is sent.
async fn reply(order: &mut Order, (way, of, words): (Way, usize, &str), client: &Client) -> String {
    let question = order.shown[of].clone();
    let (code, choice) = words.split_once(' ').unwrap_or(("", words));
    let named = order.shown.iter().find(|shown| shown.code == code).map(|shown| shown.command);
    match (way, named) {
        // Behind a question its own code counts, and no other.
        (Way::List, Some(command)) if command == question.command => {
            order.decide(command, choice, (way, of));
        }
        // A question that says so takes no bare choice.
        (Way::List, None)
            if code.is_empty()
                && !question.text.contains("A number alone does not count here.") =>
        {
            order.decide(question.command, choice, (way, of));
        }
        (Way::Server | Way::Without, Some(command)) => {
            order.decide(command, choice, (way, of));
        }
        _ => {}
    }
    let answer = client.chat(&order.body(way, &question, words)).await;
    assert_eq!(answer.status(), 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.text()
}
