//! Follows the calls that have started agents: what the agents do, and what they ask.

use std::time::Duration;

use super::{Progress, Round, RoundEffect};
use crate::agent::agent_event::{AgentEvent, AgentStep};
use crate::agent::delegation::Resumption;
use crate::agent::events::{AgentReport, TurnEvent};
use crate::agent::record::{AgentAsk, AgentStarted, SuspendedAgent};
use crate::execution::ask::{Ask, Decision};
use crate::execution::schedule::Position;
use crate::ids::ApprovalId;

/// What a person is asked about a call.
#[derive(Clone, Copy, Debug)]
pub(in crate::agent) struct PendingAsk<'a> {
    pub(in crate::agent) slot: usize,
    /// The ask of the call's agent that it is; `None` if it is about the call itself.
    pub(in crate::agent) of_agent: Option<&'a ApprovalId>,
    pub(in crate::agent) ask: &'a Ask,
}

impl Round {
    /// What the agent of a call that runs does, as an event.
    pub(in crate::agent) fn agent_report(
        &self,
        position: Position,
        event: AgentEvent,
    ) -> Option<TurnEvent> {
        match &self.calls.get(position)?.progress {
            Progress::Running(running) | Progress::RunningInvalid(running, _) => {
                let call_id = running.id.clone();
                Some(TurnEvent::Agent(Box::new(AgentReport { call_id, event })))
            }
            _ => None,
        }
    }

    /// Notes that a call has started an agent, or has let it go on. Returns the record of it.
    pub(in crate::agent) fn agent_started(
        &mut self,
        position: Position,
        event: &AgentEvent,
    ) -> Option<AgentStarted> {
        let AgentStep::Started { .. } = event.step else { return None };
        let agent = event.agent.clone();
        self.calls.get_mut(position)?.agent = Some(agent.clone());
        Some(AgentStarted { slot: position, agent })
    }

    /// Records that the agent of a call needs a person. The call holds its position.
    pub(in crate::agent) fn agent_suspended(
        &mut self,
        position: Position,
        agent: SuspendedAgent,
        duration: Duration,
        effects: &mut Vec<RoundEffect>,
    ) {
        let Some(call) = self.calls.get_mut(position) else { return };
        match std::mem::take(&mut call.progress) {
            Progress::Running(running) => {
                // It starts once more when the person has decided.
                let ended = call.ended(running.id, position, duration);
                effects.push(RoundEffect::Emit(TurnEvent::ToolEnded(Box::new(ended))));
                call.progress = Progress::Suspended(agent);
            }
            Progress::RunningInvalid(running, error) => {
                let ended = call.ended(running.id, position, duration);
                effects.push(RoundEffect::Emit(TurnEvent::ToolEnded(Box::new(ended))));
                effects.push(RoundEffect::Release(position));
                call.progress = Progress::Answered(error);
            }
            settled => {
                call.progress = settled;
                effects.push(RoundEffect::Release(position));
            }
        }
    }

    /// Applies a decision about a call of an agent. Returns how the agent goes on, if everything
    /// is decided that it asked.
    pub(in crate::agent) fn agent_decided(
        &mut self,
        slot: usize,
        ask: &ApprovalId,
        decision: Decision,
    ) -> Option<Resumption> {
        self.keep_agents_decision(slot, ask, decision);
        let call = self.calls.get_mut(slot)?;
        let Progress::Suspended(agent) = &call.progress else { return None };
        if agent.asks.iter().any(|ask| ask.decision.is_none()) {
            return None;
        }
        let resumption = resumption(agent);
        call.progress = Progress::Ready;
        Some(resumption)
    }

    /// Keeps a decision about a call of an agent until the agent goes on.
    pub(in crate::agent) fn keep_agents_decision(
        &mut self,
        slot: usize,
        ask: &ApprovalId,
        decision: Decision,
    ) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let Progress::Suspended(agent) = &mut call.progress else { return };
        if let Some(asked) = agent.asks.iter_mut().find(|asked| asked.id == *ask) {
            asked.decision = Some(decision);
        }
    }

    /// Lets all agents of a restored round go on with what is decided. They ask again about the
    /// rest.
    pub(in crate::agent) fn take_up_agents(&mut self) -> Vec<(usize, Resumption)> {
        let calls = self.calls.iter_mut().enumerate();
        let suspended = calls.filter_map(|(slot, call)| {
            let Progress::Suspended(agent) = &call.progress else { return None };
            let resumption = resumption(agent);
            call.progress = Progress::Open;
            Some((slot, resumption))
        });
        suspended.collect()
    }
}

fn resumption(agent: &SuspendedAgent) -> Resumption {
    let decided = |asked: &AgentAsk| Some((asked.id.clone(), asked.decision.clone()?));
    let decisions = agent.asks.iter().filter_map(decided).collect();
    Resumption { agent: agent.agent.clone(), decisions }
}
