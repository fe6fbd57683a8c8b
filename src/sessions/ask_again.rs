//! Asks a person again about what a reply leaves out. Nothing runs, and no model is asked.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::asking::enclosure::separator;
use crate::agent::beginning::AskingChannel;
use crate::agent::events::{Failure, Finished, Summary, TurnEvent};
use crate::agent::outbox::Outbox;
use crate::agent::presenting::{Presented, present};
use crate::agent::record::{
    Asked, AskingCall, End, Entry, OpenRound, Outcome, Recorder, ShownQuestion,
};
use crate::ids::TurnId;
use crate::openai::chunk::RawMembers;

/// What is asked again, and how.
#[derive(Debug)]
pub(super) struct AskedAgain {
    pub(super) open: OpenRound,
    pub(super) left_out: Vec<Asked>,
    pub(super) channel: AskingChannel,
    /// Whether the reply must carry the code, whatever stands before the question.
    pub(super) code_requirement: CodeRequirement,
    /// The text of earlier turns that the client shows in one message with the question.
    pub(super) shown_before: String,
    /// Whether the client wants the message that asks.
    pub(super) include_messages: bool,
}

pub(super) async fn run(
    recorder: Arc<dyn Recorder>,
    outbox: Outbox,
    asked: AskedAgain,
    (session, turn): (String, TurnId),
) {
    let AskedAgain { open, left_out, channel, code_requirement, shown_before, include_messages } =
        asked;
    let code_requirement = code_requirement.or(CodeRequirement::behind(&shown_before));
    let Presented { text, calls } = present(&left_out, channel, code_requirement);
    let question = ShownQuestion::new(&text, code_requirement);
    let text = separator(&shown_before) + &text;
    let summary = Summary {
        session,
        turn,
        rounds: 0,
        tool_calls: 0,
        duration: Duration::ZERO,
        rounds_without_usage: 0,
        context_tokens: None,
    };
    let reason = calls.finish_reason();
    let finished = Finished {
        reason,
        usage: None,
        summary,
        messages: include_messages.then(|| vec![calls.message(&text)]),
        unknown: RawMembers::new(),
        whole: None,
    };
    let end = End {
        outcome: Outcome::Finished { reason: reason.as_str().to_owned() },
        last: None,
        open: Some(OpenRound {
            question: Some(question),
            ..still_open(open, left_out.clone(), calls.asked_by)
        }),
        said: text.clone(),
        client_calls: calls.entries,
        summary: finished.to_record(),
        tools_ran: false,
    };
    match recorder.commit(Entry::End(Box::new(end))).await {
        Ok(()) => {
            outbox.push(TurnEvent::Asked(left_out));
            outbox.push(TurnEvent::Text(text));
            calls.events.into_iter().for_each(|event| outbox.push(event));
            outbox.push(TurnEvent::Finished(Box::new(finished)));
        }
        Err(error) => {
            outbox.push(TurnEvent::Failed(Box::new(Failure { error, tools_ran: false })));
        }
    }
}

/// The round with what is asked again in front, where the calls that ask point to by its places.
fn still_open(open: OpenRound, left_out: Vec<Asked>, asked_by: Vec<AskingCall>) -> OpenRound {
    let mut asked = left_out;
    for other in open.asked {
        if asked.iter().all(|asked| asked.id != other.id) {
            asked.push(other);
        }
    }
    OpenRound { asked, asked_by, ..open }
}
