//! The events of a turn, in the order they happen.

use std::io;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::size_estimate;
use crate::errors::{ApiError, ErrorCode};
use crate::ids::{SessionId, TurnId};
use crate::openai::chunk::{CallKind, FinishReason, RawMembers};
use crate::openai::usage::Usage;

#[derive(Clone, Debug)]
pub(crate) enum TurnEvent {
    /// The model has begun a call. Nothing to show, but the turn is under way.
    Begun,
    Text(String),
    /// A further text member of the model's deltas: `reasoning_content`, `refusal`.
    Member {
        name: String,
        text: String,
    },
    /// A member that is no text, or a text with its log-probabilities: passed on
    /// alone and as it came.
    Raw(Box<RawDelta>),
    ToolStarted(Box<ToolStart>),
    ToolEnded(Box<ToolEnd>),
    /// Upstream is asked for the round of this number, from 1.
    RoundStarted(u32),
    ClientCall(Box<ClientCallDelta>),
    Finished(Box<Finished>),
    Failed(Box<Failure>),
}

#[derive(Clone, Debug)]
pub(crate) struct RawDelta {
    pub(crate) text: Option<String>,
    pub(crate) members: Vec<(String, Box<RawValue>)>,
    pub(crate) logprobs: Option<Box<RawValue>>,
}

#[derive(Clone, Debug)]
pub(crate) struct ToolStart {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) headline: Headline,
}

#[derive(Clone, Debug)]
pub(crate) struct ToolEnd {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) headline: Headline,
    pub(crate) duration: Duration,
    /// Characters of the answer.
    pub(crate) chars: usize,
    /// The first line of the answer, when it is a failure.
    pub(crate) error: Option<String>,
    pub(crate) structured: Structured,
}

/// The main argument of a call, in a few words: at most 400 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headline(String);

impl Headline {
    const MAX_CHARS: usize = 400;

    pub(crate) fn new(mut text: String) -> Self {
        if let Some((end, _)) = text.char_indices().nth(Self::MAX_CHARS) {
            text.truncate(end);
            text.shrink_to_fit();
        }
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What programs are told of an answer, measured once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structured {
    /// Null where it would be too large, or is told again.
    pub(crate) value: Value,
    /// Of the value as JSON, told or not; 0 where there is none.
    pub(crate) bytes: usize,
    /// Roughly what the value takes in memory, in bytes.
    size: usize,
}

impl Structured {
    /// As much as an event carries, in bytes of JSON.
    const MAX_BYTES: usize = 64_000;

    pub(crate) fn new(value: Value) -> Self {
        if value.is_null() {
            return Self::default();
        }
        let mut written = Written(0);
        serde_json::to_writer(&mut written, &value).expect("counting does not fail");
        if written.0 > Self::MAX_BYTES {
            return Self { value: Value::Null, bytes: written.0, size: 0 };
        }
        let size = size_estimate::size_of_value(&value);
        Self { value, bytes: written.0, size }
    }

    /// Its size alone.
    fn left_out(&self) -> Self {
        Self { value: Value::Null, bytes: self.bytes, size: 0 }
    }
}

/// Counts what is written.
struct Written(usize);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A piece of a call to one of the client's own tools, numbered from 0.
#[derive(Clone, Debug)]
pub(crate) struct ClientCallDelta {
    pub(crate) index: usize,
    pub(crate) kind: CallKind,
    /// Id and name, in the first piece only.
    pub(crate) head: Option<(String, String)>,
    pub(crate) arguments: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) reason: FinishReason,
    /// Summed over all rounds; `None` when none of them had figures.
    pub(crate) usage: Option<Usage>,
    pub(crate) summary: Summary,
    /// What stood beside the choices of the last round and nobody here knows.
    pub(crate) unknown: RawMembers,
}

/// The `toolhand` member of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) rounds: u32,
    pub(crate) tool_calls: usize,
    pub(crate) duration: Duration,
    pub(crate) rounds_without_usage: u32,
    /// The last round's prompt tokens: the size of the context.
    pub(crate) context_tokens: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: ApiError,
    /// A tool has run, so the client must not simply try again.
    pub(crate) tools_ran: bool,
}

impl Failure {
    /// For a turn that ended without saying how.
    pub(crate) fn crash() -> Self {
        let error = ApiError::new(ErrorCode::Internal, "The server failed within this turn.");
        Self { error, tools_ran: true }
    }
}

