//! Kills the server at random moments of turns with effects. Nothing that was acknowledged is
//! lost, nothing runs twice, and every restart serves.

use std::fs;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::mixed::weather;
use super::{after, assistant, conversation, user};
use crate::support::chunks::{calls, says};
use crate::support::client::{Client, with};
use crate::support::seeded::SeededRandom;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

/// Kills of each of the three kinds. `make soak` runs more.
const RUNS: usize = 100;

/// The longest time from the request to the kill. A turn of these takes about as long, so that
/// kills fall before, into and behind it.
const LONGEST: Duration = Duration::from_millis(120);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Two commands that run without asking.
    Commands,
    /// A command, and a call of the client's.
    Mixed,
    /// A command that a person approves; the approving request is killed.
    Suspended,
}

#[tokio::test]
async fn r8_kills_in_turns_with_commands_lose_and_repeat_nothing() {
    runs(Kind::Commands, RUNS).await;
}

#[tokio::test]
async fn r8_kills_in_mixed_turns_lose_and_repeat_nothing() {
    runs(Kind::Mixed, RUNS).await;
}

#[tokio::test]
async fn r8_kills_in_suspended_turns_lose_and_repeat_nothing() {
    runs(Kind::Suspended, RUNS).await;
}

pub(crate) async fn runs(kind: Kind, runs: usize) {
    let upstream = Upstream::start();
    // Its directories outlive each server that uses them.
    let mut home = Server::start(&upstream).await;
    home.stop();
    let mut server = settings(kind, after(&upstream, &home)).start().await;
    for run in 0..runs {
        let random = SeededRandom::new(17, u64::try_from(run).expect("small"));
        let run = Run { kind, number: run, random, home: &home };
        server = run.play(server, &upstream).await;
    }
    upstream.forget_script();
}

fn settings(kind: Kind, builder: Builder) -> Builder {
    match kind {
        Kind::Suspended => builder.argument("--sandbox=off"),
        Kind::Commands | Kind::Mixed => builder.free(),
    }
}

struct Run<'a> {
    home: &'a Server,
    kind: Kind,
    number: usize,
    random: SeededRandom,
}

/// What the client heard before the kill.
#[derive(Debug, Default)]
struct Heard {
    /// The whole answer.
    answer: Option<Value>,
    /// The question of a suspended turn.
    question: Option<String>,
}

impl Run<'_> {
    /// Plays one run to its kill, restarts the server, and checks what is left.
    async fn play(mut self, mut server: Server, upstream: &Upstream) -> Server {
        upstream.forget_script();
        self.script(upstream);
        let mut heard = Heard::default();
        if matches!(self.kind, Kind::Suspended) {
            let first = self.client(&server).chat(&self.request(&[self.go()])).await;
            heard.question = Some(first.text());
        }
        let micros = self.random.below(usize::try_from(LONGEST.as_micros()).expect("small"));
        // The kill's moment is random on purpose. Nothing that is asserted depends on it.
        let kill = async {
            tokio::time::sleep(Duration::from_micros(u64::try_from(micros).expect("small"))).await;
            kill_process(server.pid(), Signal::KILL).expect("our child is there");
        };
        let request = self.killed_request(&heard);
        let client = self.client(&server);
        let (answer, ()) = futures::join!(client.try_chat(&request), kill);
        heard.answer = answer;
        server.stop();
        let server = settings(self.kind, after(upstream, self.home)).start().await;
        self.check(&server, &heard).await;
        server
    }

    fn client(&self, server: &Server) -> Client {
        server.client().header("x-toolhand-session", &format!("run-{}", self.number))
    }

    /// Commands that leave one line each time they run.
    fn command(&self, name: &str) -> (String, Value) {
        let file = format!("{name}-{}", self.number);
        (file.clone(), json!({ "command": format!("echo ran >> {file}") }))
    }

    fn files(&self) -> Vec<String> {
        let all = [self.command("a").0, self.command("b").0];
        all.into_iter().take(if matches!(self.kind, Kind::Commands) { 2 } else { 1 }).collect()
    }

    fn script(&self, upstream: &Upstream) {
        let (a, b) = (self.command("a").1, self.command("b").1);
        upstream.round(match self.kind {
            Kind::Commands => calls(&[("a", "Bash", a), ("b", "Bash", b)]),
            Kind::Mixed => calls(&[("a", "Bash", a), ("w", "weather", json!({ "city": "Oslo" }))]),
            Kind::Suspended => calls(&[("a", "Bash", a)]),
        });
        upstream.otherwise(says("All is done here."));
    }

    fn go(&self) -> Value {
        user(&format!("Go {}.", self.number))
    }

    fn request(&self, messages: &[Value]) -> Value {
        match self.kind {
            Kind::Mixed => with(conversation(messages), weather()),
            Kind::Commands | Kind::Suspended => conversation(messages),
        }
    }

    fn killed_request(&self, heard: &Heard) -> Value {
        match &heard.question {
            Some(question) => self.request(&[self.go(), assistant(question), user("1")]),
            None => self.request(&[self.go()]),
        }
    }

    /// Asks on, and looks at what the model is told and at what the commands left.
    async fn check(&self, server: &Server, heard: &Heard) {
        let path = format!("/toolhand/v1/sessions/run-{}", self.number);
        let record = server.client().get(&path).await;
        let record = String::from_utf8_lossy(&record.body).into_owned();
        let request = self.next_request(heard);
        let answer = self.client(server).chat(&request).await;
        assert_eq!(
            answer.status(),
            200,
            "run {}: {}",
            self.number,
            String::from_utf8_lossy(&answer.body)
        );
        for file in self.files() {
            let ran = fs::read_to_string(self.home.workspace().join(&file)).unwrap_or_default();
            assert!(ran.is_empty() || ran == "ran\n", "run {}: {file} ran twice", self.number);
            if heard.answer.is_some() {
                assert_eq!(ran, "ran\n", "run {}: heard of, and not run", self.number);
            }
            if !ran.is_empty() {
                assert!(record.contains(&file), "run {}: {file} was forgotten", self.number);
            }
        }
    }

    /// The request after the restart, from what the client knows.
    fn next_request(&self, heard: &Heard) -> Value {
        let mut list = vec![self.go()];
        if let Some(question) = &heard.question {
            list.extend([assistant(question), user("1")]);
        }
        match (&heard.answer, self.kind) {
            (Some(answer), Kind::Mixed) => {
                list.push(answer["choices"][0]["message"].clone());
                list.push(json!({ "role": "tool", "tool_call_id": "w", "content": "rain" }));
            }
            (Some(answer), _) => {
                list.push(answer["choices"][0]["message"].clone());
                list.push(user("And now?"));
            }
            // The reply again: nothing runs twice.
            (None, Kind::Suspended) => {}
            (None, _) => list.push(user("What happened?")),
        }
        self.request(&list)
    }
}
