//! The road to LiteLLM: requests out, chunks in.

pub(crate) mod assemble;
