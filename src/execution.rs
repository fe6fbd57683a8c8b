//! Runs tool calls: when ([`schedule`]), by whom ([`scheduler`]), and
//! through which steps ([`pipeline`]).

pub(crate) mod pipeline;
pub(crate) mod schedule;
pub(crate) mod scheduler;
