//! Processes one round: an answer of the model as it streams in, and the tool calls in it.
//!
//! Pure: takes chunks and tool answers, returns effects. docs/stream.md, When a call may start,
//! has the rules.

mod agents;
mod announcing;
mod answers;
mod client_calls;
mod open;
mod texts;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::execution::ask::Ask;
use crate::execution::pipeline::{AdmittedCall, Pipeline, ToolCall, ToolResult};
use crate::execution::schedule::Position;
use crate::ids::{AgentId, ApprovalId};
use crate::openai::chunk::{Chunk, FinishReason};
use crate::openai::usage::Usage;
use crate::tools::tool::{Concurrency, ToolError};
use crate::upstream::assemble::{Assembler, End, Slot, Step};

use super::events::TurnEvent;
use super::held_text::{ContentRule, HeldText};
use super::message::AssistantMessage;
use super::record::SuspendedAgent;
use super::settings::StartRule;
use super::size_estimate;
use super::unknown::Unknown;
use announcing::Announced;
pub(super) use answers::Answer;
use client_calls::{ClientSent, PassedOn};
use open::Restored;

/// What a round must know of its turn.
#[derive(Debug)]
pub(super) struct RoundRules<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) client_tools: &'a Arc<[String]>,
    pub(super) start: StartRule,
    pub(super) max_calls: usize,
    pub(super) content: ContentRule,
    pub(super) cards: bool,
}

/// What a round asks of its turn.
#[derive(Debug)]
pub(super) enum RoundEffect {
    Emit(TurnEvent),
    /// Gives the next call its position in the schedule.
    Reserve,
    Ready(Position, Box<AdmittedCall>),
    /// Frees these positions, all of them before the scheduler starts a call.
    Withdraw(Vec<Position>),
    /// Runs a call that was judged.
    Run {
        position: Position,
        has_effect: bool,
    },
    /// Ends a call that was judged and will not run.
    Release(Position),
}

/// The state of one round.
#[derive(Debug)]
pub(super) struct Round {
    assembler: Assembler,
    pub(super) message: AssistantMessage,
    calls: Vec<Call>,
    pub(super) finish: Option<FinishReason>,
    pub(super) usage: Option<Usage>,
    pub(super) unknown: Unknown,
    /// The name by which the model calls itself in its chunks.
    pub(super) model: Option<String>,
    /// Whether text or reasoning of this round has been sent to the client.
    pub(super) forwarded: bool,
    /// Whether text of this round has been sent to the client.
    pub(super) gave_text: bool,
    /// Whether text of an earlier round has been sent. Then this round's text begins with a
    /// blank line.
    follows_text: bool,
    /// The estimated memory of what the round keeps, in bytes.
    size_estimate: usize,
    passed_on: PassedOn,
    held: HeldText,
    /// The text that the client was sent as content.
    pub(super) said: String,
    /// Set for a round that an earlier turn began.
    restored: Option<Restored>,
    announced: Announced,
}

/// One call of the round. Its index in `Round::calls` is both its slot in the assembler and its
/// position in the schedule.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Call {
    progress: Progress,
    sealed: bool,
    /// The output limit or a filter stopped the model within this call.
    is_cut_off: bool,
    /// Whether it was admitted as one without effects, which may run beside others.
    is_shared: bool,
    /// The result of admission, while the call waits for the moment when it may start.
    admitted: Option<Result<Box<AdmittedCall>, ToolError>>,
    headline: String,
    /// The tool's own name, known once the call is admitted. The model may have used an alias.
    tool: String,
    /// What of a client's call has been sent on.
    sent: Option<ClientSent>,
    /// The approval by which it may run.
    approval: Option<ApprovalId>,
    /// Whether an intent to run it was recorded.
    is_recorded: bool,
    /// The agent that it has started.
    agent: Option<AgentId>,
    /// What became of it when it was judged before its turn.
    ahead: Option<Ahead>,
    /// An earlier turn answered it.
    is_earlier: bool,
}

/// A call that stands behind one that asks, and is judged without being started.
#[derive(Debug)]
enum Ahead {
    Judging,
    Asked(Box<Ask>),
    /// It asks nothing, or is answered when its turn comes.
    Free,
}

