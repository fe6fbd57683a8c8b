//! Keeps the texts and other members of a round's deltas, and sends them to the client: at once,
//! or when the round's end is known.

use serde_json::value::RawValue;

use super::{Round, RoundEffect};
use crate::agent::events::TurnEvent;
use crate::agent::message::is_blank;
use crate::agent::{deltas, parts};
use crate::openai::chunk::Delta;

impl Round {
    /// Processes what a delta holds beside its calls.
    pub(super) fn take_texts(
        &mut self,
        delta: Delta,
        logprobs: Option<Box<RawValue>>,
        effects: &mut Vec<RoundEffect>,
    ) {
        let Delta { content, parts, tool_calls: _, members } = delta;
        for (name, raw) in &members {
            self.message.push_member(name, raw);
        }
        if let Some(text) = &content {
            self.message.push_text(text);
        }
        for part in &parts {
            self.message.push_part(part);
        }
        let of_parts = parts.iter().filter_map(|part| parts::for_client(part));
        let events = deltas::for_client(content, members, logprobs).into_iter().chain(of_parts);
        for event in events {
            if let Some(event) = self.held.hold(event) {
                self.forward(event, effects);
            }
        }
    }

    /// Sends what was held back: the round is the turn's last.
    pub(in crate::agent) fn release_text(&mut self, effects: &mut Vec<RoundEffect>) {
        for event in self.held.release() {
            self.forward(event, effects);
        }
    }

    /// Sends what was held back: another round follows.
    pub(in crate::agent) fn release_text_before_calls(&mut self, effects: &mut Vec<RoundEffect>) {
        effects.extend(self.held.before_calls().into_iter().map(RoundEffect::Emit));
    }

    /// Says a text of the server's own, as the end of the answer.
    pub(in crate::agent) fn say(&mut self, text: &str, effects: &mut Vec<RoundEffect>) {
        let is_first = self.message.says_nothing();
        let text = if is_first { text.to_owned() } else { format!("\n\n{text}") };
        self.message.push_text(&text);
        self.forward(TurnEvent::Text(text), effects);
    }

    /// Sends an event. White space before the first word is no answer yet: the round may still be
    /// asked for again.
    fn forward(&mut self, mut event: TurnEvent, effects: &mut Vec<RoundEffect>) {
        let is_text = matches!(event, TurnEvent::Text(_));
        match event.text_mut() {
            Some(text) if is_text && is_blank(text) && !self.gave_text => self.said.push_str(text),
            Some(text) => {
                if self.follows_text && !self.gave_text {
                    text.insert_str(0, "\n\n");
                }
                self.forwarded = true;
                self.gave_text = true;
                self.said.push_str(text);
            }
            None => self.forwarded = true,
        }
        effects.push(RoundEffect::Emit(event));
    }
}
