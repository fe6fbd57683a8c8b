//! Plays the client of one seed: it asks, decides what it is asked, and sometimes leaves.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::plan::{self, Consent, Return};
use super::script::{DONE, Seen, TURN, TurnSeen, label_of, model};
use crate::sessions::asking::{allow, decide};
use crate::sessions::{assistant, user};
use crate::support::client::{Client, Reply};
use crate::support::seeded::SeededRandom;
use crate::support::stream::{Event, Stream};
use crate::support::sync;

/// More requests than any conversation of these needs.
const MAX_TURNS: usize = 40;

/// What became of a conversation.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) turns: usize,
    pub(super) terminal_events: usize,
    pub(super) false_stops: usize,
    /// What a person has decided about commands.
    pub(super) decided: BTreeMap<String, bool>,
    /// Whether a client has left, or an answer was an error: then not all is known that ran.
    pub(super) is_cut: bool,
    /// Turns whose client has left.
    pub(super) left: Vec<String>,
    /// The marks of turns that were left, and of the requests that repeated theirs.
    pub(super) repeated: Vec<(String, String)>,
    pub(super) wrong: Vec<String>,
}

/// How a turn ended for the client.
enum End {
    Answered(Answered),
    Failed,
    /// The client has left.
    Left,
}

struct Answered {
    text: String,
    asked: Vec<Value>,
}

