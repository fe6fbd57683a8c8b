//! Gives every tool call of the client's exactly one answer, directly after its message and in
//! the order of the calls: providers match them by id or by position.

mod call_ids;

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::message::{ClientMessage, Role};
use crate::agent::beginning::HistoryPiece;
pub(crate) use crate::agent::closed_round::INTERRUPTED;
use crate::errors::{ApiError, ErrorCode};
use crate::json::{self, Object};
use crate::text;

/// One piece of the transcript, before calls and answers are paired.
#[derive(Debug)]
pub(crate) enum Draft {
    /// Taken as the client sent it.
    Client(ClientMessage),
    /// Final: what really happened, or a message without calls.
    Known(HistoryPiece),
}

/// The transcript of a request for which nothing is recorded.
pub(crate) fn without_records(messages: Vec<ClientMessage>) -> Result<Vec<HistoryPiece>, ApiError> {
    repair(messages.into_iter().map(Draft::Client).collect(), |_| false)
}

/// Pairs the calls and answers that came from the client. `is_known` tells which ids are those
/// of recorded calls: their answers are no error, and are dropped.
pub(crate) fn repair(
    mut drafts: Vec<Draft>,
    is_known: impl Fn(&str) -> bool,
) -> Result<Vec<HistoryPiece>, ApiError> {
    drafts.retain(|draft| draft.message().is_none_or(|message| !message.says_nothing));
    if drafts.is_empty() {
        let message = "No message in messages says anything.";
        return Err(ApiError::new(ErrorCode::InvalidValue, message).param("messages"));
    }
    let pairs = Pairs::from_drafts(&drafts, is_known)?;
    pairs.check_end(&drafts)?;
    let ids = call_ids::repair(&mut drafts);
    Ok(pairs.written(drafts, &ids))
}

/// The indexes of the answers to each assistant message's calls, by the index of the
/// message and of the call in it.
struct Pairs(HashMap<usize, Vec<Option<usize>>>);

/// Unanswered calls with the same id, all of the latest message that has it.
#[derive(Default)]
struct Waiting {
    asked: usize,
    slots: VecDeque<usize>,
}

impl Draft {
    fn message(&self) -> Option<&ClientMessage> {
        match self {
            Self::Client(message) => Some(message),
            Self::Known(_) => None,
        }
    }

    fn is_answer(&self) -> bool {
        self.message().is_some_and(|message| message.role == Role::Tool)
    }

    fn calls(&self) -> &[super::message::ClientCall] {
        self.message().map_or(&[], |message| &message.calls)
    }
}

impl Pairs {
    /// Assigns each answer to the nearest earlier message with a call of its id, and
    /// there to the first call without an answer. A further answer is dropped.
    fn from_drafts(drafts: &[Draft], is_known: impl Fn(&str) -> bool) -> Result<Self, ApiError> {
        let mut pairs: HashMap<usize, Vec<Option<usize>>> = HashMap::new();
        let mut latest: HashMap<&str, Waiting> = HashMap::new();
        let mut unknown: Vec<(&ClientMessage, &str)> = Vec::new();
        for (at, draft) in drafts.iter().enumerate() {
            let Some(message) = draft.message() else { continue };
            if !message.calls.is_empty() {
                pairs.insert(at, vec![None; message.calls.len()]);
            }
            for (slot, call) in message.calls.iter().enumerate() {
                let waiting = latest.entry(&call.id).or_default();
                if waiting.asked != at {
                    *waiting = Waiting { asked: at, slots: VecDeque::new() };
                }
                waiting.slots.push_back(slot);
            }
            let Some(id) = message.answers.as_deref() else { continue };
            let Some(waiting) = latest.get_mut(id) else {
                if !is_known(id) {
                    unknown.push((message, id));
                }
                continue;
            };
            let slot = waiting.slots.pop_front();
            if let (Some(slot), Some(answers)) = (slot, pairs.get_mut(&waiting.asked)) {
                answers[slot] = Some(at);
            }
        }
        match unknown.first() {
            None => Ok(Self(pairs)),
            Some((message, id)) => Err(unknown_call(message, id, &unknown)),
        }
    }

