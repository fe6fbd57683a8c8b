//! Represents one `chat.completion.chunk` from upstream.

mod frame;
mod parse;
pub(crate) mod surrogates;
mod whole;

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::frame::FrameCache;
pub(crate) use self::whole::{ContentKind, WholeAnswer};

use super::error_object::ErrorObject;
use super::usage::Usage;

/// The largest `usage` that is read, in bytes: many times that of any provider.
const MAX_USAGE: usize = 64 << 10;

/// Unparsed members, by name.
pub(crate) type RawMembers = IndexMap<String, Box<RawValue>>;

/// The first byte of a value of the type that clients expect of a member of messages and deltas;
/// `None` for a text, and for a member that they do not know.
pub(crate) fn first_byte_of(member: &str) -> Option<u8> {
    match member {
        "annotations" | "images" => Some(b'['),
        "audio" => Some(b'{'),
        _ => None,
    }
}

/// A chunk, as far as the turn looks into it.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Whether choice 0 is in it. A chunk with neither a choice nor usage is no progress.
    pub(crate) has_choice: bool,
    pub(crate) model: Option<String>,
    /// The delta of choice 0. Other choices are ignored.
    pub(crate) delta: Delta,
    /// `None` also where it is `null` or `""`.
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// The log-probabilities of this chunk's text.
    pub(crate) logprobs: Option<Box<RawValue>>,
    /// Unknown top-level members, such as `citations` or `service_tier`. `None` if there are
    /// none. Chunks with the same frame share one object.
    pub(crate) unknown: Option<Arc<RawMembers>>,
    /// The members of an unstreamed completion, as upstream wrote them.
    pub(crate) whole: Option<Box<WholeAnswer>>,
}

/// What one chunk adds to the assistant's message.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// `content`, where it is a string.
    pub(crate) content: Option<String>,
    /// `content`, where it is a list.
    pub(crate) parts: Vec<Box<RawValue>>,
    pub(crate) tool_calls: Vec<CallDelta>,
    /// Every other member but `role`, unparsed: `reasoning_content`, `thinking_blocks`,
    /// `refusal`, `provider_specific_fields`, … Members that are `null` are left out.
    pub(crate) members: RawMembers,
}

/// What a tool takes as input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Arguments as JSON.
    #[default]
    Function,
    /// Any text. Only a client's own tool can be of this kind.
    Custom,
}

/// One entry of `delta.tool_calls`. Every member may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallDelta {
    pub(crate) index: Option<u64>,
    /// `None` where it is missing, `null` or `""`.
    pub(crate) id: Option<String>,
    /// `None` where it is missing, `null` or `""`.
    pub(crate) name: Option<String>,
    pub(crate) kind: CallKind,
    /// A piece of the arguments. An object is serialised; `null` is `None`.
    pub(crate) arguments: Option<String>,
    /// Further members of the entry, such as signatures, to be sent back.
    pub(crate) members: IndexMap<String, Value>,
    /// Further members of its `function`, to be sent back in it.
    pub(crate) function_members: IndexMap<String, Value>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ContentFilter,
    ToolCalls,
}

/// Why a payload is not a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadChunk {
    /// `{"error": …}`: upstream reports a failure.
    Error(ErrorObject),
    /// It has neither choices nor usage nor an error. A ping, for instance: it is skipped.
    Nothing,
    /// It is not JSON, or not of a chunk's form. The text is for the log.
    Malformed(String),
}

impl Chunk {
    /// Parses the payload of one event. A lone surrogate becomes U+FFFD.
    pub(crate) fn parse(payload: &str) -> Result<Self, BadChunk> {
        parse::chunk(&surrogates::repaired(payload))
    }

    /// Parses a whole unstreamed completion, whose `message` becomes the delta.
    pub(crate) fn parse_whole(body: &str) -> Result<Self, BadChunk> {
        let body = surrogates::repaired(body);
        let mut chunk = parse::chunk(&body)?;
        chunk.whole = WholeAnswer::parse(&body).map(Box::new);
        Ok(chunk)
    }

    /// Whether the chunk advances the answer. A stream without such chunks counts as silent.
    pub(crate) fn is_progress(&self) -> bool {
        self.has_choice || self.usage.is_some()
    }
}

impl CallKind {
    /// The `type` of a call, which is also the member that holds its name and input.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Custom => "custom",
        }
    }

    /// The member that holds the tool's input.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Function => "arguments",
            Self::Custom => "input",
        }
    }
}

impl FinishReason {
    /// Classifies a `finish_reason`. An unknown word counts as `stop`. Words of failure do not
    /// come here: a chunk with one is an error.
    pub(crate) fn from_word(word: &str) -> Self {
        match word {
            "length" | "max_tokens" => Self::Length,
            "content_filter" => Self::ContentFilter,
            "tool_calls" | "function_call" => Self::ToolCalls,
            _ => Self::Stop,
        }
    }

    /// Combines two reasons of one answer. A cut counts whatever reason comes before or after
    /// it; the first cut stands.
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
