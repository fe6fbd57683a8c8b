//! Writes what a subagent does, for people and for programs.

use serde_json::{Value, json};

use super::summary::milliseconds;
use crate::agent::agent_event::{AgentEvent, AgentStep};
use crate::agent::events::AgentReport;
use crate::progress_lines;

/// The line of reasoning. The call's own lines tell of its beginning and its end.
pub(super) fn line(event: &AgentEvent) -> Option<String> {
    let line = match &event.step {
        AgentStep::ToolStarted { tool, headline, .. } => progress_lines::started(tool, headline),
        AgentStep::ToolEnded { tool, headline, duration, chars, error, .. } => {
            progress_lines::ended(tool, headline, (*duration, *chars), error.as_deref())
        }
        AgentStep::LeftBehind(line) => progress_lines::left_behind(line),
        AgentStep::Started { .. } | AgentStep::Ended { .. } => return None,
    };
    Some(progress_lines::of_agent(&event.agent_type, &line))
}

/// The call that a subagent makes: its tool and its main argument.
pub(super) fn call(event: &AgentEvent) -> Option<String> {
    let call = match &event.step {
        AgentStep::ToolStarted { tool, headline, .. }
        | AgentStep::ToolEnded { tool, headline, .. } => progress_lines::subject(tool, headline),
        AgentStep::LeftBehind(_) | AgentStep::Started { .. } | AgentStep::Ended { .. } => {
            return None;
        }
    };
    Some(progress_lines::of_agent(&event.agent_type, &call))
}

pub(super) fn event(report: &AgentReport) -> Value {
    let AgentReport { call_id, event: AgentEvent { agent, agent_type, step } } = report;
    let mut event = match step {
        AgentStep::Started { description } => {
            json!({ "event": "start", "description": description })
        }
        AgentStep::ToolStarted { call_id, tool, headline } => json!({
            "event": "tool_start",
            "id": call_id,
            "tool": tool,
            "argument": headline,
        }),
        AgentStep::ToolEnded { call_id, tool, headline, duration, chars, error } => json!({
            "event": "tool_end",
            "id": call_id,
            "tool": tool,
            "argument": headline,
            "duration_ms": milliseconds(*duration),
            "chars": chars,
            "error": error,
        }),
        AgentStep::LeftBehind(line) => json!({ "event": "left_behind", "message": line }),
        AgentStep::Ended { counts, error } => json!({
            "event": "end",
            "tool_uses": counts.tool_uses,
            "duration_ms": counts.duration_ms,
            "tokens": counts.tokens,
            "rounds": counts.rounds,
            "error": error,
        }),
    };
    event["type"] = "subagent".into();
    event["call_id"] = call_id.as_str().into();
    event["agent_id"] = agent.as_str().into();
    event["agent_type"] = agent_type.as_str().into();
    event
}
