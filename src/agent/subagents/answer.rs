//! Makes the answer to the call of what its subagent came to. Pure.

use serde_json::{Value, json};

use crate::agent::agent_event::RunCounts;
use crate::agent::delegation::how_to_resume;
use crate::errors::ErrorCode;
use crate::ids::AgentId;
use crate::openai::usage::Usage;
use crate::tools::output::{ToolError, ToolOutput};

/// How a run of a subagent ended.
#[derive(Debug)]
pub(super) struct RunEnd {
    /// What it said last.
    pub(super) text: String,
    pub(super) stopped: Option<Stop>,
    /// Of the whole run, with what came before a person was asked.
    pub(super) counts: RunCounts,
    /// Of its last part.
    pub(super) usage: Option<Usage>,
}

/// Why a run ended before the agent was done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Rounds,
    Duration,
    /// Upstream's output limit, or a content filter.
    Output(&'static str),
    Failed {
        code: ErrorCode,
        message: String,
    },
}

impl RunEnd {
    /// The answer; the error holds what the agent had, too.
    pub(super) fn answer(
        &self,
        (agent, agent_type): (&AgentId, &str),
        notes: &[String],
    ) -> Result<ToolOutput, ToolError> {
        let text = self.text.trim();
        if let Some(Stop::Failed { message, .. }) = &self.stopped {
            let had =
                if text.is_empty() { String::new() } else { format!("\nIt had said:\n{text}") };
            return Err(ToolError::Failed(format!(
                "the agent failed: {message}{had}\n{}",
                how_to_resume(agent)
            )));
        }
        let text = if text.is_empty() { "(the agent gave no answer)" } else { text };
        let mut output = ToolOutput::text(text);
        for note in notes {
            output.text.close(note);
        }
        if let Some(stopped) = self.stopped_in_words() {
            output.text.close(stopped);
        }
        output.text.close(self.summary(agent));
        Ok(output.with(self.structured(agent, agent_type)))
    }

    fn stopped_in_words(&self) -> Option<String> {
        Some(match self.stopped.as_ref()? {
            Stop::Rounds => format!("(stopped after {})", self.rounds_in_words()),
            Stop::Duration => {
                format!("(stopped after {}: time limit reached)", self.rounds_in_words())
            }
            Stop::Output(why) => format!("({why})"),
            Stop::Failed { .. } => return None,
        })
    }

    fn rounds_in_words(&self) -> String {
        let s = if self.counts.rounds == 1 { "" } else { "s" };
        format!("{} round{s}", self.counts.rounds)
    }

    fn summary(&self, agent: &AgentId) -> String {
        let (uses, tokens) = (self.counts.tool_uses, self.counts.tokens);
        let s = if uses == 1 { "" } else { "s" };
        let (seconds, tenths) =
            (self.counts.duration_ms / 1000, self.counts.duration_ms % 1000 / 100);
        format!("agent_id: {agent} · {uses} tool use{s} · {seconds}.{tenths} s · {tokens} tokens")
    }

    fn structured(&self, agent: &AgentId, agent_type: &str) -> Value {
        let mut structured = json!({
            "agent_id": agent,
            "agent_type": agent_type,
            "tool_uses": self.counts.tool_uses,
            "duration_ms": self.counts.duration_ms,
            "tokens": self.counts.tokens,
            "rounds": self.counts.rounds,
        });
        let stopped_by = self.stopped.as_ref().map(|stop| match stop {
            Stop::Rounds => "rounds",
            Stop::Duration => "duration",
            Stop::Output(_) => "output",
            Stop::Failed { .. } => "error",
        });
        if let Some(stopped_by) = stopped_by {
            structured["stopped_by"] = stopped_by.into();
        }
        structured
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn end(text: &str, stopped: Option<Stop>) -> RunEnd {
        let usage = json!({ "prompt_tokens": 2400, "completion_tokens": 68 });
        let Value::Object(usage) = usage else { unreachable!() };
        RunEnd {
            text: text.to_owned(),
            stopped,
            counts: RunCounts { tool_uses: 3, duration_ms: 12_345, rounds: 2, tokens: 2468 },
            usage: Usage::read(usage),
        }
    }

    fn told(end: &RunEnd) -> String {
        let agent = AgentId::parse(&format!("agent_{}", "0".repeat(32))).unwrap();
        match end.answer((&agent, "Explore"), &[]) {
            Ok(output) => format!("{}\n{}", output.text, output.structured),
            Err(error) => format!("Error: {error}"),
        }
    }

    #[test]
    fn the_answer_is_its_last_text_and_one_line() {
        assert_snapshot!(told(&end("Found it.", None)), @r#"
        Found it.
        agent_id: agent_00000000000000000000000000000000 · 3 tool uses · 12.3 s · 2468 tokens
        {"agent_id":"agent_00000000000000000000000000000000","agent_type":"Explore","tool_uses":3,"duration_ms":12345,"tokens":2468,"rounds":2}
        "#);
    }

    #[test]
    fn a_limit_is_no_error_and_silence_is_said() {
        let text = told(&end(" ", Some(Stop::Rounds)));
        assert!(
            text.starts_with("(the agent gave no answer)\n(stopped after 2 rounds)\n"),
            "{text}"
        );
        assert!(text.contains(r#""stopped_by":"rounds""#), "{text}");
    }

    #[test]
    fn a_failure_tells_the_cause_and_what_it_had() {
        let failed = Stop::Failed {
            code: ErrorCode::UpstreamUnavailable,
            message: "the model is gone".to_owned(),
        };
        assert_snapshot!(told(&end("Half of it", Some(failed))), @r"
        Error: the agent failed: the model is gone
        It had said:
        Half of it
        agent_id: agent_00000000000000000000000000000000 (resume it with this id to let it go on)
        ");
    }
}
