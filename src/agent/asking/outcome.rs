//! Defines what a reply decides, and what it leaves to be asked again.

use super::choice::decided;
use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Decision};

/// What a person's message, or the answer of a dialog, decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyOutcome {
    pub(crate) decided: Vec<Decided>,
    /// The asks that it leaves out, with what is answered of them. They are asked again, and
    /// nothing runs before they are decided.
    pub(crate) left_out: Vec<Asked>,
}

impl ReplyOutcome {
    /// Decides nothing.
    pub(super) fn asks_again(asked: &[Asked]) -> Self {
        Self { decided: Vec::new(), left_out: asked.to_vec() }
    }

    /// Adds answers to the next questions of an ask. It is decided when each question has one.
    pub(super) fn answer(&mut self, asked: &Asked, answers: impl IntoIterator<Item = String>) {
        let About::Questions { questions } = &asked.ask.about else { return };
        let mut asked = asked.clone();
        asked.answered.extend(answers);
        if !asked.unanswered().is_empty() {
            return self.left_out.push(asked);
        }
        let texts = questions.iter().map(|question| question.question.clone());
        let answers = texts.zip(asked.answered.iter().cloned()).collect();
        self.decided.push(decided(&asked, Decision::Answers { answers }));
    }
}
