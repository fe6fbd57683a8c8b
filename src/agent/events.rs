//! Defines the events of a turn, in the order in which they happen.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::agent_event::AgentEvent;
use super::record::Asked;
use super::size_estimate;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::ask::About;
use crate::execution::pipeline::ToolResult;
use crate::ids::TurnId;
use crate::openai::chunk::{CallKind, FinishReason, RawMembers, WholeAnswer};
use crate::openai::usage::Usage;
use crate::tools::call_progress::ProgressText;
use crate::tools::todos::Todo;

/// One event of a turn, from the agent to its subscriber.
#[derive(Clone, Debug)]
pub(crate) enum TurnEvent {
    /// The model has begun a tool call. There is nothing to show yet, but the turn makes
    /// progress.
    Begun,
    /// The name of a call of the server's is known. Only where the client is shown cards.
    CallBegan(Box<CallBegan>),
    /// No further call of this round begins. Only where the client is shown cards.
    CallsComplete,
    Text(String),
    /// What the model said before its calls, where only the last round's text is the content.
    TextBeforeCalls(String),
    /// A piece of another text member of the model's deltas, such as `reasoning_content` or
    /// `refusal`.
    Member {
        name: String,
        text: String,
    },
    /// Members that are not texts, or text with its log-probabilities. Passed on unchanged and
    /// never merged with other events.
    Raw(Box<RawDelta>),
    ToolStarted(Box<ToolStart>),
    /// A running call tells how far it is.
    ToolProgress(Box<ToolLine>),
    ToolEnded(Box<ToolEnd>),
    /// A subagent of a call does something.
    Agent(Box<AgentReport>),
    /// The agent has written its todo list, which is this now.
    TodosWritten(Vec<Todo>),
    /// What a hook of the operator's tells the person, or what is wrong with one.
    HookSaid(String),
    /// What a command has left in the workspace that other programs obey, in a line.
    LeftBehind(String),
    /// Upstream is asked for this round. Rounds count from 1.
    RoundStarted(u32),
    ClientCall(Box<ClientCallDelta>),
    /// A person is asked. The text of the question, if there is any, comes after this event.
    Asked(Vec<Asked>),
    Finished(Box<Finished>),
    Failed(Box<Failure>),
}

/// Parts of a delta that are passed on as the model sent them.
#[derive(Clone, Debug)]
pub(crate) struct RawDelta {
    pub(crate) text: Option<String>,
    pub(crate) members: Vec<(String, Box<RawValue>)>,
    pub(crate) logprobs: Option<Box<RawValue>>,
}

/// The model has begun to write a call of a server tool.
#[derive(Clone, Debug)]
pub(crate) struct CallBegan {
    /// The call's place in its round, by which further events name it.
    pub(crate) slot: usize,
    pub(crate) tool: String,
}

/// A server tool has started.
#[derive(Clone, Debug)]
pub(crate) struct ToolStart {
    pub(crate) call_id: String,
    /// The call's place in its round.
    pub(crate) slot: usize,
    pub(crate) tool: String,
    pub(crate) headline: Headline,
    /// The arguments as JSON, where the client is shown cards and they are not too long.
    pub(crate) arguments: Option<String>,
}

/// What a running server tool tells: lines that a command has printed, or how far a call is.
#[derive(Clone, Debug)]
pub(crate) struct ToolLine {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) told: ProgressText,
}

/// A server tool has ended, with or without an error.
#[derive(Clone, Debug)]
pub(crate) struct ToolEnd {
    pub(crate) call_id: String,
    /// The call's place in its round.
    pub(crate) slot: usize,
    pub(crate) tool: String,
    pub(crate) headline: Headline,
    /// The beginning of the answer, where the client is shown cards.
    pub(crate) text: Option<String>,
    pub(crate) duration: Duration,
    /// The length of the answer, in characters.
    pub(crate) chars: usize,
    /// The first line of the answer, if it is an error.
    pub(crate) error: Option<String>,
    pub(crate) structured: Structured,
    pub(crate) attachments: Attachments,
}

