//! Decides what a turn does: takes (state, event), returns effects. Pure.
//!
//! docs/stream.md, When upstream fails, has the rules.

mod asks;
mod beginnings;
mod closing;
mod compacting;
mod ending;
mod refused;
mod signals;
mod start;
mod stopping;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use self::asks::Asks;
use self::compacting::Compacting;
pub(crate) use self::signals::{Event, FinishedRound, Judgement, TurnEffect};
pub(crate) use self::start::TurnStart;
use self::stopping::tell;
use super::attempts::Attempts;
use super::beginning::HistoryPiece;
use super::compaction::KnowsPlans;
use super::events::TurnEvent;
use super::limits::Repeats;
use super::record::{Entry, Ran};
use super::round::{Ending, Round, RoundEffect, RoundRules};
use super::settings::{StartRule, traits_of};
use super::stats::TurnStats;
use super::unknown::Unknown;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::pipeline::ToolResult;
use crate::execution::schedule::Position;
use crate::memory_budget::Exhausted;
use crate::openai::chunk::{Chunk, FinishReason};
use crate::upstream::Fault;

/// The state of a turn.
#[derive(Debug)]
pub(crate) struct TurnState {
    start: TurnStart,
    round: Round,
    phase: Phase,
    attempts: Attempts,
    /// An answer in one piece, which is judged at its end, before anything of it is sent.
    whole: Option<Box<Chunk>>,
    /// Whether the last round died and was salvaged.
    salvaged: bool,
    /// How many rounds in a row were cut off within a call.
    cut_off_rounds: u32,
    /// Set when no further round may follow: the `finish_reason` of the turn.
    final_reason: Option<FinishReason>,
    text_was_given: bool,
    /// How many calls were let run, but for those whose intent could not be committed.
    runs: usize,
    stats: TurnStats,
    repeats: Repeats,
    /// When calls of this round may start; `None` until it was looked up.
    rule: Option<StartRule>,
    /// The size of the conversation when it was last sent, in bytes.
    sent_bytes: usize,
    /// The time since the beginning of the turn.
    elapsed: Duration,
    /// The unknown top-level members of the last closed round.
    unknown: Unknown,
    /// The content of the answer before this round.
    said: String,
    /// What the client is told at the end, while the end is committed.
    last_event: Option<TurnEvent>,
    /// The `finish_reason` of a turn whose last round has client's calls.
    clients_reason: Option<FinishReason>,
    asks: Asks,
    /// What the turn added so far, if the client wants it.
    messages: Vec<Box<RawValue>>,
    /// Whether a round was closed in this turn.
    has_closed: bool,
    /// User messages that come after the round that was open.
    then: Vec<HistoryPiece>,
    /// The answer that the turn goes on with, and the note that asks for it.
    continued: Option<Continued>,
    compacting: Compacting,
    plans: Arc<dyn KnowsPlans>,
    /// The last text of the turn, if a hook ends it.
    ends_with: Option<String>,
    /// How often hooks have kept the turn from ending.
    holds: u32,
}

/// An answer of ours that the turn goes on with.
#[derive(Debug)]
struct Continued {
    said: String,
    /// Stands before the first round that is recorded.
    note: String,
}

/// After this many rounds in a row that were cut off within a call, the turn ends: the model
/// does not heed the error that it was given.
const MAX_CUT_OFF_ROUNDS: u32 = 2;

/// What the turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For upstream, which is asked or answers.
    Streaming,
    /// For tool calls; the stream has ended.
    Answering,
    /// For the answers of the round to be cut and kept.
    Finishing,
    /// For a summary that the model writes.
    Summarising,
    /// For the hooks that may keep it from ending.
    Stopping,
    /// For the commit of its end.
    Ending,
    Over,
}

