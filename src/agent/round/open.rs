//! Keeps a round that cannot be closed yet, and takes it up again in a later turn.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::agents::PendingAsk;
use super::{Ahead, Answer, Call, Progress, Round, RoundEffect, RoundRules};
use crate::agent::pictures;
use crate::agent::record::{Intent, OpenCall, OpenRound};
use crate::execution::ask::{Ask, Decision};
use crate::execution::pipeline::ToolResult;
use crate::execution::schedule::Position;
use crate::ids::ApprovalId;
use crate::openai::chunk::CallKind;
use crate::tools::tool::ToolError;
use crate::upstream::assemble::{AssembledCall, Slot};

/// The message of a round that an earlier turn began, as that turn kept it.
#[derive(Debug)]
pub(super) struct Restored {
    message: Value,
    model: String,
    has_reasoning: bool,
}

impl Round {
    /// A round as an earlier turn left it. `None` if it is not one that a turn can have left.
    pub(in crate::agent) fn restore(
        open: OpenRound,
        client_answers: Vec<Option<Box<RawValue>>>,
        rules: &RoundRules<'_>,
    ) -> Option<Self> {
        let OpenRound { message, model, has_reasoning, calls, .. } = open;
        let entries = message["tool_calls"].as_array()?;
        if entries.len() != calls.len() {
            return None;
        }
        let mut round = Self::new(rules, false);
        round.assembler.restore(entries);
        let given = client_answers.into_iter().chain(std::iter::repeat_with(|| None));
        round.calls =
            calls.into_iter().zip(given).map(|(call, given)| restored(call, given)).collect();
        round.restored = Some(Restored { message, model, has_reasoning });
        Some(round)
    }

    /// Gives each call its place, and starts those that wait.
    pub(in crate::agent) fn resume(
        &mut self,
        rules: &RoundRules<'_>,
        effects: &mut Vec<RoundEffect>,
    ) {
        effects.extend(self.calls.iter().map(|_| RoundEffect::Reserve));
        let calls = self.calls.iter().enumerate();
        let settled: Vec<_> =
            calls.filter(|(_, call)| !call.is_waiting()).map(|(slot, _)| slot).collect();
        if !settled.is_empty() {
            effects.push(RoundEffect::Withdraw(settled));
        }
        self.run_sealed_calls(rules, effects);
    }

    /// The model that wrote the round, if an earlier turn began it.
    pub(in crate::agent) fn writer(&self) -> Option<&str> {
        self.restored.as_ref().map(|restored| restored.model.as_str())
    }

    pub(in crate::agent) fn has_reasoning(&self) -> bool {
        self.restored
            .as_ref()
            .map_or_else(|| self.message.has_reasoning(), |restored| restored.has_reasoning)
    }

    /// The assistant's message with the calls that were not taken out.
    pub(in crate::agent) fn assistant(&self) -> Value {
        if let Some(restored) = &self.restored {
            return restored.message.clone();
        }
        let mut message = self.message.to_value(true);
        let entries: Vec<_> =
            self.kept().map(|(call, assembled)| self.entry(call, assembled)).collect();
        message["tool_calls"] = entries.into();
        message
    }

    /// The state of each call in [`Self::assistant`], in order.
    pub(in crate::agent) fn open_calls(&self) -> Vec<OpenCall> {
        let state = |(call, assembled): (&Call, &AssembledCall)| match &call.progress {
            Progress::Answered(result) => OpenCall::Answered {
                answer: result.wire_text(),
                pictures: result.pictures.iter().map(pictures::to_record).collect(),
            },
            Progress::Given(message) => OpenCall::Given { message: message.get().to_owned() },
            Progress::Clients => OpenCall::Clients { id: sent_id(call, assembled).to_owned() },
            Progress::Suspended(agent) => OpenCall::Suspended(agent.clone()),
            _ => OpenCall::Waiting,
        };
        self.kept().map(state).collect()
    }

    /// The client's calls as it was sent them.
    pub(in crate::agent) fn client_entries(&self) -> Vec<Value> {
        let calls = self.kept().filter(|(call, _)| matches!(call.progress, Progress::Clients));
        calls.map(|(call, assembled)| client_entry(call, assembled)).collect()
    }