/// What a subagent of a running call does.
#[derive(Clone, Debug)]
pub(crate) struct AgentReport {
    /// The id of the call that started it.
    pub(crate) call_id: String,
    pub(crate) event: AgentEvent,
}

/// What belongs to an answer besides its text. The model has it, and clients are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Attachments {
    /// The file that holds the whole of an answer that was cut.
    pub(crate) spill_path: Option<String>,
    pub(crate) pictures: Vec<AttachedPicture>,
}

/// A picture without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AttachedPicture {
    pub(crate) media_type: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Its size.
    pub(crate) bytes: usize,
}

impl Attachments {
    pub(crate) fn of_result(result: &ToolResult) -> Self {
        let spill_path = result.text.kept_at().map(|path| path.to_string_lossy().into_owned());
        let pictures = result.pictures.iter().map(|picture| AttachedPicture {
            media_type: picture.format.media_type(),
            width: picture.width,
            height: picture.height,
            bytes: picture.bytes.len(),
        });
        Self { spill_path, pictures: pictures.collect() }
    }
}

/// A call's main argument, for people: at most 400 characters.
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

/// The machine-readable part of an answer, with its size, which is measured once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structured {
    /// Null where it is too large to send, and in the copy that is kept for repeated requests.
    pub(crate) value: Value,
    /// The size of the value as JSON, even where `value` was left out; 0 where there was none.
    pub(crate) bytes: usize,
    /// The estimated size of the value in memory, in bytes.
    size: usize,
}

impl Structured {
    /// The most that an event carries, in bytes of JSON.
    const MAX_BYTES: usize = 64_000;

    pub(crate) fn new(value: Value) -> Self {
        if value.is_null() {
            return Self::default();
        }
        let mut written = ByteCounter(0);
        serde_json::to_writer(&mut written, &value).expect("counting does not fail");
        if written.0 > Self::MAX_BYTES {
            return Self { value: Value::Null, bytes: written.0, size: 0 };
        }
        let size = size_estimate::size_of_value(&value);
        Self { value, bytes: written.0, size }
    }

    /// A copy without the value, which keeps its size.
    fn left_out(&self) -> Self {
        Self { value: Value::Null, bytes: self.bytes, size: 0 }
    }
}

/// A writer that only counts bytes.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A piece of a call to one of the client's own tools. Calls are numbered from 0.
#[derive(Clone, Debug)]
pub(crate) struct ClientCallDelta {
    pub(crate) index: usize,
    pub(crate) kind: CallKind,
    /// Id and name; in the first piece only.
    pub(crate) head: Option<(String, String)>,
    pub(crate) arguments: String,
}

/// The turn ended with an answer.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) reason: FinishReason,
    /// The sum over all rounds; `None` if no round reported usage.
    pub(crate) usage: Option<Usage>,
    pub(crate) summary: Summary,
    /// What the turn added to the conversation, if the request asked for it.
    pub(crate) messages: Option<Vec<Box<RawValue>>>,
    /// Unknown members beside `choices` in the last round's chunks.
    pub(crate) unknown: RawMembers,
    /// The answer as upstream wrote it, if it came whole and passes as it is.
    pub(crate) whole: Option<Box<WholeAnswer>>,
}

/// The `toolhand` member of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// The client's own id of the session if it gave one, else ours.
    pub(crate) session: String,
    pub(crate) turn: TurnId,
    pub(crate) rounds: u32,
    pub(crate) tool_calls: usize,
    pub(crate) duration: Duration,
    /// Rounds whose usage upstream did not report.
    pub(crate) rounds_without_usage: u32,
    /// The prompt tokens of the last request that reported usage: the size of the context.
    pub(crate) context_tokens: Option<u64>,
}

/// The turn ended with an error.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: ApiError,
    /// Whether a tool has run. Then the client must not simply repeat the request.
    pub(crate) tools_ran: bool,
}

impl Failure {
    /// For a turn whose task ended without a terminal event.
    pub(crate) fn crash() -> Self {
        let error = ApiError::new(ErrorCode::Internal, "The server failed within this turn.");
        Self { error, tools_ran: true }
    }
}

