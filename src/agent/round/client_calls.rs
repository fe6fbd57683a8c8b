//! Passes on the calls of the client's tools, in the model's order. The server neither runs nor
//! judges them.

use super::{Progress, Round, RoundEffect, RoundRules};
use crate::agent::events::{ClientCallDelta, TurnEvent};
use crate::upstream::assemble::{AssembledCall, Slot};

/// How much of a client's call has been sent.
#[derive(Debug)]
pub(super) struct ClientSent {
    /// The call's number among the client's calls, from 0.
    index: usize,
    /// Bytes of its arguments that have been sent.
    bytes: usize,
    /// The id that the client was told. The assembler's may still change.
    pub(super) id: String,
}

/// How far the round's calls have been examined.
#[derive(Debug, Default)]
pub(super) struct PassedOn {
    /// Client's calls that have been begun.
    begun: usize,
    /// The first call that is undecided: it may not be the client's, or its id or name may
    /// still change. No call after it has been begun.
    next: usize,
}

/// What to do about a call, and the calls after it.
enum NextStep {
    /// Not a client's call, or one before it once more.
    Skip,
    /// A client's call whose id and name are final.
    Begin,
    /// Undecided: the calls behind it wait.
    Wait,
}

impl Round {
    pub(in crate::agent) fn has_client_call(&self, rules: &RoundRules<'_>) -> bool {
        self.has_passed_on_a_call()
            || self.assembler.calls().iter().any(|call| rules.is_clients(call))
    }

    /// Whether part of a client's call has been sent, which cannot be taken back.
    pub(in crate::agent) fn has_passed_on_a_call(&self) -> bool {
        self.passed_on.begun > 0
    }

    /// Sends what is new of the client's calls. A call that is undecided holds back all calls
    /// that the model began after it.
    pub(super) fn pass_on_client_calls(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        // Calls that have been begun continue in any order; each piece carries its index.
        for slot in self.assembler.take_changed() {
            if self.calls[slot].sent.is_some() {
                self.pass_on(slot, effects);
            }
        }
        while self.passed_on.next < self.calls.len() {
            let slot = self.passed_on.next;
            match self.next_step(slot, rules) {
                NextStep::Skip => {}
                NextStep::Begin => self.pass_on(slot, effects),
                NextStep::Wait => return,
            }
            self.passed_on.next += 1;
        }
    }

    /// Sends the calls that were still undecided when the answer ended.
    pub(super) fn pass_on_the_rest(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        for slot in 0..self.calls.len() {
            let is_clients = rules.is_clients(self.assembler.call(Slot(slot)));
            let is_echo = self.assembler.call(Slot(slot)).is_echo();
            if is_clients && !is_echo && self.calls[slot].sent.is_none() {
                self.pass_on(slot, effects);
            }
        }
    }

    /// Sets aside the client's calls that were cut off: the client has their beginnings.
    pub(super) fn leave_to_client(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        let mut left = Vec::new();
        for (slot, call) in self.calls.iter_mut().enumerate() {
            let assembled = self.assembler.call(Slot(slot));
            let is_clients = rules.is_clients(assembled) && !assembled.is_echo();
            match call.progress {
                Progress::Open if is_clients => left.push(slot),
                // It was withdrawn when it was cut off.
                Progress::Dropped if is_clients => {}
                _ => continue,
            }
            call.progress = Progress::Clients;
        }
        if !left.is_empty() {
            effects.push(RoundEffect::Withdraw(left));
        }
    }

    fn next_step(&self, slot: usize, rules: &RoundRules<'_>) -> NextStep {
        let (call, assembled) = (&self.calls[slot], self.assembler.call(Slot(slot)));
        // Until arguments begin, a name may still grow, and an id may come late.
        let is_known = call.sealed || (assembled.has_own_id() && assembled.has_arguments());
        if assembled.is_echo() {
            return NextStep::Skip;
        }
        if assembled.is_undecided() && !call.sealed {
            return NextStep::Wait;
        }
        match &assembled.name {
            Some(_) if rules.is_clients(assembled) && is_known => NextStep::Begin,
            Some(_) if rules.is_clients(assembled) => NextStep::Wait,
            Some(name) if rules.pipeline.tools.get(name).is_some() => NextStep::Skip,
            Some(_) if call.sealed || assembled.is_closed() => NextStep::Skip,
            Some(_) | None => NextStep::Wait,
        }
    }

    /// Sends the part of a call that has not been sent yet.
    fn pass_on(&mut self, slot: usize, effects: &mut Vec<RoundEffect>) {
        // With a call of the client's, the round is the last one.
        self.release_text(effects);
        let (call, assembled) = (&mut self.calls[slot], self.assembler.call(Slot(slot)));
        let head = call.sent.is_none().then(|| {
            let name = assembled.name.clone().unwrap_or_default();
            (assembled.id.clone(), name)
        });
        let sent = call.sent.get_or_insert_with(|| {
            self.passed_on.begun += 1;
            ClientSent { index: self.passed_on.begun - 1, bytes: 0, id: assembled.id.clone() }
        });
        let arguments = assembled.arguments_from(sent.bytes);
        sent.bytes += arguments.len();
        if head.is_some() || !arguments.is_empty() {
            let delta =
                ClientCallDelta { index: sent.index, kind: assembled.kind, head, arguments };
            effects.push(RoundEffect::Emit(TurnEvent::ClientCall(Box::new(delta))));
        }
    }
}

impl RoundRules<'_> {
    pub(super) fn is_clients(&self, call: &AssembledCall) -> bool {
        call.name.as_ref().is_some_and(|name| self.client_tools.contains(name))
    }
}
