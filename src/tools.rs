//! What the model can do: the contract of a tool, and the tools.

pub(crate) mod builtin;
pub(crate) mod definition;
mod disk;
pub(crate) mod page;
pub(crate) mod schema;
pub(crate) mod settings;
pub(crate) mod tool;
pub(crate) mod toolset;
pub(crate) mod truncate;
pub(crate) mod walk;

pub(crate) use settings::Settings;
