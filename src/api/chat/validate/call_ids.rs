//! Gives each tool call of the history an id that no other call of its message has.

use std::borrow::Cow;
use std::collections::HashSet;

use super::messages::Message;
use super::tool_calls::Call;
use crate::api::json;

/// Mistral accepts ids of exactly nine letters and digits.
const OWN_ID: usize = 9;

/// Gives a new id to each call whose id is empty or repeats one of the same message. The
/// id depends only on the list, so it stays the same when the list is sent again. No
/// other call has it. Then writes the changed lists of calls.
pub(super) fn repair(messages: &mut [Message<'_>]) {
    let doubles: Vec<_> = messages.iter().map(doubles).collect();
    let mut taken: HashSet<String> = HashSet::new();
    if doubles.iter().any(|doubles| !doubles.is_empty()) {
        let calls = messages.iter().flat_map(|message| &message.calls);
        let ours = |id: &&Cow<'_, str>| id.len() == OWN_ID;
        taken.extend(calls.map(|call| &call.id).filter(ours).map(ToString::to_string));
    }
    for (message, doubles) in messages.iter_mut().zip(doubles) {
        for slot in doubles {
            let id = free_id(message.place, slot, &taken);
            taken.insert(id.clone());
            message.calls[slot].own_id = Some(id);
        }
        if message.calls.iter().any(Call::is_changed) {
            let calls: Vec<_> = message.calls.iter_mut().map(Call::take_json).collect();
            message.changes.push(("tool_calls", Some(json::array(&calls))));
        }
    }
}

/// Indexes of the calls whose id is empty or repeats an earlier one of the message.
fn doubles(message: &Message<'_>) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(message.calls.len());
    let is_double = |id: &str| id.is_empty() || !seen.insert(id.to_owned());
    let calls = message.calls.iter().map(|call| call.id.as_ref());
    let double: Vec<bool> = calls.map(is_double).collect();
    double.iter().enumerate().filter(|(_, double)| **double).map(|(slot, _)| slot).collect()
}

fn free_id(place: usize, slot: usize, taken: &HashSet<String>) -> String {
    let mut attempt = 0_u64;
    loop {
        let name = format!("history {place}/{slot}/{attempt}");
        let mut id = blake3::hash(name.as_bytes()).to_hex().to_string();
        id.truncate(OWN_ID);
        if !taken.contains(&id) {
            return id;
        }
        attempt += 1;
    }
}
