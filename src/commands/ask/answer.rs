//! Reads the chunks of an answer: what is shown of each, and how the answer ended.

use std::mem;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::asked::{self, Asked};
use super::error::{AskError, ErrorKind};
use super::reply::Expected;
use crate::openai::chunk::{BadChunk, Chunk, Delta, FinishReason};
use crate::openai::error_object::ErrorObject;
use crate::progress_lines;
use crate::text::shortened;
use crate::tools::todos::Todo;

/// Bytes of an unexpected answer that an error shows.
const MAX_EXCERPT: usize = 200;

/// The member with a progress event.
const MEMBER: &str = r#""toolhand""#;

/// The member with what an unstreamed answer waits for.
const ASKED: &str = r#""asked""#;

/// What is shown of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    Text(String),
    /// Text of a question to the person.
    Question(String),
    ToolStarted(ToolStart),
    ToolOutput(ToolOutput),
    /// What an agent of a running call does.
    Agent(AgentEvent),
    /// The model's todo list as it is now.
    Todos(Vec<Todo>),
    /// A line for the person that no call's own line tells.
    Notice(String),
    ToolEnded(ToolEnd),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ToolStart {
    pub(super) id: String,
    pub(super) tool: String,
    /// Its main argument.
    #[serde(default)]
    pub(super) argument: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ToolEnd {
    pub(super) id: String,
    pub(super) tool: String,
    #[serde(default)]
    pub(super) argument: Option<String>,
    #[serde(default)]
    duration_ms: u64,
    /// The length of its answer in characters.
    #[serde(default)]
    pub(super) chars: usize,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// What a running command has printed, or how far another call is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ToolOutput {
    pub(super) id: String,
    /// Whole lines.
    #[serde(default)]
    pub(super) text: String,
    /// The line that has not ended, as it is now.
    #[serde(default)]
    pub(super) unfinished: String,
}

/// What an agent does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct AgentEvent {
    /// The call that started the agent.
    pub(super) call_id: String,
    #[serde(flatten)]
    pub(super) step: AgentStep,
}

/// A call of an agent that begins or ends, or something that is not shown.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum AgentStep {
    ToolStart(ToolStart),
    ToolEnd(ToolEnd),
    #[serde(other)]
    Other,
}

/// The events of `progress: events` that are shown. Others are skipped.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Progress {
    ToolStart(ToolStart),
    ToolOutput(ToolOutput),
    Subagent(AgentEvent),
    Todo { todos: Vec<Todo> },
    Hook { message: String },
    LeftBehind { message: String },
    ToolEnd(ToolEnd),
    Approval(Asked),
    Question(Asked),
    Round,
}

/// How a whole answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Stopped,
    CutOff,
    Filtered,
    /// It waits for a person's answer.
    Suspended(Waiting),
    /// The model's own words.
    Refused(String),
}

/// What an answer waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The question, unless its text was shown.
    pub(super) question: String,
    pub(super) expected: Expected,
}

/// Collects what the chunks say of the answer's end.
#[derive(Debug, Default)]
pub(super) struct Answer {
    refusal: String,
    /// What a person is asked and has not decided.
    asked: Vec<Asked>,
    /// Whether text came since the person was asked.
    question_was_told: bool,
    reason: Option<FinishReason>,
}

impl Answer {
    /// Reads the payload of one event, or a whole answer.
    pub(super) fn read(&mut self, payload: &str) -> Result<Vec<Shown>, AskError> {
        match Chunk::parse(payload) {
            Ok(chunk) => {
                self.asked.extend(asked_of_whole(payload));
                let text = self.add(chunk);
                let progress = progress(payload).and_then(|event| self.note(event));
                Ok(text.into_iter().chain(progress).collect())
            }
            Err(BadChunk::Nothing | BadChunk::Remark(_)) => Ok(Vec::new()),
            Err(BadChunk::Error(error)) => Err(server_error(&error, None)),
            Err(BadChunk::Malformed(_)) => Err(no_completion(payload)),
        }
    }

    /// Adds a chunk. Returns its text.
    fn add(&mut self, chunk: Chunk) -> Option<Shown> {
        if let Some(reason) = chunk.finish_reason {
            self.reason = Some(self.reason.map_or(reason, |first| first.then(reason)));
        }
        let Delta { content, members, .. } = chunk.delta;
        if let Some(refusal) = members.get("refusal").and_then(|value| text(value)) {
            self.refusal.push_str(&refusal);
        }
        let text = content.filter(|text| !text.is_empty())?;
        if self.asked.is_empty() {
            return Some(Shown::Text(text));
        }
        self.question_was_told = true;
        Some(Shown::Question(text))
    }

