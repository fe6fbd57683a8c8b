//! One `chat.completion.chunk` as it comes from upstream.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::Usage;

/// A chunk, with what the turn looks into; the rest of it is not ours to pass on.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) model: Option<String>,
    /// Choice 0; other choices are ignored.
    pub(crate) delta: Delta,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// A log-probability list that belongs to the text of this chunk.
    pub(crate) logprobs: Option<Box<RawValue>>,
}

/// What one chunk adds to the assistant's message.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// `content`, when it is a string.
    pub(crate) content: Option<String>,
    pub(crate) tool_calls: Vec<CallDelta>,
    /// Every further member but `role`, as it came: `reasoning_content`,
    /// `thinking_blocks`, `refusal`, `provider_specific_fields`, …
    pub(crate) members: IndexMap<String, Box<RawValue>>,
}

/// One entry of `delta.tool_calls`, lenient: everything may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallDelta {
    pub(crate) index: Option<u64>,
    /// Missing, `null` and `""` are all `None`.
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    /// A piece of the arguments; an object is serialised, `null` is `None`.
    pub(crate) arguments: Option<String>,
    /// Further members of the entry and of its `function` (signatures and the
    /// like), to be sent back.
    pub(crate) members: IndexMap<String, serde_json::Value>,
}

/// What the `finish_reason` of a round says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ContentFilter,
    ToolCalls,
}