/// How far a call has come.
#[derive(Debug, Default)]
enum Progress {
    /// The model is still writing it, or it waits for the end of the stream.
    #[default]
    Open,
    /// Handed to the scheduler.
    Ready,
    /// Its turn has come, and the pipeline judges it.
    Judging,
    /// The same, but later bytes made it invalid. This error will be its answer.
    JudgingInvalid(ToolResult),
    /// It needs a person, and holds its position.
    Asking(Box<Ask>),
    /// An agent that it has started needs a person. It holds its position.
    Suspended(SuspendedAgent),
    Running(Running),
    /// The call runs, but later bytes made it invalid. This error will be its answer instead of
    /// the tool's.
    RunningInvalid(Running, ToolResult),
    Answered(ToolResult),
    /// Answered by the client: its own message.
    Given(Box<RawValue>),
    /// A call of one of the client's tools: the server does not run it.
    Clients,
    /// Taken out of the round: not answered, and not part of the history.
    Dropped,
}

/// A call whose start the client was told.
#[derive(Clone, Debug)]
struct Running {
    /// The id that the client was told. The assembler's may still change.
    id: String,
    /// When it started, as time since the beginning of the turn.
    since: Duration,
}

/// What a round was whose stream ended in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// No calls: the text is the answer.
    Text,
    /// Calls of the server's tools. Some may still run.
    Calls,
    /// The same, but the model was stopped within one of them.
    CutOffCalls {
        /// Whether at least one other call is whole.
        has_whole: bool,
    },
    /// At least one call of a client's tool.
    ClientCalls,
    /// Neither text nor calls.
    Empty,
    /// A call was left half open, which means that the provider's connection was cut.
    Cut,
}

/// Answers a call that had not started when the provider reported a failure.
const NOT_MEANT: &str = "the provider reported a failure within this message, so the call did not \
                         run; make it again if it is still wanted";

impl Round {
    pub(super) fn new(rules: &RoundRules<'_>, follows_text: bool) -> Self {
        let (tools, client_tools) = (rules.pipeline.tools.clone(), Arc::clone(rules.client_tools));
        let is_tool = move |name: &str| {
            tools.get(name).is_some() || client_tools.iter().any(|tool| tool == name)
        };
        Self {
            assembler: Assembler::new(is_tool),
            message: AssistantMessage::default(),
            calls: Vec::new(),
            finish: None,
            usage: None,
            unknown: Unknown::default(),
            model: None,
            forwarded: false,
            gave_text: false,
            follows_text,
            size_estimate: 0,
            passed_on: PassedOn::default(),
            held: HeldText::new(rules.content),
            said: String::new(),
            restored: None,
            announced: Announced::new(rules.cards),
        }
    }

    /// The estimated memory of the round, in bytes.
    pub(super) fn size_estimate(&self) -> usize {
        self.size_estimate
            + self.unknown.size_estimate()
            + self.said.len()
            + self.held.size_estimate()
            + self.calls.len() * size_estimate::CALL_OVERHEAD
    }

    /// Processes one chunk: keeps it, sends it on, and starts the calls that may start.
    pub(super) fn take(
        &mut self,
        chunk: Chunk,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        let Chunk { model, mut delta, finish_reason, usage, logprobs, unknown, whole, .. } = chunk;
        let tool_calls = std::mem::take(&mut delta.tool_calls);
        self.model = self.model.take().or(model);
        if let Some(usage) = usage {
            self.usage = Some(usage);
        }
        self.unknown.take(unknown, whole);
        self.size_estimate += size_estimate::size_of_delta(&delta, &tool_calls);
        self.take_texts(delta, logprobs, effects);
        if !tool_calls.is_empty() {
            let steps = self.assembler.push(&tool_calls);
            if self.is_overfull() {
                // The turn fails now, so no call of this chunk may start.
                return;
            }
            self.apply_steps(steps, rules, effects);
            self.pass_on_client_calls(rules, effects);
            self.announce_calls(rules, effects);
        }
        if let Some(reason) = finish_reason {
            let reason = self.finish.map_or(reason, |known| known.then(reason));
            self.finish = Some(reason);
            if !reason.is_cut_off() {
                let steps = self.assembler.finish_reason();
                self.apply_steps(steps, rules, effects);
                self.pass_on_client_calls(rules, effects);
            }
        }
    }

    /// Whether the answer holds more calls than
    /// [`MAX_CALLS`](crate::upstream::assemble::MAX_CALLS).
    pub(super) fn is_overfull(&self) -> bool {
        self.assembler.is_overfull()
    }

