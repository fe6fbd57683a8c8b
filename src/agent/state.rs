//! The state of a turn: (state, event) → effects. Pure.

use std::sync::Arc;
use std::time::Duration;

use super::conversation::{AnsweredCall, Conversation, Exchange};
use super::events::{Failure, Finished, TurnEvent};
use super::limits::{Repeats, fit_round};
use super::round::{Ending, Round, RoundEffect, RoundRules};
use super::settings::{AskedModel, ModelRule, StartRule, TurnSettings, traits_of};
use super::stats::TurnStats;
use super::unknown::Unknown;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::pipeline::{AdmittedCall, Pipeline, ToolResult};
use crate::execution::schedule::Position;
use crate::ids::{SessionId, TurnId};
use crate::memory_budget::Exhausted;
use crate::openai::chunk::{Chunk, FinishReason};
use crate::upstream::retry::{self, Decision};
use crate::upstream::{self, Fault, RequestBody};

/// Everything that can happen to a turn.
#[derive(Debug)]
pub(crate) enum Event {
    Chunk(Box<Chunk>),
    /// The stream ended as streams should.
    StreamEnded {
        /// As below: the answer may turn out to be half of one.
        jitter: f64,
    },
    Faulted {
        fault: Fault,
        /// Between 0 and 1, for the wait before a retry.
        jitter: f64,
    },
    Started(Position),
    Answered {
        position: Position,
        result: ToolResult,
        duration: Duration,
    },
    /// `turns.max_duration` is over.
    TimeIsUp,
    ShuttingDown,
    /// The turn keeps more than the server has memory for.
    Overloaded,
}

/// Everything a turn does to the world.
#[derive(Debug)]
pub(crate) enum TurnEffect {
    Emit(TurnEvent),
    /// Asks upstream, after a wait; what was open before is dropped, and places
    /// are counted from 0 again.
    Ask {
        body: RequestBody,
        wait: Duration,
    },
    /// Drops the stream that is open.
    CloseStream,
    /// Gives the next call its place.
    Reserve,
    Ready(Position, Box<AdmittedCall>),
    /// Frees places, all before anything starts by it.
    Withdraw(Vec<Position>),
    /// Remembers that this model takes no reasoning back.
    RememberRefusal(String),
    /// The turn is over.
    Stop,
}

/// How a turn begins.
#[derive(Debug)]
pub(crate) struct TurnStart {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    /// The requested model, then what to try when it cannot be had.
    pub(crate) models: Vec<AskedModel>,
    pub(crate) conversation: Conversation,
    /// The client has set a limit of its own on what the model says in one answer.
    pub(crate) limits_output: bool,
    pub(crate) pipeline: Pipeline,
    pub(crate) client_tools: Arc<[String]>,
    pub(crate) settings: TurnSettings,
    pub(crate) model_rules: Arc<[ModelRule]>,
    pub(crate) upstream: Arc<upstream::UpstreamSettings>,
    pub(crate) max_round_chars: usize,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four things that may each have happened")]
pub(crate) struct TurnState {
    start: TurnStart,
    round: Round,
    phase: Phase,
    /// Which of `start.models` is asked.
    model: usize,
    /// Failed requests of this round so far, of the model that is asked now.
    failures: u32,
    /// The round came back empty once already.
    asked_again: bool,
    /// The last round died and was closed with what was whole.
    salvaged: bool,
    /// So many rounds in a row were cut off within a call.
    cut_off_rounds: u32,
    /// The round that runs is the last, and this is why.
    last: Option<FinishReason>,
    text_was_given: bool,
    tools_ran: bool,
    stats: TurnStats,
    repeats: Repeats,
    /// When calls of this round may start.
    rule: Option<StartRule>,
    /// Bytes of the conversation, as it was asked last.
    asked: usize,
    /// How long it has run.
    elapsed: Duration,
    /// What the last round that was closed had beside its choices.
    unknown: Unknown,
}

/// After so many rounds in a row that were cut off within a call, the model is not asked
/// again: it does not heed what it is told of it.
const MAX_CUT_OFF_ROUNDS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Upstream is asked, or speaks.
    Streaming,
    /// The stream has ended; calls still run.
    Answering,
    Over,
}