    /// Takes a progress event. Returns what is shown of it.
    fn note(&mut self, event: Progress) -> Option<Shown> {
        match event {
            Progress::Approval(asked) | Progress::Question(asked) => {
                self.asked.push(asked);
                return None;
            }
            // The turn went on: somebody has decided.
            Progress::ToolStart(_) | Progress::ToolEnd(_) | Progress::Round => {
                self.asked.clear();
                self.question_was_told = false;
            }
            Progress::ToolOutput(_)
            | Progress::Subagent(_)
            | Progress::Todo { .. }
            | Progress::Hook { .. }
            | Progress::LeftBehind { .. } => {}
        }
        match event {
            Progress::ToolStart(start) => Some(Shown::ToolStarted(start)),
            Progress::ToolOutput(output) => Some(Shown::ToolOutput(output)),
            Progress::Subagent(event) if event.step != AgentStep::Other => {
                Some(Shown::Agent(event))
            }
            Progress::Todo { todos } => Some(Shown::Todos(todos)),
            Progress::Hook { message } => Some(Shown::Notice(progress_lines::hook_said(&message))),
            Progress::LeftBehind { message } => {
                Some(Shown::Notice(progress_lines::left_behind(&message)))
            }
            Progress::ToolEnd(end) => Some(Shown::ToolEnded(end)),
            _ => None,
        }
    }

    /// Whether the answer is whole: what may still come is not part of it.
    pub(super) fn has_ended(&self) -> bool {
        self.reason.is_some()
    }

    /// How the answer ended. It must have its finish reason.
    pub(super) fn ending(&mut self) -> Result<Ending, AskError> {
        let broken = |message: &str| Err(AskError::new(ErrorKind::InvalidAnswer, message));
        match self.reason {
            None => broken("the server's answer ended without its finish_reason"),
            Some(FinishReason::Stop) if !self.asked.is_empty() => {
                let asked = mem::take(&mut self.asked);
                let was_told = self.question_was_told;
                let question = if was_told { String::new() } else { asked::as_text(&asked) };
                Ok(Ending::Suspended(Waiting { question, expected: asked::expected(&asked) }))
            }
            Some(FinishReason::ToolCalls) => {
                broken("the model called a tool of the client's, and this client has none")
            }
            Some(FinishReason::ContentFilter) => Ok(Ending::Filtered),
            Some(FinishReason::Length) => Ok(Ending::CutOff),
            Some(FinishReason::Stop) if !self.refusal.is_empty() => {
                Ok(Ending::Refused(mem::take(&mut self.refusal)))
            }
            Some(FinishReason::Stop) => Ok(Ending::Stopped),
        }
    }
}

impl ToolEnd {
    pub(super) fn duration(&self) -> Duration {
        Duration::from_millis(self.duration_ms)
    }
}

impl Ending {
    /// The error for an ending that is none of the model's own.
    pub(super) fn into_error(self) -> AskError {
        match self {
            Self::Refused(words) => {
                AskError::about_answer(ErrorKind::Refused, format!("the model refused: {words}"))
            }
            Self::Filtered => AskError::about_answer(
                ErrorKind::Refused,
                "a content filter stopped the answer (content_filter)",
            ),
            Self::CutOff | Self::Stopped | Self::Suspended(_) => AskError::about_answer(
                ErrorKind::CutOff,
                "a limit cut the answer off: of its tokens, or of the turn's rounds (length)",
            ),
        }
    }
}

/// An error that the server sent, with the status of the response if it was one.
pub(super) fn server_error(error: &ErrorObject, status: Option<u16>) -> AskError {
    let code = error.code.as_deref().filter(|code| !code.is_empty());
    let about = match (status, code) {
        (Some(status), Some(code)) => format!(" ({status}, {code})"),
        (Some(status), None) => format!(" ({status})"),
        (None, Some(code)) => format!(" ({code})"),
        (None, None) => String::new(),
    };
    let message = match error.message.trim() {
        "" => "without a message",
        message => message,
    };
    AskError::new(ErrorKind::Server, format!("the server answered with an error{about}: {message}"))
}

pub(super) fn no_completion(body: &str) -> AskError {
    let message = match body.trim() {
        "" => "the server's answer is empty".to_owned(),
        body => {
            let excerpt = shortened(body, MAX_EXCERPT);
            format!("what the server answered is no chat completion: {excerpt}")
        }
    };
    AskError::new(ErrorKind::InvalidAnswer, message)
}

/// The progress event in a chunk. [`Chunk`] leaves it out, because it reads upstream's.
fn progress(payload: &str) -> Option<Progress> {
    #[derive(Deserialize)]
    struct Envelope {
        choices: [Choice; 1],
    }
    #[derive(Deserialize)]
    struct Choice {
        delta: WithProgress,
    }
    #[derive(Deserialize)]
    struct WithProgress {
        toolhand: Progress,
    }
    if !payload.contains(MEMBER) {
        return None;
    }
    let Envelope { choices: [choice] } = serde_json::from_str(payload).ok()?;
    Some(choice.delta.toolhand)
}

