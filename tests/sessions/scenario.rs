//! Turns with effects that something interrupts, and what must hold afterwards: nothing that was
//! acknowledged is lost, nothing runs twice, and what ran is known.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::mixed::weather;
use super::{assistant, conversation, user};
use crate::agents::task;
use crate::support::chunks::{calls, says};
use crate::support::client::{Client, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Request, Upstream};

pub(crate) const OUTCOME_UNKNOWN: &str = "Error: interrupted, outcome unknown";

/// The text of every answer without calls.
const DONE: &str = "All is done here.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text alone.
    Plain,
    /// Two commands that run without asking.
    Commands,
    /// The same, in a turn that goes on without its client.
    Detached,
    /// A command, and a call of the client's.
    Mixed,
    /// The turn that asks a person about a command.
    Asking,
    /// A command that a person approves; the approving request is interrupted.
    Suspended,
    /// The same with a command of a subagent.
    Agent,
}

/// What the client does about a request whose answer it may not have heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It goes on with what it knows.
    No,
    /// It sends the same request again, as an SDK does.
    Retry,
    /// It sends the same request again, as if it were new.
    Same,
}

pub(crate) const AGAIN: [Again; 3] = [Again::No, Again::Retry, Again::Same];

/// One turn in a session of its own.
#[derive(Debug)]
pub(crate) struct Scenario {
    kind: Kind,
    name: String,
    workspace: PathBuf,
    /// The question of a suspended turn.
    question: Option<String>,
}

impl Kind {
    /// A server on which turns of this kind can be played.
    pub(crate) fn settings(self, builder: Builder) -> Builder {
        match self {
            Self::Suspended | Self::Agent | Self::Asking => builder.argument("--sandbox=off"),
            _ => builder.free(),
        }
    }

    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Commands | Self::Detached => &["a", "b"],
            Self::Mixed | Self::Asking | Self::Suspended | Self::Agent => &["a"],
        }
    }
}

impl Scenario {
    /// Scripts upstream, and brings the session to where the request to interrupt comes.
    pub(crate) async fn begin(
        kind: Kind,
        number: usize,
        server: &Server,
        home: &Server,
        upstream: &Upstream,
    ) -> Self {
        let (name, workspace) = (format!("run-{kind:?}-{number}."), home.workspace());
        let mut scenario = Self { kind, name, workspace, question: None };
        upstream.forget_script();
        let call = |id: &'static str| (id, "Bash", scenario.command(id));
        let weather = ("w", "weather", json!({ "city": "Oslo" }));
        match kind {
            Kind::Plain => {}
            Kind::Commands | Kind::Detached => upstream.round(calls(&[call("a"), call("b")])),
            Kind::Mixed => upstream.round(calls(&[call("a"), weather])),
            Kind::Asking | Kind::Suspended => upstream.round(calls(&[call("a")])),
            Kind::Agent => {
                let prompt = format!("Leave a line in {}.", scenario.file("a"));
                let input = task("general-purpose", &prompt, json!({}));
                upstream.round(calls(&[("t", "Task", input)]));
                upstream.round(calls(&[call("a")]));
            }
        }
        upstream.otherwise(says(DONE));
        if matches!(kind, Kind::Suspended | Kind::Agent) {
            let asked = scenario.client(server).chat(&scenario.request()).await;
            scenario.question = Some(asked.text());
        }
        scenario
    }

    pub(crate) fn client(&self, server: &Server) -> Client {
        server.client().header("x-toolhand-session", &self.name)
    }

    /// Leaves a line each time it runs, and prints another.
    fn command(&self, id: &str) -> Value {
        let file = self.file(id);
        json!({ "command": format!("echo ran >> {file}; echo printed by $((1+1)) {file}") })
    }

    fn file(&self, id: &str) -> String {
        format!("{id}-{}", self.name)
    }

    /// How often the command has run.
    fn ran(&self, id: &str) -> usize {
        fs::read_to_string(self.workspace.join(self.file(id))).unwrap_or_default().lines().count()
    }

    pub(crate) fn assert_nothing_ran(&self) {
        for id in self.kind.files() {
            assert_eq!(self.ran(id), 0, "{self:?}: {id} ran without a record");
        }
    }

    fn list(&self) -> Vec<Value> {
        let mut list = vec![user(&format!("Go {}", self.name))];
        if let Some(question) = &self.question {
            list.extend([assistant(question), user("1")]);
        }
        list
    }

    fn body(&self, list: &[Value]) -> Value {
        match self.kind {
            Kind::Mixed => with(conversation(list), weather()),
            Kind::Detached => with(conversation(list), json!({ "toolhand": { "detach": true } })),
            _ => conversation(list),
        }
    }

    /// The request that is interrupted.
    pub(crate) fn request(&self) -> Value {
        self.body(&self.list())
    }

