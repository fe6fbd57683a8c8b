//! Turns the records of turns back into what really happened.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde_json::{Value, json};

use super::canonical;
use super::record::TurnRecord;
pub(crate) use crate::agent::closed_round::closed;
use crate::agent::closed_round::{INTERRUPTED, answer};
use crate::agent::delegation::how_to_resume;
use crate::agent::record::{Compacted, Entry, Intent, OpenCall, OpenRound, RecordedRound, SETTLED};
use crate::reminder::Reminder;
use crate::store::rows::TurnStatus;
use crate::text;

/// Answers a call that was running when the server was killed.
pub(crate) const OUTCOME_UNKNOWN: &str = "Error: interrupted, outcome unknown";

/// Answers a call of a turn that goes on without its client, when another request comes.
const STILL_RUNNING: &str = "Error: still running: the turn that made this call goes on by itself. \
                             Do not make the call again.";

/// Tells the model that the turn before the person's message has not ended.
const GOES_ON: &str = "The turn before this message still runs by itself, because its client left \
                       while it worked. What it had done by now stands above, and it will do the \
                       rest of that work: do not do it a second time, and expect that files change.";

/// Of an answer that was continued, so much is compared with its continuation.
const COMPARED: usize = 20;

/// One step of what happened.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Round(RecordedRound),
    /// Everything before it was replaced.
    Compacted(Compacted),
}

/// The turns of one link. The last may be followed by `next`, which closed its open round.
pub(crate) fn steps(turns: &[Arc<TurnRecord>], next: Option<&TurnRecord>) -> Vec<Step> {
    let mut steps = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let in_link = turns.get(at + 1);
        let next = in_link.map(|next| &**next).or(next).filter(|next| is_child(turn, next));
        let is_continued = next.is_some_and(|next| is_continuation(turn, next));
        steps.extend(own_steps(turn, !is_continued));
        let (Some(open), Some(next)) = (turn.open(), next) else { continue };
        steps.extend(closing_rounds(next));
        if let Some(next) = in_link.filter(|next| leaves_unclosed(next)) {
            let attempts = std::slice::from_ref(next);
            let answer = |id: &str| recorded_answer(open, attempts, id);
            steps.push(Step::Round(closed(&settled(open, attempts), answer)));
        }
    }
    steps
}

fn is_child(turn: &TurnRecord, next: &TurnRecord) -> bool {
    next.row.parent.as_ref() == Some(&turn.row.id)
}

/// Whether the next turn tells the whole answer again, old and new together.
fn is_continuation(turn: &TurnRecord, next: &TurnRecord) -> bool {
    let last = turn.end().and_then(|end| end.last.as_ref());
    let goes_on = next.body.continues && !next.body.resumes;
    let begins_alike = |last: &RecordedRound| {
        let start: String = canonical::solid(&last.text()).take(COMPARED).collect();
        next.all_rounds().any(|round| canonical::begins_with(&round.text(), &start))
    };
    goes_on && last.is_some_and(begins_alike)
}

/// Whether the turn took up an open round, and was cut off before it had closed it.
pub(crate) fn leaves_unclosed(turn: &TurnRecord) -> bool {
    turn.body.resumes && !has_closed_round(turn) && turn.open().is_none()
}

/// What the client answered to the call that has this id in the open round, as attempts at closing
/// the round have recorded it.
pub(crate) fn recorded_answer(
    open: &OpenRound,
    attempts: &[Arc<TurnRecord>],
    id: &str,
) -> Option<Value> {
    attempts.iter().find_map(|attempt| client_answer(open, attempt, id))
}

fn client_answer(open: &OpenRound, attempt: &TurnRecord, id: &str) -> Option<Value> {
    let is_it = |call: &OpenCall| matches!(call, OpenCall::Clients { id: own } if own == id);
    let slot = open.calls.iter().position(is_it)?;
    let answers = attempt.entries.iter().find_map(|entry| match entry {
        Entry::ClientAnswers { answers } => Some(answers),
        _ => None,
    })?;
    serde_json::from_str(answers.get(slot)?.as_deref()?).ok()
}

