//! Makes the transcript shorter when the model's context is nearly full, or upstream says so.
//!
//! At most [`MAX_TRIES`] times for one round. The session goes on from the shorter form once
//! upstream has accepted it.

use std::time::Duration;

use super::{Event, Phase, TurnEffect, TurnState};
use crate::agent::compaction::{
    MAX_TRIES, Material, Size, excess, is_full, is_worth_a_summary, room_for_summary,
};
use crate::agent::parts::plain_text;
use crate::agent::record::{Compacted, Entry, RecordedRound};
use crate::errors::{ApiError, ErrorCode};
use crate::openai::chunk::Chunk;
use crate::upstream::Fault;

/// What is known of the transcript's size, and of the attempts at this round's request.
#[derive(Debug, Default)]
pub(super) struct Compacting {
    tries: u32,
    /// Summaries of this round that failed.
    failed: u32,
    /// Whether a summary stands for all that is old already.
    is_summarised: bool,
    /// What upstream says of a request that was too long.
    refused: Option<ApiError>,
    /// A shorter form that upstream has not accepted yet.
    pending: Option<Compacted>,
    summary: Option<Summary>,
    /// The bytes of the transcript when it was last sent.
    pub(super) sent: usize,
}

/// A summary that the model writes.
#[derive(Debug)]
struct Summary {
    material: Material,
    text: String,
    /// A longer one is none.
    max: usize,
    /// The bytes of the request for it.
    asked: usize,
}

/// What a client is told of a long request that was refused without a reason.
const UNEXPLAINED: &str = "upstream refused the request without a reason; it may be too long";

/// The size from which a request to a model whose context is not known may be too long for it, in
/// bytes.
const LONG: usize = 200_000;

impl Compacting {
    pub(super) fn size_estimate(&self) -> usize {
        self.summary.as_ref().map_or(0, |summary| summary.max + summary.text.len() + summary.asked)
    }
}

impl TurnState {
    /// Asks for a new round, with a shorter transcript if the context is nearly full.
    pub(super) fn ask_within_context(&mut self, effects: &mut Vec<TurnEffect>) {
        let compacting = &mut self.compacting;
        (compacting.tries, compacting.failed) = (0, 0);
        (compacting.is_summarised, compacting.refused) = (false, None);
        match self.limit() {
            Some((limit, size)) if is_full(size, limit) => self.compact(effects),
            _ => self.ask(Duration::ZERO, effects),
        }
    }

    /// Upstream says that the request is too long, or says nothing. Nothing of the round was
    /// forwarded.
    pub(super) fn exceeded(&mut self, fault: &Fault, effects: &mut Vec<TurnEffect>) {
        let refused = if fault.exceeds_context() {
            self.told(fault)
        } else {
            ApiError::new(ErrorCode::ContextLengthExceeded, UNEXPLAINED)
        };
        self.too_long(refused, effects);
    }

    /// The request is, or may be, too long. `refused` is what the client is told if it cannot
    /// become shorter.
    pub(super) fn too_long(&mut self, refused: ApiError, effects: &mut Vec<TurnEffect>) {
        self.compacting.refused = Some(refused);
        if self.compacting.tries < MAX_TRIES {
            self.compact(effects);
        } else {
            self.give_up(None, effects);
        }
    }

    fn compact(&mut self, effects: &mut Vec<TurnEffect>) {
        self.compacting.tries += 1;
        let mut material = self.start.conversation.material(self.attempts.model());
        let limit = if self.compacting.refused.is_some() { None } else { self.limit() };
        let bytes = limit.map_or(usize::MAX, |(limit, size)| excess(size, limit));
        let mut saved = 0;
        if self.compacting.tries == 1 {
            saved = material.leave_out_results(bytes);
            let fits = limit.is_none_or(|(limit, size)| !is_full(size.without(saved), limit));
            if saved > 0 && fits {
                self.go_on_from(material.into_rounds(), effects);
                return self.ask(Duration::ZERO, effects);
            }
        }
        let replaced = material.replaced_bytes();
        let is_worth = limit.is_none_or(|(_, size)| is_worth_a_summary(replaced, size.bytes));
        if replaced > 0 && is_worth && !self.compacting.is_summarised {
            // Results that were left out before the summary are another try.
            self.compacting.tries += u32::from(saved > 0);
            self.summarise(material, effects);
        } else {
            self.give_up((saved > 0).then_some(material), effects);
        }
    }

    fn summarise(&mut self, material: Material, effects: &mut Vec<TurnEffect>) {
        let limit = self.limit();
        let size = limit.map_or_else(|| self.size(), |(_, size)| size);
        let limit = limit.map(|(limit, _)| limit).filter(|_| self.compacting.refused.is_none());
        let transcript = material.text(room_for_summary(size, limit, self.compacting.failed));
        let conversation = &self.start.conversation;
        let body = conversation.summary_request(self.attempts.model(), &transcript);
        let max = material.replaced_bytes();
        let summary = Summary { material, text: String::new(), max, asked: body.len() };
        self.replace_round(effects);
        self.compacting.summary = Some(summary);
        self.phase = Phase::Summarising;
        effects.push(TurnEffect::Ask { body, wait: Duration::ZERO });
    }