    /// Checks what holds once the server serves again. `heard` is the answer, if the client got
    /// it whole.
    pub(crate) async fn check(
        &self,
        server: &Server,
        upstream: &Upstream,
        heard: Option<&Value>,
        again: Again,
    ) {
        let heard_all = heard.is_some() && !matches!(self.kind, Kind::Asking);
        for id in self.kind.files() {
            assert!(!heard_all || self.ran(id) == 1, "{self:?}: {id} was heard of, and not run");
        }
        let answer = self.ask_again(server, heard, again).await.or_else(|| heard.cloned());
        let (told, list) = self.go_on(server, upstream, answer.as_ref()).await;
        let mut messages = messages_of(&told.json());
        let session = self.check_record(server, &list).await;
        // A turn that has ended, and whose answer the client's list does not show, stands in the
        // session alone.
        messages.extend(messages_of(&session));
        for id in self.kind.files() {
            let (ran, known) = (self.ran(id), known(&messages, &self.file(id)));
            assert!(ran < 2, "{self:?} {again:?}: {id} ran {ran} times");
            let printed = format!("printed by 2 {}", self.file(id));
            let is_real = known.iter().any(|answer| match self.kind {
                // What its agent said at last.
                Kind::Agent => answer.starts_with(DONE),
                _ => answer.contains(&printed),
            });
            let is_unknown = known.iter().any(|answer| answer.contains(OUTCOME_UNKNOWN));
            if ran == 1 {
                assert!(
                    is_real || is_unknown,
                    "{self:?} {again:?}: {id} is forgotten: {messages:#?}"
                );
            } else {
                assert!(!is_real, "{self:?} {again:?}: {id} never ran: {messages:#?}");
            }
            assert!(!heard_all || is_real, "{self:?} {again:?}: the answer of {id} is lost");
        }
    }

    /// Sends the same request again, and returns the answer to go on from.
    async fn ask_again(
        &self,
        server: &Server,
        heard: Option<&Value>,
        again: Again,
    ) -> Option<Value> {
        let mut client = self.client(server);
        match again {
            Again::Retry => client = client.header("x-stainless-retry-count", "1"),
            // An open question is asked for again.
            Again::No if self.question.is_none() || heard.is_some() => return None,
            Again::No | Again::Same => {}
        }
        let answer = client.chat(&self.request()).await;
        if again == Again::Retry && answer.status() == 409 {
            // What ran is not run again.
            assert_eq!(answer.refusal().1, "cancelled", "{self:?}");
            assert!(heard.is_none(), "{self:?}: the answer is known");
            assert!(self.kind != Kind::Plain, "{self:?}: nothing ran");
            return None;
        }
        if answer.header("x-should-retry") == Some("false") {
            // The failure of a turn in which a call had begun stands: for a client's own retry, and
            // for the same bytes soon after it.
            assert_eq!(answer.refusal().1, "store_unavailable", "{self:?}");
            return None;
        }
        assert_eq!(answer.status(), 200, "{self:?} {again:?}: {answer:?}");
        Some(answer.json())
    }

    /// Goes on from an answer, or without one. Returns what the model was told, and the list.
    async fn go_on(
        &self,
        server: &Server,
        upstream: &Upstream,
        answer: Option<&Value>,
    ) -> (Request, Vec<Value>) {
        let mut list = self.list();
        match answer.map(|answer| &answer["choices"][0]["message"]) {
            Some(message) if !message["tool_calls"].is_null() => list.extend([
                message.clone(),
                json!({ "role": "tool", "tool_call_id": "w", "content": "rain" }),
            ]),
            Some(message) if self.is_question(message) => {
                // The person approves, and the conversation goes on.
                list.extend([message.clone(), user("1")]);
                let answer = self.client(server).chat(&self.body(&list)).await;
                list.extend([assistant(&answer.text()), user("And now?")]);
            }
            Some(message) => list.extend([message.clone(), user("And now?")]),
            None => list.push(user("What happened?")),
        }
        let asked = upstream.requests().len();
        let answer = self.client(server).chat(&self.body(&list)).await;
        assert_eq!(answer.status(), 200, "{self:?}: {answer:?}");
        list.push(answer.json()["choices"][0]["message"].clone());
        let told = upstream.requests().split_off(asked).pop();
        (told.unwrap_or_else(|| panic!("{self:?}: no model was asked")), list)
    }

    fn is_question(&self, message: &Value) -> bool {
        matches!(self.kind, Kind::Asking | Kind::Suspended | Kind::Agent)
            && message["content"].as_str().is_some_and(|text| text != DONE)
    }

    /// Returns the session. What the client was told last stands in it.
    async fn check_record(&self, server: &Server, list: &[Value]) -> Value {
        let path = format!("/toolhand/v1/sessions/{}", self.name);
        let session = server.client().get(&path).await;
        assert_eq!(session.status(), 200, "{self:?}: {session:?}");
        let newest = list.last().map(|message| message["content"].clone()).unwrap_or_default();
        let session = session.json();
        let messages = session["messages"].as_array().expect("messages");
        assert!(messages.iter().any(|message| message["content"] == newest), "{session:#}");
        session
    }
}

fn messages_of(body: &Value) -> Vec<Value> {
    body["messages"].as_array().expect("messages").clone()
}

/// What the model was told of the call that has this in its arguments: the answer, and what a
/// reminder says.
fn known(messages: &[Value], file: &str) -> Vec<String> {
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let has_it = |call: &&Value| call["function"]["arguments"].to_string().contains(file);
    let ids: Vec<&Value> = calls.filter(has_it).map(|call| &call["id"]).collect();
    let answers = messages.iter().filter(|message| ids.contains(&&message["tool_call_id"]));
    let reminders = messages.iter().filter(|message| message["role"] == "user").map(text);
    let reminders = reminders.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    answers.map(text).chain(reminders.filter(|line| line.contains(file))).collect()
}