    /// Processes the orderly end of the stream. Says what the round was, and starts or answers
    /// each remaining call of the server's tools.
    pub(super) fn end(&mut self, rules: &RoundRules<'_>, effects: &mut Vec<RoundEffect>) -> Ending {
        let cut_off = self.finish.is_some_and(FinishReason::is_cut_off);
        let end = if cut_off { End::CutOff } else { End::Finished };
        let steps = self.assembler.finish(end);
        self.apply_steps(steps, rules, effects);
        self.pass_on_client_calls(rules, effects);
        if cut_off {
            self.answer_cut_off_calls(rules, effects);
        } else if self.assembler.is_cut() {
            return Ending::Cut;
        }
        self.pass_on_the_rest(rules, effects);
        self.announce_the_rest(rules, effects);
        if self.has_client_call(rules) {
            self.release_text(effects);
            self.leave_to_client(rules, effects);
            self.run_sealed_calls(rules, effects);
            return Ending::ClientCalls;
        }
        if self.calls.iter().all(|call| matches!(call.progress, Progress::Dropped)) {
            // Whether it is the turn's last is not known here: hooks may ask for more.
            let says_nothing = self.message.says_nothing() && !cut_off;
            return if says_nothing { Ending::Empty } else { Ending::Text };
        }
        self.release_text_before_calls(effects);
        self.run_sealed_calls(rules, effects);
        self.ending_with_calls()
    }

    /// Keeps a round whose stream died: runs the sealed calls and takes out the others.
    pub(super) fn salvage(&mut self, rules: &RoundRules<'_>, effects: &mut Vec<RoundEffect>) {
        self.drop_waiting_calls(|call| !call.sealed, effects);
        self.announce_the_rest(rules, effects);
        self.release_text_before_calls(effects);
        self.run_sealed_calls(rules, effects);
    }

    /// Takes back the calls that may have an effect and have not started: the provider reported a
    /// failure, so nothing says that the model meant them.
    pub(super) fn take_back_exclusive_calls(&mut self, effects: &mut Vec<RoundEffect>) {
        self.drop_waiting_calls(|call| call.sealed && !call.is_shared, effects);
        let failed = || ToolError::failed(NOT_MEANT);
        for slot in 0..self.calls.len() {
            if self.calls[slot].is_shared {
                continue;
            }
            match self.calls[slot].progress {
                Progress::Judging => {
                    self.calls[slot].progress =
                        Progress::JudgingInvalid(ToolResult::error(&failed()));
                }
                Progress::Asking(_) => {
                    effects.push(RoundEffect::Release(slot));
                    self.settle(slot, &failed(), effects);
                }
                _ => {}
            }
        }
    }

    /// Whether a call of the server's tools was sealed, runs or has run.
    pub(super) fn has_calls_to_keep(&self) -> bool {
        self.calls.iter().any(|call| match call.progress {
            Progress::Open | Progress::Ready => call.sealed,
            Progress::Judging
            | Progress::JudgingInvalid(_)
            | Progress::Asking(_)
            | Progress::Suspended(_)
            | Progress::Running(_)
            | Progress::RunningInvalid(..)
            | Progress::Answered(_)
            | Progress::Given(_) => true,
            Progress::Clients | Progress::Dropped => false,
        })
    }

    /// Withdraws all of them at once, so that none starts because another one made room.
    fn drop_waiting_calls(
        &mut self,
        is_dropped: impl Fn(&Call) -> bool,
        effects: &mut Vec<RoundEffect>,
    ) {
        let mut dropped = Vec::new();
        for (slot, call) in self.calls.iter_mut().enumerate() {
            if call.is_waiting() && is_dropped(call) {
                call.progress = Progress::Dropped;
                dropped.push(slot);
            }
        }
        if !dropped.is_empty() {
            effects.push(RoundEffect::Withdraw(dropped));
        }
    }

