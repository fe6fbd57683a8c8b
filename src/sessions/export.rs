//! Writes the records of a branch as messages in OpenAI form.

use serde_json::{Map, Value, json};

use crate::agent::record::{End, Entry, OpenCall, OpenRound, RecordedRound};
use crate::sessions::record::{SentMessage, TurnRecord};
use crate::sessions::transcript;
use crate::store::rows::TurnStatus;

/// The members of messages that OpenAI knows. Others, such as a model's reasoning, are of no
/// use to another model.
const MEMBERS: [&str; 7] =
    ["role", "content", "refusal", "name", "tool_calls", "tool_call_id", "audio"];

/// The messages of a branch, whose oldest turn comes first.
pub(crate) fn messages(branch: &[TurnRecord]) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut before: Option<&TurnRecord> = None;
    for (index, record) in branch.iter().enumerate() {
        messages.extend(record.body.user_messages.iter().map(user_message));
        if let Some(open) = before.and_then(TurnRecord::open)
            && transcript::leaves_unclosed(record)
            && !is_running(record)
        {
            messages.extend(answered(&transcript::settled_with_answers(open, record)));
        }
        messages.extend(added(record, branch.get(index + 1)));
        before = Some(record);
    }
    messages
}

/// What one turn added: assistant messages with their calls, tool messages, the answer. What it
/// leaves open, the turn that goes on from it closes.
fn added(record: &TurnRecord, next: Option<&TurnRecord>) -> Vec<Value> {
    let mut messages = Vec::new();
    for entry in &record.entries {
        match entry {
            Entry::Round(round) => messages.extend(of_round(round)),
            Entry::End(end) => messages.extend(of_end(end, next)),
            _ => {}
        }
    }
    if !is_running(record) {
        messages.extend(transcript::unfinished_round(record).iter().flat_map(of_round));
    }
    messages
}

/// Whether the turn still runs: its calls have no outcome yet.
fn is_running(record: &TurnRecord) -> bool {
    record.row.status == TurnStatus::Running
}

/// As it went upstream. A reply to a question of ours went nowhere: its words are what is known.
fn user_message(message: &SentMessage) -> Value {
    let sent = serde_json::from_str(&message.sent).map(in_openai_form);
    sent.unwrap_or_else(|_| json!({ "role": "user", "content": message.words }))
}

fn of_round(round: &RecordedRound) -> Vec<Value> {
    let messages: Value = serde_json::from_str(&round.messages).unwrap_or_default();
    match messages {
        Value::Array(messages) => messages.into_iter().map(in_openai_form).collect(),
        Value::Object(_) => vec![in_openai_form(messages)],
        _ => Vec::new(),
    }
}

fn of_end(end: &End, next: Option<&TurnRecord>) -> Vec<Value> {
    let mut messages: Vec<Value> = end.last.iter().flat_map(of_round).collect();
    let Some(open) = &end.open else { return messages };
    if !next.is_some_and(|next| next.body.resumes) {
        messages.extend(answered(open));
    }
    if next.is_none_or(|next| !next.body.continues) {
        messages.push(of_open(end, open));
    }
    messages
}

/// A round that waits for a person is the question; one that waits for the client is the
/// message with the client's calls.
fn of_open(end: &End, open: &OpenRound) -> Value {
    if !open.asked.is_empty() && end.client_calls.is_empty() {
        return json!({ "role": "assistant", "content": end.said });
    }
    let content = open.message.get("content").cloned().unwrap_or_default();
    json!({ "role": "assistant", "content": content, "tool_calls": end.client_calls })
}

/// The calls of an open round that have answers, with these.
fn answered(open: &OpenRound) -> Vec<Value> {
    let entries = open.message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for (entry, call) in entries.iter().zip(&open.calls) {
        let answer = match call {
            OpenCall::Answered { answer, .. } => Value::from(answer.as_str()),
            OpenCall::Given { message } => content_of(message),
            OpenCall::Waiting | OpenCall::Suspended(_) | OpenCall::Clients { .. } => continue,
        };
        calls.push(entry.clone());
        answers.push(json!({ "role": "tool", "tool_call_id": entry["id"], "content": answer }));
    }
    if calls.is_empty() {
        return Vec::new();
    }
    let assistant = json!({ "role": "assistant", "content": null, "tool_calls": calls });
    std::iter::once(in_openai_form(assistant)).chain(answers).collect()
}

