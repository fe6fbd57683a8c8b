//! Ends a turn: its end is committed before the client is told.

use super::closing::{note_message, raw};
use super::{Event, Phase, TurnEffect, TurnState};
use crate::agent::events::{Failure, Finished, Summary, TurnEvent};
use crate::agent::record::{End, Entry, INTERRUPTED_HERE, OpenRound, Outcome, RecordedRound};
use crate::agent::retold;
use crate::errors::{ApiError, ErrorCode};
use crate::json;
use crate::openai::chunk::FinishReason;

/// How a turn ended, beside what it said.
struct TurnEnd {
    outcome: Outcome,
    last: Option<RecordedRound>,
    open: Option<OpenRound>,
    /// What the client is told.
    event: TurnEvent,
    client_calls: Vec<serde_json::Value>,
}

impl TurnState {
    /// The turn has its answer.
    pub(super) fn finish(&mut self, reason: FinishReason, effects: &mut Vec<TurnEffect>) {
        // After a closed round `self.round` is an empty replacement, and the usage has been
        // counted.
        if self.phase == Phase::Streaming {
            self.end_round();
            self.unknown = std::mem::take(&mut self.round.unknown);
        }
        let last = self.last_message(true);
        if self.start.include_messages && !self.round.message.says_nothing() {
            self.messages.push(raw(&self.round.message.to_value(true)));
        }
        let (outcome, event) = self.finished(reason);
        self.end(TurnEnd { outcome, last, open: None, event, client_calls: Vec::new() }, effects);
    }

    /// The turn ends with a round that the client or a person must answer first.
    pub(super) fn finish_open(
        &mut self,
        reason: FinishReason,
        (open, client_calls): (OpenRound, Vec<serde_json::Value>),
        effects: &mut Vec<TurnEffect>,
    ) {
        if self.is_streamed() {
            self.end_round();
            self.unknown = std::mem::take(&mut self.round.unknown);
        }
        self.stats.tool_calls += self.round.answered_now();
        let (outcome, event) = self.finished(reason);
        let end = TurnEnd { outcome, last: None, open: Some(open), event, client_calls };
        self.end(end, effects);
    }

    fn finished(&mut self, reason: FinishReason) -> (Outcome, TurnEvent) {
        let (unknown, whole) = std::mem::take(&mut self.unknown).into_parts();
        let whole = whole.filter(|_| self.attempts.passes_whole_answers());
        let (summary, usage) = (self.summary(), self.stats.usage.take());
        let messages = std::mem::take(&mut self.messages);
        let messages = self.start.include_messages.then_some(messages);
        let finished = Finished { reason, usage, summary, messages, unknown, whole };
        let outcome = Outcome::Finished { reason: reason.as_str().to_owned() };
        (outcome, TurnEvent::Finished(Box::new(finished)))
    }

    fn summary(&self) -> Summary {
        let (session, turn) = (self.start.session.clone(), self.start.turn.clone());
        self.stats.summary(session, turn, self.elapsed)
    }

    pub(super) fn fail(&mut self, error: ApiError, effects: &mut Vec<TurnEffect>) {
        let code = error.code.as_str().to_owned();
        let outcome = Outcome::Failed { code, message: error.message.clone() };
        self.break_off(outcome, error, effects);
    }

    /// The client left, or somebody cancelled the turn.
    pub(super) fn stopped(&mut self, effects: &mut Vec<TurnEffect>) {
        let error = ApiError::new(ErrorCode::Cancelled, "the turn was cancelled");
        self.break_off(Outcome::Stopped, error, effects);
    }

    pub(super) fn shut_down(&mut self, error: ApiError, effects: &mut Vec<TurnEffect>) {
        self.break_off(Outcome::Stopped, error, effects);
    }

