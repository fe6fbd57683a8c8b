//! Defines what the store's rows hold as JSON, and reads the record of a turn.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client_calls::CallDigest;
use super::delivery_state::DeliveryState;
use super::message_json;
use crate::agent::record::{End, Entry, OpenRound, RecordedRound};
use crate::execution::ask::EffectDigest;
use crate::ids::TurnId;
use crate::permissions::SavedMode;
use crate::store::rows::{EntryRow, TurnRow};
use crate::tools::planned_tasks::SavedPlannedTasks;
use crate::tools::session_preferences::SavedPreferences;
use crate::tools::tasks::SavedTasks;
use crate::tools::todos::SavedTodos;
use crate::workspace::BoundDirectory;

/// What a whole session shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SessionBody {
    /// Effects that a person allowed for the session.
    pub(crate) grants: Vec<EffectDigest>,
    /// The root of the workspace of its last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
    /// The working directory after its last turn, unless it is that root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) working_dir: Option<String>,
    /// The turn that has used the plan last, and left its file as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan_of: Option<TurnId>,
    /// What a person has let the model set for it.
    pub(crate) preferences: SavedPreferences,
}

/// What a turn began with, and what held after it.
#[expect(clippy::struct_excessive_bools, reason = "what is kept of a turn, as it is stored")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnBody {
    pub(crate) model: String,
    /// The client's own name of the session.
    pub(crate) session_name: Option<String>,
    /// The instructions that the list began with, as JSON; `None` if they are those of the turn
    /// before, or there were none.
    #[serde(with = "message_json::list")]
    pub(crate) instructions: Option<Vec<String>>,
    /// The user messages between the last answer and this turn's.
    #[serde(rename = "asked")]
    pub(crate) user_messages: Vec<SentMessage>,
    /// Whether the turn goes on with the same link as its parent: with the answers to the
    /// client's calls, or because the client asked to continue.
    pub(crate) continues: bool,
    /// The turns that took up this turn's open round, in whatever session: what was approved in
    /// it runs once.
    pub(crate) resumed_by: Vec<TurnId>,
    /// Whether the turn began with its parent's open round.
    pub(crate) resumes: bool,
    /// Whether the client wanted usage at the end of its stream.
    pub(crate) include_usage: bool,
    /// The calls that the client was sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallDigest>,
    /// Whether nobody listened any more when the turn ended, or nobody listens to it while it runs:
    /// the client may show a part of its answer, or nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unheard: bool,
    /// What a turn that runs here has said by now. It is recorded with the round that says it.
    #[serde(skip)]
    pub(crate) said_so_far: Option<String>,
    /// What holds after the turn; `None` if it is what held before.
    #[serde(rename = "facts")]
    pub(crate) state: Option<SessionState>,
}

/// A user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SentMessage {
    /// The user's words: text parts joined, white space collapsed, without a frontend's
    /// wrapping.
    pub(crate) words: String,
    /// The JSON that went upstream, with reminders; empty for a reply to a question of ours,
    /// which never goes upstream.
    #[serde(with = "message_json")]
    pub(crate) sent: String,
}

/// What a turn finds, and leaves to the turns that go on from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SessionState {
    pub(crate) working_dir: Option<PathBuf>,
    /// The files that the model has seen (`files::ReadState`).
    pub(crate) read_state: Value,
    /// The background tasks that it knows.
    pub(crate) known_tasks: SavedTasks,
    /// The directories of the skills that were used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) readable: Vec<BoundDirectory>,
    /// Its todo list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) todos: Option<SavedTodos>,
    /// What it has planned with `TaskCreate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) planned_tasks: Option<SavedPlannedTasks>,
    /// What a person has chosen of the permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<SavedMode>,
    /// What the plan holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<String>,
}

/// The record of one turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnRecord {
    pub(crate) row: TurnRow,
    pub(crate) body: TurnBody,
    pub(crate) entries: Vec<Entry>,
}

/// Entries by their turn. One that cannot be read is left out, and logged.
pub(crate) fn entries_by_turn(rows: Vec<EntryRow>) -> HashMap<TurnId, Vec<Entry>> {
    let mut entries: HashMap<TurnId, Vec<Entry>> = HashMap::new();
    for row in rows {
        match serde_json::from_slice(&row.body) {
            Ok(entry) => entries.entry(row.turn).or_default().push(entry),
            Err(error) => tracing::error!(turn = %row.turn, %error, "an entry cannot be read"),
        }
    }
    entries.values_mut().for_each(forget_settled_answers);
    entries
}

