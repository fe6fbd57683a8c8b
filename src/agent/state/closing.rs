//! Closes a round: its calls and their answers become part of the transcript and of the record.

use std::fmt::Write as _;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{FinishedRound, Phase, TurnEffect, TurnState};
use crate::agent::beginning::HistoryPiece;
use crate::agent::conversation::{Exchange, answer_message};
use crate::agent::limits::body_limit;
use crate::agent::pictures;
use crate::agent::record::{Entry, OpenCall, OpenRound, RecordedPicture, RecordedRound, SETTLED};
use crate::agent::round::{Answer, Round};
use crate::agent::settings::ImageRule;
use crate::execution::pipeline::ToolResult;
use crate::files::{RoundDigest, ShownLines};
use crate::openai::chunk::FinishReason;
use crate::tools::answer::Kept;

impl TurnState {
    /// Every call has its answer. Before the round is closed, answers that are too long together
    /// are cut, and what the model is to be reminded of is gathered.
    pub(super) fn finish_round(&mut self, effects: &mut Vec<TurnEffect>) {
        let max_body = body_limit(&self.round.body_sizes(), self.start.max_round_chars);
        let answers = self.round.bodies_over(max_body);
        self.phase = Phase::Finishing;
        effects.push(TurnEffect::FinishRound { answers, max_body });
    }

    /// The round can be closed.
    pub(super) fn round_finished(
        &mut self,
        finished: FinishedRound,
        effects: &mut Vec<TurnEffect>,
    ) {
        self.round.put_bodies(finished.answers);
        if let Some(reminder) = finished.reminder {
            self.round.remind(&reminder);
        }
        self.close_round(effects);
    }

    /// Adds the round with its answers to the conversation, and goes on to the next round.
    fn close_round(&mut self, effects: &mut Vec<TurnEffect>) {
        if self.is_streamed() {
            self.end_round();
        }
        let round = self.replace_round(effects);
        self.add_round(round, effects);
        if self.is_ended_by_hook(effects) {
            return;
        }
        if self.stats.rounds >= self.start.settings.max_rounds {
            self.final_reason.get_or_insert(FinishReason::Length);
        }
        match self.final_reason {
            Some(reason) => self.finish(reason, effects),
            None => self.next_round(effects),
        }
    }

    /// Whether this turn has asked upstream for the round.
    pub(super) fn is_streamed(&self) -> bool {
        self.round.writer().is_none()
    }

    /// Appends a round to the transcript and to the record.
    pub(super) fn add_round(&mut self, mut round: Round, effects: &mut Vec<TurnEffect>) {
        self.unknown = std::mem::take(&mut round.unknown);
        self.stats.tool_calls += round.answered_now();
        let is_resumed = round.writer().is_some();
        let (exchange, given, shown) = self.exchange(round);
        self.show_messages(&exchange, &given, is_resumed);
        let mut record = exchange.to_record();
        let then = std::mem::take(&mut self.then);
        if !then.is_empty() {
            append(&mut record, SETTLED);
        }
        self.start.conversation.push(&record);
        self.start.conversation.push_pieces(then);
        let round = self.record_closed(record, effects);
        if !shown.is_empty() {
            effects.push(TurnEffect::Shown { lines: shown, round });
        }
    }

    /// Appends a round to the record that the transcript has already. Returns its digest.
    pub(super) fn record_closed(
        &mut self,
        mut record: RecordedRound,
        effects: &mut Vec<TurnEffect>,
    ) -> RoundDigest {
        if let Some(continued) = &mut self.continued
            && !continued.note.is_empty()
        {
            // The transcript has the note already.
            let note = std::mem::take(&mut continued.note);
            record.messages.insert_str(1, &format!("{note},"));
        }
        self.has_closed = true;
        let digest = record.digest();
        effects.push(TurnEffect::Record(Entry::Round(record)));
        digest
    }