    /// How many calls were answered in this turn.
    pub(in crate::agent) fn answered_now(&self) -> usize {
        let is_new =
            |call: &&Call| matches!(call.progress, Progress::Answered(_)) && !call.is_earlier;
        self.calls.iter().filter(is_new).count()
    }

    /// The place that a call has in [`Self::assistant`].
    pub(in crate::agent) fn place_of(&self, slot: usize) -> usize {
        let before = self.calls.iter().take(slot);
        before.filter(|call| !matches!(call.progress, Progress::Dropped)).count()
    }

    fn kept(&self) -> impl Iterator<Item = (&Call, &AssembledCall)> {
        let calls = self.calls.iter().zip(self.assembler.calls());
        calls.filter(|(call, _)| !matches!(call.progress, Progress::Dropped))
    }

    /// The call as an entry of `tool_calls`, under the id that the client was told.
    fn entry(&self, call: &Call, assembled: &AssembledCall) -> Value {
        let mut entry = self.assembler.to_message(assembled);
        if call.sent.is_some() {
            entry["id"] = json!(sent_id(call, assembled));
        }
        entry
    }

    /// The id by which a call is judged.
    pub(in crate::agent) fn call_id(&self, slot: usize) -> Option<String> {
        self.assembler.calls().get(slot).map(|call| call.id.clone())
    }

    /// The record of the intent to run a call, if it has an effect or a person allowed it.
    pub(in crate::agent) fn intent(
        &mut self,
        slot: usize,
        has_effect: bool,
        (round, model): (u32, String),
    ) -> Option<Intent> {
        let state = &mut self.calls[slot];
        let approval = state.approval.take();
        if (!has_effect || state.is_recorded) && approval.is_none() {
            return None;
        }
        state.is_recorded = true;
        let call = self.assembler.to_message(self.assembler.call(Slot(slot)));
        Some(Intent { round, slot, call, model, approval })
    }

    /// Whether a call runs or is judged.
    pub(in crate::agent) fn is_busy(&self) -> bool {
        self.calls.iter().any(|call| {
            matches!(
                call.progress,
                Progress::Judging
                    | Progress::JudgingInvalid(_)
                    | Progress::Running(_)
                    | Progress::RunningInvalid(..)
            ) || matches!(call.ahead, Some(Ahead::Judging))
        })
    }

    /// Whether a call is approved, and its turn has not come.
    pub(in crate::agent) fn is_approved(&self, slot: usize) -> bool {
        let call = self.calls.get(slot);
        call.is_some_and(|call| call.approval.is_some() && matches!(call.progress, Progress::Ready))
    }

    pub(in crate::agent) fn has_asks(&self) -> bool {
        let asks =
            |call: &Call| matches!(call.progress, Progress::Asking(_) | Progress::Suspended(_));
        self.calls.iter().any(asks)
    }

    /// Takes the calls that stand behind one that asks and were not judged ahead yet.
    pub(in crate::agent) fn begin_judging_ahead(&mut self) -> Vec<Position> {
        let calls = self.calls.iter_mut().enumerate();
        calls
            .filter(|(_, call)| matches!(call.progress, Progress::Ready) && call.ahead.is_none())
            .map(|(slot, call)| {
                call.ahead = Some(Ahead::Judging);
                slot
            })
            .collect()
    }

    pub(in crate::agent) fn judged_ahead(&mut self, position: Position, ask: Option<Box<Ask>>) {
        if let Some(call) = self.calls.get_mut(position)
            && matches!(call.ahead, Some(Ahead::Judging))
        {
            call.ahead = Some(ask.map_or(Ahead::Free, Ahead::Asked));
        }
    }

