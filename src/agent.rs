//! The loop: rounds of model and tools until an answer stands.

pub(crate) mod settings;

pub(crate) use settings::{ModelRule, Settings};
