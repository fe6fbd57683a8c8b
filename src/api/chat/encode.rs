//! Encodes the events of a turn as `chat.completion.chunk` events.

mod agents;
mod asks;
mod cards;
mod chunk;
mod summary;

pub(super) use self::asks::OpenAsks;
pub(super) use self::summary::{Extension, Figures};

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::cards::{Cards, Closing, Item};
use self::chunk::{ChunkHead, DONE, end_event, write_json, write_on_one_line, write_raw};
use self::summary::milliseconds;
use super::lists::Lists;
use crate::agent::events::{
    AgentReport, Attachments, ClientCallDelta, Failure, Finished, RawDelta, Structured, ToolEnd,
    ToolLine, ToolStart, TurnEvent,
};
use crate::agent::record::Asked;
use crate::openai::chunk::FinishReason;
use crate::openai::usage::Usage;
use crate::progress_lines;
use crate::sessions::request::Progress;
use crate::sessions::running::shape::Envelope;
use crate::tools::call_progress::ProgressText;
use crate::tools::todos::Todo;
use crate::tools::tool::ToolError;

#[derive(Debug)]
pub(super) struct Encoder {
    head: ChunkHead,
    progress: Progress,
    include_usage: bool,
    has_begun: bool,
    reasoning: ReasoningEnd,
    unfinished: Unfinished,
    asks: OpenAsks,
    lists: Lists,
}

/// What the client was shown the beginning of, and not the end.
#[derive(Clone, Debug)]
pub(super) struct Unfinished {
    /// Tools that run, where lines or events tell of them.
    running: Vec<ToolStart>,
    cards: Cards,
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

/// Whether what a line tells of still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    Yes,
    No,
}

/// The member that frontends show as thinking.
pub(super) const REASONING: &str = "reasoning_content";

impl Encoder {
    pub(super) fn new(envelope: &Envelope, progress: Progress, include_usage: bool) -> Self {
        Self {
            head: ChunkHead::new(envelope),
            progress,
            include_usage,
            has_begun: false,
            reasoning: ReasoningEnd::Line,
            unfinished: Unfinished {
                running: Vec::new(),
                cards: Cards::new(envelope.turn.clone()),
            },
            asks: OpenAsks::default(),
            lists: Lists::default(),
        }
    }

    /// The tools and cards that have not ended, as far as the client knows.
    pub(super) fn running(&self) -> Unfinished {
        self.unfinished.clone()
    }

    /// Restores `running`, because the chunks that were written since will not be sent.
    pub(super) fn take_back(&mut self, running: Unfinished) {
        self.unfinished = running;
    }

