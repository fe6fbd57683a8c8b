//! Records the judgement, the start and the answer of each call of a round, and emits one event
//! for each start and end.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{Call, Progress, Round, RoundEffect, Running};
use crate::agent::delegation::how_to_resume;
use crate::agent::events::{
    Attachments, Headline, Structured, ToolEnd, ToolLine, ToolStart, TurnEvent,
};
use crate::agent::notes::with_note_behind;
use crate::execution::ask::Ask;
use crate::execution::pipeline::ToolResult;
use crate::execution::schedule::Position;
use crate::ids::AgentId;
use crate::text;
use crate::tools::answer::AnswerText;
use crate::tools::call_progress::ProgressText;
use crate::tools::tool::ToolError;
use crate::upstream::assemble::{AssembledCall, Slot};

/// What answers a call of a closed round.
#[derive(Debug)]
pub(in crate::agent) enum Answer {
    Result(Box<ToolResult>),
    /// The client's own `role: tool` message.
    Given(Box<RawValue>),
}

impl Round {
    /// Records that a call's turn has come: it is judged now.
    pub(in crate::agent) fn started(&mut self, position: Position) {
        if let Some(call) = self.calls.get_mut(position)
            && matches!(call.progress, Progress::Ready)
        {
            call.progress = Progress::Judging;
            call.ahead = None;
        }
    }

    /// Records that a call was permitted, and runs it. `now` is the time since the beginning of
    /// the turn.
    pub(in crate::agent) fn permitted(
        &mut self,
        position: Position,
        has_effect: bool,
        now: Duration,
        effects: &mut Vec<RoundEffect>,
    ) {
        let Some(call) = self.calls.get_mut(position) else { return };
        match std::mem::take(&mut call.progress) {
            Progress::Judging => {
                let event = self.start(position, now);
                effects.push(RoundEffect::Emit(event));
                effects.push(RoundEffect::Run { position, has_effect });
            }
            Progress::JudgingInvalid(result) => self.release(position, result, effects),
            other => call.progress = other,
        }
    }

    /// Records that a call needs a person. It holds its position, or gets this refusal.
    pub(in crate::agent) fn asks(
        &mut self,
        position: Position,
        ask: Box<Ask>,
        refusal: Option<ToolResult>,
        effects: &mut Vec<RoundEffect>,
    ) {
        let Some(call) = self.calls.get_mut(position) else { return };
        match std::mem::take(&mut call.progress) {
            Progress::Judging => {
                call.approval = None;
                match refusal {
                    Some(refusal) => self.release(position, refusal, effects),
                    None => call.progress = Progress::Asking(ask),
                }
            }
            Progress::JudgingInvalid(result) => self.release(position, result, effects),
            other => call.progress = other,
        }
    }

    /// Ends a call that was judged and does not run, with this answer.
    pub(super) fn release(
        &mut self,
        position: Position,
        result: ToolResult,
        effects: &mut Vec<RoundEffect>,
    ) {
        effects.push(RoundEffect::Release(position));
        self.settle_with(position, result, effects);
    }

    /// Marks the call as running. Returns the event.
    fn start(&mut self, position: Position, now: Duration) -> TurnEvent {
        let assembled = self.assembler.call(Slot(position));
        let id = assembled.id.clone();
        let call = &mut self.calls[position];
        call.progress = Progress::Running(Running { id: id.clone(), since: now });
        TurnEvent::ToolStarted(Box::new(ToolStart {
            call_id: id,
            slot: position,
            tool: call.tool.clone(),
            headline: Headline::new(call.headline.clone()),
            arguments: self.announced.arguments(assembled),
        }))
    }

    /// What a call that runs tells of how far it is, as an event.
    pub(in crate::agent) fn progress(
        &self,
        position: Position,
        told: ProgressText,
    ) -> Option<TurnEvent> {
        let call = self.calls.get(position)?;
        let Progress::Running(running) = &call.progress else { return None };
        let (call_id, tool) = (running.id.clone(), call.tool.clone());
        Some(TurnEvent::ToolProgress(Box::new(ToolLine { call_id, tool, told })))
    }

    /// Records a tool's answer, and emits its end. A call that was answered by the judgement
    /// starts and ends at once. Does nothing where the call was settled or taken out meanwhile.
    pub(in crate::agent) fn answered(
        &mut self,
        position: Position,
        mut result: ToolResult,
        duration: Duration,
        now: Duration,
        effects: &mut Vec<RoundEffect>,
    ) {
        let Some(call) = self.calls.get_mut(position) else { return };
        let mut invalid = None;
        match std::mem::take(&mut call.progress) {
            Progress::Judging => {
                effects.push(RoundEffect::Emit(self.start(position, now)));
            }
            Progress::JudgingInvalid(error) => {
                invalid = Some(error);
                effects.push(RoundEffect::Emit(self.start(position, now)));
            }
            running @ Progress::Running(_) => call.progress = running,
            Progress::RunningInvalid(running, error) => {
                invalid = Some(error);
                call.progress = Progress::Running(running);
            }
            settled => {
                call.progress = settled;
                return;
            }
        }
        let call = &mut self.calls[position];
        let Progress::Running(running) = std::mem::take(&mut call.progress) else { return };
        if let Some(note) = self.assembler.call(Slot(position)).note {
            result.text.close(note);
        }
        result = invalid.unwrap_or(result);
        let text = result.text.to_string();
        effects.push(RoundEffect::Emit(TurnEvent::ToolEnded(Box::new(ToolEnd {
            chars: text.chars().count(),
            text: self.announced.excerpt(&text),
            error: result.is_error.then(|| first_line(&text)),
            structured: Structured::new(std::mem::take(&mut result.structured)),
            attachments: Attachments::of_result(&result),
            ..call.ended(running.id, position, duration)
        }))));
        if let Some(todos) = result.todos.take() {
            effects.push(RoundEffect::Emit(TurnEvent::TodosWritten(todos)));
        }
        self.size_estimate += result.size();
        call.progress = Progress::Answered(result);
    }

