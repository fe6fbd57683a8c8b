//! Tells a turn from its record, in few pieces.

use serde_json::Value;

use crate::agent::events::{ClientCallDelta, Failure, Finished, TurnEvent};
use crate::agent::record::{End, Entry, Outcome};
use crate::errors::{ApiError, ErrorCode};
use crate::openai::chunk::CallKind;
use crate::sessions::record::TurnRecord;

/// The events by which a turn that is over is told again. The last one is terminal.
pub(crate) fn retold(record: &TurnRecord) -> Vec<TurnEvent> {
    let Some(end) = record.end() else {
        return vec![failed(cut_off(), tools_ran(record))];
    };
    let mut events = Vec::new();
    if let Some(open) = end.open.as_ref().filter(|open| !open.asked.is_empty()) {
        events.push(TurnEvent::Asked(open.asked.clone()));
    }
    if !end.said.is_empty() {
        events.push(TurnEvent::Text(end.said.clone()));
    }
    events
        .extend(end.client_calls.iter().enumerate().map(|(index, call)| client_call(index, call)));
    events.push(match &end.outcome {
        Outcome::Finished { .. } => finished(record, end),
        Outcome::Failed { code, message } => {
            let code = ErrorCode::named(code).unwrap_or(ErrorCode::Internal);
            failed(ApiError::new(code, message), end.tools_ran)
        }
        Outcome::Stopped => failed(stopped(), end.tools_ran),
    });
    events
}

/// Whether a tool has run, as far as the record tells.
pub(crate) fn tools_ran(record: &TurnRecord) -> bool {
    match record.end() {
        Some(end) => end.tools_ran,
        // A round is recorded when its calls have their answers.
        None => record
            .entries
            .iter()
            .any(|entry| matches!(entry, Entry::Intent(_) | Entry::Ran(_) | Entry::Round(_))),
    }
}

fn failed(error: ApiError, tools_ran: bool) -> TurnEvent {
    TurnEvent::Failed(Box::new(Failure { error, tools_ran }))
}

fn cut_off() -> ApiError {
    let message = "This turn was under way when the server ended. It is not run again: look at \
                   what its tools did, then ask anew.";
    ApiError::new(ErrorCode::Cancelled, message)
}

fn stopped() -> ApiError {
    let message = "This turn was stopped before its end. What it had done is in the session.";
    ApiError::new(ErrorCode::Cancelled, message)
}

/// `call` is an entry of `tool_calls`.
fn client_call(index: usize, call: &Value) -> TurnEvent {
    let is_custom = call["type"] == CallKind::Custom.as_str();
    let kind = if is_custom { CallKind::Custom } else { CallKind::Function };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let inner = &call[kind.as_str()];
    TurnEvent::ClientCall(Box::new(ClientCallDelta {
        index,
        kind,
        head: Some((text(&call["id"]), text(&inner["name"]))),
        arguments: text(&inner[kind.text()]),
    }))
}

fn finished(record: &TurnRecord, end: &End) -> TurnEvent {
    match Finished::from_record(end.summary.clone(), record.session_name(), record.row.id.clone()) {
        Some(finished) => TurnEvent::Finished(Box::new(finished)),
        None => TurnEvent::Failed(Box::new(Failure::crash())),
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use serde_json::json;

    use super::*;
    use crate::sessions::record::TurnBody;
    use crate::store::memory::samples;

    pub(crate) fn record(entries: Vec<Entry>) -> TurnRecord {
        let row = samples::turn(&samples::session("a"), None);
        TurnRecord { row, body: TurnBody::default(), entries }
    }

    pub(crate) fn end(outcome: Outcome, said: &str) -> End {
        let reason = match &outcome {
            Outcome::Finished { reason } => Some(reason.clone()),
            Outcome::Failed { .. } | Outcome::Stopped => None,
        };
        let summary = json!({ "reason": reason, "rounds": 2, "usage": { "prompt_tokens": 3 } });
        End {
            outcome,
            last: None,
            open: None,
            said: said.to_owned(),
            client_calls: Vec::new(),
            summary: serde_json::from_value(summary).unwrap(),
            tools_ran: true,
        }
    }

    pub(crate) fn finished(said: &str) -> Entry {
        Entry::End(Box::new(end(Outcome::Finished { reason: "stop".to_owned() }, said)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::samples::{end, finished, record};
    use super::*;
    use crate::agent::record::Ran;
    use crate::openai::chunk::FinishReason;
    use crate::openai::usage::Usage;

    fn code(events: &[TurnEvent]) -> (ErrorCode, bool) {
        match events.last() {
            Some(TurnEvent::Failed(failure)) => (failure.error.code, failure.tools_ran),
            other => panic!("not a failure: {other:?}"),
        }
    }

    #[test]
    fn an_answer_is_told_with_its_calls_and_figures() {
        let calls = vec![
            json!({ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } }),
            json!({ "id": "c2", "type": "custom", "custom": { "name": "g", "input": "text" } }),
        ];
        let reason = "tool_calls".to_owned();
        let end = End { client_calls: calls, ..end(Outcome::Finished { reason }, "So.") };

        let events = retold(&record(vec![Entry::End(Box::new(end))]));

        let [
            TurnEvent::Text(text),
            TurnEvent::ClientCall(one),
            TurnEvent::ClientCall(two),
            TurnEvent::Finished(finished),
        ] = &*events
        else {
            panic!("{events:?}");
        };
        assert_eq!(text, "So.");
        assert_eq!(one.head, Some(("c1".to_owned(), "f".to_owned())));
        assert_eq!((two.index, two.kind, &*two.arguments), (1, CallKind::Custom, "text"));
        assert_eq!(finished.reason, FinishReason::ToolCalls);
        assert_eq!(finished.summary.rounds, 2);
        assert_eq!(finished.usage.as_ref().map(Usage::prompt_tokens), Some(3));
    }

    #[test]
    fn a_failure_keeps_its_code() {
        let outcome =
            Outcome::Failed { code: "stream_died".to_owned(), message: "It died.".to_owned() };
        let events = retold(&record(vec![Entry::End(Box::new(end(outcome, "")))]));
        assert_eq!(code(&events), (ErrorCode::StreamDied, true));
    }

    #[test]
    fn a_turn_that_was_stopped_or_crashed_is_cancelled() {
        let events = retold(&record(vec![Entry::End(Box::new(end(Outcome::Stopped, "Half")))]));
        assert_eq!(code(&events), (ErrorCode::Cancelled, true));
        assert!(matches!(&events[0], TurnEvent::Text(text) if text == "Half"));

        let ran = Entry::Ran(Ran { round: 1, slot: 0, answer: "done".to_owned() });
        assert_eq!(code(&retold(&record(vec![ran]))), (ErrorCode::Cancelled, true));
        assert_eq!(code(&retold(&record(vec![]))), (ErrorCode::Cancelled, false));
    }

    #[test]
    fn a_summary_of_another_form_costs_the_figures_alone() {
        let mut written = serde_json::to_value(finished("Yes.")).unwrap();
        written["summary"] = json!([1, 2]);
        let read = serde_json::from_value(written).unwrap();
        assert_eq!(retold(&record(vec![read])).len(), 2);
    }
}
