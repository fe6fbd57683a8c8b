//! Encodes the events of a turn as `chat.completion.chunk` events.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::lists::Lists;
use crate::agent::events::{
    ClientCallDelta, Failure, Finished, RawDelta, Structured, Summary, ToolEnd, ToolStart,
    TurnEvent,
};
use crate::ids::{SessionId, TurnId};
use crate::openai::usage::Usage;
use crate::progress_lines;
use crate::sessions::request::Progress;
use crate::sessions::running::shape::Envelope;
use crate::tools::tool::ToolError;

#[derive(Debug)]
pub(super) struct Encoder {
    /// The JSON of a chunk up to its delta.
    before: String,
    progress: Progress,
    include_usage: bool,
    has_begun: bool,
    reasoning: ReasoningEnd,
    /// Tools whose start the client was told of, and whose end it was not.
    running: Vec<ToolStart>,
    lists: Lists,
}

/// How the reasoning sent last ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReasoningEnd {
    /// With a line break, or there was none.
    Line,
    /// Within a line.
    Open,
    /// It is a paragraph of its own, without a line break at its end.
    Paragraph,
}

/// The member that frontends show as thinking.
pub(super) const REASONING: &str = "reasoning_content";

/// Ends every stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

impl Encoder {
    pub(super) fn new(envelope: &Envelope, progress: Progress, include_usage: bool) -> Self {
        let before = format!(
            r#"data: {{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"choices":["#,
            json!(envelope.id),
            envelope.created,
            json!(envelope.model),
        );
        Self {
            before,
            progress,
            include_usage,
            has_begun: false,
            reasoning: ReasoningEnd::Line,
            running: Vec::new(),
            lists: Lists::default(),
        }
    }

    /// The tools that run, as far as the client knows.
    pub(super) fn running(&self) -> Vec<ToolStart> {
        self.running.clone()
    }

    /// Restores `running`, because the chunks that were written since will not be sent.
    pub(super) fn take_back(&mut self, running: Vec<ToolStart>) {
        self.running = running;
    }

