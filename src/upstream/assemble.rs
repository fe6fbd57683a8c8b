//! Puts tool calls together from deltas. Pure.
//!
//! Providers agree on little: calls come with the wrong index or none, with late,
//! repeated or missing ids, several in one text (docs/stream.md, Assembling calls). A delta
//! is first given to a call by its index, id and name, then read into it.

mod call;
mod scanner;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::ids::CallId;
use crate::openai::chunk::CallDelta;
pub(crate) use call::AssembledCall;
use call::Stage;

/// A call of the round, by its place in [`Assembler::calls`]. Ids are labels: a
/// call is its turn, its round and its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) usize);

/// What a delta, or the end, made of a call. Each is told once a call, unless it is
/// reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It has its place in the order from here on; its name may still be missing.
    Opened(Slot),
    /// Its last brace came, it parses, and its name is a tool's. More may follow and
    /// make it invalid.
    Closed(Slot),
    /// It was closed, but its empty object was nothing: another one follows, and it is
    /// closed again then.
    Reopened(Slot),
    /// The model has moved on from it, and it is whole.
    Sealed(Slot),
    /// It will never run: [`AssembledCall::invalid`] says why.
    Invalid(Slot),
}

/// How the round's stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a `finish_reason` that is no cut, or `[DONE]` without one.
    Finished,
    /// With `length` or `content_filter`. (A stream that broke off has no end.)
    CutOff,
}

/// Collects the calls of one round.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Assembler {
    is_tool: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    calls: Vec<AssembledCall>,
    /// The call that an index means now.
    by_index: HashMap<u64, usize>,
    /// The call that an id means now, as upstream writes it.
    by_id: HashMap<String, usize>,
    /// Every id that a call has.
    taken: HashSet<String>,
    is_cut: bool,
    /// The stream has ended in order.
    is_over: bool,
    is_overfull: bool,
    steps: Vec<Step>,
    /// The calls that have changed, until someone has looked.
    changed: BTreeSet<usize>,
    /// The calls that are half open.
    half_open: BTreeSet<usize>,
    /// The calls that something came for since a `finish_reason` sealed all that were whole.
    unsealed: BTreeSet<usize>,
}

/// More than any model means: each costs memory, and an answer to go upstream.
pub(crate) const MAX_CALLS: usize = 10_000;

