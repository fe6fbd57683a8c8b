//! Announces the calls of the server's tools to a client that is shown cards.

use super::{Progress, Round, RoundEffect, RoundRules};
use crate::agent::events::{CallBegan, TurnEvent};
use crate::upstream::assemble::{AssembledCall, Slot};

/// How far the round's calls have been announced.
#[derive(Debug)]
pub(super) struct Announced {
    /// Whether the client is shown cards.
    pub(super) is_wanted: bool,
    /// The first call that was not examined, or whose name may still change.
    next: usize,
}

impl Announced {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, next: 0 }
    }

    /// The beginning of a text for a card.
    pub(super) fn excerpt(&self, text: &str) -> Option<String> {
        self.is_wanted.then(|| text.chars().take(MAX_CHARS).collect())
    }

    /// The arguments for a card, unless they are too long: a part of them would not be JSON.
    pub(super) fn arguments(&self, call: &AssembledCall) -> Option<String> {
        (self.is_wanted && call.arguments.len() <= MAX_CHARS).then(|| call.arguments.clone())
    }
}

/// The most that a card shows of an answer, in characters.
const MAX_CHARS: usize = 10_000;

impl Round {
    /// Announces the calls whose names are known, in order.
    pub(super) fn announce_calls(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        self.announce(rules, false, effects);
    }

    /// Announces the remaining calls, because the model's message has ended.
    pub(super) fn announce_the_rest(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        self.announce(rules, true, effects);
        if self.announced.is_wanted && !self.calls.is_empty() {
            effects.push(RoundEffect::Emit(TurnEvent::CallsComplete));
        }
    }

    fn announce(
        &mut self,
        rules: &RoundRules<'_>,
        has_ended: bool,
        effects: &mut Vec<RoundEffect>,
    ) {
        while self.announced.is_wanted && self.announced.next < self.calls.len() {
            let slot = self.announced.next;
            let assembled = self.assembler.call(Slot(slot));
            if !has_ended && !self.is_name_final(slot, rules) {
                return;
            }
            let name = assembled.name.as_deref().filter(|_| self.is_to_be_announced(slot, rules));
            if let Some(name) = name {
                let tool = rules.pipeline.tools.get(name).map_or(name, |tool| tool.name());
                let began = CallBegan { slot, tool: tool.to_owned() };
                effects.push(RoundEffect::Emit(TurnEvent::CallBegan(Box::new(began))));
            }
            self.announced.next += 1;
        }
    }

    fn is_name_final(&self, slot: usize, rules: &RoundRules<'_>) -> bool {
        let assembled = self.assembler.call(Slot(slot));
        let Some(name) = &assembled.name else { return false };
        if assembled.is_undecided() && !self.calls[slot].sealed {
            return false;
        }
        let is_ours = !rules.is_clients(assembled) && rules.pipeline.tools.get(name).is_some();
        is_ours || self.calls[slot].sealed || assembled.is_closed() || assembled.has_arguments()
    }

    /// Whether the call is the server's, and its end was not told yet.
    fn is_to_be_announced(&self, slot: usize, rules: &RoundRules<'_>) -> bool {
        let is_open = matches!(
            self.calls[slot].progress,
            Progress::Open
                | Progress::Ready
                | Progress::Judging
                | Progress::JudgingInvalid(_)
                | Progress::Asking(_)
                | Progress::Running(_)
                | Progress::RunningInvalid(..)
        );
        is_open && !rules.is_clients(self.assembler.call(Slot(slot)))
    }
}
