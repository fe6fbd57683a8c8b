//! Knows how many tokens a model takes: by the operator's rules, otherwise by upstream's list.

use std::sync::Arc;

use super::record::SentMessage;
use crate::agent::ModelRule;
use crate::agent::compaction::ContextLimits;
use crate::agent::settings::traits_of;
use crate::upstream::ModelInfo;

/// A shorter request fits into a model of 8,192 tokens, of which our own prompt and tools take about
/// half: upstream is not asked for its list.
const MIN_BYTES: usize = 24 << 10;

#[derive(Clone, Debug)]
pub(crate) struct KnownLimits {
    rules: Arc<[ModelRule]>,
    info: Arc<ModelInfo>,
}

impl KnownLimits {
    pub(crate) fn new(rules: Arc<[ModelRule]>, info: ModelInfo) -> Self {
        Self { rules, info: Arc::new(info) }
    }
}

impl ContextLimits for KnownLimits {
    fn limit(&self, model: &str, bytes: usize) -> Option<u64> {
        match traits_of(&[model], &self.rules).context {
            Some(limit) => Some(limit.get()),
            None if bytes < MIN_BYTES => None,
            None => self.info.max_input_tokens(model),
        }
    }
}

/// The tokens that were counted before, and about those of the new user messages.
pub(super) fn with(before: u64, users: &[SentMessage]) -> u64 {
    let more: usize = users.iter().map(|message| message.sent.len() / 4).sum();
    before.saturating_add(more as u64)
}
