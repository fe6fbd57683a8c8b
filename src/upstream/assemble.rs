//! Assembles tool calls from deltas. Pure.
//!
//! Providers disagree about the format: indexes are wrong or missing, ids are late, repeated or
//! missing, and one text holds several calls (docs/stream.md, Assembling calls). A delta is
//! first assigned to a call by its index, id and name; then its content is read into that call.

mod call;
mod echo;
mod quoted;
mod scanner;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::ids::CallId;
use crate::openai::call_name;
use crate::openai::chunk::CallDelta;
pub(crate) use call::AssembledCall;
use call::Stage;
use echo::KnownObjects;

/// A call of the round, by its index in [`Assembler::calls`]. Ids are only labels; turn, round
/// and slot identify a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) usize);

/// What a delta, or the end of the stream, changed about a call. Each step comes once for a
/// call, unless the call is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The call has its place in the order. Its name may still be missing.
    Opened(Slot),
    /// The last brace came, the arguments parse, and the name is a tool's. Further bytes may
    /// still make the call invalid.
    Closed(Slot),
    /// A closed call whose empty object turned out to be nothing, since another object follows.
    /// It will be closed again.
    Reopened(Slot),
    /// The call is whole, and the model has moved on from it.
    Sealed(Slot),
    /// The call will never run; [`AssembledCall::invalid`] says why.
    Invalid(Slot),
    /// The call is one before it, sent once more. It never was closed or sealed.
    Echoed(Slot),
}

/// How the round's stream ended. A stream that broke off has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a `finish_reason` that is not a cut, or with `[DONE]` alone.
    Finished,
    /// With `length` or `content_filter`.
    CutOff,
}

/// Assembles the calls of one round.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Assembler {
    is_tool: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    calls: Vec<AssembledCall>,
    /// The slot that an index refers to now.
    by_index: HashMap<u64, usize>,
    /// The slot that upstream's id refers to now.
    by_id: HashMap<String, usize>,
    /// Every id that a call has or has had.
    taken: HashSet<String>,
    known_objects: KnownObjects,
    /// Whether the end left a call half open.
    is_cut: bool,
    /// The stream has ended in order.
    is_over: bool,
    /// Whether a call was dropped because there were too many.
    is_overfull: bool,
    /// The steps of the current delta.
    steps: Vec<Step>,
    /// The slots that changed since [`Self::take_changed`] was called.
    changed: BTreeSet<usize>,
    /// The calls that are half open.
    half_open: BTreeSet<usize>,
    /// The calls that something came for since a `finish_reason` sealed all that were whole.
    unsealed: BTreeSet<usize>,
}

/// The most calls of one round. No model means more, and each costs memory and an answer that
/// is sent upstream.
pub(crate) const MAX_CALLS: usize = 10_000;

