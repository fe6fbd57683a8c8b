//! The loop: rounds of model and tools until an answer stands.

pub(crate) mod conversation;
pub(crate) mod events;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod prompt;
pub(crate) mod settings;

pub(crate) use settings::{ModelRule, Settings};
