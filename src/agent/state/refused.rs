//! Decides what follows when upstream has refused or failed a request of which the client has seen
//! nothing.

use std::time::Duration;

use super::{TurnEffect, TurnState};
use crate::agent::settings::Delivery;
use crate::upstream::{Fault, UpstreamTrait};

/// What a fault says of the request.
struct Complaint {
    learnt: UpstreamTrait,
    /// What the provider said, if other conversations would meet it too.
    evidence: Option<String>,
}

impl TurnState {
    /// Asks again, or asks a fallback, or fails. Nothing of this round was forwarded, and none
    /// of its calls ran.
    pub(super) fn try_again(&mut self, fault: &Fault, jitter: f64, effects: &mut Vec<TurnEffect>) {
        if let Some(Complaint { learnt, evidence }) = self.complaint(fault) {
            self.attempts.heed(learnt, evidence);
            return self.ask(Duration::ZERO, effects);
        }
        if fault.is_bad_sample() && self.attempts.may_sample_again() {
            return self.ask(Duration::ZERO, effects);
        }
        if self.attempts.was_empty() && fault.may_be_an_empty_answer() {
            return self.still_empty(Some(fault), effects);
        }
        if self.attempts.delivery() == Delivery::Whole && fault.is_an_empty_answer() {
            return self.empty(effects);
        }
        if fault.exceeds_context() {
            return self.exceeded(fault, effects);
        }
        let may_be_too_long = fault.is_unexplained() && self.is_long();
        if may_be_too_long && !fault.is_passing() {
            return self.exceeded(fault, effects);
        }
        match self.attempts.wait_after(fault, &self.start.upstream, jitter) {
            Some(wait) => self.ask(wait, effects),
            // Some servers run out of memory where others refuse.
            None if may_be_too_long => self.exceeded(fault, effects),
            None => self.fail(self.told(fault), effects),
        }
    }

    /// What the provider says against the last request that can be left out, or added.
    fn complaint(&self, fault: &Fault) -> Option<Complaint> {
        let complaints = fault.complaints();
        let delivery = self.attempts.delivery();
        let learnt = complaints.traits.iter().copied().find(|learnt| {
            !self.attempts.has_tried(*learnt)
                && self.start.conversation.would_heed(*learnt, delivery)
        })?;
        let evidence = complaints.is_general.then(|| fault.sentence()).flatten();
        Some(Complaint { learnt, evidence })
    }

    /// A request has succeeded: what its errors had told is true.
    pub(super) fn keep_lessons(&mut self, effects: &mut Vec<TurnEffect>) {
        effects.extend(self.attempts.proven().into_iter().map(TurnEffect::Learn));
    }
}
