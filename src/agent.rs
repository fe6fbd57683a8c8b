//! The agent loop: rounds of model and tools until the turn has its answer.

pub(crate) mod agent_event;
pub(crate) mod asking;
mod attempts;
pub(crate) mod beginning;
pub(crate) mod closed_round;
pub(crate) mod compaction;
pub(crate) mod conversation;
pub(crate) mod delegation;
mod deltas;
pub(crate) mod events;
pub(crate) mod held_text;
mod limits;
pub(crate) mod message;
pub(crate) mod notes;
pub(crate) mod outbox;
mod parts;
pub(crate) mod pictures;
pub(crate) mod presenting;
pub(crate) mod prompt;
pub(crate) mod record;
mod retold;
mod round;
pub(crate) mod settings;
mod size_estimate;
pub(crate) mod state;
mod stats;
pub(crate) mod subagents;
pub(crate) mod turn;
mod unknown;

pub(crate) use settings::{ModelRule, TurnSettings};