    /// Ends the turn at once. What it has done and said is kept.
    fn break_off(&mut self, outcome: Outcome, error: ApiError, effects: &mut Vec<TurnEffect>) {
        if self.is_over() {
            return;
        }
        effects.push(TurnEffect::Abort);
        // What was to be told has come to nothing.
        self.tell_held_back(&mut Vec::new());
        self.interrupt_tools(effects);
        let is_partial = self.phase == Phase::Streaming;
        if is_partial || self.phase == Phase::Stopping {
            self.stats.count(self.round.usage.take());
        }
        if self.round.is_overfull() {
            // Nothing of so many calls is kept.
            self.replace_round(effects);
        }
        let last = if self.round.close_interrupted() {
            let round = self.replace_round(effects);
            self.add_round(round, effects);
            Some(self.note())
        } else {
            self.last_message(!is_partial)
        };
        let failure = Failure { error, tools_ran: self.tools_ran() };
        let event = TurnEvent::Failed(Box::new(failure));
        self.end(TurnEnd { outcome, last, open: None, event, client_calls: Vec::new() }, effects);
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ending | Phase::Over)
    }

    /// What the model said last, as it goes back upstream. A message that was cut off goes back
    /// without its reasoning, which may be cut off too.
    pub(super) fn last_message(&self, is_whole: bool) -> Option<RecordedRound> {
        let message = &self.round.message;
        let continued = self.continued.as_ref().filter(|_| !self.has_closed);
        if message.says_nothing() && continued.is_none_or(|continued| continued.said.is_empty()) {
            return self.has_closed.then(|| self.note());
        }
        // With the old text in front the reasoning belongs to something else.
        let keeps_reasoning = is_whole && continued.is_none();
        let mut value = message.to_value(keeps_reasoning);
        let before = continued.map_or("", |continued| &continued.said);
        match &mut value["content"] {
            serde_json::Value::String(text) => text.insert_str(0, before),
            content @ serde_json::Value::Null => *content = before.into(),
            serde_json::Value::Array(parts) if !before.is_empty() => {
                parts.insert(0, serde_json::json!({ "type": "text", "text": before }));
            }
            _ => {}
        }
        Some(RecordedRound {
            messages: json::array(&[value]).get().to_owned(),
            model: self.model().to_owned(),
            has_reasoning: keeps_reasoning && message.has_reasoning(),
        })
    }

    /// What the model said in this round, with another round behind it.
    pub(super) fn own_message(&self) -> RecordedRound {
        let message = &self.round.message;
        RecordedRound {
            messages: json::array(&[message.to_value(true)]).get().to_owned(),
            model: self.model().to_owned(),
            has_reasoning: message.has_reasoning(),
        }
    }

    fn note(&self) -> RecordedRound {
        RecordedRound {
            messages: json::array(&[note_message(INTERRUPTED_HERE)]).get().to_owned(),
            model: self.model().to_owned(),
            has_reasoning: false,
        }
    }

    /// Records the end of the turn. The client is told when it is committed.
    fn end(&mut self, end: TurnEnd, effects: &mut Vec<TurnEffect>) {
        let TurnEnd { outcome, last, open, event, client_calls } = end;
        let summary = match &event {
            TurnEvent::Finished(finished) => finished.to_record(),
            _ => retold::unfinished(self.stats.usage.as_ref(), &self.summary()),
        };
        let mut said = std::mem::take(&mut self.said);
        said.push_str(&self.round.said);
        let tools_ran = self.tools_ran();
        let end = End { outcome, last, open, said, client_calls, summary, tools_ran };
        effects.push(TurnEffect::Commit(Entry::End(Box::new(end))));
        // Nothing is asked any more, and what is written now may be as large.
        self.start.conversation.forget();
        self.last_event = Some(event);
        self.phase = Phase::Ending;
    }

    /// Only the commit matters now, and what the turn cannot wait through.
    pub(super) fn while_ending(&mut self, event: Event, effects: &mut Vec<TurnEffect>) {
        let failed = match event {
            Event::Committed => None,
            Event::NotCommitted(error) | Event::NotRun(error) => Some(error),
            Event::ShuttingDown | Event::TimeIsUp => {
                let message = "the server cannot keep how the turn ended";
                Some(ApiError::new(ErrorCode::StoreUnavailable, message))
            }
            _ => return,
        };
        let last = self.last_event.take();
        if failed.is_none() {
            self.tell_held_back(effects);
        }
        let last = match (last, failed) {
            // A turn that failed is no better for the reason that its failure was not kept.
            (Some(last @ TurnEvent::Failed(_)), _) | (Some(last), None) => last,
            (_, error) => {
                let error = error.unwrap_or_else(|| Failure::crash().error);
                TurnEvent::Failed(Box::new(Failure { error, tools_ran: self.tools_ran() }))
            }
        };
        effects.push(TurnEffect::Emit(last));
        self.phase = Phase::Over;
        effects.push(TurnEffect::Stop);
    }
}
