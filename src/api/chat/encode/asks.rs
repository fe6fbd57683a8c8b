//! Writes what a person is asked, for programs: in an event of the stream, and in the answer's
//! `toolhand` member if the turn ended with the question.

use serde_json::{Value, json};

use crate::agent::asking::choice::{choices, offered_rules, options};
use crate::agent::events::TurnEvent;
use crate::agent::record::Asked;
use crate::execution::ask::About;

/// What a person is asked and has not decided, as far as the events tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenAsks(Vec<Value>);

impl OpenAsks {
    /// Follows the events of a turn.
    pub(crate) fn note(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Asked(asked) => self.0 = asked.iter().map(shown).collect(),
            // The turn went on: it was decided.
            TurnEvent::ToolStarted(_) | TurnEvent::ToolEnded(_) | TurnEvent::RoundStarted(_) => {
                self.0.clear();
            }
            _ => {}
        }
    }

    pub(crate) fn as_slice(&self) -> &[Value] {
        &self.0
    }
}

/// One ask: its `type` is `approval` or `question`.
pub(super) fn shown(asked: &Asked) -> Value {
    let Asked { id, code, ask, created_ms, expires_ms, .. } = asked;
    let mut shown = match &ask.about {
        About::Effect(effect) => json!({
            "type": "approval",
            "id": id,
            "code": code,
            "tool": ask.tool,
            "argument": ask.headline,
            "effect": effect.markdown,
            "why": effect.why,
            "choices": choices(ask),
        }),
        About::Questions { .. } => json!({
            "type": "question",
            "id": id,
            "code": code,
            "tool": ask.tool,
            "questions": asked.unanswered(),
        }),
    };
    if !ask.own_choices().is_empty() {
        shown["options"] = json!(options(ask));
    }
    let rules = offered_rules(ask);
    if !rules.is_empty() {
        shown["rules"] = json!(rules);
    }
    shown["created"] = (created_ms / 1000).into();
    shown["expires"] = (expires_ms / 1000).into();
    shown
}
