//! What becomes of the calls of a round: each is told when it starts and when it has
//! its answer, once.

use std::time::Duration;

use super::{Progress, Round};
use crate::agent::events::{Headline, Structured, ToolEnd, ToolStart, TurnEvent};
use crate::agent::state::Effect;
use crate::execution::pipeline::ToolResult;
use crate::execution::schedule::Position;
use crate::text;
use crate::tools::tool::ToolError;
use crate::upstream::assemble::{AssembledCall, Slot};

impl Round {
    /// `None` for a call that was settled in the same breath as it started.
    pub(in crate::agent) fn started(&mut self, position: Position) -> Option<TurnEvent> {
        let call = self.calls.get_mut(position)?;
        if !matches!(call.progress, Progress::Ready) {
            return None;
        }
        call.progress = Progress::Running;
        Some(TurnEvent::ToolStarted(Box::new(ToolStart {
            call_id: self.assembler.call(Slot(position)).id.clone(),
            tool: call.tool.clone(),
            headline: Headline::new(call.headline.clone()),
        })))
    }

    pub(in crate::agent) fn answered(
        &mut self,
        position: Position,
        result: ToolResult,
        duration: Duration,
    ) -> Option<TurnEvent> {
        let call = self.calls.get_mut(position)?;
        let mut result = match std::mem::take(&mut call.progress) {
            Progress::Running => result,
            Progress::Condemned(verdict) => verdict,
            settled => {
                call.progress = settled;
                return None;
            }
        };
        let event = TurnEvent::ToolEnded(Box::new(ToolEnd {
            call_id: self.assembler.call(Slot(position)).id.clone(),
            tool: call.tool.clone(),
            headline: Headline::new(call.headline.clone()),
            duration,
            chars: result.text.chars().count(),
            error: result.is_error.then(|| first_line(&result.text)),
            structured: Structured::new(shown(std::mem::take(&mut result.structured))),
        }));
        self.weight += result.text.len();
        call.progress = Progress::Answered(result);
        Some(event)
    }

    /// Whether every call that is to be answered has its answer.
    pub(in crate::agent) fn is_answered(&self) -> bool {
        self.calls.iter().all(|call| {
            matches!(call.progress, Progress::Answered(_) | Progress::Dropped | Progress::Clients)
        })
    }

    /// The calls with their answers, in call order.
    pub(in crate::agent) fn answers(&mut self) -> Vec<(&AssembledCall, ToolResult)> {
        let calls = self.calls.drain(..).zip(self.assembler.calls());
        calls
            .filter_map(|(call, assembled)| match call.progress {
                Progress::Answered(result) => Some((assembled, result)),
                _ => None,
            })
            .collect()
    }

    /// Answers a call that will not run.
    pub(super) fn answer(&mut self, slot: usize, error: &ToolError, effects: &mut Vec<Effect>) {
        effects.push(Effect::Withdraw(vec![slot]));
        self.settle(slot, error, effects);
    }

    /// The same for one whose place is free already.
    pub(super) fn settle(&mut self, slot: usize, error: &ToolError, effects: &mut Vec<Effect>) {
        self.calls[slot].progress = Progress::Answered(ToolResult::error(error));
        let assembled = self.assembler.call(Slot(slot));
        effects.push(Effect::Emit(TurnEvent::ToolEnded(Box::new(ToolEnd {
            call_id: assembled.id.clone(),
            tool: assembled.name.clone().unwrap_or_default(),
            headline: Headline::default(),
            duration: Duration::ZERO,
            chars: 0,
            error: Some(first_line(&error.to_string())),
            structured: Structured::default(),
        }))));
    }
}

/// What programs are told of an answer. The whole of what a file held before is for
/// hooks, not for a stream.
fn shown(mut structured: serde_json::Value) -> serde_json::Value {
    const LEFT_OUT: &str = "original";
    if let Some(members) = structured.as_object_mut() {
        members.shift_remove(LEFT_OUT);
    }
    structured
}

fn first_line(text: &str) -> String {
    const SHOWN: usize = 200;
    text::prefix(text.lines().next().unwrap_or_default(), SHOWN).to_owned()
}
