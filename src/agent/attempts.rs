//! Decides which model is asked next, and in which form, after a round has failed or was empty.
//!
//! Pure. docs/stream.md, When upstream fails, has the rules.

use std::time::Duration;

use super::settings::{AskedModel, Delivery};
use crate::openai::chunk::FinishReason;
use crate::upstream::retry::{self, Decision};
use crate::upstream::{Fault, Lesson, TraitSet, UpstreamSettings, UpstreamTrait};

/// The attempts of a turn at its rounds.
#[derive(Debug)]
pub(super) struct Attempts {
    /// The requested model, then its fallbacks in order.
    models: Vec<AskedModel>,
    /// The index in `models` of the model that is asked.
    model: usize,
    /// Failed requests of this round to this model.
    failures: u32,
    /// Why the round was asked again, which is done once.
    asked_again: Option<AskedAgain>,
    /// What was tried with this model because of its errors. Nothing is tried twice.
    tried: TraitSet,
    /// What its errors may have told. It is true once a request has succeeded.
    unproven: Vec<Lesson>,
    /// The form in which each round is asked for at first.
    usual_delivery: Delivery,
    delivery: Delivery,
}

/// Why a round is asked once more though upstream has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedAgain {
    Empty,
    /// The provider could not read what the model wrote.
    BadSample,
}

impl Attempts {
    pub(super) fn new(models: Vec<AskedModel>, delivery: Delivery) -> Self {
        Self {
            models,
            model: 0,
            failures: 0,
            asked_again: None,
            tried: TraitSet::default(),
            unproven: Vec::new(),
            usual_delivery: delivery,
            delivery,
        }
    }

    /// The model that is asked.
    pub(super) fn model(&self) -> &AskedModel {
        &self.models[self.model]
    }

    pub(super) fn delivery(&self) -> Delivery {
        self.model().delivery(self.delivery)
    }

    /// Whether the turn's rounds are asked for whole, so that their answers pass as they are.
    pub(super) fn passes_whole_answers(&self) -> bool {
        self.usual_delivery == Delivery::Whole
    }

    pub(super) fn begin_round(&mut self) {
        self.failures = 0;
        self.asked_again = None;
        self.delivery = self.usual_delivery;
    }

    /// Notes an empty answer. Returns whether the round is asked again.
    pub(super) fn may_ask_again(&mut self, finish: Option<FinishReason>) -> bool {
        if self.asked_again.replace(AskedAgain::Empty).is_some() {
            return false;
        }
        // LiteLLM drops refusals from streams and ends them with an empty `stop`. Whole answers
        // still have them.
        if matches!(finish, None | Some(FinishReason::Stop)) {
            self.delivery = Delivery::Whole;
        }
        true
    }

    /// Notes an answer that the provider could not read itself. Returns whether the round is asked
    /// again.
    pub(super) fn may_sample_again(&mut self) -> bool {
        let is_first = self.asked_again.is_none();
        self.asked_again.get_or_insert(AskedAgain::BadSample);
        is_first
    }

    /// Whether the first answer of the round was empty.
    pub(super) fn was_empty(&self) -> bool {
        self.asked_again == Some(AskedAgain::Empty)
    }

    pub(super) fn has_tried(&self, learnt: UpstreamTrait) -> bool {
        self.tried.has(learnt) || self.model().learnt.has(learnt)
    }

    /// Changes the further requests to this model. `evidence` is what the provider said, if that
    /// is about the model and not about this one conversation.
    pub(super) fn heed(&mut self, learnt: UpstreamTrait, evidence: Option<String>) {
        let model = &mut self.models[self.model];
        model.heed(learnt);
        self.tried.note(learnt);
        let name = model.name.clone();
        self.unproven.extend(evidence.map(|evidence| Lesson { model: name, learnt, evidence }));
    }

    /// A request has succeeded. Returns what that proves.
    pub(super) fn proven(&mut self) -> Vec<Lesson> {
        let learnt = self.model().learnt;
        let mut lessons = std::mem::take(&mut self.unproven);
        // Another trait may have taken its place.
        lessons.retain(|lesson| learnt.has(lesson.learnt));
        lessons
    }

