//! Holds a transcript in units that stay whole: an assistant's message with the answers to its
//! calls, or a message of the user's.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Plans, stubs, summary};
use crate::agent::record::RecordedRound;

/// So many of the last rounds stay as they are.
const KEPT_ROUNDS: usize = 3;

/// The transcript behind the leading instructions.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    pub(super) units: Vec<Unit>,
    /// The model that is asked: our own messages are written for it.
    model: String,
}

/// What stays together.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) kind: Kind,
    pub(super) round: RecordedRound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Instruction,
    User,
    /// An assistant's message, with the answers to its calls.
    Round,
    /// Answers to the calls of the unit before.
    Answers,
}

impl Material {
    /// `pieces` are one or more messages each.
    pub(crate) fn new(pieces: impl IntoIterator<Item = RecordedRound>, model: &str) -> Self {
        let mut units: Vec<Unit> = Vec::new();
        for round in pieces {
            match (kind(&round), units.last_mut()) {
                (Kind::Answers, Some(before)) => join(&mut before.round, &round),
                (Kind::Answers, None) => units.push(Unit { kind: Kind::Round, round }),
                (kind, _) => units.push(Unit { kind, round }),
            }
        }
        Self { units, model: model.to_owned() }
    }

    /// Replaces the oldest results of tools, until `bytes` are saved. Returns how many were.
    pub(crate) fn leave_out_results(&mut self, bytes: usize) -> usize {
        let kept = self.kept_from();
        let mut saved = 0;
        for unit in &mut self.units[..kept] {
            if saved >= bytes {
                break;
            }
            if unit.kind == Kind::Round {
                saved += stubs::leave_out(&mut unit.round, bytes - saved);
            }
        }
        saved
    }

    /// The bytes that a summary would stand for.
    pub(crate) fn replaced_bytes(&self) -> usize {
        self.replaced().map(|unit| unit.round.messages.len()).sum()
    }

    /// What a summary would stand for, as text of at most about `room` bytes.
    pub(crate) fn text(&self, room: usize) -> String {
        summary::told(self.replaced().map(|unit| unit.round.messages.as_str()), room)
    }

    /// The transcript with `summary` for all that is old, and what is planned.
    pub(crate) fn with_summary(self, summary: &str, plans: &Plans) -> Vec<RecordedRound> {
        let plans = plans.told(self.replaced_bytes());
        let summary = [Some(summary::wrapped(summary)), plans];
        let summary = summary.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        let (kept, asked) = (self.kept_from(), self.asked());
        let is_apart = asked.is_some_and(|asked| asked < kept);
        let begins_with_user =
            is_apart || self.units.get(kept).is_some_and(|unit| unit.kind == Kind::User);
        let mut before = Vec::new();
        let mut behind = Vec::new();
        let ours = |message: Value| RecordedRound {
            messages: Value::from(vec![message]).to_string(),
            model: self.model.clone(),
            has_reasoning: false,
        };
        let (told, taken) = (
            ours(json!({ "role": "user", "content": summary })),
            ours(json!({ "role": "assistant", "content": summary::TAKEN })),
        );
        for (at, unit) in self.units.into_iter().enumerate() {
            match unit.kind {
                _ if at >= kept || Some(at) == asked => behind.push(unit.round),
                Kind::Instruction => before.push(unit.round),
                _ => {}
            }
        }
        before.push(told);
        if begins_with_user {
            // Some models take no two messages of the user's behind each other.
            before.push(taken);
        }
        before.append(&mut behind);
        before
    }

    pub(crate) fn into_rounds(self) -> Vec<RecordedRound> {
        self.units.into_iter().map(|unit| unit.round).collect()
    }

    fn replaced(&self) -> impl Iterator<Item = &Unit> {
        let asked = self.asked();
        let old = self.units[..self.kept_from()].iter().enumerate();
        old.filter(move |(at, unit)| Some(*at) != asked && unit.kind != Kind::Instruction)
            .map(|(_, unit)| unit)
    }

    /// Where the last rounds begin.
    fn kept_from(&self) -> usize {
        let rounds = self.units.iter().enumerate().rev();
        let rounds = rounds.filter(|(_, unit)| unit.kind == Kind::Round);
        rounds.take(KEPT_ROUNDS).last().map_or(0, |(at, _)| at)
    }

    /// The last user message.
    fn asked(&self) -> Option<usize> {
        self.units.iter().rposition(|unit| unit.kind == Kind::User)
    }
}

fn kind(round: &RecordedRound) -> Kind {
    let messages: Vec<Value> = serde_json::from_str(&round.messages).unwrap_or_default();
    let is = |role: &str| messages.iter().any(|message| message["role"] == role);
    match () {
        () if is("assistant") => Kind::Round,
        () if is("tool") || is("function") => Kind::Answers,
        () if is("system") || is("developer") => Kind::Instruction,
        () => Kind::User,
    }
}

/// Appends the messages of `more`.
fn join(round: &mut RecordedRound, more: &RecordedRound) {
    let messages = [&round.messages, &more.messages]
        .into_iter()
        .flat_map(|messages| serde_json::from_str::<Vec<&RawValue>>(messages).unwrap_or_default())
        .map(RawValue::get)
        .collect::<Vec<_>>();
    round.messages = format!("[{}]", messages.join(","));
    round.has_reasoning |= more.has_reasoning;
}