    /// What upstream sends while the model writes a summary. The client sees nothing of it.
    pub(super) fn while_summarising(&mut self, event: Event, effects: &mut Vec<TurnEffect>) {
        match event {
            Event::Chunk(chunk) => {
                self.take_summary(*chunk);
                let summary = self.compacting.summary.as_ref();
                if summary.is_some_and(|summary| summary.text.len() >= summary.max) {
                    effects.push(TurnEffect::CloseStream);
                    self.summary_failed(effects);
                }
            }
            Event::StreamEnded { .. } => {
                effects.push(TurnEffect::CloseStream);
                self.summary_ended(effects);
            }
            _ => {
                effects.push(TurnEffect::CloseStream);
                self.summary_failed(effects);
            }
        }
    }

    fn take_summary(&mut self, chunk: Chunk) {
        self.stats.count_aside(chunk.usage);
        let Some(summary) = &mut self.compacting.summary else { return };
        summary.text.push_str(chunk.delta.content.as_deref().unwrap_or_default());
        for part in chunk.delta.parts {
            let part = serde_json::from_str(part.get()).unwrap_or_default();
            summary.text.push_str(plain_text(&part).unwrap_or_default());
        }
    }

    fn summary_ended(&mut self, effects: &mut Vec<TurnEffect>) {
        let is_some = |summary: &Summary| !summary.text.trim().is_empty();
        if !self.compacting.summary.as_ref().is_some_and(is_some) {
            return self.summary_failed(effects);
        }
        if let Some(Summary { material, text, .. }) = self.compacting.summary.take() {
            self.compacting.is_summarised = true;
            let plans = self.plans.plans();
            self.go_on_from(material.with_summary(&text, &plans), effects);
        }
        self.ask(Duration::ZERO, effects);
    }

    fn summary_failed(&mut self, effects: &mut Vec<TurnEffect>) {
        let Some(Summary { material, .. }) = self.compacting.summary.take() else { return };
        self.compacting.failed += 1;
        if self.compacting.tries < MAX_TRIES {
            self.compacting.tries += 1;
            self.summarise(material, effects);
        } else {
            self.give_up(Some(material), effects);
        }
    }

    /// Nothing more can be left out. Upstream judges a request that it has not seen yet.
    fn give_up(&mut self, material: Option<Material>, effects: &mut Vec<TurnEffect>) {
        let Some(refused) = self.compacting.refused.take() else {
            self.compacting.tries = MAX_TRIES;
            if let Some(material) = material {
                self.go_on_from(material.into_rounds(), effects);
            }
            return self.ask(Duration::ZERO, effects);
        };
        let beside = self.start.conversation.bytes_beside();
        let material = self.start.conversation.material(self.attempts.model());
        let message = format!("{} ({})", refused.message, material.largest(beside));
        let error = ApiError { message, ..refused };
        self.fail(error, effects);
    }

    /// Goes on from a shorter form of the transcript.
    fn go_on_from(&mut self, rounds: Vec<RecordedRound>, effects: &mut Vec<TurnEffect>) {
        self.start.conversation.compact(&rounds);
        if let Some(continued) = &mut self.continued {
            // The shorter form has the note already.
            continued.note.clear();
        }
        // What was counted held for the longer form.
        self.stats.forget_size();
        self.start.context_tokens = None;
        self.compacting.pending = Some(Compacted { rounds });
        effects.push(TurnEffect::ForgetShown);
    }

    /// Upstream has accepted the request: the session goes on from its transcript.
    pub(super) fn record_compaction(&mut self, effects: &mut Vec<TurnEffect>) {
        if let Some(compacted) = self.compacting.pending.take() {
            effects.push(TurnEffect::Record(Entry::Compacted(compacted)));
        }
    }

    /// Whether the request nearly fills the model's context, or may do so.
    pub(super) fn is_long(&self) -> bool {
        match self.limit() {
            Some((limit, size)) => is_full(size, limit),
            None => self.start.conversation.bytes() > LONG,
        }
    }

    /// The limit of the model that is asked, and the size of the next request to it.
    fn limit(&self) -> Option<(u64, Size)> {
        let bytes = self.start.conversation.bytes();
        let limit = self.start.context_limits.limit(self.model(), bytes)?;
        Some((limit, self.size()))
    }

    fn size(&self) -> Size {
        let bytes = self.start.conversation.bytes();
        match (self.stats.size(), self.start.context_tokens) {
            (Some(tokens), _) => Size::grown(tokens, self.compacting.sent, bytes),
            (None, Some(tokens)) => Size { tokens, bytes },
            (None, None) => self.start.conversation.estimate(),
        }
    }
}
