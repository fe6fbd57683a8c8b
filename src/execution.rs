//! Runs tool calls. [`schedule`] decides which may run now, [`scheduler`] runs them as tasks,
//! and [`pipeline`] takes each one from its arguments to its answer.

pub(crate) mod ask;
pub(crate) mod fitting;
#[doc(hidden)]
pub mod measured;
pub(crate) mod pipeline;
pub(crate) mod reminders;
pub(crate) mod schedule;
pub(crate) mod scheduler;
