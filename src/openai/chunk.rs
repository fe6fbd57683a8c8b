//! One `chat.completion.chunk` as it comes from upstream.

mod frame;
mod parse;
mod surrogates;

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::frame::FrameCache;

use super::error_object::ErrorObject;
use super::usage::Usage;

/// Members as they came, by name.
pub(crate) type RawMembers = IndexMap<String, Box<RawValue>>;

/// A chunk, with what the turn looks into.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Choice 0 is in it. A chunk with neither that nor usage is no progress.
    pub(crate) has_choice: bool,
    pub(crate) model: Option<String>,
    /// Choice 0; other choices are ignored.
    pub(crate) delta: Delta,
    /// `None` also where it is `null` or `""`.
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// A log-probability list that belongs to the text of this chunk.
    pub(crate) logprobs: Option<Box<RawValue>>,
    /// The top-level members that nobody here knows: `citations`, `service_tier`, …
    /// `None` where there are none; shared by the chunks of one frame.
    pub(crate) unknown: Option<Arc<RawMembers>>,
}

/// What one chunk adds to the assistant's message.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// `content`, when it is a string.
    pub(crate) content: Option<String>,
    /// `content`, when it is a list.
    pub(crate) parts: Vec<Box<RawValue>>,
    pub(crate) tool_calls: Vec<CallDelta>,
    /// Every further member but `role`, as it came: `reasoning_content`,
    /// `thinking_blocks`, `refusal`, `provider_specific_fields`, … A `null` adds
    /// nothing and is left out.
    pub(crate) members: RawMembers,
}

/// What a tool takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Arguments, as JSON.
    #[default]
    Function,
    /// Any text at all. Only a client's own tool can be of this kind.
    Custom,
}

/// One entry of `delta.tool_calls`, lenient: everything may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallDelta {
    pub(crate) index: Option<u64>,
    /// Missing, `null` and `""` are all `None`.
    pub(crate) id: Option<String>,
    /// Missing, `null` and `""` are all `None`.
    pub(crate) name: Option<String>,
    pub(crate) kind: CallKind,
    /// A piece of the arguments; an object is serialised, `null` is `None`.
    pub(crate) arguments: Option<String>,
    /// Further members of the entry (signatures and the like), to be sent back.
    pub(crate) members: IndexMap<String, Value>,
    /// Further members of its `function`, to be sent back there.
    pub(crate) function_members: IndexMap<String, Value>,
}

/// What the `finish_reason` of a round says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ContentFilter,
    ToolCalls,
}

/// Why a payload is no chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadChunk {
    /// `{"error": …}`: upstream says itself that it failed.
    Error(ErrorObject),
    /// Neither choices nor usage nor an error, a ping say: read over.
    Nothing,
    /// No JSON, or none of a chunk's shape. The text is for the log.
    Malformed(String),
}

impl Chunk {
    /// Reads the payload of one event, or a whole unstreamed completion, whose
    /// `message` is taken as the one delta. A lone surrogate is read as U+FFFD.
    pub(crate) fn parse(payload: &str) -> Result<Self, BadChunk> {
        parse::chunk(&surrogates::repaired(payload))
    }

    /// Whether it brings the answer forward. A stream of other chunks is a silent one.
    pub(crate) fn is_progress(&self) -> bool {
        self.has_choice || self.usage.is_some()
    }
}

impl CallKind {
    /// The `type` of a call, which is also the name of what it holds.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Custom => "custom",
        }
    }

    /// The name of the text that the tool takes.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Function => "arguments",
            Self::Custom => "input",
        }
    }
}

impl FinishReason {
    /// A word we do not know means a proper end, as `stop` does. Words of failure never
    /// get here: a chunk with one is read as an error.
    pub(crate) fn from_word(word: &str) -> Self {
        match word {
            "length" | "max_tokens" => Self::Length,
            "content_filter" => Self::ContentFilter,
            "tool_calls" | "function_call" => Self::ToolCalls,
            _ => Self::Stop,
        }
    }

    /// The reason of an answer that gave `self` and later `next`: a cut counts, whatever
    /// is said of it then, and hides no earlier one.
    pub(crate) fn then(self, next: Self) -> Self {
        if next.is_cut_off() && !self.is_cut_off() { next } else { self }
    }

    /// Whether the model was stopped before it was done.
    pub(crate) fn is_cut_off(self) -> bool {
        matches!(self, Self::Length | Self::ContentFilter)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::ToolCalls => "tool_calls",
        }
    }
}
