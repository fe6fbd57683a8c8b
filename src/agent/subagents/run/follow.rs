//! Follows the turn of a subagent, and finds out how it ended.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;

use super::{RunEnd, Steps, Stop, Turned};
use crate::agent::agent_event::{AgentStep, RunCounts};
use crate::agent::events::{ToolEnd, ToolStart, TurnEvent};
use crate::agent::outbox::Inbox;
use crate::agent::record::{End, Entry, INTERRUPTED_HERE, Outcome, RecordedRound, Recorder};
use crate::errors::{ApiError, ErrorCode};
use crate::openai::chunk::FinishReason;
use crate::openai::usage::Usage;
use crate::sync;

/// What a subagent's turn has told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The text of its last round.
    text: String,
    /// What it last said before calls.
    said_before: String,
    failed: Option<ApiError>,
}

/// Passes on what the agent does until its turn is over.
pub(super) async fn follow(mut inbox: Inbox, steps: &Steps<'_>) -> Told {
    let mut told = Told::default();
    while let Some(events) = std::future::poll_fn(|context| inbox.poll_take(context)).await {
        for event in events {
            told.take(event, steps);
        }
    }
    told
}

impl Told {
    fn take(&mut self, event: TurnEvent, steps: &Steps<'_>) {
        match event {
            TurnEvent::Text(text) => self.text.push_str(&text),
            TurnEvent::TextBeforeCalls(text) if !text.trim().is_empty() => self.said_before = text,
            TurnEvent::ToolStarted(start) => {
                let ToolStart { call_id, tool, headline, .. } = *start;
                let headline = headline.as_str().to_owned();
                steps.tell(AgentStep::ToolStarted { call_id, tool, headline });
            }
            TurnEvent::ToolEnded(end) => {
                let ToolEnd { call_id, tool, headline, duration, chars, error, .. } = *end;
                let headline = headline.as_str().to_owned();
                let step = AgentStep::ToolEnded { call_id, tool, headline, duration, chars, error };
                steps.tell(step);
            }
            TurnEvent::LeftBehind(line) => steps.tell(AgentStep::LeftBehind(line)),
            // Of an agent that this one has started.
            TurnEvent::Agent(event) => (steps.tell)(event.event),
            TurnEvent::Failed(failure) => self.failed = Some(failure.error),
            _ => {}
        }
    }
}

/// Passes on what is recorded, and remembers the end.
#[derive(Debug)]
pub(super) struct EndRecorder {
    recorder: Arc<dyn Recorder>,
    end: Mutex<Option<End>>,
}

impl EndRecorder {
    pub(super) fn new(recorder: Arc<dyn Recorder>) -> Self {
        Self { recorder, end: Mutex::default() }
    }

    pub(super) fn end(&self) -> Option<End> {
        sync::lock(&self.end).take()
    }
}

impl Recorder for EndRecorder {
    fn commit(&self, entry: Entry) -> BoxFuture<'static, Result<(), ApiError>> {
        if let Entry::End(end) = &entry {
            *sync::lock(&self.end) = Some((**end).clone());
        }
        self.recorder.commit(entry)
    }
}

impl Turned {
    pub(super) fn new(told: Told, end: Option<End>, max_rounds: u32) -> Self {
        let Told { text, said_before, failed } = told;
        let Some(End { outcome, last, open, summary, .. }) = end else {
            let stop = Some(crashed(failed));
            let text = if text.is_empty() { said_before } else { text };
            let counts = RunCounts::default();
            let end = RunEnd { text, stopped: stop, counts, usage: None };
            return Self { end, asked: None };
        };
        let asked = open.map(|open| open.asked).filter(|asked| !asked.is_empty());
        let partial = last.as_ref().map(RecordedRound::text).unwrap_or_default();
        // Behind a closed round it is a note of ours.
        let partial = if partial == INTERRUPTED_HERE { String::new() } else { partial };
        let text = [text, partial, said_before].into_iter().find(|text| !text.trim().is_empty());
        let stopped = match (failed, outcome) {
            (Some(error), _) => Some(stop_of(error)),
            (None, Outcome::Finished { reason }) => {
                finished_by(&reason, max_rounds <= summary.rounds)
            }
            (None, _) => Some(crashed(None)),
        };
        let usage = summary.usage.and_then(Usage::read);
        let end = RunEnd {
            text: text.unwrap_or_default(),
            stopped,
            counts: RunCounts {
                tool_uses: summary.tool_calls,
                duration_ms: summary.duration_ms,
                rounds: summary.rounds,
                tokens: usage.as_ref().map_or(0, Usage::total_tokens),
            },
            usage,
        };
        Self { end, asked }
    }
}

fn finished_by(reason: &str, has_reached_rounds: bool) -> Option<Stop> {
    match FinishReason::from_word(reason) {
        Some(FinishReason::Length) if has_reached_rounds => Some(Stop::Rounds),
        Some(FinishReason::Length) => {
            Some(Stop::Output("cut off by the output limit of its model"))
        }
        Some(FinishReason::ContentFilter) => {
            Some(Stop::Output("stopped by the provider's content filter"))
        }
        _ => None,
    }
}

fn stop_of(error: ApiError) -> Stop {
    match error.code {
        ErrorCode::TurnTimeLimit => Stop::Duration,
        code => Stop::Failed { code, message: error.message },
    }
}

fn crashed(error: Option<ApiError>) -> Stop {
    error.map_or_else(
        || Stop::Failed { code: ErrorCode::Internal, message: "it was interrupted".to_owned() },
        stop_of,
    )
}
