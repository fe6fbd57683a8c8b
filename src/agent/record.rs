//! Defines what a turn leaves behind, and the trait by which it is committed.
//!
//! Intent comes before effect: a call that may have an effect is committed before it runs, and
//! the end of a turn before the client is told of it.

use std::fmt;

use futures::future::BoxFuture;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::asking::bare_choice::CodeRequirement;
use crate::errors::ApiError;
use crate::execution::ask::{About, Ask, Decision, Question};
use crate::files::RoundDigest;
use crate::ids::{AgentId, ApprovalId};
use crate::json;
use crate::openai::message::text_of;

/// Commits the entries of one turn, in order. `sessions` implements it.
pub(crate) trait Recorder: Send + Sync + fmt::Debug {
    /// Resolves when this entry, and all before it, survive a kill of the process. The entry is
    /// committed even if the future is dropped.
    fn commit(&self, entry: Entry) -> BoxFuture<'static, Result<(), ApiError>>;
}

/// Stands between a round that was open and the user's words behind it: many models take no
/// user message right after the answers to their calls.
pub(crate) const SETTLED: &str = "These calls are settled.";

/// Stands behind answers to calls where no other message of the assistant does: many models take no
/// user message right behind them.
pub(crate) const INTERRUPTED_HERE: &str = "Interrupted here.";

/// A recorder of a turn of which nothing is kept.
#[derive(Debug)]
pub(crate) struct NoRecord;

impl Recorder for NoRecord {
    fn commit(&self, _: Entry) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// One entry of a turn's record. A turn's entries are: the client's answers, intents and their
/// answers, the round that they belong to, the next round, …, and the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum Entry {
    /// What the client answered to its own calls of the open round that the turn takes up: for each
    /// call of the round its `role: tool` message as JSON.
    ClientAnswers {
        answers: Vec<Option<String>>,
    },
    /// A call that may have an effect is about to run.
    Intent(Intent),
    /// Such a call has started an agent, or lets it go on.
    AgentStarted(AgentStarted),
    /// Such a call has run.
    Ran(Ran),
    /// The message that a subagent begins a run with.
    Prompt {
        text: String,
    },
    /// A person is asked. From now on the asks can be decided over REST.
    Asked {
        asked: Vec<Asked>,
    },
    /// A round is closed: every call has its answer. Its intents are settled by it.
    Round(RecordedRound),
    /// From now on the transcript of the session begins with this.
    Compacted(Compacted),
    End(Box<End>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) round: u32,
    pub(crate) slot: usize,
    /// The entry of `tool_calls` as it goes back upstream.
    pub(crate) call: Value,
    /// The name of the model that made the call.
    pub(crate) model: String,
    /// The approval that allowed it: it is used up now.
    pub(crate) approval: Option<ApprovalId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentStarted {
    pub(crate) slot: usize,
    pub(crate) agent: AgentId,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) round: u32,
    pub(crate) slot: usize,
    /// The content of the tool message.
    pub(crate) answer: String,
}

/// Messages as they go upstream, byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedRound {
    /// A JSON array: the assistant's message, the answers to its calls and a user message with
    /// their pictures, or a message alone.
    /// A note of ours may stand before it (to go on with an answer), or behind it (where a
    /// user's words follow).
    pub(crate) messages: String,
    /// The name of the model that wrote it; its reasoning is sent to no other.
    pub(crate) model: String,
    pub(crate) has_reasoning: bool,
}

impl RecordedRound {
    /// Tells it from other rounds, by its bytes.
    pub(crate) fn digest(&self) -> RoundDigest {
        let hash = blake3::hash(self.messages.as_bytes());
        let [first, ..] = hash.as_bytes().as_chunks::<8>().0 else { return 0 };
        RoundDigest::from_le_bytes(*first)
    }

    /// What the assistant says in it.
    pub(crate) fn text(&self) -> String {
        let messages: Vec<&RawValue> = serde_json::from_str(&self.messages).unwrap_or_default();
        // A note of ours may stand before it.
        let is_it = |message: &&&RawValue| {
            let role = json::member(message, "role").and_then(json::string);
            role.is_some_and(|role| role == "assistant")
        };
        let own = messages.iter().find(is_it);
        own.map_or_else(String::new, |message| text_of(message).into_owned())
    }
}

/// The transcript up to some turn in a shorter form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Compacted {
    /// Replaces all messages of the request but the leading instructions, up to the rounds that
    /// this turn records behind it.
    pub(crate) rounds: Vec<RecordedRound>,
}

/// The end of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    /// What the model said last, without calls: the answer, or what it had said when the turn
    /// was stopped. `None` if nothing.
    pub(crate) last: Option<RecordedRound>,
    /// The round that waits for answers, if the turn ended with client calls or a question.
    pub(crate) open: Option<OpenRound>,
    /// All text that the client was sent as content, with the question of a suspended turn.
    pub(crate) said: String,
    /// The calls that the client was sent, as entries of `tool_calls`. The calls of
    /// `ask_user` and `toolhand_approval` are among them.
    pub(crate) client_calls: Vec<Value>,
    /// For telling the turn again. One of another form costs the figures alone.
    #[serde(deserialize_with = "lenient")]
    pub(crate) summary: RecordedSummary,
    /// Whether a tool has run.
    pub(crate) tools_ran: bool,
}