impl TurnState {
    pub(crate) fn new(start: TurnStart) -> Self {
        let round = Round::new(&rules(&start, StartRule::default()), false);
        Self {
            start,
            round,
            phase: Phase::Streaming,
            model: 0,
            failures: 0,
            asked_again: false,
            salvaged: false,
            cut_off_rounds: 0,
            last: None,
            text_was_given: false,
            tools_ran: false,
            stats: TurnStats::default(),
            repeats: Repeats::default(),
            rule: None,
            asked: 0,
            elapsed: Duration::ZERO,
            unknown: Unknown::default(),
        }
    }

    pub(crate) fn begin(&mut self) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        self.next_round(&mut effects);
        effects
    }

    pub(crate) fn on(&mut self, event: Event, elapsed: Duration) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        self.elapsed = elapsed;
        match (self.phase, event) {
            (Phase::Over, _)
            | (
                Phase::Answering,
                Event::Chunk(_) | Event::StreamEnded { .. } | Event::Faulted { .. },
            ) => {}
            (Phase::Streaming, Event::Chunk(chunk)) => self.chunk(*chunk, &mut effects),
            (Phase::Streaming, Event::StreamEnded { jitter }) => {
                self.stream_ended(jitter, &mut effects);
            }
            (Phase::Streaming, Event::Faulted { fault, jitter }) => {
                self.faulted(&fault, jitter, &mut effects);
            }
            (_, Event::Started(position)) => {
                let event = self.round.started(position, elapsed);
                self.tools_ran |= event.is_some();
                effects.extend(event.map(TurnEffect::Emit));
            }
            (_, Event::Answered { position, result, duration }) => {
                let event = self.round.answered(position, result, duration);
                effects.extend(event.map(TurnEffect::Emit));
            }
            (_, Event::TimeIsUp) => {
                let limit = self.start.settings.max_duration.as_secs();
                let message = format!("the turn took longer than turns.max_duration ({limit} s)");
                self.fail(ApiError::new(ErrorCode::TurnTimeLimit, message), &mut effects);
            }
            (_, Event::ShuttingDown) => {
                let message = "the server is shutting down; ask again when it is back";
                self.fail(ApiError::new(ErrorCode::ShuttingDown, message), &mut effects);
            }
            (_, Event::Overloaded) => self.fail(Exhausted.into(), &mut effects),
        }
        if self.phase == Phase::Answering && self.round.is_answered() {
            self.close_round(&mut effects);
        }
        effects
    }

    /// Roughly what the turn keeps in memory, in bytes.
    pub(crate) fn size_estimate(&self) -> usize {
        /// What grows piece by piece has up to as much room again, and leaves as much
        /// behind, which the allocator keeps for a while.
        const ROOM: usize = 3;
        self.asked + ROOM * self.round.size_estimate()
    }

    fn chunk(&mut self, chunk: Chunk, effects: &mut Vec<TurnEffect>) {
        self.start_rule(chunk.model.as_deref());
        self.in_round(effects, |round, rules, effects| round.take(chunk, rules, effects));
        if self.round.is_overfull() {
            // None of it is kept, and asking again would not help.
            effects.push(TurnEffect::CloseStream);
            self.fail(Fault::TooManyCalls.api_error(), effects);
        }
    }

    fn stream_ended(&mut self, jitter: f64, effects: &mut Vec<TurnEffect>) {
        effects.push(TurnEffect::CloseStream);
        match self.in_round(effects, Round::end) {
            Ending::Calls => {
                self.cut_off_rounds = 0;
                self.await_answers();
            }
            Ending::CutOffCalls { has_whole } => {
                self.cut_off(has_whole);
                self.await_answers();
            }
            Ending::Text => self.finish(self.cut_off_or(FinishReason::Stop), effects),
            Ending::ClientCalls => {
                self.in_round(effects, |round, _, effects| round.withdraw_server_calls(effects));
                self.finish(self.cut_off_or(FinishReason::ToolCalls), effects);
            }
            Ending::Empty => self.empty(effects),
            Ending::Cut => {
                let fault = Fault::Died("a tool call was left half open".to_owned());
                self.faulted(&fault, jitter, effects);
            }
        }
    }

    fn await_answers(&mut self) {
        self.salvaged = false;
        self.phase = Phase::Answering;
    }

    /// The model was stopped within a call. It is told so and may try once more; under a
    /// limit of the client's own that lets no call be whole, that would be in vain.
    fn cut_off(&mut self, has_whole: bool) {
        self.cut_off_rounds += 1;
        let is_length = self.round.finish == Some(FinishReason::Length);
        let in_vain = is_length && self.start.limits_output && !has_whole;
        if in_vain || self.cut_off_rounds >= MAX_CUT_OFF_ROUNDS {
            self.last = self.round.finish;
        }
    }

    /// Why the answer ends, where the model was not cut off.
    fn cut_off_or(&self, usual: FinishReason) -> FinishReason {
        self.round.finish.filter(|reason| reason.is_cut_off()).unwrap_or(usual)
    }

    fn empty(&mut self, effects: &mut Vec<TurnEffect>) {
        if !self.asked_again {
            self.asked_again = true;
            self.ask(Duration::ZERO, effects);
        } else if self.tools_ran && self.text_was_given {
            self.finish(FinishReason::Stop, effects);
        } else {
            let message = "the model answered with neither text nor a tool call, twice; \
                           try again, or ask another model";
            self.fail(ApiError::new(ErrorCode::EmptyResponse, message), effects);
        }
    }

    /// Upstream failed. What was whole is kept, what nobody has seen is asked again.
    fn faulted(&mut self, fault: &Fault, jitter: f64, effects: &mut Vec<TurnEffect>) {
        effects.push(TurnEffect::CloseStream);
        let has_calls = self.round.has_calls_to_keep();
        let is_second_death = has_calls && self.salvaged;
        let is_half_told = self.round.forwarded && !has_calls;
        if is_second_death || is_half_told || self.round.has_passed_on_a_call() {
            self.fail(fault.api_error(), effects);
        } else if has_calls {
            self.in_round(effects, Round::salvage);
            self.await_answers();
            self.salvaged = true;
            self.cut_off_rounds = 0;
        } else {
            self.try_again(fault, jitter, effects);
        }
    }

    /// Nothing of this round was forwarded and none of its calls ran.
    fn try_again(&mut self, fault: &Fault, jitter: f64, effects: &mut Vec<TurnEffect>) {
        if fault.refuses_reasoning() && self.start.conversation.sends_reasoning() {
            self.start.models[self.model].takes_reasoning = false;
            effects.push(TurnEffect::RememberRefusal(self.model().to_owned()));
            return self.ask(Duration::ZERO, effects);
        }
        self.failures += 1;
        let decision = retry::decide(self.failures, fault, &self.start.upstream, jitter);
        if let Decision::AskAgainAfter(wait) = decision {
            return self.ask(wait, effects);
        }
        if fault.allows_fallback() && self.model + 1 < self.start.models.len() {
            self.model += 1;
            self.failures = 0;
            return self.ask(Duration::ZERO, effects);
        }
        self.fail(fault.unanswered(), effects);
    }

    /// Every call of the round has its answer: on to the next round.
    fn close_round(&mut self, effects: &mut Vec<TurnEffect>) {
        self.end_round();
        let mut round = self.replace_round(effects);
        let message = std::mem::take(&mut round.message);
        self.unknown = std::mem::take(&mut round.unknown);
        let model = self.model().to_owned();
        let (calls, mut results): (Vec<_>, Vec<_>) = round.answers().into_iter().unzip();
        fit_round(&mut results, self.start.max_round_chars);
        self.stats.tool_calls += calls.len();
        let calls = calls.into_iter().zip(results).map(|(call, result)| {
            let name = call.name.as_deref().unwrap_or_default();
            AnsweredCall {
                id: call.id.clone(),
                entry: call.to_message(),
                answer: self.repeats.note(
                    self.stats.rounds,
                    name,
                    &call.arguments,
                    result.wire_text(),
                ),
            }
        });
        let calls = calls.collect();
        self.start.conversation.push(Exchange { message, calls, model });
        if self.stats.rounds >= self.start.settings.max_rounds {
            self.last.get_or_insert(FinishReason::Length);
        }
        match self.last {
            Some(reason) => self.finish(reason, effects),
            None => self.next_round(effects),
        }
    }

    fn next_round(&mut self, effects: &mut Vec<TurnEffect>) {
        self.stats.rounds += 1;
        self.failures = 0;
        self.asked_again = false;
        effects.push(TurnEffect::Emit(TurnEvent::RoundStarted(self.stats.rounds)));
        self.ask(Duration::ZERO, effects);
    }

    fn ask(&mut self, wait: Duration, effects: &mut Vec<TurnEffect>) {
        self.replace_round(effects);
        self.phase = Phase::Streaming;
        let body = self.start.conversation.request(&self.start.models[self.model]);
        self.asked = self.start.conversation.size();
        effects.push(TurnEffect::Ask { body, wait });
    }

    /// Puts a fresh round in place, and counts what the old one used.
    fn replace_round(&mut self, effects: &mut Vec<TurnEffect>) -> Round {
        self.interrupt_tools(effects);
        self.rule = None;
        self.text_was_given |= self.round.gave_text;
        let fresh = Round::new(&rules(&self.start, StartRule::default()), self.text_was_given);
        self.stats.count(self.round.usage.take());
        std::mem::replace(&mut self.round, fresh)
    }

    /// The round is not asked again.
    fn end_round(&mut self) {
        self.stats.end_round(self.round.usage.take());
    }

    fn finish(&mut self, reason: FinishReason, effects: &mut Vec<TurnEffect>) {
        // A round that was closed has been counted, and an empty one stands in its place.
        if self.phase == Phase::Streaming {
            self.end_round();
            self.unknown = std::mem::take(&mut self.round.unknown);
        }
        let unknown = std::mem::take(&mut self.unknown).into_members();
        let (session, turn) = (self.start.session.clone(), self.start.turn.clone());
        let summary = self.stats.summary(session, turn, self.elapsed);
        let finished = Finished { reason, usage: self.stats.usage.take(), summary, unknown };
        self.stop(TurnEvent::Finished(Box::new(finished)), effects);
    }

    fn fail(&mut self, error: ApiError, effects: &mut Vec<TurnEffect>) {
        let failure = Failure { error, tools_ran: self.tools_ran };
        self.stop(TurnEvent::Failed(Box::new(failure)), effects);
    }

    /// The one way out: `last` is the turn's terminal event.
    fn stop(&mut self, last: TurnEvent, effects: &mut Vec<TurnEffect>) {
        self.interrupt_tools(effects);
        effects.push(TurnEffect::Emit(last));
        self.phase = Phase::Over;
        effects.push(TurnEffect::Stop);
    }

    /// No round is left with a tool that is told to have started and not to have ended.
    fn interrupt_tools(&mut self, effects: &mut Vec<TurnEffect>) {
        effects.extend(self.round.interrupt(self.elapsed).into_iter().map(TurnEffect::Emit));
    }

    /// Lets the round act, and takes over what it asks for.
    fn in_round<T>(
        &mut self,
        effects: &mut Vec<TurnEffect>,
        act: impl FnOnce(&mut Round, &RoundRules<'_>, &mut Vec<RoundEffect>) -> T,
    ) -> T {
        let start = self.start_rule(None);
        let mut asked = Vec::new();
        let outcome = act(&mut self.round, &rules(&self.start, start), &mut asked);
        effects.extend(asked.into_iter().map(TurnEffect::from));
        outcome
    }

    /// The model that is asked now.
    fn model(&self) -> &str {
        &self.start.models[self.model].name
    }

    /// By the names that the model has gone by so far; looked up once a name.
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

impl From<RoundEffect> for TurnEffect {
    fn from(effect: RoundEffect) -> Self {
        match effect {
            RoundEffect::Emit(event) => Self::Emit(event),
            RoundEffect::Reserve => Self::Reserve,
            RoundEffect::Ready(position, call) => Self::Ready(position, call),
            RoundEffect::Withdraw(positions) => Self::Withdraw(positions),
        }
    }
}

fn rules(start: &TurnStart, rule: StartRule) -> RoundRules<'_> {
    RoundRules {
        pipeline: &start.pipeline,
        client_tools: &start.client_tools,
        start: rule,
        max_calls: start.settings.max_tool_calls,
    }
}

#[cfg(test)]
mod tests;
