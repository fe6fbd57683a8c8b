//! Defines a message of the client's list, after it was checked and repaired by itself.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::ids::{CardId, TurnId};
use crate::json;
use crate::openai::message::{Said, text_of};

/// A message of a valid shape. What only its neighbours tell, such as a call without an answer,
/// is repaired later (`sessions::pairs`).
#[derive(Clone, Debug)]
pub(crate) struct ClientMessage {
    /// Its index in the client's list.
    pub(crate) index: usize,
    pub(crate) role: Role,
    /// The message for upstream. Its arguments are valid JSON, and progress lines of ours are
    /// removed from its reasoning.
    pub(crate) json: Box<RawValue>,
    /// The tool calls of an assistant message.
    pub(crate) calls: Vec<ClientCall>,
    /// The id of the call that a tool message answers; empty if it has none.
    pub(crate) answers: Option<Box<str>>,
    /// The message has no content and no calls. Providers refuse such messages.
    pub(crate) says_nothing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `system` and `developer`.
    Instruction,
    User,
    Assistant,
    Tool,
    Function,
}

/// A call of the history. It is never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCall {
    /// As the client sent it; empty if it has none.
    pub(crate) id: Box<str>,
    pub(crate) of: CallOf,
}

/// Whose tool a call of the history is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOf {
    Client,
    /// A tool of the server: the client keeps the hidden messages itself (`include`).
    Server,
    /// No call, but a card that we have shown.
    Card,
}

impl ClientMessage {
    /// The text, or the text parts joined. Reads the JSON each time.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        text_of(&self.json)
    }

    /// What it says, read from the JSON each time.
    pub(crate) fn said(&self) -> Said<'_> {
        json::member(&self.json, "content").map(Said::of).unwrap_or_default()
    }

    /// The turn that the last card in the message names.
    pub(crate) fn turn_of_cards(&self) -> Option<TurnId> {
        let cards = self.calls.iter().rev().filter(|call| call.of == CallOf::Card);
        let ids = cards.map(|call| &*call.id).chain(self.answers.as_deref());
        ids.filter_map(CardId::parse).find_map(|card| card.turn())
    }

    /// Whether it is a tool message that answers a card.
    pub(crate) fn answers_card(&self) -> bool {
        self.answers.as_deref().is_some_and(|id| CardId::parse(id).is_some())
    }
}
