//! Holds back a round's text until it is known whether the round is the turn's last.
//!
//! With a `response_format` other than text, `content` must be the last round's text alone, or
//! clients that parse it fail. What the model said before its calls becomes reasoning. Pure.

use super::events::{RawDelta, TurnEvent};

/// Which rounds' text is the content of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContentRule {
    /// Each round's text, sent as it comes.
    #[default]
    EveryRound,
    /// The last round's text, held until the round's end.
    LastRound,
}

/// The member that holds a refusal, which is part of the answer like a text.
const REFUSAL: &str = "refusal";

/// A member that refers to positions in the content, and so means nothing without it.
const ANNOTATIONS: &str = "annotations";

/// The text of one round, in the events that will send it.
#[derive(Debug, Default)]
pub(super) struct HeldText {
    rule: ContentRule,
    events: Vec<TurnEvent>,
    /// The estimated memory of `events`, in bytes.
    size_estimate: usize,
}

impl HeldText {
    pub(super) fn new(rule: ContentRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// The estimated memory, in bytes.
    pub(super) fn size_estimate(&self) -> usize {
        self.size_estimate
    }

    /// Holds an event that is part of the answer's text. Returns it if it may be sent at once.
    pub(super) fn hold(&mut self, event: TurnEvent) -> Option<TurnEvent> {
        let is_of_answer = match &event {
            TurnEvent::Text(_) | TurnEvent::Raw(_) => true,
            TurnEvent::Member { name, .. } => name == REFUSAL,
            _ => false,
        };
        if self.rule == ContentRule::EveryRound || !is_of_answer {
            return Some(event);
        }
        if let Some(added) = self.events.last_mut().and_then(|last| last.absorb(&event)) {
            self.size_estimate += added;
        } else {
            self.size_estimate += size_of::<TurnEvent>() + event.size_estimate();
            self.events.push(event);
        }
        None
    }

    /// The round is the last one: takes what was held, to be sent as it is. From now on nothing
    /// is held.
    pub(super) fn release(&mut self) -> Vec<TurnEvent> {
        self.rule = ContentRule::EveryRound;
        self.take()
    }

    /// Another round follows: takes what was held, with its text as text before a call.
    pub(super) fn before_calls(&mut self) -> Vec<TurnEvent> {
        let (mut text, mut others) = (String::new(), Vec::new());
        for event in self.take() {
            match event {
                TurnEvent::Text(more) | TurnEvent::Member { text: more, .. } => {
                    text.push_str(&more);
                }
                TurnEvent::Raw(delta) => {
                    text.push_str(delta.text.as_deref().unwrap_or_default());
                    others.extend(without_text(*delta));
                }
                other => others.push(other),
            }
        }
        let text = text.trim();
        let text = (!text.is_empty()).then(|| TurnEvent::TextBeforeCalls(text.to_owned()));
        text.into_iter().chain(others).collect()
    }

    fn take(&mut self) -> Vec<TurnEvent> {
        self.size_estimate = 0;
        std::mem::take(&mut self.events)
    }
}

/// What of a delta stands without its text: pictures, for instance.
fn without_text(delta: RawDelta) -> Option<TurnEvent> {
    let mut members = delta.members;
    members.retain(|(name, _)| name != ANNOTATIONS);
    let delta = RawDelta { text: None, members, logprobs: None };
    (!delta.members.is_empty()).then(|| TurnEvent::Raw(Box::new(delta)))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::agent::events::samples::{member, text};

    fn raw(text: Option<&str>, members: &[&str]) -> TurnEvent {
        let value = || RawValue::from_string("[1]".to_owned()).unwrap();
        let members = members.iter().map(|name| ((*name).to_owned(), value())).collect();
        let text = text.map(str::to_owned);
        TurnEvent::Raw(Box::new(RawDelta { text, members, logprobs: Some(value()) }))
    }

    fn holding(events: Vec<TurnEvent>) -> HeldText {
        let mut held = HeldText::new(ContentRule::LastRound);
        for event in events {
            assert!(held.hold(event).is_none());
        }
        held
    }

    #[test]
    fn only_the_answers_own_text_is_held() {
        let mut held = holding(vec![text("a"), text("b"), member("refusal", "c")]);
        assert!(held.hold(member("reasoning_content", "hm")).is_some());
        assert!(held.hold(TurnEvent::Begun).is_some());

        let expected = [text("ab"), member("refusal", "c")];
        assert_eq!(format!("{:?}", held.release()), format!("{expected:?}"));
        assert!(held.hold(text("d")).is_some(), "nothing is held any more");
        let mut every = HeldText::new(ContentRule::EveryRound);
        assert!(every.hold(text("a")).is_some());
    }

    #[test]
    fn what_stood_before_calls_is_one_text_without_what_belongs_to_content() {
        let mut held = holding(vec![
            text("\nI "),
            raw(Some("read"), &["annotations"]),
            member("refusal", "."),
            raw(None, &["images", "annotations"]),
            text(" \n"),
        ]);

        let events = held.before_calls();

        assert_eq!(
            format!("{events:?}"),
            r#"[TextBeforeCalls("I read."), Raw(RawDelta { text: None, members: [("images", RawValue([1]))], logprobs: None })]"#
        );
        assert!(holding(vec![text("\n\n")]).before_calls().is_empty());
    }

    #[test]
    fn what_is_held_counts_and_what_was_taken_does_not() {
        let mut held = holding(vec![text(&"a".repeat(1000)), text(&"b".repeat(1000))]);
        assert!((2000..2200).contains(&held.size_estimate()), "{}", held.size_estimate());
        held.before_calls();
        assert_eq!(held.size_estimate(), 0);
    }
}
