//! Records the start and the answer of each call of a round, and emits one event for each.

use std::time::Duration;

use super::{Call, Progress, Round, RoundEffect, Running};
use crate::agent::events::{Headline, Structured, ToolEnd, ToolStart, TurnEvent};
use crate::execution::pipeline::ToolResult;
use crate::execution::schedule::Position;
use crate::text;
use crate::tools::tool::ToolError;
use crate::upstream::assemble::{AssembledCall, Slot};

impl Round {
    /// Records that a call started. `now` is the time since the beginning of the turn. `None`
    /// where the call was settled before the scheduler's report arrived.
    pub(in crate::agent) fn started(
        &mut self,
        position: Position,
        now: Duration,
    ) -> Option<TurnEvent> {
        let call = self.calls.get_mut(position)?;
        if !matches!(call.progress, Progress::Ready) {
            return None;
        }
        let assembled = self.assembler.call(Slot(position));
        let id = assembled.id.clone();
        call.progress = Progress::Running(Running { id: id.clone(), since: now });
        Some(TurnEvent::ToolStarted(Box::new(ToolStart {
            call_id: id,
            slot: position,
            tool: call.tool.clone(),
            headline: Headline::new(call.headline.clone()),
            arguments: self.announced.arguments(assembled),
        })))
    }

    /// Records a tool's answer. `None` where the call was settled or taken out meanwhile.
    pub(in crate::agent) fn answered(
        &mut self,
        position: Position,
        result: ToolResult,
        duration: Duration,
    ) -> Option<TurnEvent> {
        let call = self.calls.get_mut(position)?;
        // Take the progress out to move its values; another state is put back.
        let (running, mut result) = match std::mem::take(&mut call.progress) {
            Progress::Running(running) => (running, result),
            Progress::RunningInvalid(running, verdict) => (running, verdict),
            settled => {
                call.progress = settled;
                return None;
            }
        };
        let event = TurnEvent::ToolEnded(Box::new(ToolEnd {
            chars: result.text.chars().count(),
            text: self.announced.excerpt(&result.text),
            error: result.is_error.then(|| first_line(&result.text)),
            structured: Structured::new(std::mem::take(&mut result.structured)),
            ..call.ended(running.id, position, duration)
        }));
        self.size_estimate += result.text.len();
        call.progress = Progress::Answered(result);
        Some(event)
    }

    /// Ends the calls that still run as cancelled, because the round is over. Returns their
    /// events.
    pub(in crate::agent) fn interrupt(&mut self, now: Duration) -> Vec<TurnEvent> {
        let calls = self.calls.iter_mut().enumerate();
        let interrupted = calls.filter_map(|(slot, call)| {
            let running = match std::mem::take(&mut call.progress) {
                Progress::Running(running) | Progress::RunningInvalid(running, _) => running,
                other => {
                    call.progress = other;
                    return None;
                }
            };
            call.progress = Progress::Dropped;
            let duration = now.saturating_sub(running.since);
            Some(TurnEvent::ToolEnded(Box::new(ToolEnd {
                error: Some(ToolError::Cancelled.to_string()),
                ..call.ended(running.id, slot, duration)
            })))
        });
        interrupted.collect()
    }

    /// Whether each call that needs an answer has one.
    pub(in crate::agent) fn is_answered(&self) -> bool {
        self.calls.iter().all(|call| {
            matches!(call.progress, Progress::Answered(_) | Progress::Dropped | Progress::Clients)
        })
    }

    /// Takes the answered calls with their answers, in call order.
    pub(in crate::agent) fn answers(&mut self) -> Vec<(&AssembledCall, ToolResult)> {
        let calls = self.calls.drain(..).zip(self.assembler.calls());
        calls
            .filter_map(|(call, assembled)| match call.progress {
                Progress::Answered(result) => Some((assembled, result)),
                _ => None,
            })
            .collect()
    }

    /// Answers a call that will not run, and frees its position.
    pub(super) fn answer(
        &mut self,
        slot: usize,
        error: &ToolError,
        effects: &mut Vec<RoundEffect>,
    ) {
        effects.push(RoundEffect::Withdraw(vec![slot]));
        self.settle(slot, error, effects);
    }

    /// Answers a call whose position is free already.
    pub(super) fn settle(
        &mut self,
        slot: usize,
        error: &ToolError,
        effects: &mut Vec<RoundEffect>,
    ) {
        let call = &mut self.calls[slot];
        call.progress = Progress::Answered(ToolResult::error(error));
        let assembled = self.assembler.call(Slot(slot));
        // The call may never have been admitted, so its own fields can still be empty.
        effects.push(RoundEffect::Emit(TurnEvent::ToolEnded(Box::new(ToolEnd {
            tool: assembled.name.clone().unwrap_or_default(),
            headline: Headline::default(),
            text: self.announced.excerpt(&error.to_string()),
            error: Some(first_line(&error.to_string())),
            ..call.ended(assembled.id.clone(), slot, Duration::ZERO)
        }))));
    }
}

impl Call {
    /// The `tool_end` event of this call, without an answer.
    fn ended(&self, call_id: String, slot: usize, duration: Duration) -> ToolEnd {
        ToolEnd {
            call_id,
            slot,
            tool: self.tool.clone(),
            headline: Headline::new(self.headline.clone()),
            text: None,
            duration,
            chars: 0,
            error: None,
            structured: Structured::default(),
        }
    }
}

fn first_line(text: &str) -> String {
    const SHOWN: usize = 200;
    text::prefix(text.lines().next().unwrap_or_default(), SHOWN).to_owned()
}
