//! The client's own calls of a round: not ours to run or to judge, passed on as the
//! model speaks them, in its order.

use super::{Round, RoundEffect, RoundRules};
use crate::agent::events::{ClientCallDelta, TurnEvent};
use crate::upstream::assemble::{AssembledCall, Slot};

/// What of a client's call has gone out.
#[derive(Debug)]
pub(super) struct ClientSent {
    index: usize,
    bytes: usize,
}

/// How far the calls of a round have been gone through.
#[derive(Debug, Default)]
pub(super) struct PassedOn {
    /// Client's calls whose head has gone out.
    begun: usize,
    /// The first call of which it is open whether it goes out, or with what head. No call
    /// behind it has begun to go out.
    next: usize,
}

/// What a call means for those behind it.
enum Turn {
    /// Not the client's.
    Skip,
    /// The client's, and its head is known.
    Begin,
    Wait,
}

impl Round {
    pub(in crate::agent) fn has_client_call(&self, rules: &RoundRules<'_>) -> bool {
        self.has_passed_on_a_call()
            || self.assembler.calls().iter().any(|call| rules.is_clients(call))
    }

    /// Something of a client's call has gone out, which nothing can take back.
    pub(in crate::agent) fn has_passed_on_a_call(&self) -> bool {
        self.passed_on.begun > 0
    }

    /// Streams the client's own calls. One that cannot go out yet holds back those that
    /// the model began after it.
    pub(super) fn pass_on_client_calls(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        for slot in self.assembler.take_changed() {
            if self.calls[slot].sent.is_some() {
                self.pass_on(slot, effects);
            }
        }
        while self.passed_on.next < self.calls.len() {
            let slot = self.passed_on.next;
            match self.turn_of(slot, rules) {
                Turn::Skip => {}
                Turn::Begin => self.pass_on(slot, effects),
                Turn::Wait => return,
            }
            self.passed_on.next += 1;
        }
    }

    /// The answer is over: what is known of them is all there will be.
    pub(super) fn pass_on_the_rest(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        for slot in 0..self.calls.len() {
            let is_clients = rules.is_clients(self.assembler.call(Slot(slot)));
            if is_clients && self.calls[slot].sent.is_none() {
                self.pass_on(slot, effects);
            }
        }
    }

    fn turn_of(&self, slot: usize, rules: &RoundRules<'_>) -> Turn {
        let (call, assembled) = (&self.calls[slot], self.assembler.call(Slot(slot)));
        // A name may still grow until the arguments have begun, an id may come late.
        let is_known = call.sealed || (assembled.has_own_id() && assembled.has_arguments());
        match &assembled.name {
            Some(_) if rules.is_clients(assembled) && is_known => Turn::Begin,
            Some(_) if rules.is_clients(assembled) => Turn::Wait,
            Some(name) if rules.pipeline.tools.get(name).is_some() => Turn::Skip,
            Some(_) if call.sealed || assembled.is_closed() => Turn::Skip,
            Some(_) | None => Turn::Wait,
        }
    }

    /// Sends what of a call has not gone out yet.
    fn pass_on(&mut self, slot: usize, effects: &mut Vec<RoundEffect>) {
        let (call, assembled) = (&mut self.calls[slot], self.assembler.call(Slot(slot)));
        let head = call.sent.is_none().then(|| {
            let name = assembled.name.clone().unwrap_or_default();
            (assembled.id.clone(), name)
        });
        let sent = call.sent.get_or_insert_with(|| {
            self.passed_on.begun += 1;
            ClientSent { index: self.passed_on.begun - 1, bytes: 0 }
        });
        let arguments = assembled.said_from(sent.bytes);
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
