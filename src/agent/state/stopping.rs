//! Lets hooks end a turn, or keep it from ending.

use std::fmt::Write as _;

use super::closing::{note_to_model, raw};
use super::{Phase, TurnEffect, TurnState};
use crate::agent::beginning::HistoryPiece;
use crate::agent::events::TurnEvent;
use crate::agent::held_text::ContentRule;
use crate::execution::pipeline::ToolResult;
use crate::hooks::{HookDecision, HookOutcome};
use crate::openai::chunk::FinishReason;
use crate::reminder::Reminder;

/// How often hooks may keep a turn from ending. A hook that always says no would otherwise
/// cost a request each time.
const MAX_HOLDS: u32 = 8;

impl TurnState {
    /// Takes what hooks say with the answer of a call.
    pub(super) fn heed_hooks(&mut self, result: &mut ToolResult, effects: &mut Vec<TurnEffect>) {
        if let Some(text) = result.ends_turn.take() {
            self.ends_with.get_or_insert(text);
        }
        tell(std::mem::take(&mut result.notices), effects);
        tell_left_behind(std::mem::take(&mut result.left_behind), effects);
    }

    /// The model has its answer. Hooks may keep the turn from ending.
    pub(super) fn end_with_text(&mut self, reason: FinishReason, effects: &mut Vec<TurnEffect>) {
        let may_hold = reason == FinishReason::Stop
            && self.holds < MAX_HOLDS
            && self.start.pipeline.asks_before_stopping();
        if !may_hold {
            return self.finish_with_text(reason, effects);
        }
        self.phase = Phase::Stopping;
        effects.push(TurnEffect::AskStopHooks { is_held: self.holds > 0 });
    }

    /// Ends the turn, or puts what the hooks say to the model.
    pub(super) fn stop_or_go_on(&mut self, outcome: HookOutcome, effects: &mut Vec<TurnEffect>) {
        self.phase = Phase::Streaming;
        tell(outcome.notices, effects);
        let has_rounds_left = self.stats.rounds < self.start.settings.max_rounds;
        match (outcome.ends_turn, outcome.decision) {
            // Where the client gets one text alone it is the model's: it may have to fit a schema.
            (Some(text), _) if self.start.content == ContentRule::LastRound => {
                tell(vec![text], effects);
                self.finish_with_text(FinishReason::Stop, effects);
            }
            (Some(text), _) => {
                self.say_last(&text, effects);
                self.finish(FinishReason::Stop, effects);
            }
            (None, HookDecision::Deny(reason)) if has_rounds_left => self.hold(&reason, effects),
            _ => self.finish_with_text(FinishReason::Stop, effects),
        }
    }

    /// Ends the turn with the round's text as its answer.
    fn finish_with_text(&mut self, reason: FinishReason, effects: &mut Vec<TurnEffect>) {
        self.in_round(effects, |round, _, effects| round.release_text(effects));
        self.finish(reason, effects);
    }

    /// Ends the turn after a closed round, if a hook said so.
    pub(super) fn is_ended_by_hook(&mut self, effects: &mut Vec<TurnEffect>) -> bool {
        let Some(text) = self.ends_with.take() else { return false };
        self.say_last(&text, effects);
        self.finish(FinishReason::Stop, effects);
        true
    }

    /// Keeps the model's message with a note of ours behind it, and asks the model again.
    fn hold(&mut self, reason: &str, effects: &mut Vec<TurnEffect>) {
        self.holds += 1;
        self.end_round();
        let mut record = self.own_message();
        if self.start.include_messages {
            self.messages.push(raw(&self.round.message.to_value(true)));
        }
        self.in_round(effects, |round, _, effects| round.release_text_before_calls(effects));
        self.replace_round(effects);
        let asked = format!("A hook of this server, not the user, asks you to go on:\n{reason}");
        let note = note_to_model(&Reminder::new(asked).to_string());
        if let HistoryPiece::Client(note) = note {
            record.messages.pop();
            let _ = write!(record.messages, ",{note}]");
        }
        self.start.conversation.push(&record);
        self.record_closed(record, effects);
        self.next_round(effects);
    }

    /// Says a text of the server's own to the client.
    fn say_last(&mut self, text: &str, effects: &mut Vec<TurnEffect>) {
        self.in_round(effects, |round, _, effects| round.say(text, effects));
    }
}

/// Shows the person what a command has left that other programs obey.
pub(super) fn tell_left_behind(lines: Vec<String>, effects: &mut Vec<TurnEffect>) {
    let told = lines.into_iter().map(|line| TurnEffect::Emit(TurnEvent::LeftBehind(line)));
    effects.extend(told);
}

/// Shows the person what hooks say to them.
pub(super) fn tell(notices: Vec<String>, effects: &mut Vec<TurnEffect>) {
    let told = notices.into_iter().map(|notice| TurnEffect::Emit(TurnEvent::HookSaid(notice)));
    effects.extend(told);
}