impl TurnEvent {
    /// Whether this event ends the turn. Exactly one such event comes, and it is the last.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed(_))
    }

    /// Whether the HTTP response head may be sent now. Until then a failure can still choose
    /// the status.
    pub(crate) fn releases_head(&self) -> bool {
        !matches!(self, Self::RoundStarted(_) | Self::HookSaid(_) | Self::LeftBehind(_))
    }

    /// The text of the answer in this event, if it has one.
    pub(super) fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Raw(delta) => delta.text.as_mut(),
            _ => None,
        }
    }

    /// Appends `next` to this event if both are pieces of one text. Returns how many bytes
    /// were appended, or `None` if they are not.
    pub(crate) fn absorb(&mut self, next: &TurnEvent) -> Option<usize> {
        let (text, more) = match (self, next) {
            (Self::Text(text), Self::Text(more)) => (text, more),
            (Self::Member { name, text }, Self::Member { name: other, text: more })
                if name == other =>
            {
                (text, more)
            }
            (Self::ClientCall(call), Self::ClientCall(more))
                if call.index == more.index && more.head.is_none() =>
            {
                (&mut call.arguments, &more.arguments)
            }
            _ => return None,
        };
        text.push_str(more);
        Some(more.len())
    }

    /// The copy that is kept for repeated requests: without `structured`, arguments and answers.
    pub(crate) fn to_keep(&self) -> Self {
        match self {
            Self::ToolStarted(start) => {
                let ToolStart { call_id, slot, tool, headline, arguments: _ } = &**start;
                Self::ToolStarted(Box::new(ToolStart {
                    call_id: call_id.clone(),
                    slot: *slot,
                    tool: tool.clone(),
                    headline: headline.clone(),
                    arguments: None,
                }))
            }
            Self::ToolEnded(end) => {
                let ToolEnd {
                    call_id,
                    slot,
                    tool,
                    headline,
                    text: _,
                    duration,
                    chars,
                    error,
                    structured,
                    attachments,
                } = &**end;
                Self::ToolEnded(Box::new(ToolEnd {
                    call_id: call_id.clone(),
                    slot: *slot,
                    tool: tool.clone(),
                    headline: headline.clone(),
                    text: None,
                    duration: *duration,
                    chars: *chars,
                    error: error.clone(),
                    structured: structured.left_out(),
                    attachments: attachments.clone(),
                }))
            }
            event => event.clone(),
        }
    }

    /// The estimated memory of the event in a queue, in bytes, beside the size of `TurnEvent`
    /// itself.
    pub(crate) fn size_estimate(&self) -> usize {
        match self {
            Self::Begun | Self::CallsComplete | Self::RoundStarted(_) => 0,
            Self::CallBegan(began) => size_of::<CallBegan>() + began.tool.len(),
            Self::Asked(asked) => asked.iter().map(size_of_asked).sum(),
            Self::Text(text)
            | Self::TextBeforeCalls(text)
            | Self::HookSaid(text)
            | Self::LeftBehind(text) => text.len(),
            Self::Member { name, text } => name.len() + text.len(),
            Self::Raw(delta) => size_of::<RawDelta>() + delta.size_estimate(),
            Self::ToolStarted(start) => {
                size_of::<ToolStart>()
                    + start.call_id.len()
                    + start.tool.len()
                    + start.headline.0.len()
                    + start.arguments.as_ref().map_or(0, String::len)
            }
            Self::ToolProgress(line) => {
                let told = line.told.lines.len() + line.told.unfinished.len();
                size_of::<ToolLine>() + line.call_id.len() + line.tool.len() + told
            }
            Self::ToolEnded(end) => {
                let shown = [&end.error, &end.text];
                let shown: usize = shown.into_iter().flatten().map(String::len).sum();
                let texts = end.call_id.len() + end.tool.len() + end.headline.0.len() + shown;
                size_of::<ToolEnd>() + texts + end.structured.size
            }
            Self::Agent(report) => report.call_id.len() + report.event.size_estimate(),
            Self::TodosWritten(todos) => todos.iter().map(size_of_todo).sum(),
            Self::ClientCall(call) => {
                let head = call.head.as_ref().map_or(0, |(id, name)| id.len() + name.len());
                size_of::<ClientCallDelta>() + head + call.arguments.len()
            }
            Self::Finished(finished) => {
                let unknown =
                    finished.unknown.iter().map(|(name, raw)| name.len() + raw.get().len());
                let messages = finished.messages.iter().flatten().map(|raw| raw.get().len());
                size_of::<Finished>()
                    + unknown.sum::<usize>()
                    + messages.sum::<usize>()
                    + finished.usage.as_ref().map_or(0, Usage::size_estimate)
                    + finished.whole.as_ref().map_or(0, |whole| whole.size_estimate())
            }
            Self::Failed(failure) => {
                let ApiError { message, param, .. } = &failure.error;
                size_of::<Failure>() + message.len() + param.as_ref().map_or(0, String::len)
            }
        }
    }
}

