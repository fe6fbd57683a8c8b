//! Programs of the operator's that watch, change or stop tool calls.
//!
//! The stage stands in the pipeline; nothing configures a hook yet.