    /// Acts on the assembler's steps.
    fn apply_steps(
        &mut self,
        steps: Vec<Step>,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        for step in steps {
            match step {
                Step::Opened(slot) => {
                    debug_assert_eq!(slot.0, self.calls.len(), "slots open in order");
                    self.calls.push(Call::default());
                    effects.push(RoundEffect::Reserve);
                    effects.push(RoundEffect::Emit(TurnEvent::Begun));
                }
                Step::Closed(slot) => self.closed(slot.0, rules, effects),
                // The arguments that were judged were not the last ones. If the call has
                // started all the same, its tool takes no arguments.
                Step::Reopened(slot) => self.calls[slot.0].admitted = None,
                Step::Sealed(slot) => self.sealed(slot.0, rules, effects),
                Step::Invalid(slot) => self.invalid(slot.0, rules, effects),
                Step::Echoed(slot) => self.echoed(slot.0, effects),
            }
        }
    }

    /// The last brace came. A call of a local tool without effects may start while the model
    /// goes on.
    fn closed(&mut self, slot: usize, rules: &RoundRules<'_>, effects: &mut Vec<RoundEffect>) {
        let early = rules.start != StartRule::AfterStream && slot < rules.max_calls;
        if early
            && matches!(self.calls[slot].progress, Progress::Open)
            && !rules.is_clients(self.assembler.call(Slot(slot)))
        {
            match self.admit(slot, rules) {
                Ok(admitted) if admitted.starts_when_closed() => {
                    self.hand_over(slot, admitted, effects);
                }
                judged => self.calls[slot].admitted = Some(judged),
            }
        }
    }

    /// The model has moved on from the call. A client's call is set aside, an invalid one is
    /// answered, and one that may start now starts.
    fn sealed(&mut self, slot: usize, rules: &RoundRules<'_>, effects: &mut Vec<RoundEffect>) {
        self.calls[slot].sealed = true;
        if !matches!(self.calls[slot].progress, Progress::Open) {
            return;
        }
        if rules.is_clients(self.assembler.call(Slot(slot))) {
            self.calls[slot].progress = Progress::Clients;
            effects.push(RoundEffect::Withdraw(vec![slot]));
            return;
        }
        if slot >= rules.max_calls {
            let limit = rules.max_calls;
            let reason = format!(
                "only {limit} tool calls are taken in one message; make this one in the next"
            );
            self.answer(slot, &ToolError::Failed(reason), effects);
            return;
        }
        match self.admit(slot, rules) {
            Err(error) => self.answer(slot, &error, effects),
            Ok(admitted) if rules.may_start_when_sealed(admitted.concurrency()) => {
                self.hand_over(slot, admitted, effects);
            }
            judged @ Ok(_) => self.calls[slot].admitted = Some(judged),
        }
    }

    /// The call is one before it, sent once more: it is none. One that has started all the same
    /// takes no arguments.
    fn echoed(&mut self, slot: usize, effects: &mut Vec<RoundEffect>) {
        let call = &mut self.calls[slot];
        if call.is_waiting() {
            call.progress = Progress::Dropped;
            effects.push(RoundEffect::Withdraw(vec![slot]));
        }
    }

    /// The arguments are not one whole object, so the call never runs. A client judges its own
    /// calls itself, so those are passed on.
    fn invalid(&mut self, slot: usize, rules: &RoundRules<'_>, effects: &mut Vec<RoundEffect>) {
        self.calls[slot].sealed = true;
        let assembled = self.assembler.call(Slot(slot));
        if rules.is_clients(assembled) && matches!(self.calls[slot].progress, Progress::Open) {
            self.calls[slot].progress = Progress::Clients;
            effects.push(RoundEffect::Withdraw(vec![slot]));
            return;
        }
        let reason = assembled.invalid.clone().unwrap_or_default();
        let error = ToolError::InvalidInput(reason);
        match self.calls[slot].progress {
            Progress::Open => self.answer(slot, &error, effects),
            Progress::Ready => {
                // The call was handed over in this very chunk and has not started: take that
                // back.
                effects.retain(
                    |effect| !matches!(effect, RoundEffect::Ready(ready, _) if *ready == slot),
                );
                self.answer(slot, &error, effects);
            }
            Progress::Judging => {
                self.calls[slot].progress = Progress::JudgingInvalid(ToolResult::error(&error));
            }
            Progress::Asking(_) | Progress::Suspended(_) => {
                effects.push(RoundEffect::Release(slot));
                self.settle(slot, &error, effects);
            }
            Progress::Running(ref running) => {
                let running = running.clone();
                self.calls[slot].progress =
                    Progress::RunningInvalid(running, ToolResult::error(&error));
            }
            Progress::Answered(_) => {
                self.calls[slot].progress = Progress::Answered(ToolResult::error(&error));
            }
            Progress::JudgingInvalid(_)
            | Progress::RunningInvalid(..)
            | Progress::Given(_)
            | Progress::Clients
            | Progress::Dropped => {}
        }
    }