impl TurnEvent {
    /// Whether this ends the turn; exactly one such event comes, as the last.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed(_))
    }

    /// Whether this lets the response head go out.
    pub(crate) fn releases_head(&self) -> bool {
        !matches!(self, Self::RoundStarted(_))
    }

    /// The piece of the answer's text in this event.
    pub(super) fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Raw(delta) => delta.text.as_mut(),
            _ => None,
        }
    }

    /// Joins `next` to this event where the two are pieces of one text; false where
    /// they are not.
    pub(crate) fn absorb(&mut self, next: &TurnEvent) -> bool {
        match (self, next) {
            (Self::Text(text), Self::Text(more)) => text.push_str(more),
            (Self::Member { name, text }, Self::Member { name: other, text: more })
                if name == other =>
            {
                text.push_str(more);
            }
            (Self::ClientCall(call), Self::ClientCall(more))
                if call.index == more.index && more.head.is_none() =>
            {
                call.arguments.push_str(&more.arguments);
            }
            _ => return false,
        }
        true
    }

    /// The event as it is kept to be told again: without what programs were told.
    pub(crate) fn to_keep(&self) -> Self {
        match self {
            Self::ToolEnded(end) => {
                let ToolEnd { call_id, tool, headline, duration, chars, error, structured } =
                    &**end;
                Self::ToolEnded(Box::new(ToolEnd {
                    call_id: call_id.clone(),
                    tool: tool.clone(),
                    headline: headline.clone(),
                    duration: *duration,
                    chars: *chars,
                    error: error.clone(),
                    structured: structured.left_out(),
                }))
            }
            event => event.clone(),
        }
    }

    /// Roughly what waiting costs in memory beside the event's own size, in bytes.
    pub(crate) fn size_estimate(&self) -> usize {
        match self {
            Self::Begun | Self::RoundStarted(_) => 0,
            Self::Text(text) => text.len(),
            Self::Member { name, text } => name.len() + text.len(),
            Self::Raw(delta) => size_of::<RawDelta>() + delta.size_estimate(),
            Self::ToolStarted(start) => {
                size_of::<ToolStart>()
                    + start.call_id.len()
                    + start.tool.len()
                    + start.headline.0.len()
            }
            Self::ToolEnded(end) => {
                let error = end.error.as_ref().map_or(0, String::len);
                let texts = end.call_id.len() + end.tool.len() + end.headline.0.len() + error;
                size_of::<ToolEnd>() + texts + end.structured.size
            }
            Self::ClientCall(call) => {
                let head = call.head.as_ref().map_or(0, |(id, name)| id.len() + name.len());
                size_of::<ClientCallDelta>() + head + call.arguments.len()
            }
            Self::Finished(finished) => {
                let unknown =
                    finished.unknown.iter().map(|(name, raw)| name.len() + raw.get().len());
                size_of::<Finished>()
                    + unknown.sum::<usize>()
                    + finished.usage.as_ref().map_or(0, Usage::size_estimate)
            }
            Self::Failed(failure) => {
                let ApiError { message, param, .. } = &failure.error;
                size_of::<Failure>() + message.len() + param.as_ref().map_or(0, String::len)
            }
        }
    }
}

impl RawDelta {
    fn size_estimate(&self) -> usize {
        /// What a member takes besides its name and its text.
        const MEMBER: usize = size_of::<(String, Box<RawValue>)>();
        let members = self.members.iter().map(|(name, raw)| MEMBER + name.len() + raw.get().len());
        self.text.as_ref().map_or(0, String::len)
            + members.sum::<usize>()
            + self.logprobs.as_ref().map_or(0, |raw| raw.get().len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(structured: Value) -> TurnEvent {
        TurnEvent::ToolEnded(Box::new(ToolEnd {
            call_id: "c".repeat(100),
            tool: "Read".to_owned(),
            headline: Headline::new("h".repeat(300)),
            duration: Duration::ZERO,
            chars: 0,
            error: Some("e".repeat(200)),
            structured: Structured::new(structured),
        }))
    }

    #[test]
    fn a_call_weighs_what_it_holds_and_not_how_it_is_written() {
        let bare = ended(Value::Null).size_estimate();
        assert!(bare >= 600, "{bare}");
        let text = ended(json!("x".repeat(10_000))).size_estimate() - bare;
        assert!((10_000..11_000).contains(&text), "{text}");
        // Two bytes each in JSON, and a whole value each in memory.
        let numbers = ended(json!(vec![0; 10_000])).size_estimate() - bare;
        assert!(numbers >= 10_000 * size_of::<Value>(), "{numbers}");
        let started = TurnEvent::ToolStarted(Box::new(ToolStart {
            call_id: "c".repeat(100_000),
            tool: String::new(),
            headline: Headline::default(),
        }));
        assert!(started.size_estimate() >= 100_000);
        let raw = |text: &str| RawValue::from_string(json!(text).to_string()).unwrap();
        let delta = TurnEvent::Raw(Box::new(RawDelta {
            text: Some("t".repeat(1000)),
            members: vec![("n".repeat(1000), raw(&"m".repeat(1000)))],
            logprobs: Some(raw(&"l".repeat(1000))),
        }));
        assert!(delta.size_estimate() >= 4000);
        let error = ApiError::new(ErrorCode::Internal, "m".repeat(1000));
        let failed = TurnEvent::Failed(Box::new(Failure { error, tools_ran: false }));
        assert!(failed.size_estimate() >= 1000);
    }

    #[test]
    fn what_is_too_large_for_an_event_is_left_out_and_its_size_told() {
        let fits = json!("x".repeat(Structured::MAX_BYTES - 2));
        assert_eq!(Structured::new(fits.clone()).value, fits);
        let large = Structured::new(json!("x".repeat(Structured::MAX_BYTES - 1)));
        assert_eq!((large.value, large.bytes, large.size), (Value::Null, 64_001, 0));
    }

    #[test]
    fn what_is_kept_is_without_what_programs_were_told() {
        let event = ended(json!({ "patch": ["x".repeat(1000)] }));
        let TurnEvent::ToolEnded(kept) = event.to_keep() else { panic!("another event") };
        assert_eq!(kept.structured.value, Value::Null);
        assert_eq!(kept.structured.bytes, 1014);
        assert!(event.to_keep().size_estimate() + 1000 <= event.size_estimate());
    }

    #[test]
    fn the_main_argument_is_cut_at_a_character() {
        let cut = Headline::new("é".repeat(401));
        assert_eq!(cut.as_str(), "é".repeat(400));
        assert_eq!(Headline::new("é".repeat(400)).as_str().len(), 800);
    }
}
