//! Gives every tool call exactly one answer, directly after its message and in the order
//! of the calls: providers match them by id or by position.

use std::collections::{HashMap, VecDeque};

use serde_json::value::RawValue;

use super::messages::{Message, Role};
use super::{call_ids, invalid, missing, quoted};
use crate::api::json;
use crate::errors::{ApiError, ErrorCode};

/// Answers a call of the history that was never answered. Such a call is not run.
const INTERRUPTED: &str = "Error: interrupted";

/// The indexes of the answers to each assistant message's calls, by the index of the
/// message and of the call in it.
struct Pairs(HashMap<usize, Vec<Option<usize>>>);

/// Returns the messages as they go upstream.
pub(super) fn repair(messages: &mut Vec<Message<'_>>) -> Result<Vec<Box<RawValue>>, ApiError> {
    messages.retain(|message| !message.is_empty);
    if messages.is_empty() {
        return Err(invalid("messages", "No message in messages says anything."));
    }
    let pairs = Pairs::from_messages(messages)?;
    pairs.check_end(messages)?;
    call_ids::repair(messages);
    let mut repaired = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        if message.role == Role::Tool {
            continue;
        }
        repaired.push(message.to_json(None));
        for (call, answer) in message.calls.iter().zip(pairs.answers(at)) {
            repaired.push(match answer {
                Some(answer) => answer_to(call.sent_id(), &messages[*answer]),
                None => interrupted(call.sent_id()),
            });
        }
    }
    Ok(repaired)
}

/// Unanswered calls with the same id, all of the latest message that has it.
#[derive(Default)]
struct Waiting {
    asked: usize,
    slots: VecDeque<usize>,
}

impl Pairs {
    /// Assigns each answer to the nearest earlier message with a call of its id, and
    /// there to the first call without an answer. A further answer is dropped.
    fn from_messages(messages: &[Message<'_>]) -> Result<Self, ApiError> {
        let mut pairs: HashMap<usize, Vec<Option<usize>>> = HashMap::new();
        let mut latest: HashMap<&str, Waiting> = HashMap::new();
        let mut unknown = Vec::new();
        for (at, message) in messages.iter().enumerate() {
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
            let Some(id) = &message.answers else { continue };
            let Some(waiting) = latest.get_mut(id.as_ref()) else {
                unknown.push((message.place, id.as_ref()));
                continue;
            };
            let slot = waiting.slots.pop_front();
            if let (Some(slot), Some(answers)) = (slot, pairs.get_mut(&waiting.asked)) {
                answers[slot] = Some(at);
            }
        }
        match unknown.first() {
            None => Ok(Self(pairs)),
            Some((place, "")) if is_without_id(messages, *place) => {
                Err(missing(format_args!("messages[{place}].tool_call_id")))
            }
            Some((place, _)) => Err(ApiError::new(
                ErrorCode::UnknownToolCall,
                format!("No tool call before it has the id of {}.", listed(&unknown)),
            )
            .param(format!("messages[{place}].tool_call_id"))),
        }
    }

    fn answers(&self, at: usize) -> &[Option<usize>] {
        self.0.get(&at).map_or(&[], Vec::as_slice)
    }

    /// A client that ends its list with answers must answer all calls.
    fn check_end(&self, messages: &[Message<'_>]) -> Result<(), ApiError> {
        let answers = messages.iter().rev().take_while(|message| message.role == Role::Tool);
        let asked = messages.len() - answers.count();
        if asked == messages.len() || asked == 0 {
            return Ok(());
        }
        let asked = asked - 1;
        let calls = &messages[asked].calls;
        let missing: Vec<_> = calls
            .iter()
            .zip(self.answers(asked))
            .filter(|(_, answer)| answer.is_none())
            .map(|(call, _)| (asked, call.id.as_ref()))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!("These tool calls have no answer yet: {}.", listed(&missing));
        Err(ApiError::new(ErrorCode::MissingToolResults, message).param("messages"))
    }
}

/// Whether the message at this index has no `tool_call_id`, not even an empty one.
fn is_without_id(messages: &[Message<'_>], place: usize) -> bool {
    let message = messages.iter().find(|message| message.place == place);
    let object = message.and_then(|message| json::Object::from_raw(message.json));
    object.is_some_and(|object| object.get("tool_call_id").is_none())
}

fn listed(ids: &[(usize, &str)]) -> String {
    /// More ids than anyone reads.
    const SHOWN: usize = 20;
    let mut listed =
        ids.iter().take(SHOWN).map(|(_, id)| quoted(id)).collect::<Vec<_>>().join(", ");
    if let Some(more) = ids.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        listed.push_str(&format!(" and {more} more"));
    }
    listed
}

/// The answer under the id that its call has upstream.
fn answer_to(id: &str, answer: &Message<'_>) -> Box<RawValue> {
    if answer.answers.as_deref() == Some(id) {
        return answer.to_json(None);
    }
    answer.to_json(Some(("tool_call_id", &json::quoted(id))))
}

fn interrupted(id: &str) -> Box<RawValue> {
    let id = json::quoted(id);
    json::raw(format!(r#"{{"role":"tool","tool_call_id":{id},"content":"{INTERRUPTED}"}}"#))
}