/// What the turn did itself, without closing the round that it began with.
fn own_steps(turn: &TurnRecord, with_last: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut skipped = if turn.body.resumes { closing_rounds(turn).len() } else { 0 };
    for entry in &turn.entries {
        match entry {
            Entry::Round(_) if skipped > 0 => skipped -= 1,
            Entry::Round(round) => steps.push(Step::Round(round.clone())),
            Entry::Compacted(compacted) => steps.push(Step::Compacted(compacted.clone())),
            Entry::End(end) if with_last => steps.extend(end.last.clone().map(Step::Round)),
            _ => {}
        }
    }
    steps.extend(unfinished_round(turn).map(Step::Round));
    steps
}

/// The round of its own that a turn was in when it was cut off: its calls that had begun. A round
/// that it had only taken up is its parent's.
pub(crate) fn unfinished_round(turn: &TurnRecord) -> Option<RecordedRound> {
    let is_own = !turn.body.resumes || has_closed_round(turn);
    if turn.end().is_some() || !is_own {
        return None;
    }
    cut_round(turn)
}

/// Whether the turn has closed a round.
pub(crate) fn has_closed_round(turn: &TurnRecord) -> bool {
    turn.entries.iter().any(|entry| matches!(entry, Entry::Round(_)))
}

/// The rounds by which a turn closed its parent's open round: that round, and a message of ours
/// between it and the user's words.
fn closing_rounds(next: &TurnRecord) -> Vec<Step> {
    let rounds = next.entries.iter().filter_map(|entry| match entry {
        Entry::Round(round) => Some(round),
        _ => None,
    });
    let asks = next.body.user_messages.iter().any(|sent| !sent.sent.is_empty());
    let mut rounds = rounds.take(2);
    let closed = rounds.next().filter(|_| next.body.resumes);
    let between = rounds.next().filter(|round| closed.is_some() && asks && !ends_with_tool(round));
    closed.into_iter().chain(between).cloned().map(Step::Round).collect()
}

/// The round that a turn was in when the server was killed: its calls that had begun.
fn cut_round(turn: &TurnRecord) -> Option<RecordedRound> {
    let closed = turn.entries.iter().rposition(|entry| matches!(entry, Entry::Round(_)));
    let open = &turn.entries[closed.map_or(0, |closed| closed + 1)..];
    let mut intents: Vec<&Intent> = open.iter().filter_map(intent).collect();
    intents.sort_by_key(|intent| intent.slot);
    intents.dedup_by_key(|intent| intent.slot);
    let first = intents.first()?;
    let calls: Vec<&Value> = intents.iter().map(|intent| &intent.call).collect();
    let mut messages = vec![json!({ "role": "assistant", "content": null, "tool_calls": calls })];
    messages.extend(intents.iter().map(|intent| {
        let ran = open.iter().find_map(|entry| match entry {
            Entry::Ran(ran) if ran.slot == intent.slot => Some(ran.answer.clone()),
            _ => None,
        });
        let content = ran.unwrap_or_else(|| unanswered(turn, (open, intent.slot)));
        answer(&intent.call["id"], &content)
    }));
    let has_reasoning = calls.iter().any(|call| call.get("provider_specific_fields").is_some());
    Some(RecordedRound {
        messages: Value::from(messages).to_string(),
        model: first.model.clone(),
        has_reasoning,
    })
}

fn intent(entry: &Entry) -> Option<&Intent> {
    match entry {
        Entry::Intent(intent) => Some(intent),
        _ => None,
    }
}

/// The answer to a call of the open round with these entries, which had begun.
fn unanswered(turn: &TurnRecord, (open, slot): (&[Entry], usize)) -> String {
    if turn.delivery().goes_on() {
        return STILL_RUNNING.to_owned();
    }
    let what = match turn.row.status {
        // Of one that seems to run nobody knows either.
        TurnStatus::Crashed | TurnStatus::Running => OUTCOME_UNKNOWN,
        _ => INTERRUPTED,
    };
    let agent = open.iter().rev().find_map(|entry| match entry {
        Entry::AgentStarted(started) if started.slot == slot => Some(&started.agent),
        _ => None,
    });
    let resume = agent.map(|agent| format!("\n{}", how_to_resume(agent)));
    what.to_owned() + &resume.unwrap_or_default()
}

