//! Knows the subagents that run in the background, whose calls a person can decide about.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::agent::beginning::Decided;
use crate::clock;
use crate::ids::{Scope, TurnId};
use crate::store::rows::ApprovalRow;
use crate::sync;

/// By their rows in the store. One that has ended takes no decisions.
#[derive(Debug, Default)]
pub(crate) struct BackgroundAgents(Mutex<HashMap<TurnId, BackgroundAgent>>);

#[derive(Debug)]
struct BackgroundAgent {
    scope: Scope,
    /// When its run began.
    since_ms: i64,
    decisions: UnboundedSender<Box<Decided>>,
}

impl BackgroundAgent {
    fn runs(&self) -> bool {
        !self.decisions.is_closed()
    }

    /// Whether its run has asked for this: an earlier run of the same agent may have.
    fn has_asked(&self, approval: &ApprovalRow) -> bool {
        self.runs() && self.scope == approval.scope && self.since_ms <= approval.created_ms
    }
}

impl BackgroundAgents {
    /// What a person decides about the calls of this agent from now on.
    pub(super) fn listen(&self, scope: Scope, row: TurnId) -> UnboundedReceiver<Box<Decided>> {
        let (decisions, decided) = mpsc::unbounded_channel();
        let mut agents = sync::lock(&self.0);
        agents.retain(|_, agent| agent.runs());
        agents.insert(row, BackgroundAgent { scope, since_ms: clock::now_ms(), decisions });
        decided
    }

    /// Whether an agent that runs has asked for it.
    pub(super) fn have_asked(&self, approval: &ApprovalRow) -> bool {
        let agents = sync::lock(&self.0);
        agents.get(&approval.turn).is_some_and(|agent| agent.has_asked(approval))
    }

    /// Sends a decision to the agent that waits for it.
    pub(super) fn decide(&self, approval: &ApprovalRow, decided: Decided) {
        let agents = sync::lock(&self.0);
        if let Some(agent) = agents.get(&approval.turn).filter(|agent| agent.has_asked(approval)) {
            let _ = agent.decisions.send(Box::new(decided));
        }
    }
}