    /// The exchange, which of its calls the client has answered itself, and the lines of files
    /// that it shows.
    fn exchange(&mut self, mut round: Round) -> (Exchange, Vec<bool>, Vec<ShownLines>) {
        let assistant = round.assistant();
        let has_reasoning = round.has_reasoning();
        let model = round.writer().unwrap_or(self.model()).to_owned();
        let max_body = body_limit(&round.body_sizes(), self.start.max_round_chars);
        let images = self.attempts.model().images;
        let mut calls = round.take_answers();
        let mut shown = Vec::new();
        let mut room = pictures::MAX_OF_A_ROUND;
        let results = calls.iter_mut().map(|(_, answer)| answer.result_mut());
        let pictures: Vec<_> = results
            .map(|result| {
                let Some(result) = result else { return Vec::new() };
                // Unless the turn was broken off, this was done.
                result.text.fit(max_body, Kept::Nowhere);
                shown.extend(result.text.shown_lines());
                attached(result, images, &mut room)
            })
            .collect();
        let given = calls.iter().map(|(_, answer)| matches!(answer, Answer::Given(_))).collect();
        let entries = assistant["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let answers = entries.iter().zip(calls).map(|(entry, (call, answer))| match answer {
            Answer::Given(message) => message,
            Answer::Result(result) => {
                let name = call.name.as_deref().unwrap_or_default();
                let (round, text) = (self.stats.rounds, result.wire_text());
                let text = self.repeats.note(round, name, &call.arguments, text);
                raw(&answer_message(entry["id"].as_str().unwrap_or_default(), &text))
            }
        });
        let answers = answers.collect();
        let pictures = pictures::message(&pictures);
        (Exchange { assistant, answers, pictures, model, has_reasoning }, given, shown)
    }

    /// Keeps what the round adds to the conversation, if the client wants it: without what it
    /// was told when the round stayed open.
    fn show_messages(&mut self, exchange: &Exchange, given: &[bool], is_resumed: bool) {
        if !self.start.include_messages || (is_resumed && self.asks.was_told) {
            return;
        }
        let mut assistant = exchange.assistant.clone();
        if is_resumed {
            // Its text was told when the round stayed open.
            assistant["content"] = Value::Null;
        }
        if let Some(calls) = assistant["tool_calls"].as_array_mut() {
            let mut given = given.iter();
            calls.retain(|_| given.next() != Some(&true));
        }
        self.messages.push(raw(&assistant));
        let own = exchange.answers.iter().zip(given).filter(|(_, given)| !**given);
        self.messages.extend(own.map(|(answer, _)| answer.clone()));
    }

    /// The same for a round that stays open for the client: with the answers of the server's
    /// calls if all of them are there, otherwise the client's calls alone.
    pub(super) fn show_open_round(&mut self, open: &OpenRound, client_calls: &[Value]) {
        if !self.start.include_messages {
            return;
        }
        let mut assistant = open.message.clone();
        if open.calls.iter().any(OpenCall::waits) {
            assistant["tool_calls"] = client_calls.into();
            return self.messages.push(raw(&assistant));
        }
        self.messages.push(raw(&assistant));
        let entries = assistant["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (entry, call) in entries.iter().zip(&open.calls) {
            if let OpenCall::Answered { answer, .. } = call {
                let id = entry["id"].as_str().unwrap_or_default();
                self.messages.push(raw(&answer_message(id, answer)));
            }
        }
    }
}

/// Adds an assistant message of ours.
fn append(record: &mut RecordedRound, note: &str) {
    record.messages.pop();
    let _ = write!(record.messages, ",{}]", note_message(note));
}

/// An assistant message of ours.
pub(super) fn note_message(text: &str) -> Value {
    serde_json::json!({ "role": "assistant", "content": text })
}

/// A user message of ours, as a piece of the transcript.
pub(super) fn note_to_model(text: &str) -> HistoryPiece {
    HistoryPiece::Client(raw(&serde_json::json!({ "role": "user", "content": text })))
}

pub(super) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a JSON value is valid JSON")
}

/// The pictures of an answer that go upstream. `room` is how many more the round may have.
fn attached(result: &mut ToolResult, rule: ImageRule, room: &mut usize) -> Vec<RecordedPicture> {
    let mut pictures = std::mem::take(&mut result.pictures);
    if rule == ImageRule::None && !pictures.is_empty() {
        result.text.leave_out_images(0);
        result.text.close(pictures::NOT_ATTACHED);
        return Vec::new();
    }
    let left_out = pictures.len().saturating_sub(*room);
    if left_out > 0 {
        pictures.truncate(*room);
        let most = pictures::MAX_OF_A_ROUND;
        result.text.leave_out_images(*room);
        result.text.close(format!(
            "({left_out} of these pictures not attached: one message takes at most {most}; read \
             them in your next message)"
        ));
    }
    *room -= pictures.len();
    pictures.iter().map(pictures::to_record).collect()
}
