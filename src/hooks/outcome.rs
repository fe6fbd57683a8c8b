//! Combines what several hooks say of one event. Pure.

use serde_json::Value;

use super::answer::{HookAnswer, HookDecision};

/// What the hooks of an event say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HookOutcome {
    pub(crate) decision: HookDecision,
    /// The arguments that the call shall have instead of its own.
    pub(crate) changed_input: Option<Value>,
    /// For the model.
    pub(crate) context: Option<String>,
    /// Ends the turn when the answers of the round are in, with this as its last text.
    pub(crate) ends_turn: Option<String>,
    /// For the person: what hooks say to them, and which ones failed.
    pub(crate) notices: Vec<String>,
}

impl HookOutcome {
    /// `answers` are in the order of the configuration. Deny beats ask, ask beats allow; of
    /// several changed inputs the last one counts.
    pub(super) fn combine(answers: impl IntoIterator<Item = HookAnswer>) -> Self {
        answers.into_iter().fold(Self::default(), Self::and)
    }

    fn and(mut self, answer: HookAnswer) -> Self {
        self.decision = stronger(self.decision, answer.decision);
        self.changed_input = answer.changed_input.or(self.changed_input);
        self.context = joined(self.context, answer.context);
        self.ends_turn = self.ends_turn.or(answer.ends_turn);
        self.notices.extend(answer.notice);
        self
    }
}

/// The stronger of two decisions; of two equal ones both, with the reasons one below the other.
fn stronger(first: HookDecision, second: HookDecision) -> HookDecision {
    use HookDecision::{Allow, Ask, Deny, None};
    match (first, second) {
        (Deny(first), Deny(second)) => Deny(format!("{first}\n{second}")),
        (Deny(reason), _) | (_, Deny(reason)) => Deny(reason),
        (Ask(first), Ask(second)) => Ask(format!("{first}; {second}")),
        (Ask(reason), _) | (_, Ask(reason)) => Ask(reason),
        (Allow, _) | (_, Allow) => Allow,
        (None, None) => None,
    }
}

fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
        (first, second) => first.or(second),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::HookDecision::{Allow, Ask, Deny};
    use super::*;

    fn deciding(decision: HookDecision) -> HookAnswer {
        HookAnswer { decision, ..HookAnswer::default() }
    }

    fn combined(decisions: &[HookDecision]) -> HookDecision {
        HookOutcome::combine(decisions.iter().cloned().map(deciding)).decision
    }

    #[test]
    fn deny_beats_ask_and_ask_beats_allow() {
        let (ask, deny) = (|| Ask("sure?".into()), || Deny("no".into()));
        assert_eq!(combined(&[Allow, HookDecision::None]), Allow);
        assert_eq!(combined(&[Allow, ask(), HookDecision::None]), ask());
        assert_eq!(combined(&[deny(), ask(), Allow]), deny());
        assert_eq!(combined(&[Allow, ask(), deny()]), deny());
        assert_eq!(combined(&[deny(), Deny("never".into())]), Deny("no\nnever".into()));
        assert_eq!(combined(&[]), HookDecision::None);
    }

    #[test]
    fn the_last_changed_input_counts_and_all_texts_are_kept() {
        let answer = |number: u32| HookAnswer {
            changed_input: Some(json!(number)),
            context: Some(format!("context {number}")),
            ends_turn: Some(format!("end {number}")),
            notice: Some(format!("notice {number}")),
            ..HookAnswer::default()
        };

        let outcome = HookOutcome::combine([answer(1), answer(2), HookAnswer::default()]);

        assert_eq!(outcome.changed_input, Some(json!(2)));
        assert_eq!(outcome.context.as_deref(), Some("context 1\ncontext 2"));
        assert_eq!(outcome.ends_turn.as_deref(), Some("end 1"));
        assert_eq!(outcome.notices, ["notice 1", "notice 2"]);
    }

    proptest! {
        #[test]
        fn the_order_does_not_change_what_is_decided(picks in prop::collection::vec(0usize..4, 0..6)) {
            let all = [HookDecision::None, Allow, Ask("a".into()), Deny("d".into())];
            let mut decisions: Vec<_> = picks.iter().map(|pick| all[*pick].clone()).collect();
            let forward = combined(&decisions);
            decisions.reverse();
            let kind = std::mem::discriminant::<HookDecision>;
            prop_assert_eq!(kind(&forward), kind(&combined(&decisions)));
            let strongest = picks.iter().max().map_or(&all[0], |pick| &all[*pick]);
            prop_assert_eq!(kind(&forward), kind(strongest));
        }
    }
}
