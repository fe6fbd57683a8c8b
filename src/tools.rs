//! What the model can do: the contract of a tool, and the tools.

pub(crate) mod builtin;
pub(crate) mod definition;
pub(crate) mod schema;
pub(crate) mod tool;