fn size_of_todo(todo: &Todo) -> usize {
    size_of::<Todo>() + todo.content.len() + todo.active_form.as_ref().map_or(0, String::len)
}

fn size_of_asked(asked: &Asked) -> usize {
    let about = match &asked.ask.about {
        About::Effect(effect) => {
            let choices = effect.choices.iter();
            let choices = choices.map(|choice| choice.label.len() + choice.description.len());
            let why = effect.why.as_ref().map_or(0, String::len);
            let words = effect.line.len() + effect.described.as_ref().map_or(0, String::len);
            effect.markdown.len() + words + effect.remedy.len() + why + choices.sum::<usize>()
        }
        About::Questions { questions } => serde_json::to_string(questions).map_or(0, |q| q.len()),
    };
    size_of::<Asked>() + asked.code.len() + asked.ask.tool.len() + asked.ask.headline.len() + about
}

impl RawDelta {
    fn size_estimate(&self) -> usize {
        /// The overhead of one member beside its name and its text.
        const MEMBER: usize = size_of::<(String, Box<RawValue>)>();
        let members = self.members.iter().map(|(name, raw)| MEMBER + name.len() + raw.get().len());
        self.text.as_ref().map_or(0, String::len)
            + members.sum::<usize>()
            + self.logprobs.as_ref().map_or(0, |raw| raw.get().len())
    }
}

/// Events for tests.
#[cfg(test)]
pub(super) mod samples {
    use super::TurnEvent;

    pub(in crate::agent) fn text(text: &str) -> TurnEvent {
        TurnEvent::Text(text.to_owned())
    }

    pub(in crate::agent) fn member(name: &str, text: &str) -> TurnEvent {
        TurnEvent::Member { name: name.to_owned(), text: text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(structured: Value) -> TurnEvent {
        TurnEvent::ToolEnded(Box::new(ToolEnd {
            call_id: "c".repeat(100),
            slot: 0,
            tool: "Read".to_owned(),
            headline: Headline::new("h".repeat(300)),
            text: None,
            duration: Duration::ZERO,
            chars: 0,
            error: Some("e".repeat(200)),
            structured: Structured::new(structured),
            attachments: Attachments::default(),
        }))
    }

    #[test]
    fn a_call_weighs_what_it_holds_and_not_how_it_is_written() {
        let bare = ended(Value::Null).size_estimate();
        assert!(bare >= 600, "{bare}");
        let text = ended(json!("x".repeat(10_000))).size_estimate() - bare;
        assert!((10_000..11_000).contains(&text), "{text}");
        // Each number is two bytes in JSON and a whole `Value` in memory.
        let numbers = ended(json!(vec![0; 10_000])).size_estimate() - bare;
        assert!(numbers >= 10_000 * size_of::<Value>(), "{numbers}");
        let started = TurnEvent::ToolStarted(Box::new(ToolStart {
            call_id: "c".repeat(100_000),
            slot: 0,
            tool: String::new(),
            headline: Headline::default(),
            arguments: Some("a".repeat(100_000)),
        }));
        assert!(started.size_estimate() >= 200_000);
        assert!(started.to_keep().size_estimate() < 110_000);
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