/// What a person is asked by an answer that came whole.
fn asked_of_whole(payload: &str) -> Vec<Asked> {
    #[derive(Deserialize)]
    struct Envelope {
        object: String,
        toolhand: Extension,
    }
    #[derive(Deserialize)]
    struct Extension {
        asked: Vec<Asked>,
    }
    if !payload.contains(ASKED) {
        return Vec::new();
    }
    let envelope = serde_json::from_str(payload).ok();
    let whole = envelope.filter(|envelope: &Envelope| envelope.object == "chat.completion");
    whole.map_or_else(Vec::new, |envelope| envelope.toolhand.asked)
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(delta: &str, finish_reason: &str) -> String {
        format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish_reason}}}]}}"#)
    }

    /// The ending with a question that was shown, about approvals with these codes.
    fn told(codes: &[&str]) -> Ending {
        let codes = codes.iter().map(|&code| code.to_owned()).collect();
        let expected = Expected::Approvals { codes, labels: Vec::new() };
        Ending::Suspended(Waiting { question: String::new(), expected })
    }

    #[test]
    fn an_ending_is_told_by_the_reason_and_the_refusal() {
        let check = |delta: &str, reason: &str, expected: Result<Ending, &str>| {
            let mut answer = Answer::default();
            answer.read(&chunk(delta, "null")).unwrap();
            answer.read(&chunk("{}", reason)).unwrap();
            let ending = answer.ending().map_err(|error| error.sentence());
            assert_eq!(ending, expected.map_err(str::to_owned), "{delta} {reason}");
        };
        let text = r#"{"content":"a"}"#;
        check(text, r#""stop""#, Ok(Ending::Stopped));
        check(text, r#""length""#, Ok(Ending::CutOff));
        check(text, r#""content_filter""#, Ok(Ending::Filtered));
        check(r#"{"refusal":"no"}"#, r#""stop""#, Ok(Ending::Refused("no".to_owned())));
        check(r#"{"refusal":7}"#, r#""stop""#, Ok(Ending::Stopped));
        check(text, "null", Err("the server's answer ended without its finish_reason"));
        check(
            text,
            r#""tool_calls""#,
            Err("the model called a tool of the client's, and this client has none"),
        );
    }

    #[test]
    fn text_after_a_question_is_the_question() {
        let asked = r#"{"toolhand":{"type":"approval","code":"KXQZ","tool":"Bash"}}"#;
        let mut answer = Answer::default();
        let mut read = |delta: &str, reason: &str| answer.read(&chunk(delta, reason)).unwrap();
        assert_eq!(read(r#"{"content":"a"}"#, "null"), [Shown::Text("a".to_owned())]);
        assert_eq!(read(asked, "null"), []);
        // It was decided elsewhere, and the turn went on.
        assert_eq!(read(r#"{"toolhand":{"type":"round","round":2}}"#, "null"), []);
        assert_eq!(read(r#"{"content":"b"}"#, "null"), [Shown::Text("b".to_owned())]);
        assert_eq!(read(asked, "null"), []);
        assert_eq!(read(r#"{"content":"c"}"#, "null"), [Shown::Question("c".to_owned())]);
        read("{}", r#""stop""#);
        assert_eq!(answer.ending().unwrap(), told(&["KXQZ"]));

        let mut answer = Answer::default();
        answer.read(&chunk(asked, "null")).unwrap();
        answer.read(&chunk("{}", r#""stop""#)).unwrap();
        let Ending::Suspended(waiting) = answer.ending().unwrap() else { panic!("no question") };
        assert!(waiting.question.contains("KXQZ Bash"), "{waiting:?}");
    }

    #[test]
    fn a_whole_answer_tells_what_it_waits_for() {
        let whole = r#"{"object":"chat.completion","choices":[{"message":{"content":"Run?"},
            "finish_reason":"stop"}],"toolhand":{"asked":[{"type":"approval","code":"KXQZ"}]}}"#;
        let mut answer = Answer::default();
        assert_eq!(answer.read(whole).unwrap(), [Shown::Question("Run?".to_owned())]);
        assert_eq!(answer.ending().unwrap(), told(&["KXQZ"]));
    }

    #[test]
    fn progress_of_any_form_is_shown_or_skipped() {
        let read = |event: &str| {
            let delta = format!(r#"{{"toolhand":{event}}}"#);
            Answer::default().read(&chunk(&delta, "null")).unwrap()
        };
        let start = read(r#"{"type":"tool_start","id":"c1","tool":"Read","argument":"a"}"#);
        assert!(matches!(&start[..], [Shown::ToolStarted(start)] if start.tool == "Read"));
        let end = read(
            r#"{"type":"tool_end","id":"c1","tool":"Read","argument":null,"duration_ms":7,"chars":1,"error":null,"structured":[]}"#,
        );
        assert!(matches!(&end[..], [Shown::ToolEnded(end)] if end.duration().as_millis() == 7));
        for other in [
            "null",
            "7",
            "[]",
            "{}",
            r#"{"type":"round","round":2}"#,
            r#"{"type":"tool_start","id":1}"#,
            r#"{"type":"tool_end","id":"c","tool":"R","duration_ms":-1}"#,
        ] {
            assert_eq!(read(other), [], "{other}");
        }
    }
}