/// The content of a message that the client sent.
fn content_of(message: &str) -> Value {
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    message.get("content").cloned().unwrap_or_default()
}

fn in_openai_form(message: Value) -> Value {
    let Value::Object(message) = message else { return message };
    let known = message.into_iter().filter(|(name, _)| MEMBERS.contains(&name.as_str()));
    let mut known: Map<String, Value> = known.collect();
    for call in known.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.retain(|name, _| ["id", "type", "function", "custom"].contains(&name.as_str()));
        }
    }
    Value::Object(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::record::{Intent, Outcome, Ran};
    use crate::sessions::running::retold_samples as samples;

    fn recorded(messages: &Value) -> RecordedRound {
        let (messages, model) = (messages.to_string(), "m".to_owned());
        RecordedRound { messages, model, has_reasoning: false }
    }

    fn turn(asked: &str, entries: Vec<Entry>) -> TurnRecord {
        let mut record = samples::record(entries);
        let (words, sent) = (asked.to_owned(), String::new());
        record.body.user_messages = vec![SentMessage { words, sent }];
        record
    }

    fn call(id: &str) -> Value {
        json!({ "id": id, "type": "function", "function": { "name": "Read", "arguments": "{}" } })
    }

    fn finished(last: &Value) -> Entry {
        let reason = "stop".to_owned();
        let end = samples::end(Outcome::Finished { reason }, "");
        Entry::End(Box::new(End { last: Some(recorded(last)), ..end }))
    }

    #[test]
    fn what_ran_in_a_round_that_waits_is_shown_until_the_round_is_closed() {
        let message = json!({ "role": "assistant", "content": null,
            "tool_calls": [call("c1"), call("c2")] });
        let clients = OpenCall::Clients { id: "c2".to_owned() };
        let answer = OpenCall::Answered { answer: "1 line".to_owned(), pictures: Vec::new() };
        let open = OpenRound {
            message,
            model: "m".to_owned(),
            has_reasoning: false,
            calls: vec![answer, clients],
            asked: Vec::new(),
            asked_by: Vec::new(),
            ends_with: None,
            question: None,
        };
        let end = samples::end(Outcome::Finished { reason: "tool_calls".to_owned() }, "");
        let end = End { open: Some(open), client_calls: vec![call("c2")], ..end };
        let first = turn("Both?", vec![Entry::End(Box::new(end))]);
        let shown = json!([
            { "role": "user", "content": "Both?" },
            { "role": "assistant", "content": null, "tool_calls": [call("c1")] },
            { "role": "tool", "tool_call_id": "c1", "content": "1 line" },
            { "role": "assistant", "content": null, "tool_calls": [call("c2")] },
        ]);
        let mut next = turn("", Vec::new());
        (next.body.resumes, next.body.continues, next.body.user_messages) =
            (true, true, Vec::new());

        assert_eq!(Value::from(messages(std::slice::from_ref(&first))), shown);
        assert_eq!(messages(&[first, next]), [json!({ "role": "user", "content": "Both?" })]);
    }

    fn intent(slot: usize, id: &str) -> Entry {
        let model = "m".to_owned();
        Entry::Intent(Intent { round: 1, slot, call: call(id), model, approval: None })
    }

    fn waiting_round() -> TurnRecord {
        let open = OpenRound {
            message: json!({
                "role": "assistant",
                "content": null,
                "tool_calls": [call("c1"), call("c2"), call("c3"), call("c4")],
            }),
            model: "m".to_owned(),
            has_reasoning: false,
            calls: vec![
                OpenCall::Waiting,
                OpenCall::Waiting,
                OpenCall::Waiting,
                OpenCall::Clients { id: "c4".to_owned() },
            ],
            asked: Vec::new(),
            asked_by: Vec::new(),
            question: None,
            ends_with: None,
        };
        let end = samples::end(Outcome::Finished { reason: "stop".to_owned() }, "May I?");
        turn("Go.", vec![Entry::End(Box::new(End { open: Some(open), ..end }))])
    }

    #[test]
    fn calls_of_a_turn_that_was_killed_are_there_with_what_is_known_of_them() {
        let ran = Entry::Ran(Ran { round: 1, slot: 0, answer: "done".to_owned() });
        let unknown = transcript::OUTCOME_UNKNOWN;
        let entries = vec![intent(0, "c1"), ran, intent(1, "c2")];
        let mut killed = turn("Go.", entries.clone());
        killed.row.status = TurnStatus::Crashed;
        let calls = json!({ "role": "assistant", "content": null,
            "tool_calls": [call("c1"), call("c2")] });
        let answers = [
            json!({ "role": "tool", "tool_call_id": "c1", "content": "done" }),
            json!({ "role": "tool", "tool_call_id": "c2", "content": unknown }),
        ];

        let all = messages(std::slice::from_ref(&killed));
        assert_eq!(all[1..], [&[calls][..], &answers[..]].concat());
        killed.row.status = TurnStatus::Running;
        assert_eq!(messages(&[killed]).len(), 1, "what runs has no outcome");

        // The same in a turn that took up the round of the one before: the third call waits still.
        let given = json!({ "role": "tool", "tool_call_id": "c4", "content": "seen" });
        let given =
            Entry::ClientAnswers { answers: vec![None, None, None, Some(given.to_string())] };
        let mut resuming = turn("1", [vec![given], entries].concat());
        (resuming.row.status, resuming.body.resumes) = (TurnStatus::Crashed, true);
        let all = messages(&[waiting_round(), resuming]);
        let calls = json!({ "role": "assistant", "content": null,
            "tool_calls": [call("c1"), call("c2"), call("c4")] });
        let seen = json!({ "role": "tool", "tool_call_id": "c4", "content": "seen" });
        assert_eq!(all[3..], [&[calls][..], &answers[..], &[seen][..]].concat(), "{all:#?}");
    }

    #[test]
    fn a_branch_is_a_conversation_with_its_hidden_steps() {
        let round = recorded(&json!([
            { "role": "assistant", "content": null, "tool_calls": [call("c1")],
              "reasoning_content": "hm" },
            { "role": "tool", "tool_call_id": "c1", "content": "1 line" },
        ]));
        let answer = json!({ "role": "assistant", "content": "One." });
        let first = turn("How many?", vec![Entry::Round(round), finished(&answer)]);
        let second = turn("Thanks.", vec![finished(&json!([answer]))]);

        let expected = json!([
            { "role": "user", "content": "How many?" },
            { "role": "assistant", "content": null, "tool_calls": [call("c1")] },
            { "role": "tool", "tool_call_id": "c1", "content": "1 line" },
            { "role": "assistant", "content": "One." },
            { "role": "user", "content": "Thanks." },
            { "role": "assistant", "content": "One." },
        ]);
        assert_eq!(json!(messages(&[first, second])), expected);
    }

    #[test]
    fn an_open_round_stands_last_and_once() {
        let open = OpenRound {
            message: json!({ "role": "assistant", "content": "So.", "tool_calls": [call("c1")] }),
            model: "m".to_owned(),
            has_reasoning: false,
            calls: vec![OpenCall::Clients { id: "c1".to_owned() }],
            asked: Vec::new(),
            asked_by: Vec::new(),
            ends_with: None,
            question: None,
        };
        let reason = "tool_calls".to_owned();
        let end = samples::end(Outcome::Finished { reason }, "So.");
        let end = End { open: Some(open), client_calls: vec![call("c1")], ..end };
        let first = turn("Look.", vec![Entry::End(Box::new(end))]);
        let waiting = json!({ "role": "assistant", "content": "So.", "tool_calls": [call("c1")] });
        assert_eq!(messages(std::slice::from_ref(&first)).last(), Some(&waiting));

        let closed = recorded(&json!([
            waiting,
            { "role": "tool", "tool_call_id": "c1", "content": "seen" },
        ]));
        let mut second = turn("", vec![Entry::Round(closed)]);
        (second.body.user_messages, second.body.continues) = (Vec::new(), true);

        let all = messages(&[first, second]);

        assert_eq!(all.iter().filter(|message| **message == waiting).count(), 1);
        assert_eq!(all.last().map(|message| &message["content"]), Some(&json!("seen")));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let broken =
            RecordedRound { messages: "[{".to_owned(), model: String::new(), has_reasoning: false };
        assert!(messages(&[turn("Hi", vec![Entry::Round(broken)])]).len() == 1);
    }
}
