//! Defines what is kept of a subagent, and makes its transcript of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::agent::agent_event::RunCounts;
use crate::agent::beginning::{Decided, HistoryPiece};
use crate::agent::closed_round::closed;
use crate::agent::delegation::how_to_resume;
use crate::agent::record::{AgentStarted, End, Entry, Intent, OpenRound, Recorder};
use crate::errors::ApiError;
use crate::ids::{AgentId, ApprovalId};
use crate::tools::agent_types::AgentType;
use crate::tools::todos::SavedTodos;

/// Keeps what subagents have done, with their session. `sessions` implements it.
pub(crate) trait AgentRecords: Send + Sync + fmt::Debug {
    /// Keeps this of the agent, in the place of what was kept.
    fn put(
        &self,
        agent: &AgentId,
        record: &AgentRecord,
    ) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Commits the entries of one run of the agent.
    fn recorder(&self, agent: &AgentId) -> Arc<dyn Recorder>;

    /// The same for an agent in the background, with what a person decides about its calls. They
    /// are asked about with `heading` in front.
    fn in_background(&self, agent: &AgentId, heading: String) -> (Arc<dyn Recorder>, Decisions);

    /// Whether a person can still decide about one of these, which agents have asked.
    fn can_be_decided(&self, asks: Vec<ApprovalId>) -> BoxFuture<'static, Result<bool, ApiError>>;

    /// What is kept of an agent with its entries. `None`: there is none, or not here.
    fn load(
        &self,
        agent: &AgentId,
        whose: Whose,
    ) -> BoxFuture<'static, Result<Option<KeptAgent>, ApiError>>;
}

/// What a person decides about the calls of an agent.
pub(crate) type Decisions = mpsc::UnboundedReceiver<Box<Decided>>;

/// Whose agents are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// This session's.
    Session,
    /// Of any session of the same client: a fork takes up what its origin has left open.
    Client,
}

#[derive(Debug)]
pub(crate) struct KeptAgent {
    pub(crate) record: AgentRecord,
    pub(crate) entries: Vec<Entry>,
}

/// What is known of a subagent beside its entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentRecord {
    pub(crate) agent_type: AgentType,
    pub(crate) description: String,
    /// The upstream model.
    pub(crate) model: String,
    /// Its system prompt, rendered once.
    pub(crate) prompt: String,
    /// The tools that it was given.
    pub(crate) tools: Vec<String>,
    pub(crate) in_background: bool,
    /// The directory of relative paths, the files that it has seen and its todo list, after its
    /// last run.
    pub(crate) working_dir: Option<PathBuf>,
    pub(crate) read_state: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) todos: Option<SavedTodos>,
    /// What the last run asks of a person, in its own open round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits_for: Vec<ApprovalId>,
    /// How far the last run has come.
    #[serde(default)]
    pub(crate) status: RunStatus,
    /// What it has come to. A run goes on counting when a person has decided.
    #[serde(default)]
    pub(crate) counts: RunCounts,
}

/// How far a run of a subagent has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// One that does not run now was interrupted.
    #[default]
    Running,
    /// A person must decide about a call of it.
    Waiting,
    Completed,
    Failed,
}

/// What the entries of an agent make of its conversation.
#[derive(Debug)]
pub(crate) struct AgentTranscript {
    /// Without the system prompt.
    pub(crate) pieces: Vec<HistoryPiece>,
    /// The round that waits for a person.
    pub(crate) open: Option<OpenRound>,
    /// Calls that were begun in a run that did not end: their outcome is unknown.
    pub(crate) interrupted: Vec<Interrupted>,
}

/// A call that was begun and has no answer.
#[derive(Debug)]
pub(crate) struct Interrupted {
    intent: Intent,
    /// The agent that it has started.
    agent: Option<AgentId>,
}

impl AgentTranscript {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let mut transcript = Self { pieces: Vec::new(), open: None, interrupted: Vec::new() };
        for entry in entries {
            transcript.add(entry);
        }
        transcript
    }

    fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Prompt { text } => {
                self.close();
                self.pieces.push(user_message(&text));
            }
            Entry::Intent(intent) => {
                // What was approved has been taken up.
                self.open = None;
                self.interrupted.push(Interrupted { intent, agent: None });
            }
            Entry::AgentStarted(AgentStarted { slot, agent }) => {
                let call = self.interrupted.iter_mut().rfind(|call| call.intent.slot == slot);
                if let Some(call) = call {
                    call.agent = Some(agent);
                }
            }
            Entry::Round(round) => {
                (self.open, self.interrupted) = (None, Vec::new());
                self.pieces.push(HistoryPiece::Recorded(round));
            }
            Entry::Compacted(compacted) => {
                self.pieces = compacted.rounds.into_iter().map(HistoryPiece::Recorded).collect();
            }
            Entry::End(end) => {
                let End { last, open, .. } = *end;
                self.pieces.extend(last.map(HistoryPiece::Recorded));
                self.open = open.filter(|open| !open.asked.is_empty());
                self.interrupted.clear();
            }
            Entry::Ran(_) | Entry::Asked { .. } | Entry::ClientAnswers { .. } => {}
        }
    }

    /// Closes a round that nobody decides about any more.
    fn close(&mut self) {
        let closed = self.open.take().map(|open| closed(&open, |_| None));
        self.pieces.extend(closed.map(HistoryPiece::Recorded));
    }

    /// Adds the prompt of a further run, with a note on what the last one left undone.
    pub(crate) fn prompt(&mut self, prompt: &str) -> String {
        self.close();
        let calls: Vec<String> = self.interrupted.drain(..).map(|call| call.named()).collect();
        let text = if calls.is_empty() {
            prompt.to_owned()
        } else {
            let calls = calls.join(", ");
            format!(
                "(Your last step was interrupted. These calls had begun, and nobody knows how far \
                 they came: {calls}.)\n\n{prompt}"
            )
        };
        self.pieces.push(user_message(&text));
        text
    }
}

impl Interrupted {
    fn named(&self) -> String {
        let function = &self.intent.call["function"];
        let text = |member: &str| function[member].as_str().unwrap_or_default();
        let agent = self.agent.as_ref().map(|agent| format!(", {}", how_to_resume(agent)));
        format!("{} {}{}", text("name"), text("arguments"), agent.unwrap_or_default())
    }
}

fn user_message(text: &str) -> HistoryPiece {
    let message = json!({ "role": "user", "content": text });
    HistoryPiece::Client(to_raw_value(&message).expect("a JSON value is valid JSON"))
}
