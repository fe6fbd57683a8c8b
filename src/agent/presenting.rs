//! Puts what a person is asked into the form in which the client can ask it.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::asking::bare_choice::CodeRequirement;
use super::asking::dialog::{ASK_USER, TOOLHAND_APPROVAL, dialogs, toolhand_approval};
use super::asking::message::message;
use super::beginning::AskingChannel;
use super::events::{ClientCallDelta, TurnEvent};
use super::record::{Asked, AskingCall};
use crate::ids::CallId;
use crate::openai::chunk::{CallKind, FinishReason};

/// What the client is sent to ask a person.
#[derive(Debug)]
pub(crate) struct Presented {
    /// Content of the answer.
    pub(crate) text: String,
    /// Calls of the client's own tools.
    pub(crate) calls: SentCalls,
}

/// Calls of tools that the client declared for asking, in each form that the end of a turn needs.
#[derive(Debug, Default)]
pub(crate) struct SentCalls {
    /// For the open round.
    pub(crate) asked_by: Vec<AskingCall>,
    /// As entries of `tool_calls`.
    pub(crate) entries: Vec<Value>,
    /// For the client.
    pub(crate) events: Vec<TurnEvent>,
}

/// A call that asks, before it has its id.
#[derive(Debug)]
struct PresentedCall {
    tool: &'static str,
    arguments: String,
    /// The asks it is about, by their places among those asked.
    asks: Vec<usize>,
}

/// By the client's tool if all of it fits, otherwise as the assistant's message.
pub(crate) fn present(
    asked: &[Asked],
    channel: AskingChannel,
    code_requirement: CodeRequirement,
) -> Presented {
    let calls = match channel {
        AskingChannel::AskUser => by_dialog(asked),
        AskingChannel::ToolhandApproval => by_approvals(asked),
        // The parent puts it to the person.
        AskingChannel::Parent => {
            return Presented { text: String::new(), calls: SentCalls::default() };
        }
        AskingChannel::Conversation
        | AskingChannel::Rest
        | AskingChannel::WaitingRest
        | AskingChannel::Nobody => {
            return Presented {
                text: message(asked, channel, code_requirement),
                calls: SentCalls::default(),
            };
        }
    };
    match calls {
        Some(calls) => Presented {
            text: message(asked, channel, code_requirement),
            calls: SentCalls::new(calls),
        },
        None => present(asked, AskingChannel::Conversation, code_requirement),
    }
}

/// One dialog: it must be the only call of its message. What it leaves out is asked again.
fn by_dialog(asked: &[Asked]) -> Option<Vec<PresentedCall>> {
    let dialog = dialogs(asked)?.into_iter().next()?;
    let (arguments, asks) = (dialog.arguments.to_string(), dialog.asks);
    Some(vec![PresentedCall { tool: ASK_USER, arguments, asks }])
}

fn by_approvals(asked: &[Asked]) -> Option<Vec<PresentedCall>> {
    let calls = asked.iter().enumerate().map(|(place, asked)| {
        let arguments = toolhand_approval(asked)?.to_string();
        Some(PresentedCall { tool: TOOLHAND_APPROVAL, arguments, asks: vec![place] })
    });
    calls.collect()
}

impl SentCalls {
    /// Gives each call an id.
    fn new(calls: Vec<PresentedCall>) -> Self {
        let mut sent = Self::default();
        for (index, PresentedCall { tool, arguments, asks }) in calls.into_iter().enumerate() {
            let (id, tool) = (CallId::random().to_string(), tool.to_owned());
            sent.entries.push(json!({
                "id": id,
                "type": "function",
                "function": { "name": tool, "arguments": arguments },
            }));
            let head = Some((id.clone(), tool.clone()));
            let delta = ClientCallDelta { index, kind: CallKind::Function, head, arguments };
            sent.events.push(TurnEvent::ClientCall(Box::new(delta)));
            sent.asked_by.push(AskingCall { id, tool, asks });
        }
        sent
    }

    /// How the turn that ends with them finishes.
    pub(crate) fn finish_reason(&self) -> FinishReason {
        if self.entries.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls }
    }

    /// The assistant's message that says this and has these calls, as the client keeps it.
    pub(crate) fn message(&self, text: &str) -> Box<RawValue> {
        let mut message = json!({ "role": "assistant", "content": text });
        if !self.entries.is_empty() {
            message["tool_calls"] = self.entries.clone().into();
        }
        to_raw_value(&message).expect("a JSON value is valid JSON")
    }
}
