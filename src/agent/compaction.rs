//! Decides how a transcript that is too long becomes shorter. Pure.
//!
//! First old results of tools become stubs; then a summary stands for all that is old, with the
//! todo list and the plan as they are. The instructions, the last user message and the last rounds
//! stay as they are.

mod largest;
mod material;
mod plans;
mod size;
mod stubs;
mod summary;

use std::fmt;

pub(crate) use self::material::Material;
pub(crate) use self::plans::{KnowsPlans, Plan, Plans};
pub(crate) use self::size::{Size, estimate};
pub(crate) use self::summary::INSTRUCTIONS;

/// The most attempts to make one round's request fit.
pub(crate) const MAX_TRIES: u32 = 3;

/// From this share of the limit on, in percent, a request is made shorter before it is sent.
const FULL: u64 = 85;

/// Compaction goes on to this share of the limit where it can: a request that was made just
/// short enough would have to be changed again for the next round, past every prompt cache.
const GOAL: u64 = 60;

/// A summary is not worth a request if it stands for less than this part of what is sent.
const MIN_SUMMARISED: usize = 8;

/// Knows how many tokens models take. `sessions` implements it.
pub(crate) trait ContextLimits: Send + Sync + fmt::Debug {
    /// The limit of `model` in tokens, if it is known and may matter to a request of so many
    /// bytes. Never waits.
    fn limit(&self, model: &str, bytes: usize) -> Option<u64>;
}

/// Whether a request of this size is to be made shorter.
pub(crate) fn is_full(size: Size, limit: u64) -> bool {
    size.tokens >= share(limit, FULL)
}

/// How many bytes must go until the goal is reached.
pub(crate) fn excess(size: Size, limit: u64) -> usize {
    size.bytes.saturating_sub(size.bytes_of(share(limit, GOAL)))
}

/// Whether a summary of `replaced` bytes is worth a request.
pub(crate) fn is_worth_a_summary(replaced: usize, bytes: usize) -> bool {
    replaced >= bytes / MIN_SUMMARISED
}

/// The bytes of transcript that a request for a summary may hold. Each failed attempt at it
/// leaves a quarter. `limit` is `None` if upstream has refused a request of this size.
pub(crate) fn room_for_summary(size: Size, limit: Option<u64>, failed: u32) -> usize {
    /// Less is no transcript.
    const MIN_ROOM: usize = 500;
    let half = match limit {
        Some(limit) => size.bytes_of(limit) / 2,
        None => size.bytes / 2,
    };
    (half >> (2 * failed).min(usize::BITS - 1)).max(MIN_ROOM)
}

fn share(limit: u64, percent: u64) -> u64 {
    limit / 100 * percent + limit % 100 * percent / 100
}

#[cfg(test)]
mod tests;