    /// Writes the chunks that show `event` to the client, if any.
    pub(super) fn encode(&mut self, event: TurnEvent, out: &mut Vec<u8>) {
        self.asks.note(&event);
        if self.progress == Progress::Cards {
            let items = self.unfinished.cards.on(&event);
            self.items(items, out);
        }
        match event {
            TurnEvent::Begun => self.begin(out),
            TurnEvent::CallBegan(_) | TurnEvent::CallsComplete => {}
            TurnEvent::Text(text) => self.text("content", &text, out),
            TurnEvent::TextBeforeCalls(text) => self.text_before_calls(&text, out),
            TurnEvent::Member { name, text } => self.member(&name, &text, out),
            TurnEvent::Raw(delta) => self.raw(&delta, out),
            TurnEvent::ClientCall(call) => self.client_call(&call, out),
            TurnEvent::ToolStarted(start) => self.tool_started(&start, out),
            TurnEvent::ToolProgress(line) => self.tool_progress(&line, out),
            TurnEvent::ToolEnded(end) => self.tool_ended(&end, out),
            TurnEvent::TodosWritten(todos) => self.todos_written(&todos, out),
            TurnEvent::Asked(asked) => self.asked(&asked, out),
            TurnEvent::Agent(report) => self.agent(&report, out),
            TurnEvent::HookSaid(text) => self.hook_said(&text, out),
            TurnEvent::LeftBehind(line) => self.left_behind(&line, out),
            TurnEvent::RoundStarted(round) => self.round_started(round, out),
            TurnEvent::Finished(finished) => self.finished(&finished, out),
            TurnEvent::Failed(failure) => self.failed(&failure, out),
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.head.chunk(r#"{"role":"assistant","content":""}"#, out);
        }
    }

    fn text(&mut self, member: &str, text: &str, out: &mut Vec<u8>) {
        self.begin(out);
        self.head.open(out);
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
        self.head.open(out);
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
        self.head.chunk(&json!({ "tool_calls": [entry] }).to_string(), out);
    }

    fn tool_started(&mut self, start: &ToolStart, out: &mut Vec<u8>) {
        if self.progress != Progress::Cards {
            self.unfinished.running.push(start.clone());
        }
        match self.progress {
            Progress::Reasoning => {
                self.line(&progress_lines::started(&start.tool, start.headline.as_str()), out);
                let running = progress_lines::subject(&start.tool, start.headline.as_str());
                self.status(&running, Running::Yes, out);
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
            Progress::Cards | Progress::None => {}
        }
    }

    /// Only for programs: a line of reasoning for each would bury the model's own.
    fn tool_progress(&mut self, line: &ToolLine, out: &mut Vec<u8>) {
        if self.progress == Progress::Events {
            let ToolLine { call_id, tool, told } = line;
            let ProgressText { lines, unfinished } = told;
            let mut event =
                json!({ "type": "tool_output", "id": call_id, "tool": tool, "text": lines });
            if !unfinished.is_empty() {
                event["unfinished"] = unfinished.as_str().into();
            }
            self.event(&event, out);
        }
    }

    fn tool_ended(&mut self, end: &ToolEnd, out: &mut Vec<u8>) {
        self.unfinished.running.retain(|start| start.call_id != end.call_id);
        match self.progress {
            Progress::Reasoning => {
                let ToolEnd { tool, headline, duration, chars, error, .. } = end;
                let counts = (*duration, *chars);
                let line = progress_lines::ended(tool, headline.as_str(), counts, error.as_deref());
                self.line(&line, out);
                let (tool, headline, running) = match self.unfinished.running.first() {
                    Some(other) => (&other.tool, &other.headline, Running::Yes),
                    None => (tool, headline, Running::No),
                };
                let shown = progress_lines::subject(tool, headline.as_str());
                self.status(&shown, running, out);
            }
            Progress::Events => {
                // The SDK's stream helper joins the objects of all our events.
                let place = format!("toolhand/{}", end.tool);
                let structured = self.lists.number(&place, end.structured.value.clone());
                let Attachments { spill_path, pictures } = &end.attachments;
                let pictures = self
                    .lists
                    .number("toolhand/pictures", json!(pictures))
                    .unwrap_or_else(|| json!([]));
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
                    "spill_path": spill_path,
                    "pictures": pictures,
                });
                self.event(&event, out);
            }
            Progress::Cards | Progress::None => {}
        }
    }

    fn todos_written(&mut self, todos: &[Todo], out: &mut Vec<u8>) {
        if self.progress == Progress::Events {
            let todos = self.lists.number("toolhand/todos", json!(todos));
            let todos = todos.unwrap_or_else(|| json!([]));
            self.event(&json!({ "type": "todo", "todos": todos }), out);
        }
    }

    /// The message itself asks the person, so cards show nothing.
    fn asked(&mut self, asked: &[Asked], out: &mut Vec<u8>) {
        for asked in asked {
            match self.progress {
                Progress::Reasoning => {
                    let ask = &asked.ask;
                    self.line(&progress_lines::asked(&ask.tool, &ask.effect_line()), out);
                }
                Progress::Events => {
                    let event = self.lists.number("toolhand/asked", asks::shown(asked));
                    self.event(&event.unwrap_or_default(), out);
                }
                Progress::Cards | Progress::None => {}
            }
        }
    }

    /// Shows what a subagent does. The card of the call that started it does so by itself.
    fn agent(&mut self, report: &AgentReport, out: &mut Vec<u8>) {
        match self.progress {
            Progress::Reasoning => {
                if let Some(line) = agents::line(&report.event) {
                    self.line(&line, out);
                }
                if let Some(call) = agents::call(&report.event) {
                    self.status(&call, Running::Yes, out);
                }
            }
            Progress::Events => self.event(&agents::event(report), out),
            Progress::Cards | Progress::None => {}
        }
    }

    fn hook_said(&mut self, text: &str, out: &mut Vec<u8>) {
        match self.progress {
            Progress::Reasoning => self.line(&progress_lines::hook_said(text), out),
            Progress::Events => self.event(&json!({ "type": "hook", "message": text }), out),
            Progress::Cards | Progress::None => {}
        }
    }