    /// The answer of a call whose intent was recorded.
    pub(in crate::agent) fn recorded_answer(&self, position: Position) -> Option<String> {
        let call = self.calls.get(position).filter(|call| call.is_recorded)?;
        match &call.progress {
            Progress::Answered(result) => Some(result.wire_text()),
            _ => None,
        }
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
            call.progress = Progress::Answered(interrupted(call.agent.as_ref()));
            let duration = now.saturating_sub(running.since);
            Some(TurnEvent::ToolEnded(Box::new(ToolEnd {
                error: Some(ToolError::Cancelled.to_string()),
                ..call.ended(running.id, slot, duration)
            })))
        });
        interrupted.collect()
    }

    /// Answers each call that is whole and has no answer as interrupted, and takes out the
    /// others. Returns whether any call is left.
    pub(in crate::agent) fn close_interrupted(&mut self) -> bool {
        for call in &mut self.calls {
            match call.progress {
                Progress::Answered(_) | Progress::Given(_) | Progress::Dropped => {}
                Progress::Open | Progress::Clients if !call.sealed => {
                    call.progress = Progress::Dropped;
                }
                _ => {
                    let agent = match &call.progress {
                        Progress::Suspended(waiting) => Some(&waiting.agent),
                        _ => None,
                    };
                    call.progress = Progress::Answered(interrupted(agent));
                }
            }
        }
        self.calls.iter().any(|call| !matches!(call.progress, Progress::Dropped))
    }

    /// Whether each call that needs an answer has one.
    pub(in crate::agent) fn is_answered(&self) -> bool {
        self.calls.iter().all(|call| {
            matches!(
                call.progress,
                Progress::Answered(_) | Progress::Given(_) | Progress::Dropped | Progress::Clients
            )
        })
    }

    /// How many characters the body of each answer of the server's has.
    pub(in crate::agent) fn body_sizes(&self) -> Vec<usize> {
        self.results().map(|(_, result)| result.text.body_chars()).collect()
    }

    /// The answers whose body has more characters.
    pub(in crate::agent) fn bodies_over(&self, max: usize) -> Vec<(Position, AnswerText)> {
        let longer = self.results().filter(|(_, result)| result.text.body_chars() > max);
        longer.map(|(slot, result)| (slot, result.text.clone())).collect()
    }

    /// Replaces the texts of these answers.
    pub(in crate::agent) fn put_bodies(&mut self, texts: Vec<(Position, AnswerText)>) {
        for (slot, text) in texts {
            if let Some(Progress::Answered(result)) =
                self.calls.get_mut(slot).map(|call| &mut call.progress)
            {
                result.text = text;
            }
        }
    }

    /// Adds a text to the end of the last answer.
    pub(in crate::agent) fn remind(&mut self, reminder: &str) {
        let mut answers = self.calls.iter_mut().rev().map(|call| &mut call.progress);
        match answers.find(|state| matches!(state, Progress::Answered(_) | Progress::Given(_))) {
            Some(Progress::Answered(result)) => result.text.close(format!("\n{reminder}")),
            Some(Progress::Given(message)) => *message = with_note_behind(message, reminder),
            _ => {}
        }
    }

    fn results(&self) -> impl Iterator<Item = (Position, &ToolResult)> {
        self.calls.iter().enumerate().filter_map(|(slot, call)| match &call.progress {
            Progress::Answered(result) => Some((slot, result)),
            _ => None,
        })
    }

    /// Takes the answered calls with their answers, in call order.
    pub(in crate::agent) fn take_answers(&mut self) -> Vec<(&AssembledCall, Answer)> {
        let calls = self.calls.drain(..).zip(self.assembler.calls());
        calls
            .filter_map(|(call, assembled)| match call.progress {
                Progress::Answered(result) => Some((assembled, Answer::Result(Box::new(result)))),
                Progress::Given(message) => Some((assembled, Answer::Given(message))),
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
        self.settle_with(slot, ToolResult::error(error), effects);
    }

    pub(super) fn settle_with(
        &mut self,
        slot: usize,
        mut result: ToolResult,
        effects: &mut Vec<RoundEffect>,
    ) {
        let call = &mut self.calls[slot];
        let assembled = self.assembler.call(Slot(slot));
        if let Some(note) = assembled.note {
            result.text.close(note);
        }
        let text = result.text.to_string();
        // The call may never have been admitted, so its own fields can still be empty.
        effects.push(RoundEffect::Emit(TurnEvent::ToolEnded(Box::new(ToolEnd {
            tool: assembled.name.clone().unwrap_or_default(),
            headline: Headline::default(),
            text: self.announced.excerpt(&text),
            error: Some(first_line(&text)),
            ..call.ended(assembled.id.clone(), slot, Duration::ZERO)
        }))));
        call.progress = Progress::Answered(result);
    }
}

impl Call {
    /// The `tool_end` event of this call, without an answer.
    pub(super) fn ended(&self, call_id: String, slot: usize, duration: Duration) -> ToolEnd {
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
            attachments: Attachments::default(),
        }
    }
}

/// The answer to a call that ran. Its agent can go on.
fn interrupted(agent: Option<&AgentId>) -> ToolResult {
    let mut result = ToolResult::error(&ToolError::Cancelled);
    if let Some(agent) = agent {
        result.text.close(how_to_resume(agent));
    }
    result
}

fn first_line(text: &str) -> String {
    const SHOWN: usize = 200;
    text::prefix(text.lines().next().unwrap_or_default(), SHOWN).to_owned()
}