impl Assembler {
    /// `is_tool` tells whether the model may call a name. It decides whether fragments are
    /// parts of one name.
    pub(crate) fn new(is_tool: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_tool: Arc::new(is_tool),
            calls: Vec::new(),
            by_index: HashMap::new(),
            by_id: HashMap::new(),
            taken: HashSet::new(),
            known_objects: KnownObjects::default(),
            is_cut: false,
            is_over: false,
            is_overfull: false,
            steps: Vec::new(),
            changed: BTreeSet::new(),
            half_open: BTreeSet::new(),
            unsealed: BTreeSet::new(),
        }
    }

    /// Takes up the calls of a message that was assembled before: entries of `tool_calls`. All
    /// of them are sealed.
    pub(crate) fn restore(&mut self, entries: &[Value]) {
        for entry in entries {
            let id = entry["id"].as_str().unwrap_or_default().to_owned();
            self.taken.insert(id.clone());
            self.calls.push(AssembledCall::restored(id, entry));
        }
    }

    /// The calls, in the order in which they opened.
    pub(crate) fn calls(&self) -> &[AssembledCall] {
        &self.calls
    }

    pub(crate) fn call(&self, slot: Slot) -> &AssembledCall {
        &self.calls[slot.0]
    }

    /// The call as an entry of an assistant message's `tool_calls`. A name that is no tool's is
    /// mended where providers refuse it.
    pub(crate) fn to_message(&self, call: &AssembledCall) -> Value {
        let name = call.name.as_deref().unwrap_or_default();
        let name = if (self.is_tool)(name) { name.into() } else { call_name::mended(name) };
        call.to_message(&name)
    }

    /// See [`AssembledCall::take_input`].
    pub(crate) fn take_input(&mut self, slot: Slot) -> Option<serde_json::Value> {
        self.calls[slot.0].take_input()
    }

    /// The slots that changed since the last call of this function, in order.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.changed)
    }

    /// Whether the round has more calls than [`MAX_CALLS`]. Further deltas are ignored.
    pub(crate) fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// Whether the round seemed to end in order but left a call half open. The provider's
    /// connection was cut, and the stream counts as one that died.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads the entries of one chunk's `tool_calls`.
    pub(crate) fn push(&mut self, deltas: &[CallDelta]) -> Vec<Step> {
        for delta in deltas {
            self.take(delta);
        }
        std::mem::take(&mut self.steps)
    }

    /// Reads a `finish_reason` that is not a cut: seals the calls, unless one is still open and
    /// may go on.
    pub(crate) fn finish_reason(&mut self) -> Vec<Step> {
        if self.half_open.is_empty() {
            // It may come as often as a chunk does.
            for at in std::mem::take(&mut self.unsealed) {
                self.seal(at);
            }
        }
        std::mem::take(&mut self.steps)
    }

    /// Reads the end of the stream. A second call of this function changes nothing.
    pub(crate) fn finish(&mut self, end: End) -> Vec<Step> {
        if end == End::Finished && !self.is_over {
            for at in self.half_open.clone() {
                if self.calls[at].adopt_snapshot() {
                    self.was_read(at);
                }
            }
            self.is_cut = !self.half_open.is_empty();
            if !self.is_cut {
                self.is_over = true;
                self.seal_all();
            }
        }
        std::mem::take(&mut self.steps)
    }

    /// Seals every call. Only now is it known that arguments which never came are empty: they
    /// may come after other calls, or after the `finish_reason`.
    fn seal_all(&mut self) {
        for at in 0..self.calls.len() {
            self.calls[at].fill_empty();
            if !self.is_echo(at) {
                self.seal(at);
            }
        }
    }

    /// Assigns one delta to a call and reads it.
    fn take(&mut self, delta: &CallDelta) {
        if adds_nothing(delta) || self.is_overfull {
            return;
        }
        let Some(at) = self.slot_for(delta) else { return };
        self.calls[at].take_members(delta);
        if let Some(name) = &delta.name {
            self.calls[at].take_name(name, &*self.is_tool);
        }
        self.read(at, delta.arguments.as_deref().unwrap_or_default());
    }

    /// The slot that a delta belongs to. Opens a call if the delta begins one; `None` if there
    /// is no room for it.
    fn slot_for(&mut self, delta: &CallDelta) -> Option<usize> {
        let Some(at) = self.known_slot(delta) else {
            return self.open(delta.index, delta.id.as_deref());
        };
        if self.is_head_of_another(at, delta) {
            // The delta points to this call, but its name shows that it begins another one.
            let call = &self.calls[at];
            let (index, id) = (delta.index.or(call.index), delta.id.clone());
            return self.open(index, id.as_deref());
        }
        self.adopt_index_and_id(at, delta);
        Some(at)
    }

    /// The slot that index and id point to; `None` if there is none yet.
    fn known_slot(&self, delta: &CallDelta) -> Option<usize> {
        match &delta.id {
            Some(id) => self.known_slot_by_id(id, delta),
            None => self.known_slot_without_id(delta),
        }
    }

    fn known_slot_by_id(&self, id: &str, delta: &CallDelta) -> Option<usize> {
        let at_index = delta.index.and_then(|index| self.at_index(index));
        if let Some(at) = at_index.filter(|&at| self.calls[at].wire_id.as_deref() == Some(id)) {
            return Some(at);
        }
        if let Some(at) = self.by_id.get(id).map(|&at| self.last_part(at)) {
            // A known id with another index and a name: the model has used one id for two
            // calls.
            let is_elsewhere = delta.index.zip(self.calls[at].index).is_some_and(|(a, b)| a != b);
            return (!is_elsewhere || delta.name.is_none()).then_some(at);
        }
        let waiting = if delta.index.is_some() { at_index } else { self.last() };
        waiting.filter(|&at| {
            let call = &self.calls[at];
            // An id that comes late belongs to a call that has none yet.
            let is_late = call.wire_id.is_none() && (delta.name.is_none() || !call.is_over());
            is_late || self.is_piece_with_an_id_of_its_own(at, delta)
        })
    }

    /// Whether a delta goes on with a call though its id is another one: some providers make up
    /// an id for each piece. Nothing else can come there while an object is open.
    fn is_piece_with_an_id_of_its_own(&self, at: usize, delta: &CallDelta) -> bool {
        let call = &self.calls[at];
        match &delta.name {
            Some(name) => call.is_open() && call.name.as_ref() == Some(name),
            None => call.is_open() || (delta.index.is_some() && !call.is_over()),
        }
    }

    fn known_slot_without_id(&self, delta: &CallDelta) -> Option<usize> {
        let Some(index) = delta.index else { return self.last() };
        // The rest of a call may come under another index than its beginning.
        let tail_of =
            || self.last().filter(|&at| delta.name.is_none() && !self.calls[at].is_over());
        self.at_index(index).or_else(tail_of)
    }

    /// The slot of an index, or of the last call that was split off from it.
    fn at_index(&self, index: u64) -> Option<usize> {
        self.by_index.get(&index).map(|&at| self.last_part(at))
    }

    /// The slot of the last call that was split off from one.
    fn last_part(&self, mut at: usize) -> usize {
        while let Some(next) = self.calls[at].next {
            at = next;
        }
        at
    }

    /// The slot that was opened last.
    fn last(&self) -> Option<usize> {
        self.calls.len().checked_sub(1)
    }

    /// Whether a delta that points to a call has the name of another call.
    fn is_head_of_another(&self, at: usize, delta: &CallDelta) -> bool {
        let call = &self.calls[at];
        let (Some(name), Some(new)) = (&call.name, &delta.name) else { return false };
        if name == new {
            return false;
        }
        // Together the two may be the fragments of one name.
        let is_joined = (self.is_tool)(&call.joined_with(new));
        if (self.is_tool)(name) {
            call.is_over() || (call.is_empty() && (self.is_tool)(new) && !is_joined)
        } else {
            call.is_over() && !is_joined
        }
    }

    /// Sets the index and id of a call that had none.
    fn adopt_index_and_id(&mut self, at: usize, delta: &CallDelta) {
        if let Some(index) = delta.index {
            let is_new = self.calls[at].index.is_none();
            if self.at_index(index).is_none_or(|meant| meant == at || (is_new && meant < at)) {
                self.by_index.insert(index, at);
            }
            self.calls[at].index.get_or_insert(index);
        }
        let call = &mut self.calls[at];
        let Some(id) = &delta.id else { return };
        if call.wire_id.is_some() {
            // The id of a piece leads to its call from now on.
            self.by_id.entry(id.clone()).or_insert(at);
            return;
        }
        call.wire_id = Some(id.clone());
        self.by_id.insert(id.clone(), at);
        if self.taken.insert(id.clone()) {
            call.id.clone_from(id);
        }
    }

    /// Opens a call with the id that came, or with a new one if that is missing or in use.
    fn open(&mut self, index: Option<u64>, id: Option<&str>) -> Option<usize> {
        let own = match id {
            Some(id) if !self.taken.contains(id) => id.to_owned(),
            _ => CallId::random().to_string(),
        };
        self.open_as(own, index, id.map(str::to_owned))
    }

    /// Opens a call under the id `own`; `wire_id` is upstream's.
    fn open_as(
        &mut self,
        own: String,
        index: Option<u64>,
        wire_id: Option<String>,
    ) -> Option<usize> {
        let at = self.calls.len();
        if at == MAX_CALLS {
            self.is_overfull = true;
            return None;
        }
        self.taken.insert(own.clone());
        let mut call = AssembledCall::new(own, index, wire_id);
        // The pieces of a call may lack the id that the whole call has.
        let anonymous = index.and_then(|index| self.at_index(index));
        let anonymous = anonymous.filter(|&at| self.calls[at].wire_id.is_none());
        call.first = anonymous.map_or(at, |at| self.calls[at].first);
        call.may_be_echo = anonymous.is_some();
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        if let Some(id) = &call.wire_id {
            call.may_be_echo |= self.by_id.insert(id.clone(), at).is_some();
        }
        self.calls.push(call);
        self.steps.push(Step::Opened(Slot(at)));
        // The model has moved on from the call before.
        if let Some(before) = at.checked_sub(1) {
            self.seal(before);
        }
        Some(at)
    }

    /// Opens a call for a further object in the same arguments.
    fn open_next(&mut self, at: usize) -> Option<usize> {
        let call = &self.calls[at];
        let (name, index, wire_id) = (call.name.clone(), call.index, call.wire_id.clone());
        let own = self.derived_id(wire_id.as_deref());
        let first = call.first;
        let next = self.open_as(own, index, wire_id)?;
        self.calls[next].may_be_echo = true;
        self.calls[next].first = first;
        if let Some(name) = name {
            self.calls[next].take_name(&name, &*self.is_tool);
        }
        self.calls[at].next = Some(next);
        Some(next)
    }

    /// `ID_2` for the second call of an id. A random id if that would be too long or the
    /// numbers are used up.
    fn derived_id(&self, id: Option<&str>) -> String {
        let fresh = || CallId::random().to_string();
        let Some(id) = id.filter(|id| id.len() <= MAX_DERIVED_ID) else { return fresh() };
        let free = |number: &u32| !self.taken.contains(&format!("{id}_{number}"));
        (2..100).find(free).map_or_else(fresh, |number| format!("{id}_{number}"))
    }

    /// Reads arguments into a call, and further objects behind the first into calls of their
    /// own.
    fn read(&mut self, mut at: usize, mut text: &str) {
        if self.calls[at].take_cumulative(text) {
            return self.was_read(at);
        }
        self.calls[at].note_snapshot(text);
        loop {
            let was_invalid = self.calls[at].invalid.is_some();
            let rest = self.calls[at].take_arguments(text);
            let is_invalid = self.calls[at].invalid.is_some() && !was_invalid;
            if is_invalid && !self.calls[at].adopt_snapshot() {
                self.steps.push(Step::Invalid(Slot(at)));
            }
            // Only an empty object is followed by another one that replaces it.
            if let Some(rest) = rest.filter(|_| !self.calls[at].is_surely_whole()) {
                self.reopen(at);
                text = rest;
                continue;
            }
            self.was_read(at);
            let Some(rest) = rest else { return };
            let Some(next) = self.open_next(at) else { return };
            (at, text) = (next, rest);
        }
    }

    /// Acts on what was read into a call.
    fn was_read(&mut self, at: usize) {
        self.close(at);
        self.changed.insert(at);
        self.note(at);
    }

    /// Records what the next `finish_reason` has to look at.
    fn note(&mut self, at: usize) {
        self.unsealed.insert(at);
        if self.calls[at].is_half_open() {
            self.half_open.insert(at);
        } else {
            self.half_open.remove(&at);
        }
    }

    /// Drops the empty object that another one follows.
    fn reopen(&mut self, at: usize) {
        if self.calls[at].is_closed() {
            self.steps.push(Step::Reopened(Slot(at)));
        }
        self.calls[at].reopen();
    }

    /// Closes the call if it is whole, and seals it if it is not the last.
    fn close(&mut self, at: usize) {
        if self.is_echo(at) {
            return;
        }
        let call = &mut self.calls[at];
        let is_tool = call.name.as_ref().is_some_and(|name| (self.is_tool)(name));
        if is_tool && call.is_runnable() && !call.is_closed() && !call.is_undecided() {
            call.stage = Stage::Closed;
            self.steps.push(Step::Closed(Slot(at)));
        }
        if at + 1 < self.calls.len() {
            self.seal(at);
        }
    }

    /// Whether the call is one before it, sent once more. This is decided once, when the object
    /// is surely whole.
    fn is_echo(&mut self, at: usize) -> bool {
        let call = &mut self.calls[at];
        let is_whole = self.is_over || call.is_surely_whole();
        if call.is_echo || call.is_compared || !is_whole || !call.is_runnable() {
            return call.is_echo;
        }
        let (Some(object), Some(name)) = (&call.input, &call.name) else { return false };
        let is_known =
            self.known_objects.is_echo(object, call.first, call.wire_id.as_deref(), name);
        call.is_compared = true;
        call.is_echo = is_known && call.may_be_echo;
        if call.is_echo {
            self.changed.insert(at);
            self.steps.push(Step::Echoed(Slot(at)));
        }
        call.is_echo
    }

    /// Seals the call if it is whole. An empty object is not whole until the stream has ended,
    /// since another one may follow.
    fn seal(&mut self, at: usize) {
        let call = &mut self.calls[at];
        let is_whole = self.is_over || call.is_surely_whole();
        if is_whole && call.is_runnable() && !call.is_sealed() && !call.is_echo {
            call.stage = Stage::Sealed;
            self.changed.insert(at);
            self.steps.push(Step::Sealed(Slot(at)));
        }
    }
}

impl fmt::Debug for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembler").field("calls", &self.calls).finish_non_exhaustive()
    }
}

/// OpenAI takes ids of 40 characters; the suffix needs up to three.
const MAX_DERIVED_ID: usize = 37;

fn adds_nothing(delta: &CallDelta) -> bool {
    let has_arguments = delta.arguments.as_ref().is_some_and(|text| !text.is_empty());
    let has_members = !delta.members.is_empty() || !delta.function_members.is_empty();
    delta.id.is_none() && delta.name.is_none() && !has_arguments && !has_members
}

#[cfg(test)]
mod tests;