    /// The asks of all calls, in call order.
    pub(in crate::agent) fn all_asks(&self) -> Vec<PendingAsk<'_>> {
        let mut asks = Vec::new();
        for (slot, call) in self.calls.iter().enumerate() {
            match (&call.progress, &call.ahead) {
                // What was decided is judged again when its turn comes.
                (Progress::Ready, _) if call.approval.is_some() => {}
                (Progress::Asking(ask), _) | (Progress::Ready, Some(Ahead::Asked(ask))) => {
                    asks.push(PendingAsk { slot, of_agent: None, ask });
                }
                (Progress::Suspended(agent), _) => {
                    let open = agent.asks.iter().filter(|asked| asked.decision.is_none());
                    asks.extend(open.map(|asked| PendingAsk {
                        slot,
                        of_agent: Some(&asked.id),
                        ask: &asked.ask,
                    }));
                }
                _ => {}
            }
        }
        asks
    }

    /// Applies what a person decided about a call that has not run. Returns whether the call is
    /// judged by it now or at its turn.
    pub(in crate::agent) fn decide(
        &mut self,
        slot: usize,
        approval: ApprovalId,
        decision: &Decision,
        effects: &mut Vec<RoundEffect>,
    ) -> bool {
        let Some(call) = self.calls.get_mut(slot) else { return false };
        // One that is being judged has been shown before its turn came. It is judged once more.
        let has_not_run = matches!(
            call.progress,
            Progress::Open | Progress::Ready | Progress::Judging | Progress::Asking(_)
        );
        if !has_not_run {
            return false;
        }
        let refusal = match decision {
            Decision::Deny { feedback } => Some(ToolError::Declined(feedback.clone())),
            Decision::Expired => Some(ToolError::Expired),
            Decision::Allow { .. } | Decision::Choose { .. } | Decision::Answers { .. } => None,
        };
        if let Some(refusal) = refusal {
            self.refuse(slot, ToolResult::error(&refusal), effects);
            return false;
        }
        call.approval = Some(approval);
        if matches!(call.progress, Progress::Asking(_)) {
            // It starts once more.
            call.progress = Progress::Ready;
        }
        true
    }

    /// Answers a call that has not run, whether it was judged or not.
    pub(in crate::agent) fn refuse(
        &mut self,
        slot: usize,
        result: ToolResult,
        effects: &mut Vec<RoundEffect>,
    ) {
        match self.calls[slot].progress {
            Progress::Asking(_) | Progress::Judging => self.release(slot, result, effects),
            Progress::Ready => {
                effects.push(RoundEffect::Withdraw(vec![slot]));
                self.settle_with(slot, result, effects);
            }
            // A call of a restored round has no position yet.
            _ => self.settle_with(slot, result, effects),
        }
    }
}

fn restored(call: OpenCall, given: Option<Box<RawValue>>) -> Call {
    let answer = |text: String, is_error: bool| {
        let text = text.into();
        Progress::Answered(ToolResult { text, is_error, ..ToolResult::default() })
    };
    let progress = match call {
        // The text has its prefix already.
        OpenCall::Answered { answer, pictures } => Progress::Answered(ToolResult {
            text: answer.into(),
            pictures: pictures.iter().filter_map(pictures::from_record).collect(),
            ..ToolResult::default()
        }),
        OpenCall::Given { message } => match RawValue::from_string(message) {
            Ok(message) => Progress::Given(message),
            Err(_) => answer(ToolError::Cancelled.to_string(), true),
        },
        OpenCall::Clients { .. } => match given {
            Some(message) => Progress::Given(message),
            None => answer(ToolError::Cancelled.to_string(), true),
        },
        OpenCall::Suspended(agent) => {
            let progress = Progress::Suspended(agent);
            return Call { progress, sealed: true, ..Call::default() };
        }
        OpenCall::Waiting => {
            return Call { sealed: true, ..Call::default() };
        }
    };
    Call { progress, sealed: true, is_earlier: true, ..Call::default() }
}

fn client_entry(call: &Call, assembled: &AssembledCall) -> Value {
    let AssembledCall { kind, name, .. } = assembled;
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(name));
    function.insert(kind_text(*kind).to_owned(), json!(assembled.arguments_from(0)));
    json!({
        "id": sent_id(call, assembled),
        "type": kind.as_str(),
        kind.as_str(): function,
    })
}

fn kind_text(kind: CallKind) -> &'static str {
    kind.text()
}

fn sent_id<'a>(call: &'a Call, assembled: &'a AssembledCall) -> &'a str {
    call.sent.as_ref().map_or(&assembled.id, |sent| &sent.id)
}

impl Answer {
    /// The result, where the server has the answer.
    pub(in crate::agent) fn result_mut(&mut self) -> Option<&mut ToolResult> {
        match self {
            Self::Result(result) => Some(result),
            Self::Given(_) => None,
        }
    }
}
