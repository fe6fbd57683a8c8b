//! Begins a turn: with the model, with a round that is open, or with an answer to go on with.

use super::closing::note_to_model;
use super::stopping::tell_left_behind;
use super::{Continued, Phase, TurnEffect, TurnState, rules};
use crate::agent::beginning::{Beginning, HistoryPiece, Resume};
use crate::agent::events::TurnEvent;
use crate::agent::record::OpenCall;
use crate::agent::round::Round;
use crate::agent::settings::StartRule;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::ask::Decision;

/// Asks the model to go on with its last answer.
const GO_ON: &str = "(Your last answer above is not finished. Go on exactly where it ends, in the \
                     middle of a word if need be. Repeat nothing of it, and write nothing about \
                     this note.)";

impl TurnState {
    /// The first effects of the turn.
    pub(crate) fn begin(&mut self) -> Vec<TurnEffect> {
        let notices = std::mem::take(&mut self.start.notices).into_iter();
        let mut effects: Vec<TurnEffect> =
            notices.map(|notice| TurnEffect::Emit(TurnEvent::HookSaid(notice))).collect();
        tell_left_behind(std::mem::take(&mut self.start.left_behind), &mut effects);
        match std::mem::take(&mut self.start.beginning) {
            Beginning::Ask => self.next_round(&mut effects),
            Beginning::Continue { said } => self.go_on(said, &mut effects),
            Beginning::Resume(resume) => self.resume(*resume, &mut effects),
        }
        effects
    }

    fn go_on(&mut self, said: String, effects: &mut Vec<TurnEffect>) {
        let note = note_to_model(GO_ON);
        if let HistoryPiece::Client(message) = &note {
            let note = message.get().to_owned();
            self.continued = Some(Continued { said, note });
        }
        self.start.conversation.push_pieces(vec![note]);
        self.next_round(effects);
    }

    /// Takes up an open round with what is known of its calls now.
    fn resume(&mut self, resume: Resume, effects: &mut Vec<TurnEffect>) {
        let Resume { open, client_answers, mut decisions, then } = resume;
        decisions.sort_by_key(|decided| decided.slot);
        self.ends_with.clone_from(&open.ends_with);
        self.then = then;
        self.asks.was_told = open.asked.is_empty() && !open.calls.iter().any(OpenCall::waits);
        let asked = open.asked.clone();
        let rules = rules(&self.start, StartRule::default());
        let Some(round) = Round::restore(open, client_answers, &rules) else {
            let message = "the record of the round that this request goes on with is damaged";
            return self.fail(ApiError::new(ErrorCode::Internal, message), effects);
        };
        self.round = round;
        self.phase = Phase::Answering;
        let mut feedback_given = None;
        for mut decided in decisions {
            without_repeated_feedback(&mut decided.decision, &mut feedback_given);
            let (slot, approval, decision) = (decided.slot, decided.approval, decided.decision);
            let asked = asked.iter().find(|asked| asked.id == approval);
            if let Some(ask) = asked.and_then(|asked| asked.of_agent.as_ref()) {
                self.round.keep_agents_decision(slot, ask, decision);
                continue;
            }
            effects.extend(self.answered_finds(slot, &decision));
            let is_judged = self.in_round(effects, |round, _, effects| {
                round.decide(slot, approval, &decision, effects)
            });
            // Known before the call can start.
            if is_judged {
                asked.cloned().into_iter().for_each(|asked| self.asks.was_decided(asked));
                effects.push(TurnEffect::Decide(slot, decision));
            }
        }
        let agents = self.round.take_up_agents().into_iter();
        effects.extend(agents.map(|(slot, resumption)| TurnEffect::ResumeAgent(slot, resumption)));
        self.in_round(effects, Round::resume);
        self.close_if_answered(effects);
    }
}

/// One text of the person's for several calls stands in the first answer only.
fn without_repeated_feedback(decision: &mut Decision, given: &mut Option<String>) {
    let Decision::Deny { feedback } = decision else { return };
    if feedback.is_some() && feedback == given {
        *feedback = None;
    } else if feedback.is_some() {
        given.clone_from(feedback);
    }
}
