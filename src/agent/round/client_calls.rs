//! The client's own calls of a round: not ours to run or to judge, passed on as the
//! model speaks them.

use super::{Round, Rules};
use crate::agent::events::{ClientCallDelta, TurnEvent};
use crate::agent::state::Effect;
use crate::upstream::assemble::{AssembledCall, Slot};

/// What of a client's call has gone out.
#[derive(Debug)]
pub(super) struct ClientSent {
    index: usize,
    bytes: usize,
}

impl Round {
    pub(in crate::agent) fn has_client_call(&self, rules: &Rules<'_>) -> bool {
        self.client_calls > 0 || self.assembler.calls().iter().any(|call| rules.is_clients(call))
    }

    /// Streams the client's own calls, in the order they were begun.
    pub(super) fn pass_on_client_calls(&mut self, rules: &Rules<'_>, effects: &mut Vec<Effect>) {
        for slot in self.assembler.take_changed() {
            let (call, assembled) = (&mut self.calls[slot], self.assembler.call(Slot(slot)));
            let Some(name) = assembled.name.as_ref().filter(|_| rules.is_clients(assembled)) else {
                continue;
            };
            // A name may still grow until the arguments have begun, an id may come late.
            let is_known = call.sealed || (assembled.has_own_id() && assembled.has_arguments());
            if call.sent.is_none() && !is_known {
                continue;
            }
            let head = call.sent.is_none().then(|| (assembled.id.clone(), name.clone()));
            let sent = call.sent.get_or_insert_with(|| {
                self.client_calls += 1;
                ClientSent { index: self.client_calls - 1, bytes: 0 }
            });
            let arguments = assembled.said_from(sent.bytes);
            sent.bytes += arguments.len();
            if head.is_some() || !arguments.is_empty() {
                let delta =
                    ClientCallDelta { index: sent.index, kind: assembled.kind, head, arguments };
                effects.push(Effect::Emit(TurnEvent::ClientCall(Box::new(delta))));
            }
        }
    }
}

impl Rules<'_> {
    pub(super) fn is_clients(&self, call: &AssembledCall) -> bool {
        call.name.as_ref().is_some_and(|name| self.client_tools.contains(name))
    }
}
