//! Every tool call has exactly one answer, right behind its message and in the
//! order of the calls: providers pair them by id, or by position.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::invalid;
use super::messages::{Message, Role};
use crate::api::json;
use crate::openai::error::{ApiError, ErrorCode};

/// What stands where a call of the history was never answered. It is not run.
const INTERRUPTED: &str = "Error: interrupted";

/// Where the answers of each assistant message's calls stand, by the message's
/// place and the call's place in it.
struct Pairs(HashMap<usize, Vec<Option<usize>>>);

/// The messages as they go upstream.
pub(super) fn repair(messages: &[Message<'_>]) -> Result<Vec<Box<RawValue>>, ApiError> {
    let pairs = Pairs::of(messages)?;
    pairs.check_end(messages)?;
    let mut repaired = Vec::with_capacity(messages.len());
    for (place, message) in messages.iter().enumerate() {
        if message.role == Role::Tool {
            continue;
        }
        repaired.push(message.json.clone().into_owned());
        for (id, answer) in message.calls.iter().zip(pairs.answers(place)) {
            repaired.push(match answer {
                Some(place) => messages[*place].json.clone().into_owned(),
                None => interrupted(id),
            });
        }
    }
    Ok(repaired)
}

impl Pairs {
    /// Gives each answer to the nearest call before it that has its id.
    fn of(messages: &[Message<'_>]) -> Result<Self, ApiError> {
        let mut pairs = HashMap::new();
        let mut latest: HashMap<&str, (usize, usize)> = HashMap::new();
        let mut unknown = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            if !message.calls.is_empty() {
                pairs.insert(place, vec![None; message.calls.len()]);
            }
            for (slot, id) in message.calls.iter().enumerate() {
                latest.insert(id, (place, slot));
            }
            let Some(id) = &message.answers else { continue };
            let Some((asked, slot)) = latest.get(id.as_ref()) else {
                unknown.push((place, id.as_ref()));
                continue;
            };
            let answer = pairs.get_mut(asked).map(|answers| &mut answers[*slot]);
            if answer.is_some_and(|answer| answer.replace(place).is_some()) {
                let message = format!("The tool call {id:?} has more than one answer.");
                return Err(invalid(format!("messages[{place}].tool_call_id"), message));
            }
        }
        match unknown.first() {
            None => Ok(Self(pairs)),
            Some((place, _)) => Err(ApiError::new(
                ErrorCode::UnknownToolCall,
                format!("No tool call before it has the id of {}.", listed(&unknown)),
            )
            .param(format!("messages[{place}].tool_call_id"))),
        }
    }

    fn answers(&self, place: usize) -> &[Option<usize>] {
        self.0.get(&place).map_or(&[], Vec::as_slice)
    }

    /// A client that answers calls at the end of its list answers all of them.
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
            .map(|(id, _)| (asked, id.as_ref()))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!("These tool calls have no answer yet: {}.", listed(&missing));
        Err(ApiError::new(ErrorCode::MissingToolResults, message).param("messages"))
    }
}

fn listed(ids: &[(usize, &str)]) -> String {
    ids.iter().map(|(_, id)| format!("{id:?}")).collect::<Vec<_>>().join(", ")
}

fn interrupted(id: &str) -> Box<RawValue> {
    let id = json::quoted(id);
    json::raw(format!(r#"{{"role":"tool","tool_call_id":{id},"content":"{INTERRUPTED}"}}"#))
}