impl Assembler {
    /// `is_tool` tells whether a name is one the model may call: a name that comes
    /// in fragments is known by it.
    pub(crate) fn new(is_tool: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_tool: Arc::new(is_tool),
            calls: Vec::new(),
            by_index: HashMap::new(),
            by_id: HashMap::new(),
            taken: HashSet::new(),
            is_cut: false,
            is_over: false,
            is_overfull: false,
            steps: Vec::new(),
            changed: BTreeSet::new(),
            half_open: BTreeSet::new(),
            unsealed: BTreeSet::new(),
        }
    }

    /// The calls in the order in which they opened.
    pub(crate) fn calls(&self) -> &[AssembledCall] {
        &self.calls
    }

    pub(crate) fn call(&self, slot: Slot) -> &AssembledCall {
        &self.calls[slot.0]
    }

    /// See [`AssembledCall::take_input`].
    pub(crate) fn take_input(&mut self, slot: Slot) -> Option<serde_json::Value> {
        self.calls[slot.0].take_input()
    }

    /// The calls that have changed since this was asked last, in their order.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.changed)
    }

    /// There are more calls than a round may have, and nothing more is read.
    pub(crate) fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// The round ended as if in order, but a call was left half open: upstream was
    /// cut, and it counts as a stream that died.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes the entries of one chunk's `tool_calls`.
    pub(crate) fn push(&mut self, deltas: &[CallDelta]) -> Vec<Step> {
        for delta in deltas {
            self.take(delta);
        }
        std::mem::take(&mut self.steps)
    }

    /// A `finish_reason` came that is no cut: the model is done with what is whole. A
    /// call that is still open goes on.
    pub(crate) fn finish_reason(&mut self) -> Vec<Step> {
        if self.half_open.is_empty() {
            // It may come as often as a chunk does.
            for at in std::mem::take(&mut self.unsealed) {
                self.seal(at);
            }
        }
        std::mem::take(&mut self.steps)
    }

    /// The stream has ended. Told twice, the second time adds nothing.
    pub(crate) fn finish(&mut self, end: End) -> Vec<Step> {
        if end == End::Finished {
            self.is_cut = !self.half_open.is_empty();
            if !self.is_cut {
                self.is_over = true;
                self.seal_all();
            }
        }
        std::mem::take(&mut self.steps)
    }

    /// Arguments that never came are none: only now is that known, as they may come
    /// behind other calls, and behind the `finish_reason`.
    fn seal_all(&mut self) {
        for at in 0..self.calls.len() {
            self.calls[at].fill_empty();
            self.seal(at);
        }
    }

    fn take(&mut self, delta: &CallDelta) {
        if adds_nothing(delta) || self.is_overfull {
            return;
        }
        let Some(at) = self.place(delta) else { return };
        self.calls[at].take_members(delta);
        if let Some(name) = &delta.name {
            self.calls[at].take_name(name, &*self.is_tool);
        }
        self.read(at, delta.arguments.as_deref().unwrap_or_default());
    }

    /// The call that a delta belongs to; opens one where it is a new call's head, if
    /// there is room for it.
    fn place(&mut self, delta: &CallDelta) -> Option<usize> {
        let Some(at) = self.meant(delta) else {
            return self.open(delta.index, delta.id.as_deref());
        };
        if self.is_head_of_another(at, delta) {
            // Nothing but its name tells it from the call before.
            let call = &self.calls[at];
            let (index, id) = (delta.index.or(call.index), delta.id.clone());
            return self.open(index, id.as_deref());
        }
        self.learn(at, delta);
        Some(at)
    }

    /// The call that index and id point to. `None`: none yet.
    fn meant(&self, delta: &CallDelta) -> Option<usize> {
        match &delta.id {
            Some(id) => self.meant_by_id(id, delta),
            None => self.meant_without_id(delta),
        }
    }

    fn meant_by_id(&self, id: &str, delta: &CallDelta) -> Option<usize> {
        let at_index = delta.index.and_then(|index| self.at_index(index));
        if let Some(at) = at_index.filter(|&at| self.calls[at].wire_id.as_deref() == Some(id)) {
            return Some(at);
        }
        if let Some(&at) = self.by_id.get(id) {
            // The model uses one id twice: another index and a name are another call.
            let is_elsewhere = delta.index.zip(self.calls[at].index).is_some_and(|(a, b)| a != b);
            return (!is_elsewhere || delta.name.is_none()).then_some(at);
        }
        // An id that comes late, for a call that has none yet.
        let waiting = if delta.index.is_some() { at_index } else { self.last() };
        waiting.filter(|&at| {
            let call = &self.calls[at];
            call.wire_id.is_none() && (delta.name.is_none() || !call.is_over())
        })
    }

    fn meant_without_id(&self, delta: &CallDelta) -> Option<usize> {
        let Some(index) = delta.index else { return self.last() };
        // A tail may come under another index than its head.
        let tail_of =
            || self.last().filter(|&at| delta.name.is_none() && !self.calls[at].is_over());
        self.at_index(index).or_else(tail_of)
    }

    /// The call that an index means, or the last that was split off from it.
    fn at_index(&self, index: u64) -> Option<usize> {
        let mut at = *self.by_index.get(&index)?;
        while let Some(next) = self.calls[at].next {
            at = next;
        }
        Some(at)
    }

    fn last(&self) -> Option<usize> {
        self.calls.len().checked_sub(1)
    }

    /// Whether a delta that points to a call carries the name of another one.
    fn is_head_of_another(&self, at: usize, delta: &CallDelta) -> bool {
        let call = &self.calls[at];
        let (Some(name), Some(new)) = (&call.name, &delta.name) else { return false };
        if name == new {
            return false;
        }
        let is_joined = (self.is_tool)(&call.joined_with(new));
        if (self.is_tool)(name) {
            call.is_over() || (call.is_empty() && (self.is_tool)(new) && !is_joined)
        } else {
            call.is_over() && !is_joined
        }
    }

    /// A call without an index or id adopts one that comes late.
    fn learn(&mut self, at: usize, delta: &CallDelta) {
        if let Some(index) = delta.index {
            let is_new = self.calls[at].index.is_none();
            if self.at_index(index).is_none_or(|meant| meant == at || (is_new && meant < at)) {
                self.by_index.insert(index, at);
            }
            self.calls[at].index.get_or_insert(index);
        }
        let call = &mut self.calls[at];
        let Some(id) = delta.id.as_ref().filter(|_| call.wire_id.is_none()) else { return };
        call.wire_id = Some(id.clone());
        self.by_id.insert(id.clone(), at);
        if self.taken.insert(id.clone()) {
            call.id.clone_from(id);
        }
    }

    /// Opens a call under the id that came with it, or a fresh one.
    fn open(&mut self, index: Option<u64>, id: Option<&str>) -> Option<usize> {
        let own = match id {
            Some(id) if !self.taken.contains(id) => id.to_owned(),
            _ => CallId::random().to_string(),
        };
        self.open_as(own, index, id.map(str::to_owned))
    }

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
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        if let Some(id) = &wire_id {
            self.by_id.insert(id.clone(), at);
        }
        self.calls.push(AssembledCall::new(own, index, wire_id));
        self.steps.push(Step::Opened(Slot(at)));
        if let Some(before) = at.checked_sub(1) {
            self.seal(before);
        }
        Some(at)
    }

    /// Opens the call of a further object in the same place.
    fn open_next(&mut self, at: usize) -> Option<usize> {
        let call = &self.calls[at];
        let (name, index, wire_id) = (call.name.clone(), call.index, call.wire_id.clone());
        let own = self.derived_id(wire_id.as_deref());
        let next = self.open_as(own, index, wire_id)?;
        if let Some(name) = name {
            self.calls[next].take_name(&name, &*self.is_tool);
        }
        self.calls[at].next = Some(next);
        Some(next)
    }

    /// `ID_2` for the second call of an id; a fresh one where that would not do.
    fn derived_id(&self, id: Option<&str>) -> String {
        let fresh = || CallId::random().to_string();
        let Some(id) = id.filter(|id| id.len() <= MAX_DERIVED_ID) else { return fresh() };
        let free = |number: &u32| !self.taken.contains(&format!("{id}_{number}"));
        (2..100).find(free).map_or_else(fresh, |number| format!("{id}_{number}"))
    }

    /// Reads arguments into a call, and what follows its object into further ones.
    fn read(&mut self, mut at: usize, mut text: &str) {
        loop {
            let was_invalid = self.calls[at].invalid.is_some();
            let rest = self.calls[at].take_arguments(text);
            if self.calls[at].invalid.is_some() && !was_invalid {
                self.steps.push(Step::Invalid(Slot(at)));
            }
            if let Some(rest) = rest.filter(|_| !self.calls[at].is_surely_whole()) {
                self.reopen(at);
                text = rest;
                continue;
            }
            self.close(at);
            self.changed.insert(at);
            self.note(at);
            let Some(rest) = rest else { return };
            let Some(next) = self.open_next(at) else { return };
            (at, text) = (next, rest);
        }
    }

    /// Keeps in mind what the next `finish_reason` has to look at.
    fn note(&mut self, at: usize) {
        self.unsealed.insert(at);
        if self.calls[at].is_half_open() {
            self.half_open.insert(at);
        } else {
            self.half_open.remove(&at);
        }
    }

    /// The empty object so far was nothing, since another one follows.
    fn reopen(&mut self, at: usize) {
        if self.calls[at].is_closed() {
            self.steps.push(Step::Reopened(Slot(at)));
        }
        self.calls[at].reopen();
    }

    fn close(&mut self, at: usize) {
        let call = &mut self.calls[at];
        let is_tool = call.name.as_ref().is_some_and(|name| (self.is_tool)(name));
        if is_tool && call.is_runnable() && !call.is_closed() {
            call.stage = Stage::Closed;
            self.steps.push(Step::Closed(Slot(at)));
        }
        if at + 1 < self.calls.len() {
            self.seal(at);
        }
    }

    /// An empty object may be nothing, until the stream is over.
    fn seal(&mut self, at: usize) {
        let call = &mut self.calls[at];
        let is_whole = self.is_over || call.is_surely_whole();
        if is_whole && call.is_runnable() && !call.is_sealed() {
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

/// OpenAI takes ids of 40 characters; three are for the number.
const MAX_DERIVED_ID: usize = 37;

fn adds_nothing(delta: &CallDelta) -> bool {
    let has_arguments = delta.arguments.as_ref().is_some_and(|text| !text.is_empty());
    let has_members = !delta.members.is_empty() || !delta.function_members.is_empty();
    delta.id.is_none() && delta.name.is_none() && !has_arguments && !has_members
}

#[cfg(test)]
mod tests;