impl TurnState {
    /// `plans`: those of the agent whose turn it is.
    pub(crate) fn new(mut start: TurnStart, plans: Arc<dyn KnowsPlans>) -> Self {
        let attempts = Attempts::new(std::mem::take(&mut start.models), start.delivery);
        let round = Round::new(&rules(&start, StartRule::default()), false);
        Self {
            start,
            round,
            phase: Phase::Streaming,
            attempts,
            whole: None,
            salvaged: false,
            cut_off_rounds: 0,
            final_reason: None,
            text_was_given: false,
            runs: 0,
            stats: TurnStats::default(),
            repeats: Repeats::default(),
            rule: None,
            sent_bytes: 0,
            elapsed: Duration::ZERO,
            unknown: Unknown::default(),
            said: String::new(),
            last_event: None,
            clients_reason: None,
            asks: Asks::default(),
            messages: Vec::new(),
            has_closed: false,
            then: Vec::new(),
            continued: None,
            compacting: Compacting::default(),
            plans,
            ends_with: None,
            holds: 0,
        }
    }

    /// Reacts to an event. `elapsed` is the time since the beginning of the turn.
    pub(crate) fn on(&mut self, event: Event, elapsed: Duration) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        self.elapsed = elapsed;
        match (self.phase, event) {
            // After the stream was closed, events that were still under way do not count.
            (Phase::Over, _)
            | (
                Phase::Answering | Phase::Finishing | Phase::Stopping,
                Event::Chunk(_) | Event::StreamEnded { .. } | Event::Faulted { .. },
            ) => {}
            (Phase::Ending, event) => self.while_ending(event, &mut effects),
            (
                Phase::Summarising,
                event @ (Event::Chunk(_) | Event::StreamEnded { .. } | Event::Faulted { .. }),
            ) => self.while_summarising(event, &mut effects),
            (Phase::Streaming, Event::Chunk(chunk)) => {
                self.record_compaction(&mut effects);
                match chunk.whole {
                    Some(_) => self.whole = Some(chunk),
                    None => self.chunk(*chunk, &mut effects),
                }
            }
            (Phase::Streaming, Event::StreamEnded { jitter }) => {
                self.stream_ended(jitter, &mut effects);
            }
            (Phase::Streaming, Event::Faulted { fault, jitter }) => {
                self.faulted(&fault, jitter, &mut effects);
            }
            (_, Event::Started(position)) => self.round.started(position),
            (_, Event::Judged { position, judgement }) => {
                self.judged(position, judgement, &mut effects);
            }
            (_, Event::JudgedAhead { position, ask, notices }) => {
                tell(notices, &mut effects);
                self.round.judged_ahead(position, ask);
            }
            (_, Event::Answered { position, result, duration, usage }) => {
                self.stats.count_aside(usage);
                self.answered(position, result, duration, &mut effects);
            }
            (_, Event::Progress { position, told }) => {
                effects.extend(self.round.progress(position, told).map(TurnEffect::Emit));
            }
            (_, Event::Agent { position, event }) => {
                let started = self.round.agent_started(position, &event);
                effects.extend(started.map(Entry::AgentStarted).map(TurnEffect::Record));
                let told = self.round.agent_report(position, event);
                effects.extend(told.map(TurnEffect::Emit));
            }
            (_, Event::AgentSuspended { position, agent, duration, usage }) => {
                self.stats.count_aside(usage);
                self.in_round(&mut effects, |round, _, effects| {
                    round.agent_suspended(position, agent, duration, effects);
                });
            }
            (_, Event::Decided(decided)) => self.decided(decided, &mut effects),
            (_, Event::WaitIsOver) => self.wait_is_over(&mut effects),
            (Phase::Stopping, Event::Stopping(outcome)) => {
                self.stop_or_go_on(outcome, &mut effects);
            }
            (Phase::Finishing, Event::RoundFinished(finished)) => {
                self.round_finished(finished, &mut effects);
            }
            (_, Event::Stopping(_) | Event::RoundFinished(_)) => {}
            (_, Event::Committed) => self.tell_held_back(&mut effects),
            (_, Event::NotCommitted(error)) => self.fail(error, &mut effects),
            (_, Event::NotRun(error)) => {
                self.runs = self.runs.saturating_sub(1);
                self.fail(error, &mut effects);
            }
            (_, Event::Stopped) => self.stopped(&mut effects),
            (_, Event::TimeIsUp) => {
                let limit = self.start.settings.max_duration.as_secs();
                let message = format!("the turn took longer than turns.max_duration ({limit} s)");
                self.fail(ApiError::new(ErrorCode::TurnTimeLimit, message), &mut effects);
            }
            (_, Event::ShuttingDown) => {
                let message = "the server is shutting down; ask again when it is back";
                self.shut_down(ApiError::new(ErrorCode::ShuttingDown, message), &mut effects);
            }
            (_, Event::Overloaded) => self.fail(Exhausted.into(), &mut effects),
        }
        self.close_if_answered(&mut effects);
        effects
    }

    fn close_if_answered(&mut self, effects: &mut Vec<TurnEffect>) {
        if self.phase == Phase::Answering && self.round.is_answered() {
            if self.clients_reason.is_some() {
                self.hand_over_to_client(effects);
            } else {
                self.finish_round(effects);
            }
        }
    }

    fn judged(&mut self, position: Position, judgement: Judgement, effects: &mut Vec<TurnEffect>) {
        let elapsed = self.elapsed;
        match judgement {
            Judgement::Permitted { has_effect } => {
                self.in_round(effects, |round, _, effects| {
                    round.permitted(position, has_effect, elapsed, effects);
                });
            }
            Judgement::Asked { ask, notices } => {
                tell(notices, effects);
                self.asked(position, ask, effects);
            }
        }
    }

    fn answered(
        &mut self,
        position: Position,
        mut result: ToolResult,
        duration: Duration,
        effects: &mut Vec<TurnEffect>,
    ) {
        let elapsed = self.elapsed;
        self.heed_hooks(&mut result, effects);
        self.in_round(effects, |round, _, effects| {
            round.answered(position, result, duration, elapsed, effects);
        });
        if let Some(answer) = self.round.recorded_answer(position) {
            let (round, slot) = (self.stats.rounds, position);
            effects.push(TurnEffect::Record(Entry::Ran(Ran { round, slot, answer })));
        }
    }

    /// The estimated memory of the turn, in bytes.
    pub(crate) fn size_estimate(&self) -> usize {
        /// Growing buffers hold up to twice their contents, and the allocator keeps what they
        /// leave behind for a while.
        const ROOM: usize = 3;
        self.sent_bytes
            + self.said.len()
            + self.compacting.size_estimate()
            + ROOM * self.round.size_estimate()
    }

    fn chunk(&mut self, chunk: Chunk, effects: &mut Vec<TurnEffect>) {
        self.start_rule(chunk.model.as_deref());
        self.in_round(effects, |round, rules, effects| round.take(chunk, rules, effects));
        if self.round.is_overfull() {
            // Nothing of the round is kept, and asking again would not help.
            effects.push(TurnEffect::CloseStream);
            self.fail(Fault::TooManyCalls.api_error(), effects);
        }
    }

    fn stream_ended(&mut self, jitter: f64, effects: &mut Vec<TurnEffect>) {
        effects.push(TurnEffect::CloseStream);
        let whole = self.whole.take();
        let (is_whole, mut unsent) = (whole.is_some(), Vec::new());
        if let Some(chunk) = whole {
            self.chunk(*chunk, &mut unsent);
            if self.is_over() {
                return effects.extend(unsent);
            }
        }
        let ending = self.in_round(&mut unsent, Round::end);
        if is_whole && ending == Ending::Cut && !self.round.has_calls_to_keep() {
            self.round.gave_text = false;
            self.round.said.clear();
            return self.try_again(&half_open(), jitter, effects);
        }
        effects.extend(unsent);
        if !matches!(ending, Ending::Empty | Ending::Cut) {
            self.keep_lessons(effects);
        }
        match ending {
            // A second cut in a row ends the turn; a round without one starts the count anew.
            Ending::Calls => {
                self.cut_off_rounds = 0;
                self.await_answers();
            }
            Ending::CutOffCalls { has_whole } => {
                self.cut_off(has_whole);
                self.await_answers();
            }
            Ending::Text => {
                self.end_with_text(self.cut_off_reason_or(FinishReason::Stop), effects);
            }
            Ending::ClientCalls => {
                self.clients_reason = Some(self.cut_off_reason_or(FinishReason::ToolCalls));
                self.await_answers();
            }
            Ending::Empty => self.empty(effects),
            Ending::Cut => self.faulted(&half_open(), jitter, effects),
        }
    }

    fn await_answers(&mut self) {
        self.salvaged = false;
        self.phase = Phase::Answering;
    }

    /// The model was stopped within a call. It is told so and may try once more. A client's own
    /// output limit that left no call whole would cut the next attempt too, so the turn ends at
    /// once.
    fn cut_off(&mut self, has_whole: bool) {
        self.cut_off_rounds += 1;
        let is_length = self.round.finish == Some(FinishReason::Length);
        let is_futile = is_length && self.start.limits_output && !has_whole;
        if is_futile || self.cut_off_rounds >= MAX_CUT_OFF_ROUNDS {
            self.final_reason = self.round.finish;
        }
    }

    /// The reason for which the model was cut off, otherwise `usual`.
    fn cut_off_reason_or(&self, usual: FinishReason) -> FinishReason {
        self.round.finish.filter(|reason| reason.is_cut_off()).unwrap_or(usual)
    }

    /// The answer was empty: asks once more, then ends the turn.
    fn empty(&mut self, effects: &mut Vec<TurnEffect>) {
        if self.attempts.may_ask_again(self.round.finish) {
            self.ask(Duration::ZERO, effects);
        } else {
            self.still_empty(None, effects);
        }
    }

    /// The second answer was empty too, or upstream has made this fault of it.
    fn still_empty(&mut self, fault: Option<&Fault>, effects: &mut Vec<TurnEffect>) {
        if self.tools_ran() && self.text_was_given {
            return self.finish(FinishReason::Stop, effects);
        }
        let error = self.start.upstream.model_hints.empty_response(fault, self.model());
        if self.is_long() {
            // Some servers say nothing at all where others refuse what is too long.
            self.too_long(error, effects);
        } else {
            self.fail(error, effects);
        }
    }

    /// Upstream failed. Salvages whole calls, asks again where the client has seen nothing, and
    /// otherwise fails the turn.
    fn faulted(&mut self, fault: &Fault, jitter: f64, effects: &mut Vec<TurnEffect>) {
        effects.push(TurnEffect::CloseStream);
        if matches!(fault, Fault::Frame(error) if error.is_inferred) {
            self.in_round(effects, |round, _, effects| round.take_back_exclusive_calls(effects));
        }
        let has_calls = self.round.has_calls_to_keep();
        let is_second_death = has_calls && self.salvaged;
        let is_partly_forwarded = self.round.forwarded && !has_calls;
        if is_second_death || is_partly_forwarded || self.round.has_passed_on_a_call() {
            self.fail(self.about_model(fault, fault.api_error()), effects);
        } else if has_calls {
            self.in_round(effects, Round::salvage);
            self.await_answers();
            self.salvaged = true;
            self.cut_off_rounds = 0;
        } else {
            self.try_again(fault, jitter, effects);
        }
    }

    fn next_round(&mut self, effects: &mut Vec<TurnEffect>) {
        self.stats.rounds += 1;
        self.attempts.begin_round();
        effects.push(TurnEffect::Emit(TurnEvent::RoundStarted(self.stats.rounds)));
        self.ask_within_context(effects);
    }

    /// Sends the conversation to the current model, as a new attempt at this round.
    fn ask(&mut self, wait: Duration, effects: &mut Vec<TurnEffect>) {
        self.replace_round(effects);
        self.phase = Phase::Streaming;
        let (model, delivery) = (self.attempts.model(), self.attempts.delivery());
        let body = self.start.conversation.request(model, delivery);
        self.sent_bytes = self.start.conversation.size();
        self.compacting.sent = self.start.conversation.bytes();
        effects.push(TurnEffect::Ask { body, wait });
    }

    /// Replaces the round with an empty one, and counts the usage of the old one.
    fn replace_round(&mut self, effects: &mut Vec<TurnEffect>) -> Round {
        self.interrupt_tools(effects);
        self.rule = None;
        self.text_was_given |= self.round.gave_text;
        self.said.push_str(&self.round.said);
        let fresh = Round::new(&rules(&self.start, StartRule::default()), self.text_was_given);
        self.stats.count(self.round.usage.take());
        std::mem::replace(&mut self.round, fresh)
    }

    /// Counts the usage of a round that is not asked again.
    fn end_round(&mut self) {
        self.stats.end_round(self.round.usage.take());
    }

    /// Emits `tool_end` for each call that still runs: every `tool_start` has one.
    fn interrupt_tools(&mut self, effects: &mut Vec<TurnEffect>) {
        effects.extend(self.round.interrupt(self.elapsed).into_iter().map(TurnEffect::Emit));
    }

    /// Lets the round act, and turns its effects into the turn's.
    fn in_round<T>(
        &mut self,
        effects: &mut Vec<TurnEffect>,
        act: impl FnOnce(&mut Round, &RoundRules<'_>, &mut Vec<RoundEffect>) -> T,
    ) -> T {
        let start = self.start_rule(None);
        let mut asked = Vec::new();
        let outcome = act(&mut self.round, &rules(&self.start, start), &mut asked);
        for effect in asked {
            let effect = self.turn_effect(effect);
            effects.push(effect);
        }
        outcome
    }

    /// The turn's effect for a round's. A call is recorded before it may have an effect.
    fn turn_effect(&mut self, effect: RoundEffect) -> TurnEffect {
        match effect {
            RoundEffect::Emit(event) => TurnEffect::Emit(event),
            RoundEffect::Reserve => TurnEffect::Reserve,
            RoundEffect::Ready(position, call) => TurnEffect::Ready(position, call),
            RoundEffect::Withdraw(positions) => TurnEffect::Withdraw(positions),
            RoundEffect::Release(position) => TurnEffect::Release(position),
            RoundEffect::Run { position, has_effect } => {
                let writer = self.round.writer().unwrap_or(&self.attempts.model().name);
                let round = (self.stats.rounds, writer.to_owned());
                let intent = self.round.intent(position, has_effect, round);
                self.runs += 1;
                TurnEffect::Run(position, intent.map(Entry::Intent))
            }
        }
    }

    /// Whether a tool has run, or may have: then the same request must not be sent again.
    fn tools_ran(&self) -> bool {
        self.runs > 0
    }

    /// What the client is told of a fault before anything of an answer had come.
    fn told(&self, fault: &Fault) -> ApiError {
        self.about_model(fault, fault.unanswered())
    }

    /// Names the model where the error is about it.
    fn about_model(&self, fault: &Fault, error: ApiError) -> ApiError {
        self.start.upstream.model_hints.explain(fault, error, self.model())
    }

    /// The name of the model that is asked.
    fn model(&self) -> &str {
        &self.attempts.model().name
    }

    /// The rule for the model by the names known so far. It is looked up again once, when the
    /// answer first names its model.
    fn start_rule(&mut self, answering: Option<&str>) -> StartRule {
        let is_news = self.round.model.is_none() && answering.is_some();
        if let (Some(rule), false) = (self.rule, is_news) {
            return rule;
        }
        let names = std::iter::once(self.model()).chain(self.round.model.as_deref().or(answering));
        let rule = traits_of(&names.collect::<Vec<_>>(), &self.start.model_rules).start;
        self.rule = Some(rule);
        rule
    }
}

fn half_open() -> Fault {
    Fault::Died("a tool call was left half open".to_owned())
}

fn rules(start: &TurnStart, rule: StartRule) -> RoundRules<'_> {
    RoundRules {
        pipeline: &start.pipeline,
        client_tools: &start.client_tools,
        start: rule,
        max_calls: start.settings.max_tool_calls,
        content: start.content,
        cards: start.cards,
    }
}

#[cfg(test)]
mod tests;
