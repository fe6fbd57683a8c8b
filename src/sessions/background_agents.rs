//! Knows the subagents that run in the background, whose calls a person can decide about.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::agent::beginning::Decided;
use crate::ids::{Scope, TurnId};
use crate::sync;

/// By their rows in the store. One that has ended takes no decisions.
#[derive(Debug, Default)]
pub(crate) struct BackgroundAgents(Mutex<HashMap<TurnId, BackgroundAgent>>);

#[derive(Debug)]
struct BackgroundAgent {
    scope: Scope,
    decisions: UnboundedSender<Box<Decided>>,
}

impl BackgroundAgent {
    fn runs(&self) -> bool {
        !self.decisions.is_closed()
    }
}

impl BackgroundAgents {
    /// What a person decides about the calls of this agent from now on.
    pub(super) fn listen(&self, scope: Scope, row: TurnId) -> UnboundedReceiver<Box<Decided>> {
        let (decisions, decided) = mpsc::unbounded_channel();
        let mut agents = sync::lock(&self.0);
        agents.retain(|_, agent| agent.runs());
        agents.insert(row, BackgroundAgent { scope, decisions });
        decided
    }

    /// Whether the agent runs.
    pub(super) fn is_running(&self, scope: Scope, row: &TurnId) -> bool {
        let agents = sync::lock(&self.0);
        agents.get(row).is_some_and(|agent| agent.scope == scope && agent.runs())
    }

    /// Sends a decision to the agent if it runs.
    pub(super) fn decide(&self, scope: Scope, row: &TurnId, decided: Decided) {
        if let Some(agent) = sync::lock(&self.0).get(row).filter(|agent| agent.scope == scope) {
            let _ = agent.decisions.send(Box::new(decided));
        }
    }
}