    /// Notes a failure of which the client has seen nothing. Returns after which wait the same
    /// model or the next one is asked; `None` if none is left.
    pub(super) fn wait_after(
        &mut self,
        fault: &Fault,
        settings: &UpstreamSettings,
        jitter: f64,
    ) -> Option<Duration> {
        self.failures += 1;
        let decision = retry::decide(self.failures, fault, settings, jitter);
        if let Decision::AskAgainAfter(wait) = decision {
            return Some(wait);
        }
        if fault.allows_fallback() && self.model + 1 < self.models.len() {
            self.model += 1;
            self.failures = 0;
            self.tried = TraitSet::default();
            self.unproven.clear();
            return Some(Duration::ZERO);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::settings::{ImageRule, ReasoningRule};

    fn attempts(delivery: Delivery) -> Attempts {
        let model = |name: &str| AskedModel {
            name: name.to_owned(),
            reasoning: ReasoningRule::Echo,
            images: ImageRule::UserMessage,
            learnt: TraitSet::default(),
        };
        Attempts::new(vec![model("first"), model("second")], delivery)
    }

    #[test]
    fn an_empty_stop_is_asked_again_whole_and_the_next_round_streamed() {
        for finish in [None, Some(FinishReason::Stop)] {
            let mut attempts = attempts(Delivery::Streamed);
            assert!(attempts.may_ask_again(finish));
            assert_eq!(attempts.delivery(), Delivery::Whole);
            assert!(!attempts.may_ask_again(finish), "once only");
            attempts.begin_round();
            assert_eq!(attempts.delivery(), Delivery::Streamed);
        }
        let mut attempts = attempts(Delivery::Streamed);
        assert!(attempts.may_ask_again(Some(FinishReason::ToolCalls)));
        assert_eq!(attempts.delivery(), Delivery::Streamed);
    }

    #[test]
    fn what_is_asked_whole_stays_so() {
        let mut attempts = attempts(Delivery::Whole);
        assert!(attempts.may_ask_again(Some(FinishReason::ToolCalls)));
        assert_eq!(attempts.delivery(), Delivery::Whole);
        attempts.begin_round();
        assert_eq!(attempts.delivery(), Delivery::Whole);
    }

    #[test]
    fn a_retry_after_an_empty_answer_keeps_its_form() {
        let mut attempts = attempts(Delivery::Streamed);
        attempts.may_ask_again(Some(FinishReason::Stop));
        let died = Fault::Died(String::new());
        let settings = UpstreamSettings { retries: 1, ..UpstreamSettings::default() };
        assert!(attempts.wait_after(&died, &settings, 0.5).is_some_and(|wait| !wait.is_zero()));
        assert_eq!(attempts.model().name, "first");
        assert_eq!(attempts.wait_after(&died, &settings, 0.5), Some(Duration::ZERO));
        assert_eq!((&*attempts.model().name, attempts.delivery()), ("second", Delivery::Whole));
        assert!(attempts.wait_after(&died, &settings, 0.5).is_some());
        assert_eq!(attempts.wait_after(&died, &settings, 0.5), None);
    }

    #[test]
    fn wire_51_a_lesson_is_drawn_only_from_a_request_that_succeeds() {
        use UpstreamTrait::{MissesReasoning, MissesReasoningText, RefusesTools};

        let mut attempts = attempts(Delivery::Streamed);
        attempts.heed(MissesReasoning, Some("it is missing".to_owned()));
        attempts.heed(MissesReasoningText, Some("it is missing".to_owned()));
        attempts.heed(RefusesTools, None);
        assert!(attempts.has_tried(MissesReasoning), "it is not tried again");
        assert_eq!(attempts.model().reasoning_filler(), Some(" "));

        let proven: Vec<_> = attempts.proven().into_iter().map(|lesson| lesson.learnt).collect();
        assert_eq!(
            proven,
            [MissesReasoningText],
            "nothing without evidence, nor what did not help"
        );
        assert_eq!(attempts.proven(), []);
    }

    #[test]
    fn a_fallback_knows_nothing_of_the_model_before() {
        let mut attempts = attempts(Delivery::Streamed);
        attempts.heed(UpstreamTrait::RefusesTools, Some("no tools".to_owned()));
        let settings = UpstreamSettings { retries: 0, ..UpstreamSettings::default() };
        attempts.wait_after(&Fault::Died(String::new()), &settings, 0.5);
        assert!(!attempts.has_tried(UpstreamTrait::RefusesTools));
        assert_eq!(attempts.proven(), []);
    }
}
