//! Defines what the store's rows hold as JSON, and reads the record of a turn.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::record::{End, Entry};
use crate::execution::ask::EffectDigest;
use crate::store::rows::TurnRow;

/// What a whole session shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SessionBody {
    /// The system prompt, rendered once.
    pub(crate) prompt: Option<String>,
    /// Effects that a person allowed for the session.
    pub(crate) grants: Vec<EffectDigest>,
}

/// What a turn began with, and what held after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnBody {
    pub(crate) model: String,
    /// The user messages between the last answer and this turn's.
    pub(crate) asked: Vec<SentMessage>,
    /// Whether the turn goes on with the same link as its parent: with the answers to the
    /// client's calls, or because the client asked to continue.
    pub(crate) continues: bool,
    /// Whether the client wanted usage at the end of its stream.
    pub(crate) include_usage: bool,
    /// What holds after the turn.
    pub(crate) facts: Facts,
}

/// A user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SentMessage {
    /// The user's words: text parts joined, white space collapsed, without a frontend's
    /// wrapping.
    pub(crate) words: String,
    /// The JSON that went upstream, with reminders.
    pub(crate) sent: String,
}

/// What a turn finds, and leaves to the turns that go on from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    pub(crate) working_dir: Option<PathBuf>,
    /// The files that the model has seen (`files::ReadState`).
    pub(crate) read_state: Value,
}

/// The record of one turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnRecord {
    pub(crate) row: TurnRow,
    pub(crate) body: TurnBody,
    pub(crate) entries: Vec<Entry>,
}

impl TurnRecord {
    /// How the turn ended; `None` if it still runs or the server was killed.
    pub(crate) fn end(&self) -> Option<&End> {
        self.entries.iter().rev().find_map(|entry| match entry {
            Entry::End(end) => Some(&**end),
            _ => None,
        })
    }
}