    /// Starts the sealed calls that waited for the end of the stream.
    fn run_sealed_calls(&mut self, rules: &RoundRules<'_>, effects: &mut Vec<RoundEffect>) {
        for slot in 0..self.calls.len() {
            if self.calls[slot].sealed && matches!(self.calls[slot].progress, Progress::Open) {
                match self.admit(slot, rules) {
                    Ok(admitted) => self.hand_over(slot, admitted, effects),
                    Err(error) => self.answer(slot, &error, effects),
                }
            }
        }
    }

    /// Answers the calls within which the output limit or a filter stopped the model. They
    /// never run.
    fn answer_cut_off_calls(&mut self, rules: &RoundRules<'_>, effects: &mut Vec<RoundEffect>) {
        let is_cut_off = |call: &Call| !call.sealed && call.is_waiting();
        let cut_off: Vec<usize> =
            (0..self.calls.len()).filter(|slot| is_cut_off(&self.calls[*slot])).collect();
        self.drop_waiting_calls(is_cut_off, effects);
        for slot in cut_off {
            let assembled = self.assembler.call(Slot(slot));
            // A client's call is passed on as it is. A call without a name cannot be answered.
            if assembled.name.is_none() || rules.is_clients(assembled) {
                continue;
            }
            let reason = match self.finish {
                Some(FinishReason::ContentFilter) => {
                    "the provider's content filter stopped the answer within this call; it did not run"
                }
                _ => {
                    "this call was cut off by the output limit and did not run; \
                     ask for it in smaller pieces"
                }
            };
            self.calls[slot].is_cut_off = true;
            self.settle(slot, &ToolError::Failed(reason.to_owned()), effects);
        }
    }

    fn ending_with_calls(&self) -> Ending {
        let calls = self.calls.iter().zip(self.assembler.calls());
        let (cut_off, others): (Vec<_>, Vec<_>) = calls.partition(|(call, _)| call.is_cut_off);
        if cut_off.is_empty() {
            return Ending::Calls;
        }
        Ending::CutOffCalls { has_whole: others.iter().any(|(_, call)| call.is_closed()) }
    }

    /// Validates the call, or returns the result of an earlier validation.
    fn admit(
        &mut self,
        slot: usize,
        rules: &RoundRules<'_>,
    ) -> Result<Box<AdmittedCall>, ToolError> {
        if let Some(judged) = self.calls[slot].admitted.take() {
            return judged;
        }
        let input = self.assembler.take_input(Slot(slot)).unwrap_or_default();
        let call = self.assembler.call(Slot(slot));
        let admitted = rules.pipeline.admit(ToolCall {
            id: call.id.clone(),
            name: call.name.clone().unwrap_or_default(),
            input,
        });
        self.calls[slot].is_shared =
            admitted.as_ref().is_ok_and(|call| call.concurrency() == Concurrency::Shared);
        admitted.map(Box::new)
    }

    /// Hands an admitted call to the scheduler.
    fn hand_over(
        &mut self,
        slot: usize,
        admitted: Box<AdmittedCall>,
        effects: &mut Vec<RoundEffect>,
    ) {
        let call = &mut self.calls[slot];
        call.progress = Progress::Ready;
        call.headline = admitted.headline();
        admitted.tool().clone_into(&mut call.tool);
        effects.push(RoundEffect::Ready(slot, admitted));
    }
}

impl Call {
    /// Whether the call holds a position in the schedule and has not started.
    fn is_waiting(&self) -> bool {
        matches!(self.progress, Progress::Open | Progress::Ready)
    }
}

impl RoundRules<'_> {
    /// Whether a sealed call may start before the stream ends. With client tools, exclusive
    /// calls wait: only at the end is it known what the client must do first.
    fn may_start_when_sealed(&self, concurrency: Concurrency) -> bool {
        match (self.start, concurrency) {
            (StartRule::AfterStream, _) | (StartRule::Safe, Concurrency::Exclusive) => false,
            (StartRule::Safe | StartRule::Sealed, Concurrency::Shared) => true,
            (StartRule::Sealed, Concurrency::Exclusive) => self.client_tools.is_empty(),
        }
    }
}