/// Forgets the client's answers once the turn's round has them: they may be large.
fn forget_settled_answers(entries: &mut Vec<Entry>) {
    let has_them = entries.iter().any(|entry| match entry {
        Entry::Round(_) => true,
        Entry::End(end) => end.open.is_some(),
        _ => false,
    });
    if has_them {
        entries.retain(|entry| !matches!(entry, Entry::ClientAnswers { .. }));
    }
}

impl TurnBody {
    /// About the most bytes that it takes as JSON.
    pub(crate) fn stored_size(&self) -> usize {
        /// All but the texts, usually.
        const REST: usize = 1024;
        let instructions = self.instructions.iter().flatten().map(String::len);
        let users = self.user_messages.iter().map(|user| user.sent.len() + 2 * user.words.len());
        let texts: usize = instructions.chain(users).sum();
        texts + texts / 16 + REST
    }
}

impl TurnRecord {
    /// Of a body that cannot be read, nothing is known.
    pub(crate) fn new(row: TurnRow, entries: Vec<Entry>) -> Self {
        let body = serde_json::from_slice(&row.body).unwrap_or_else(|error| {
            tracing::error!(turn = %row.id, %error, "a turn's body cannot be read");
            TurnBody::default()
        });
        Self { row, body, entries }
    }

    /// How the turn ended; `None` if it still runs or the server was killed.
    pub(crate) fn end(&self) -> Option<&End> {
        self.entries.iter().rev().find_map(|entry| match entry {
            Entry::End(end) => Some(&**end),
            _ => None,
        })
    }

    /// Tells how much of the turn its client can have heard.
    pub(crate) fn delivery(&self) -> DeliveryState {
        DeliveryState::new(self.row.status, self.body.unheard)
    }

    /// The tokens of the conversation when they were last counted, and of what the turn said
    /// behind that.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        let end = self.end()?;
        let counted = end.summary.context_tokens.filter(|tokens| *tokens > 0)?;
        let last = end.last.as_ref().map_or(0, |last| last.messages.len());
        Some(counted.saturating_add(last as u64 / 4))
    }

    /// What the client calls the session.
    pub(crate) fn session_name(&self) -> String {
        self.body.session_name.clone().unwrap_or_else(|| self.row.session.to_string())
    }

    /// The round that waits for answers.
    pub(crate) fn open(&self) -> Option<&OpenRound> {
        self.end().and_then(|end| end.open.as_ref())
    }

    /// The question with which the turn's text ends, as the client was sent it; all of the text
    /// where it is not known where the question begins.
    pub(crate) fn question(&self) -> String {
        let said = self.said();
        let length = self.open().and_then(|open| open.question).map(|question| question.length);
        let start = length.and_then(|length| said.len().checked_sub(length));
        match start.and_then(|start| said.get(start..)) {
            Some(question) => question.to_owned(),
            None => said,
        }
    }

    /// The ids of the calls that the client was sent.
    pub(crate) fn client_call_ids(&self) -> impl Iterator<Item = &str> {
        let calls = self.end().into_iter().flat_map(|end| &end.client_calls);
        calls.filter_map(|call| call["id"].as_str())
    }

    /// Whether the turn ended with a question to a person.
    pub(crate) fn has_asked(&self) -> bool {
        self.open().is_some_and(|open| !open.asked.is_empty())
    }

    /// The rounds that were closed, and the last message.
    pub(crate) fn all_rounds(&self) -> impl Iterator<Item = &RecordedRound> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Round(round) => Some(round),
            Entry::End(end) => end.last.as_ref(),
            _ => None,
        })
    }

    /// All text that the client was sent. Of a turn that the server was killed in, what is recorded
    /// of it.
    pub(crate) fn said(&self) -> String {
        self.body.said_so_far.clone().unwrap_or_else(|| self.recorded_text())
    }

    /// The text that is recorded: of a turn without its end, that of its closed rounds.
    pub(crate) fn recorded_text(&self) -> String {
        match self.end() {
            Some(end) => end.said.clone(),
            None => self.all_rounds().map(RecordedRound::text).collect::<Vec<_>>().join("\n\n"),
        }
    }
}
