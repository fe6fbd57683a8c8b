//! Decides which model is asked next, and in which form, after a round has failed or was empty.
//!
//! Pure. docs/stream.md, When upstream fails, has the rules.

use std::time::Duration;

use super::settings::{AskedModel, Delivery, Refused};
use crate::openai::chunk::FinishReason;
use crate::upstream::retry::{self, Decision};
use crate::upstream::{Fault, UpstreamSettings};

/// The attempts of a turn at its rounds.
#[derive(Debug)]
pub(super) struct Attempts {
    /// The requested model, then its fallbacks in order.
    models: Vec<AskedModel>,
    /// The index in `models` of the model that is asked.
    model: usize,
    /// Failed requests of this round to this model.
    failures: u32,
    /// Whether the round was asked again because its answer was empty.
    asked_again: bool,
    /// The form in which each round is asked for at first.
    usual_delivery: Delivery,
    delivery: Delivery,
}

impl Attempts {
    pub(super) fn new(models: Vec<AskedModel>, delivery: Delivery) -> Self {
        Self {
            models,
            model: 0,
            failures: 0,
            asked_again: false,
            usual_delivery: delivery,
            delivery,
        }
    }

    /// The model that is asked.
    pub(super) fn model(&self) -> &AskedModel {
        &self.models[self.model]
    }

    pub(super) fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Whether the turn's rounds are asked for whole, so that their answers pass as they are.
    pub(super) fn passes_whole_answers(&self) -> bool {
        self.usual_delivery == Delivery::Whole
    }

    pub(super) fn begin_round(&mut self) {
        self.failures = 0;
        self.asked_again = false;
        self.delivery = self.usual_delivery;
    }

    /// Notes an empty answer. Returns whether the round is asked again.
    pub(super) fn may_ask_again(&mut self, finish: Option<FinishReason>) -> bool {
        if std::mem::replace(&mut self.asked_again, true) {
            return false;
        }
        // LiteLLM drops refusals from streams and ends them with an empty `stop`. Whole answers
        // still have them.
        if matches!(finish, None | Some(FinishReason::Stop)) {
            self.delivery = Delivery::Whole;
        }
        true
    }

    /// Notes what the model refuses. Returns its name.
    pub(super) fn leave_out(&mut self, refused: Refused) -> String {
        let model = &mut self.models[self.model];
        match refused {
            Refused::Reasoning => model.takes_reasoning = false,
            Refused::EagerInput => model.takes_eager_input = false,
        }
        model.name.clone()
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
            return Some(Duration::ZERO);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::settings::ImageRule;

    fn attempts(delivery: Delivery) -> Attempts {
        let model = |name: &str| AskedModel {
            name: name.to_owned(),
            takes_reasoning: true,
            images: ImageRule::UserMessage,
            takes_eager_input: true,
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
}