/// Usage, rounds and so on: what a turn told at its end, but for its messages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RecordedSummary {
    pub(super) reason: Option<String>,
    pub(super) usage: Option<Map<String, Value>>,
    pub(super) rounds: u32,
    pub(super) tool_calls: usize,
    pub(super) duration_ms: u64,
    pub(super) rounds_without_usage: u32,
    pub(crate) context_tokens: Option<u64>,
    pub(super) unknown: Map<String, Value>,
    /// `messages` as JSON, if the client wanted them.
    pub(super) messages: Option<String>,
}

/// Reads a summary; a default one from what is none.
fn lenient<'de, D: Deserializer<'de>>(from: D) -> Result<RecordedSummary, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(RecordedSummary::deserialize(value).unwrap_or_default())
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum Outcome {
    /// With OpenAI's `finish_reason`.
    Finished {
        reason: String,
    },
    Failed {
        code: String,
        message: String,
    },
    /// The client left, somebody cancelled the turn, or the server shut down.
    Stopped,
}

/// A round that cannot be closed yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenRound {
    /// The assistant's message with all its calls, in the form that goes back upstream.
    pub(crate) message: Value,
    pub(crate) model: String,
    pub(crate) has_reasoning: bool,
    /// As many as `message` has calls, in their order.
    pub(crate) calls: Vec<OpenCall>,
    /// The asks that the person was shown; empty while the client's own calls come first.
    pub(crate) asked: Vec<Asked>,
    /// The calls of the client's tool by which the person is asked (`ask_user`,
    /// `toolhand_approval`). Empty: asked in the conversation, or over REST alone.
    pub(crate) asked_by: Vec<AskingCall>,
    /// The last text of the turn that closes the round, if a hook has said that it ends then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ends_with: Option<String>,
    /// How the person was shown the question in the text of the turn. `None` in a record of an
    /// older version, or where nothing was asked there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<ShownQuestion>,
}

/// The question at the end of a turn's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShownQuestion {
    /// How many bytes it has. `End::said` ends with them.
    pub(crate) length: usize,
    /// Whether a reply must carry its code.
    #[serde(rename = "code")]
    pub(crate) code_requirement: CodeRequirement,
}

impl ShownQuestion {
    pub(crate) fn new(text: &str, code_requirement: CodeRequirement) -> Self {
        Self { length: text.len(), code_requirement }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub(crate) enum OpenCall {
    /// It ran, or was refused: the content of its tool message.
    Answered {
        answer: String,
        /// What the model is shown with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<RecordedPicture>,
    },
    /// The client answered it: its own `role: tool` message, as JSON.
    Given { message: String },
    /// A call of the server's that has not run.
    Waiting,
    /// It has started an agent that needs a person. It runs once more when the person has
    /// decided.
    Suspended(SuspendedAgent),
    /// The client answers it, under this id.
    Clients { id: String },
}

impl OpenCall {
    /// Whether the server runs it when the round is taken up.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Waiting | Self::Suspended(_))
    }
}

/// An agent that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SuspendedAgent {
    pub(crate) agent: AgentId,
    pub(crate) asks: Vec<AgentAsk>,
}

/// What an agent asks. Its parent asks the person for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentAsk {
    /// The id of the ask in the agent's open round.
    pub(crate) id: ApprovalId,
    pub(crate) ask: Ask,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
}

/// A picture of a tool's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedPicture {
    pub(crate) name: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Its bytes, as a `data:` URL.
    pub(crate) url: String,
}

/// An ask that a person was shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) id: ApprovalId,
    /// Four letters, by which a reply can name it.
    pub(crate) code: String,
    /// The call's place in its round.
    pub(crate) slot: usize,
    /// The ask of the call's agent that this one passes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of_agent: Option<ApprovalId>,
    pub(crate) ask: Ask,
    /// The answers that earlier dialogs brought, to the first of its questions.
    #[serde(default)]
    pub(crate) answered: Vec<String>,
    /// The place of the question that is asked again, since the reply was a number beyond its
    /// options. The same number again is taken as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repeated: Option<usize>,
    /// Milliseconds since 1970.
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: i64,
}

impl Asked {
    /// Its questions that have no answer yet. An approval has no questions.
    pub(crate) fn unanswered(&self) -> &[Question] {
        match &self.ask.about {
            About::Effect(_) => &[],
            About::Questions { questions } => {
                questions.get(self.answered.len()..).unwrap_or_default()
            }
        }
    }
}

/// A call of the client's own tool that asks a person for us.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AskingCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    /// The asks it is about, as places in `OpenRound::asked`.
    pub(crate) asks: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_assistant_says_is_not_the_note_before_it() {
        let text = |messages: &str| {
            let messages = messages.to_owned();
            RecordedRound { messages, model: "m".to_owned(), has_reasoning: false }.text()
        };
        let (note, said) =
            (r#"{"role":"user","content":"Go on."}"#, r#"{"role":"assistant","content":"a time"}"#);
        assert_eq!(text(&format!("[{said},{note}]")), "a time");
        assert_eq!(text(&format!("[{note},{said},{note}]")), "a time");
        assert_eq!(text(&format!("[{note}]")), "");
    }
}
