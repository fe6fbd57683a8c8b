//! Represents one `chat.completion.chunk` from upstream.

mod carried_error;
mod finish_reason;
mod frame;
mod halves;
mod parse;
mod reader;
pub(crate) mod surrogates;
mod whole;

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::carried_error::{
    in_body as error_in_body, in_text as error_in_text, names_a_failure,
};
pub(crate) use self::finish_reason::FinishReason;
use self::frame::FrameCache;
pub(crate) use self::reader::ChunkReader;
pub(crate) use self::whole::{ContentKind, WholeAnswer};

use super::error_object::ErrorObject;
use super::usage::Usage;

/// The largest `usage` that is read, in bytes: many times that of any provider.
const MAX_USAGE: usize = 64 << 10;

/// Unparsed members, by name.
pub(crate) type RawMembers = IndexMap<String, Box<RawValue>>;

/// Members that carry reasoning. Some providers require them back, others refuse them.
pub(crate) const REASONING_MEMBERS: [&str; 6] = [
    "reasoning_content",
    "reasoning",
    "thinking_blocks",
    "reasoning_details",
    "reasoning_items",
    "provider_specific_fields",
];

/// Members of a block whose text comes in pieces.
const PIECE_MEMBERS: [&str; 6] = ["thinking", "text", "summary", "data", "signature", "transcript"];

/// Whether a member of a message, or of a call in it, carries reasoning.
pub(crate) fn is_reasoning(member: &str) -> bool {
    REASONING_MEMBERS.contains(&member)
}

/// Whether the text of this member of a block comes in pieces, to be put together.
pub(crate) fn comes_in_pieces(member: &str) -> bool {
    PIECE_MEMBERS.contains(&member)
}

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
    pub(crate) finish_reason: Option<FinishReason>,
    pub(crate) usage: Option<Usage>,
    /// The log-probabilities of this chunk's text.
    pub(crate) logprobs: Option<Box<RawValue>>,
    /// Unknown top-level members, such as `citations` or `service_tier`. `None` if there are
    /// none. Chunks with the same frame share one object.
    pub(crate) unknown: Option<Arc<RawMembers>>,
    /// The members of an unstreamed completion, as upstream wrote them.
    pub(crate) whole: Option<Box<WholeAnswer>>,
    /// The delta with the halves of surrogate pairs in it. `None` if it has none.
    marked: Option<Box<Delta>>,
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

/// Why a payload is not a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadChunk {
    /// `{"error": …}`: upstream reports a failure.
    Error(ErrorObject),
    /// It has neither choices nor usage nor an error. A ping, for instance: it is skipped.
    Nothing,
    /// The same, with words that may be those of a failure: it is one if nothing of an answer
    /// comes behind it.
    Remark(ErrorObject),
    /// It is not JSON, or not of a chunk's form. The text is for the log.
    Malformed(String),
}

impl Chunk {
    /// Parses the payload of one event. A lone surrogate becomes U+FFFD; [`ChunkReader`] joins
    /// those of a stream. In the arguments of a call it stays an escape.
    pub(crate) fn parse(payload: &str) -> Result<Self, BadChunk> {
        let repaired = surrogates::repaired(payload);
        let mut chunk = parse::chunk(&repaired)?;
        if matches!(repaired, Cow::Owned(_)) {
            halves::keep(&mut chunk, payload);
        }
        Ok(chunk)
    }

    /// Parses a whole unstreamed completion, whose `message` becomes the delta.
    pub(crate) fn parse_whole(body: &str) -> Result<Self, BadChunk> {
        let mut chunk = Self::parse(body)?;
        chunk.whole = WholeAnswer::parse(&surrogates::repaired(body)).map(Box::new);
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
