//! Gives each tool call of the history an id that no other call of its message has.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::Draft;
use crate::json::{self, Object};
use crate::sessions::message::{ClientCall, ClientMessage};

/// Mistral accepts ids of exactly nine letters and digits.
const OWN_ID: usize = 9;

/// Gives a new id to each call whose id is empty or repeats one of the same message. The
/// id depends only on the list, so it stays the same when the list is sent again. No
/// other call has it. Returns the new ids, by draft and call.
pub(super) fn repair(drafts: &mut [Draft]) -> HashMap<usize, Vec<Option<String>>> {
    let doubles: Vec<_> = drafts.iter().map(|draft| doubles(draft.calls())).collect();
    let mut changed = HashMap::new();
    if doubles.iter().all(Vec::is_empty) {
        return changed;
    }
    let calls = drafts.iter().flat_map(Draft::calls).map(|call| call.id.as_ref());
    let mut taken: HashSet<String> =
        calls.filter(|id: &&str| id.len() == OWN_ID).map(ToOwned::to_owned).collect();
    for (at, (draft, doubles)) in drafts.iter_mut().zip(doubles).enumerate() {
        let Draft::Client(message) = draft else { continue };
        if doubles.is_empty() {
            continue;
        }
        let mut ids = vec![None; message.calls.len()];
        for slot in doubles {
            let id = free_id(message.index, slot, &taken);
            taken.insert(id.clone());
            ids[slot] = Some(id);
        }
        message.json = with_ids(message, &ids);
        changed.insert(at, ids);
    }
    changed
}

/// Indexes of the calls whose id is empty or repeats an earlier one of the message.
fn doubles(calls: &[ClientCall]) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(calls.len());
    let is_double = |id: &str| id.is_empty() || !seen.insert(id.to_owned());
    let double: Vec<bool> = calls.iter().map(|call| &*call.id).map(is_double).collect();
    double.iter().enumerate().filter(|(_, double)| **double).map(|(slot, _)| slot).collect()
}

fn with_ids(message: &ClientMessage, ids: &[Option<String>]) -> Box<RawValue> {
    let object = Object::from_raw(&message.json).expect("it was read as one");
    let calls = object.get("tool_calls").and_then(|calls| json::items(calls, ids.len()));
    // Written one by one: the list may be large, and a second one of its parts would be as large.
    let mut list = String::with_capacity(message.json.get().len());
    list.push('[');
    for (at, (call, id)) in calls.unwrap_or_default().into_iter().zip(ids).enumerate() {
        if 0 < at {
            list.push(',');
        }
        match id {
            None => list.push_str(call.get()),
            Some(id) => list.push_str(with_id(call, id).get()),
        }
    }
    list.push(']');
    object.with(&[("tool_calls", Some(&json::raw(list)))])
}

fn with_id(call: &RawValue, id: &str) -> Box<RawValue> {
    let call = Object::from_raw(call).expect("it was read as one");
    call.with(&[("id", Some(&json::quoted(id)))])
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