    fn answers(&self, at: usize) -> &[Option<usize>] {
        self.0.get(&at).map_or(&[], Vec::as_slice)
    }

    /// A client that ends its list with answers must answer all calls.
    fn check_end(&self, drafts: &[Draft]) -> Result<(), ApiError> {
        let answers = drafts.iter().rev().take_while(|draft| draft.is_answer());
        let asked = drafts.len() - answers.count();
        if asked == drafts.len() || asked == 0 {
            return Ok(());
        }
        let asked = asked - 1;
        let calls = drafts[asked].calls().iter().zip(self.answers(asked));
        let missing = calls.filter(|(_, answer)| answer.is_none());
        let missing: Vec<&str> = missing.map(|(call, _)| &*call.id).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing_results(&missing)) }
    }

    /// Puts each answer behind its call. `ids` are the ids that were changed, by draft.
    fn written(
        &self,
        drafts: Vec<Draft>,
        ids: &HashMap<usize, Vec<Option<String>>>,
    ) -> Vec<HistoryPiece> {
        let mut pieces = Vec::with_capacity(drafts.len());
        let mut drafts: Vec<_> = drafts.into_iter().map(Some).collect();
        for at in 0..drafts.len() {
            let message = match drafts[at].take_if(|draft| !draft.is_answer()) {
                None => continue,
                Some(Draft::Known(piece)) => {
                    pieces.push(piece);
                    continue;
                }
                Some(Draft::Client(message)) => message,
            };
            pieces.push(HistoryPiece::Client(message.json));
            for (slot, (call, answer)) in message.calls.iter().zip(self.answers(at)).enumerate() {
                let new = ids.get(&at).and_then(|ids| ids[slot].as_deref());
                let id = new.unwrap_or(&call.id);
                let answer = answer.and_then(|answer| drafts[answer].take());
                pieces.push(HistoryPiece::Client(match answer {
                    Some(Draft::Client(answer)) => answer_to(id, answer),
                    _ => tool_message(id, INTERRUPTED),
                }));
            }
        }
        pieces
    }
}

fn unknown_call(message: &ClientMessage, id: &str, all: &[(&ClientMessage, &str)]) -> ApiError {
    let param = format!("messages[{}].tool_call_id", message.index);
    let object = Object::from_raw(&message.json);
    if id.is_empty() && object.is_some_and(|object| object.get("tool_call_id").is_none()) {
        let message = format!("The field {param:?} is missing.");
        return ApiError::new(ErrorCode::MissingField, message).param(param);
    }
    let ids: Vec<&str> = all.iter().map(|(_, id)| *id).collect();
    let message = format!("No tool call before it has the id of {}.", listed(&ids));
    ApiError::new(ErrorCode::UnknownToolCall, message).param(param)
}

/// The error for a list that ends with answers to only some of the client's calls.
pub(crate) fn missing_results(ids: &[&str]) -> ApiError {
    let message = format!("These tool calls have no answer yet: {}.", listed(ids));
    ApiError::new(ErrorCode::MissingToolResults, message).param("messages")
}

fn listed(ids: &[&str]) -> String {
    /// More ids than anyone reads.
    const SHOWN: usize = 20;
    /// Longer than nearly every id.
    const MAX_ID: usize = 100;
    let quoted = |id: &&str| format!("{:?}", text::shortened(id, MAX_ID));
    let mut listed = ids.iter().take(SHOWN).map(quoted).collect::<Vec<_>>().join(", ");
    if let Some(more) = ids.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        _ = write!(listed, " and {more} more");
    }
    listed
}

/// The answer under the id that its call has upstream.
fn answer_to(id: &str, answer: ClientMessage) -> Box<RawValue> {
    if answer.answers.as_deref() == Some(id) {
        return answer.json;
    }
    let object = Object::from_raw(&answer.json).expect("it was read as one");
    object.with(&[("tool_call_id", Some(&json::quoted(id)))])
}

/// An answer of ours to the call with this id.
pub(crate) fn tool_message(id: &str, content: &str) -> Box<RawValue> {
    let (id, content) = (json::quoted(id), json::quoted(content));
    json::raw(format!(r#"{{"role":"tool","tool_call_id":{id},"content":{content}}}"#))
}