pub(super) struct Conversation<'a> {
    client: &'a Client,
    seed: u64,
    upstream: Arc<Seen>,
    random: SeededRandom,
    consent: Consent,
    /// What the client keeps of it.
    list: Vec<Value>,
    /// The request that was sent last.
    body: Value,
    /// The asks that were decided over REST.
    known: HashSet<String>,
    /// The codes of the asks that were decided in the conversation.
    decided_codes: Vec<String>,
    /// The marks of turns by their ids.
    marks: HashMap<String, String>,
    /// The id of the turn that was begun last.
    turn: String,
    played: Played,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(client: &'a Client, seed: u64, upstream: Arc<Seen>) -> Self {
        Self {
            client,
            seed,
            upstream,
            random: SeededRandom::new(seed, 4),
            consent: plan::consent(seed),
            list: vec![user(&format!("Go {seed}."))],
            body: Value::Null,
            known: HashSet::new(),
            decided_codes: Vec::new(),
            marks: HashMap::new(),
            turn: String::new(),
            played: Played::default(),
        }
    }

    pub(super) async fn play(mut self) -> Played {
        let mut leaves = plan::leaves_after(self.seed);
        for _ in 0..MAX_TURNS {
            self.next_body(leaves.is_some());
            let mark = self.next_mark();
            let mut end = self.ask(&mark, leaves, None).await;
            // Later it leaves where it would wait for ever.
            leaves = leaves.map(|_| usize::MAX);
            if matches!(end, End::Left) {
                match plan::returns(self.seed) {
                    Return::Never => return self.played,
                    Return::GoesOn => {
                        self.list.push(user("And now?"));
                        continue;
                    }
                    Return::Retries => end = self.repeat(mark, leaves).await,
                }
            }
            match end {
                End::Answered(answered) if self.goes_on(&answered).await => {}
                End::Answered(_) | End::Failed | End::Left => return self.played,
            }
        }
        self.wrong("it does not end");
        self.played
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.played.wrong.push(what.into());
    }

    fn next_mark(&mut self) -> String {
        self.played.turns += 1;
        format!("turn={}.{}", self.seed, self.played.turns)
    }

    fn next_body(&mut self, is_leaver: bool) {
        let waits = self.consent == Consent::Meanwhile;
        let streams = is_leaver || waits || self.random.happens(50);
        let progress = *self.random.pick(&["reasoning", "events", "cards", "none"]);
        let progress = if waits { "events" } else { progress };
        self.body = json!({
            "model": model(self.seed), "messages": self.list, "stream": streams,
            "toolhand": { "progress": progress },
        });
        if streams {
            self.body["stream_options"] = json!({ "include_usage": true });
        }
    }

    /// Sends the request. `repeated` is the mark of the turn that it has begun before.
    async fn ask(&mut self, mark: &str, leaves: Option<usize>, repeated: Option<&str>) -> End {
        let mut client = self.client.clone().header(TURN, mark);
        if repeated.is_some() {
            client = client.header("x-stainless-retry-count", "1");
        }
        // Upstream may be stuck before the head of the answer is there.
        let mut stuck = self.upstream.is_stuck.subscribe();
        stuck.mark_unchanged();
        match client.ask(&self.body).await {
            Reply::Stream(stream) => {
                let turn = stream.head.header("x-toolhand-turn").unwrap_or_default().to_owned();
                self.begun(turn, mark);
                self.follow(stream, leaves, stuck).await
            }
            Reply::Answer(answer) if answer.status() == 200 => {
                let turn = answer.header("x-toolhand-turn").unwrap_or_default().to_owned();
                self.begun(turn, mark);
                let body = answer.json();
                let asked = body["toolhand"]["asked"].as_array().cloned().unwrap_or_default();
                self.answered(answer.text(), &body["usage"], asked)
            }
            Reply::Answer(answer) => {
                let (_, code) = answer.refusal();
                let marks = [Some(mark), repeated].into_iter().flatten();
                let has_failed = marks.map(|mark| self.seen_of(mark)).any(|turn| turn.has_failed);
                self.failed(&code, has_failed || (repeated.is_some() && code == "cancelled"))
            }
        }
    }

    fn begun(&mut self, turn: String, mark: &str) {
        // A request that was repeated may have joined its turn.
        self.marks.entry(turn.clone()).or_insert_with(|| mark.to_owned());
        self.turn = turn;
    }

    fn seen_of(&self, mark: &str) -> TurnSeen {
        sync::lock(&self.upstream.told).turns.get(mark).cloned().unwrap_or_default()
    }

    /// What upstream has seen of the turn that was begun last.
    fn seen(&self) -> TurnSeen {
        self.seen_of(&self.marks[&self.turn])
    }

    /// Reads the stream to its end, unless the client leaves.
    async fn follow(
        &mut self,
        mut stream: Stream,
        leaves: Option<usize>,
        mut stuck: watch::Receiver<bool>,
    ) -> End {
        if self.played.left.contains(&self.turn) && *stuck.borrow() {
            // It has joined the turn that it had left, which still waits for its end.
            return self.leave();
        }
        let mut events = 0;
        loop {
            let event = tokio::select! {
                biased;
                event = stream.next() => event,
                _ = stuck.changed(), if leaves.is_some() => {
                    // The moment is random on purpose: a command may be about to begin.
                    sleep(Duration::from_millis(self.random.below(60) as u64)).await;
                    return self.leave();
                }
            };
            events += 1;
            match event {
                None | Some(Event::Done) => break,
                Some(event) if event.progress()["type"] == "approval" => {
                    if self.consent == Consent::Meanwhile {
                        self.decide(&event.progress().clone()).await;
                    }
                }
                Some(_) => {}
            }
            if leaves.is_some_and(|leaves| leaves <= events) {
                return self.leave();
            }
        }
        let told = stream.finish().await;
        let usage = told.usage.clone().unwrap_or_default();
        let asked = told.toolhand["asked"].as_array().cloned().unwrap_or_default();
        match &told.error {
            Some(_) => {
                let has_failed = self.seen().has_failed;
                self.failed(told.code(), has_failed)
            }
            None => self.answered(told.text().to_owned(), &usage, asked),
        }
    }

    fn leave(&mut self) -> End {
        self.played.is_cut = true;
        self.played.left.push(self.turn.clone());
        End::Left
    }

    fn failed(&mut self, code: &str, is_expected: bool) -> End {
        self.played.terminal_events += 1;
        self.played.is_cut = true;
        if !is_expected {
            self.wrong(format!("{} ended with {code}", self.turn));
        }
        End::Failed
    }

    fn answered(&mut self, text: String, usage: &Value, asked: Vec<Value>) -> End {
        self.played.terminal_events += 1;
        let seen = self.seen();
        let is_done = text.ends_with(DONE) || !asked.is_empty();
        if seen.has_failed || !is_done {
            self.played.false_stops += 1;
            self.wrong(format!("a stop after {text:?}"));
        }
        let (prompt, completion) = seen.usage;
        let expected = json!({
            "prompt_tokens": prompt, "completion_tokens": completion,
            "total_tokens": prompt + completion,
        });
        let is_right = *usage == expected || (usage.is_null() && seen.requests == 0);
        if !is_right {
            let mark = &self.marks[&self.turn];
            self.wrong(format!("{mark}: the usage is {usage}, not {expected}"));
        }
        End::Answered(Answered { text, asked })
    }

    /// Sends the same request again, as an SDK does.
    async fn repeat(&mut self, left: String, leaves: Option<usize>) -> End {
        let mark = self.next_mark();
        let end = self.ask(&mark, leaves, Some(&left)).await;
        self.played.repeated.push((left, mark));
        end
    }

    /// Whether the conversation goes on behind this answer, with what is decided.
    async fn goes_on(&mut self, answered: &Answered) -> bool {
        let Answered { text, asked } = answered;
        if asked.is_empty() {
            return false;
        }
        self.list.push(assistant(text));
        match self.consent {
            Consent::Meanwhile => self.wrong("it did not wait for decisions"),
            Consent::Rest => {
                for ask in asked {
                    self.decide(ask).await;
                }
                if self.random.happens(50) {
                    self.list.push(user("How is it going?"));
                }
            }
            Consent::Chat => {
                let reply = self.reply(asked);
                self.list.push(user(&reply));
            }
        }
        true
    }

    /// Names what was decided before, or nobody has asked. All is asked again.
    fn reply_to_another(&mut self, asked: &[Value]) -> String {
        const FOREIGN: [&str; 2] = ["BCDF", "ZXWT"];
        let is_asked = |code: &str| asked.iter().any(|ask| ask["code"] == code);
        let known = self.decided_codes.iter().map(String::as_str).chain(FOREIGN);
        let others: Vec<&str> = known.filter(|code| !is_asked(code)).collect();
        let choice = *self.random.pick(&["1", "yes", "always", "3"]);
        format!("{} {choice}", self.random.pick(&others))
    }

    fn allows(&mut self, ask: &Value) -> bool {
        let is_allowed = self.random.happens(65);
        self.decided(ask, is_allowed);
        is_allowed
    }

    fn decided(&mut self, ask: &Value, is_allowed: bool) {
        match ask["effect"].as_str().and_then(label_of) {
            Some(label) => _ = self.played.decided.insert(label.to_owned(), is_allowed),
            None => self.wrong(format!("no command of ours is asked about: {ask}")),
        }
    }

    /// Decides over REST, unless the ask is of a turn that is told once more.
    async fn decide(&mut self, ask: &Value) {
        if !self.known.insert(ask["id"].to_string()) {
            return;
        }
        let decision = match self.allows(ask) {
            true if self.random.happens(20) => json!({ "decision": "allow", "scope": "session" }),
            true => allow(),
            false => json!({ "decision": "deny" }),
        };
        let answer = decide(self.client, ask, &decision).await;
        if answer.status() != 200 {
            self.wrong(format!("the decision is refused: {}", answer.json()));
        }
    }

    /// Decides in the conversation.
    fn reply(&mut self, asked: &[Value]) -> String {
        if self.random.happens(15) {
            return self.reply_to_another(asked);
        }
        let codes = asked.iter().filter_map(|ask| ask["code"].as_str());
        self.decided_codes.extend(codes.map(str::to_owned));
        if self.random.happens(40) {
            let (reply, is_allowed) = *self.random.pick(&[
                ("1", true),
                ("yes", true),
                ("2", true),
                ("3", false),
                ("Use another name.", false),
            ]);
            for ask in asked {
                self.decided(ask, is_allowed);
            }
            return reply.to_owned();
        }
        // What is left out is asked again.
        let named = 1 + self.random.below(asked.len());
        let named = if self.random.happens(30) { named } else { asked.len() };
        let lines: Vec<String> = asked[..named]
            .iter()
            .map(|ask| {
                let choice = if self.allows(ask) { "1" } else { "3" };
                format!("{} {choice}", ask["code"].as_str().expect("a code"))
            })
            .collect();
        lines.join("\n")
    }
}