    fn left_behind(&mut self, line: &str, out: &mut Vec<u8>) {
        match self.progress {
            Progress::Reasoning => self.line(&progress_lines::left_behind(line), out),
            Progress::Events => self.event(&json!({ "type": "left_behind", "message": line }), out),
            Progress::Cards | Progress::None => {}
        }
    }

    /// Writes a line that Open WebUI shows above the answer, beside an empty delta. It hides the
    /// reasoning, and once text has begun nothing moves there. Where its settings are the old ones
    /// nothing in the request tells that it is Open WebUI, and no other client looks at this member.
    /// Only the name of a tool and its main argument go out this way, never an output.
    fn status(&mut self, line: &str, running: Running, out: &mut Vec<u8>) {
        let data = json!({ "description": line, "done": running == Running::No });
        self.begin(out);
        self.head.open(out);
        out.extend_from_slice(br#"{},"finish_reason":null}],"event":"#);
        write_json(out, &json!({ "type": "status", "data": data }));
        out.push(b'}');
        end_event(out);
    }

    /// Writes items of cards, each beside an empty delta.
    fn items(&mut self, items: Vec<Item>, out: &mut Vec<u8>) {
        for Item { output_index, item } in items {
            self.begin(out);
            self.head.open(out);
            out.extend_from_slice(
                br#"{},"finish_reason":null}],"type":"response.output_item.added","output_index":"#,
            );
            write_json(out, &output_index);
            out.extend_from_slice(br#","item":"#);
            write_json(out, &item);
            out.push(b'}');
            end_event(out);
        }
    }

    /// Closes the cards that are open: a frontend would go on by itself with an open one.
    fn close_cards(&mut self, why: Closing, out: &mut Vec<u8>) {
        if self.progress == Progress::Cards {
            let items = self.unfinished.cards.close(why);
            self.items(items, out);
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
        self.head.chunk(&json!({ "toolhand": event }).to_string(), out);
    }

    fn finished(&mut self, finished: &Finished, out: &mut Vec<u8>) {
        let waits = finished.reason == FinishReason::ToolCalls || !self.asks.as_slice().is_empty();
        self.close_cards(if waits { Closing::Waiting } else { Closing::Round }, out);
        self.begin(out);
        self.head.open(out);
        out.extend_from_slice(br#"{},"finish_reason":"#);
        write_json(out, finished.reason.as_str());
        out.extend_from_slice(br#"}],"toolhand":"#);
        write_on_one_line(out, &Extension::new(finished, &self.asks));
        for (name, value) in &finished.unknown {
            out.push(b',');
            write_json(out, name);
            out.push(b':');
            write_raw(out, value);
        }
        out.push(b'}');
        end_event(out);
        self.end(finished.usage.as_ref(), out);
    }

    /// Ends the stream after its finish reason.
    fn end(&self, usage: Option<&Usage>, out: &mut Vec<u8>) {
        if self.include_usage {
            self.head.begin(out);
            out.extend_from_slice(br#"],"usage":"#);
            write_json(out, &Figures::from_usage(usage));
            out.push(b'}');
            end_event(out);
        }
        out.extend_from_slice(DONE);
    }

    /// A turn normally ends its tools itself. It cannot when it has panicked, or when the
    /// memory budget has no room for its events; then their ends are written here.
    fn failed(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        for start in std::mem::take(&mut self.unfinished.running) {
            self.tool_ended(&interrupted(start), out);
        }
        self.close_cards(Closing::Failure, out);
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(failure.error.body().as_bytes());
        end_event(out);
        out.extend_from_slice(DONE);
    }
}

/// A whole stream with this text, which no model wrote.
pub(super) fn fixed_stream(envelope: &Envelope, text: &str, include_usage: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(envelope, Progress::None, include_usage);
    encoder.begin(&mut out);
    if !text.is_empty() {
        encoder.text("content", text, &mut out);
    }
    encoder.head.open(&mut out);
    out.extend_from_slice(br#"{},"finish_reason":"stop"}]}"#);
    end_event(&mut out);
    encoder.end(None, &mut out);
    out
}

fn interrupted(start: ToolStart) -> ToolEnd {
    let ToolStart { call_id, slot, tool, headline, arguments: _ } = start;
    ToolEnd {
        call_id,
        slot,
        tool,
        headline,
        text: None,
        duration: Duration::ZERO,
        chars: 0,
        error: Some(ToolError::Cancelled.to_string()),
        structured: Structured::default(),
        attachments: Attachments::default(),
    }
}

fn parsed(value: &RawValue) -> Value {
    serde_json::from_str(value.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
