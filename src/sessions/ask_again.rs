//! Asks a person again about what a reply leaves out. Nothing runs, and no model is asked.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::asking::message::message;
use crate::agent::beginning::AskingChannel;
use crate::agent::events::{Failure, Finished, Summary, TurnEvent};
use crate::agent::outbox::Outbox;
use crate::agent::record::{Asked, End, Entry, OpenRound, Outcome, Recorder};
use crate::ids::TurnId;
use crate::openai::chunk::{FinishReason, RawMembers};

pub(super) async fn run(
    recorder: Arc<dyn Recorder>,
    outbox: Outbox,
    open: OpenRound,
    left_out: Vec<Asked>,
    (session, turn): (String, TurnId),
) {
    let text = message(&left_out, AskingChannel::Conversation);
    let summary = Summary {
        session,
        turn,
        rounds: 0,
        tool_calls: 0,
        duration: Duration::ZERO,
        rounds_without_usage: 0,
        context_tokens: None,
    };
    let finished = Finished {
        reason: FinishReason::Stop,
        usage: None,
        summary,
        messages: None,
        unknown: RawMembers::new(),
        whole: None,
    };
    let end = End {
        outcome: Outcome::Finished { reason: FinishReason::Stop.as_str().to_owned() },
        last: None,
        open: Some(open),
        said: text.clone(),
        client_calls: Vec::new(),
        summary: finished.to_record(),
        tools_ran: false,
    };
    match recorder.commit(Entry::End(Box::new(end))).await {
        Ok(()) => {
            outbox.push(TurnEvent::Asked(left_out));
            outbox.push(TurnEvent::Text(text));
            outbox.push(TurnEvent::Finished(Box::new(finished)));
        }
        Err(error) => {
            outbox.push(TurnEvent::Failed(Box::new(Failure { error, tools_ran: false })));
        }
    }
}