pub(crate) fn ends_with_tool(round: &RecordedRound) -> bool {
    // Inside a text the quotes would be escaped.
    static ANSWER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(br#""tool_call_id":"#));
    let has_answers = ANSWER.find(round.messages.as_bytes()).is_some();
    // A message of ours may stand behind the answers.
    let before = |end: &str| round.messages.strip_suffix(end)?.strip_suffix(SETTLED);
    let is_settled =
        || before("\"}]").is_some_and(|it| it.ends_with(r#"{"role":"assistant","content":""#));
    has_answers && !is_settled()
}

/// The open round with what an earlier attempt at closing it has settled. Nothing runs twice.
pub(crate) fn settled(open: &OpenRound, attempts: &[Arc<TurnRecord>]) -> OpenRound {
    let mut settled = open.clone();
    for attempt in attempts.iter().filter(|attempt| attempt.body.resumes) {
        settle(&mut settled, attempt);
    }
    let calls = &settled.calls;
    settled.asked.retain(|asked| calls.get(asked.slot).is_some_and(OpenCall::waits));
    settled
}

/// Answers the calls of the round that wait, as far as the attempt has run them.
fn settle(open: &mut OpenRound, attempt: &TurnRecord) {
    for (slot, call) in open.calls.iter_mut().enumerate() {
        if call.waits()
            && let Some(answer) = settled_answer(attempt, slot)
        {
            *call = OpenCall::Answered { answer, pictures: Vec::new() };
        }
    }
}

/// The open round with all that an attempt at closing it has recorded, the client's answers too.
pub(crate) fn settled_with_answers(open: &OpenRound, attempt: &TurnRecord) -> OpenRound {
    let mut settled = open.clone();
    settle(&mut settled, attempt);
    for call in &mut settled.calls {
        if let OpenCall::Clients { id } = call
            && let Some(answer) = client_answer(open, attempt, id)
        {
            *call = OpenCall::Given { message: answer.to_string() };
        }
    }
    settled
}

fn settled_answer(attempt: &TurnRecord, slot: usize) -> Option<String> {
    let mut began = false;
    for entry in &attempt.entries {
        match entry {
            Entry::Ran(ran) if ran.slot == slot => return Some(ran.answer.clone()),
            Entry::Intent(intent) if intent.slot == slot => began = true,
            Entry::Round(round) => {
                let messages: Vec<Value> = serde_json::from_str(&round.messages).ok()?;
                return Some(messages.get(slot + 1)?["content"].as_str()?.to_owned());
            }
            _ => {}
        }
    }
    began.then(|| unanswered(attempt, (&attempt.entries, slot)))
}

/// Tells the model what interrupted attempts at the same request have done; `None` if nothing.
pub(crate) fn note(attempts: &[Arc<TurnRecord>]) -> Option<String> {
    /// More than anyone needs to know what happened.
    const MAX_LINES: usize = 50;
    let cut = attempts.iter().rev().filter(|turn| turn.delivery().may_be_cut());
    let steps = cut.flat_map(|turn| own_steps(turn, false));
    let mut lines: Vec<String> = steps.flat_map(|step| done_in(&step)).collect();
    if lines.is_empty() {
        return None;
    }
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("and {more} more"));
    }
    let text = format!(
        "An earlier attempt to answer this was interrupted, or went on without its client and \
         may still run. These calls of it had been made; do not repeat what need not be done twice:\n{}",
        lines.join("\n")
    );
    Some(Reminder::new(text).to_string())
}

/// Tells the model that the last turn of the path has not ended; `None` if it has.
pub(crate) fn note_of_last(path: &[Arc<TurnRecord>]) -> Option<String> {
    let goes_on = path.last().is_some_and(|turn| turn.delivery().goes_on());
    goes_on.then(|| Reminder::new(GOES_ON.to_owned()).to_string())
}

/// A line for each call.
fn done_in(step: &Step) -> Vec<String> {
    const SHOWN: usize = 300;
    let Step::Round(round) = step else { return Vec::new() };
    let messages: Vec<Value> = serde_json::from_str(&round.messages).unwrap_or_default();
    let [assistant, answers @ ..] = messages.as_slice() else { return Vec::new() };
    let calls = assistant["tool_calls"].as_array().into_iter().flatten();
    let shown = |value: &Value| {
        let whole = value.as_str().unwrap_or_default();
        text::shown_line(&text::shortened(whole, SHOWN))
    };
    calls
        .zip(answers)
        .map(|(call, answer)| {
            let function = &call["function"];
            let (name, arguments) = (shown(&function["name"]), shown(&function["arguments"]));
            format!("- {name} {arguments}: {}", shown(&answer["content"]))
        })
        .collect()
}
