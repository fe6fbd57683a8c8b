//! The loop: rounds of model and tools until an answer stands.

pub(crate) mod conversation;
mod deltas;
pub(crate) mod events;
mod limits;
pub(crate) mod message;
pub(crate) mod outbox;
mod parts;
pub(crate) mod prompt;
mod round;
pub(crate) mod settings;
pub(crate) mod state;
mod tally;
pub(crate) mod turn;
mod unknown;
mod weight;

pub(crate) use settings::{ModelRule, Settings};