    /// Writes the chunks that show `event` to the client, if any.
    pub(super) fn encode(&mut self, event: TurnEvent, out: &mut Vec<u8>) {
        match event {
            TurnEvent::Begun => self.begin(out),
            TurnEvent::Text(text) => self.text("content", &text, out),
            TurnEvent::TextBeforeCalls(text) => self.text_before_calls(&text, out),
            TurnEvent::Member { name, text } => self.member(&name, &text, out),
            TurnEvent::Raw(delta) => self.raw(&delta, out),
            TurnEvent::ClientCall(call) => self.client_call(&call, out),
            TurnEvent::ToolStarted(start) => self.tool_started(&start, out),
            TurnEvent::ToolEnded(end) => self.tool_ended(&end, out),
            TurnEvent::RoundStarted(round) => self.round_started(round, out),
            TurnEvent::Finished(finished) => self.finished(&finished, out),
            TurnEvent::Failed(failure) => self.failed(&failure, out),
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.chunk(r#"{"role":"assistant","content":""}"#, out);
        }
    }

    fn text(&mut self, member: &str, text: &str, out: &mut Vec<u8>) {
        self.begin(out);
        self.open(out);
        out.push(b'{');
        write_json(out, member);
        out.push(b':');
        write_json(out, text);
        out.extend_from_slice(br#"},"finish_reason":null}]}"#);
        end_event(out);
    }

    fn member(&mut self, name: &str, text: &str, out: &mut Vec<u8>) {
        if name != REASONING {
            return self.text(name, text, out);
        }
        let begin = if self.reasoning == ReasoningEnd::Paragraph { "\n\n" } else { "" };
        let ends_line = text.ends_with('\n');
        self.reasoning = if ends_line { ReasoningEnd::Line } else { ReasoningEnd::Open };
        if begin.is_empty() {
            self.text(name, text, out);
        } else {
            self.text(name, &[begin, text].concat(), out);
        }
    }

    /// Writes what the model said before its calls into its reasoning, as a paragraph.
    fn text_before_calls(&mut self, text: &str, out: &mut Vec<u8>) {
        if self.progress == Progress::None {
            return;
        }
        if self.reasoning == ReasoningEnd::Open {
            self.reasoning = ReasoningEnd::Paragraph;
        }
        self.member(REASONING, text, out);
        self.reasoning = ReasoningEnd::Paragraph;
    }

    fn raw(&mut self, delta: &RawDelta, out: &mut Vec<u8>) {
        self.begin(out);
        self.open(out);
        out.push(b'{');
        let mut separator: &[u8] = b"";
        if let Some(text) = &delta.text {
            out.extend_from_slice(br#""content":"#);
            write_json(out, text);
            separator = b",";
        }
        for (name, value) in &delta.members {
            let is_list = value.get().contains('[');
            let list = is_list.then(|| self.lists.number(name, parsed(value)));
            if list == Some(None) {
                continue;
            }
            out.extend_from_slice(std::mem::replace(&mut separator, b","));
            write_json(out, name);
            out.push(b':');
            match list.flatten() {
                Some(numbered) => write_json(out, &numbered),
                None => write_raw(out, value),
            }
        }
        out.push(b'}');
        if let Some(logprobs) = &delta.logprobs {
            out.extend_from_slice(br#","logprobs":"#);
            write_raw(out, logprobs);
        }
        out.extend_from_slice(br#","finish_reason":null}]}"#);
        end_event(out);
    }

    fn client_call(&mut self, call: &ClientCallDelta, out: &mut Vec<u8>) {
        self.begin(out);
        let (kind, text) = (call.kind.as_str(), call.kind.text());
        let entry = match &call.head {
            Some((id, name)) => json!({
                "index": call.index,
                "id": id,
                "type": kind,
                kind: { "name": name, text: call.arguments },
            }),
            None => json!({ "index": call.index, kind: { text: call.arguments } }),
        };
        self.chunk(&json!({ "tool_calls": [entry] }).to_string(), out);
    }

    fn tool_started(&mut self, start: &ToolStart, out: &mut Vec<u8>) {
        self.running.push(start.clone());
        match self.progress {
            Progress::Reasoning => {
                self.line(&progress_lines::started(&start.tool, start.headline.as_str()), out);
            }
            Progress::Events => self.event(
                &json!({
                    "type": "tool_start",
                    "id": start.call_id,
                    "tool": start.tool,
                    "argument": start.headline.as_str(),
                }),
                out,
            ),
            Progress::None => {}
        }
    }

    fn tool_ended(&mut self, end: &ToolEnd, out: &mut Vec<u8>) {
        self.running.retain(|start| start.call_id != end.call_id);
        match self.progress {
            Progress::Reasoning => {
                let line = match &end.error {
                    Some(error) => progress_lines::failed(&end.tool, end.headline.as_str(), error),
                    None => progress_lines::ended(
                        &end.tool,
                        end.headline.as_str(),
                        end.duration,
                        end.chars,
                    ),
                };
                self.line(&line, out);
            }
            Progress::Events => {
                // The SDK's stream helper joins the objects of all our events.
                let place = format!("toolhand/{}", end.tool);
                let structured = self.lists.number(&place, end.structured.value.clone());
                let event = json!({
                    "type": "tool_end",
                    "id": end.call_id,
                    "tool": end.tool,
                    "argument": end.headline.as_str(),
                    "duration_ms": milliseconds(end.duration),
                    "chars": end.chars,
                    "error": end.error,
                    "structured": structured,
                    "structured_bytes": end.structured.bytes,
                });
                self.event(&event, out);
            }
            Progress::None => {}
        }
    }

    /// The client is told of later rounds only.
    fn round_started(&mut self, round: u32, out: &mut Vec<u8>) {
        if round > 1 && self.progress == Progress::Events {
            self.event(&json!({ "type": "round", "round": round }), out);
        }
    }

    /// Writes a progress line into the model's reasoning.
    fn line(&mut self, line: &str, out: &mut Vec<u8>) {
        let is_open = self.reasoning != ReasoningEnd::Line;
        self.reasoning = ReasoningEnd::Line;
        let line = if is_open { format!("\n{line}") } else { line.to_owned() };
        self.member(REASONING, &line, out);
    }

    fn event(&mut self, event: &Value, out: &mut Vec<u8>) {
        self.begin(out);
        self.chunk(&json!({ "toolhand": event }).to_string(), out);
    }

    fn finished(&mut self, finished: &Finished, out: &mut Vec<u8>) {
        self.begin(out);
        self.open(out);
        out.extend_from_slice(br#"{},"finish_reason":"#);
        write_json(out, finished.reason.as_str());
        out.extend_from_slice(br#"}],"toolhand":"#);
        write_json(out, &Extension::from_summary(&finished.summary));
        for (name, value) in &finished.unknown {
            out.push(b',');
            write_json(out, name);
            out.push(b':');
            write_raw(out, value);
        }
        out.push(b'}');
        end_event(out);
        if self.include_usage {
            out.extend_from_slice(self.before.as_bytes());
            out.extend_from_slice(br#"],"usage":"#);
            write_json(out, &Figures::from_usage(finished.usage.as_ref()));
            out.push(b'}');
            end_event(out);
        }
        out.extend_from_slice(DONE);
    }

    /// A turn normally ends its tools itself. It cannot when it has panicked, or when the
    /// memory budget has no room for its events; then their ends are written here.
    fn failed(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        for start in std::mem::take(&mut self.running) {
            self.tool_ended(&interrupted(start), out);
        }
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(failure.error.body().as_bytes());
        end_event(out);
        out.extend_from_slice(DONE);
    }

    fn chunk(&self, delta: &str, out: &mut Vec<u8>) {
        self.open(out);
        out.extend_from_slice(delta.as_bytes());
        out.extend_from_slice(br#","finish_reason":null}]}"#);
        end_event(out);
    }

    fn open(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.as_bytes());
        out.extend_from_slice(br#"{"index":0,"delta":"#);
    }
}

/// The `toolhand` member of an answer.
#[derive(Debug, Serialize)]
pub(super) struct Extension<'a> {
    session: &'a SessionId,
    turn: &'a TurnId,
    rounds: u32,
    tool_calls: usize,
    duration_ms: u64,
    rounds_without_usage: u32,
    context_tokens: Option<u64>,
}

impl<'a> Extension<'a> {
    pub(super) fn from_summary(summary: &'a Summary) -> Self {
        Self {
            session: &summary.session,
            turn: &summary.turn,
            rounds: summary.rounds,
            tool_calls: summary.tool_calls,
            duration_ms: milliseconds(summary.duration),
            rounds_without_usage: summary.rounds_without_usage,
            context_tokens: summary.context_tokens,
        }
    }
}

/// The sum over all rounds. Zeros when upstream reported no usage.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Figures<'a> {
    Summed(&'a Usage),
    None { prompt_tokens: u8, completion_tokens: u8, total_tokens: u8 },
}

impl<'a> Figures<'a> {
    pub(super) fn from_usage(usage: Option<&'a Usage>) -> Self {
        match usage {
            Some(usage) => Self::Summed(usage),
            None => Self::None { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
        }
    }
}

fn interrupted(start: ToolStart) -> ToolEnd {
    let ToolStart { call_id, tool, headline } = start;
    ToolEnd {
        call_id,
        tool,
        headline,
        duration: Duration::ZERO,
        chars: 0,
        error: Some(ToolError::Cancelled.to_string()),
        structured: Structured::default(),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("writing to memory does not fail");
}

/// Copies the JSON that upstream wrote onto one line. A line break in valid JSON stands
/// between two tokens only, so a space may replace it.
fn write_raw(out: &mut Vec<u8>, value: &RawValue) {
    let in_one_line = |&byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
    out.extend(value.get().as_bytes().iter().map(in_one_line));
}

fn parsed(value: &RawValue) -> Value {
    serde_json::from_str(value.get()).unwrap_or_default()
}

fn end_event(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::events::Headline;
    use crate::errors::{ApiError, ErrorCode};

    #[test]
    fn a_failure_of_any_kind_ends_the_tools_that_were_told_to_have_started() {
        let envelope = Envelope { id: "id".to_owned(), created: 1, model: "m".to_owned() };
        let mut encoder = Encoder::new(&envelope, Progress::Events, false);
        let start = |id: &str| {
            let (tool, headline) = ("Read".to_owned(), Headline::new("a.rs".to_owned()));
            TurnEvent::ToolStarted(Box::new(ToolStart { call_id: id.to_owned(), tool, headline }))
        };
        let end = |id: &str| {
            let (tool, headline) = ("Read".to_owned(), Headline::new("a.rs".to_owned()));
            let start = ToolStart { call_id: id.to_owned(), tool, headline };
            TurnEvent::ToolEnded(Box::new(interrupted(start)))
        };
        let mut out = Vec::new();
        encoder.encode(start("c1"), &mut out);
        encoder.encode(start("c2"), &mut out);
        encoder.encode(end("c1"), &mut out);
        let running = encoder.running();
        encoder.encode(end("c2"), &mut Vec::new());
        encoder.take_back(running);

        let error = ApiError::new(ErrorCode::Overloaded, "full");
        let failure = Failure { error, tools_ran: true };
        encoder.encode(TurnEvent::Failed(Box::new(failure)), &mut out);

        let told = String::from_utf8(out).unwrap();
        assert_eq!(told.matches("tool_start").count(), 2);
        assert_eq!(told.matches("tool_end").count(), 2, "{told}");
        let (last, rest) = told.split_once(r#""tool_end","id":"c2""#).unwrap();
        assert!(!last.contains(r#""error":{"#) && rest.contains(r#""error":{"#), "{told}");
    }
}
