//! Puts what a person is asked into the form in which the client can ask it.

use super::asking::dialog::{ASK_USER, TOOLHAND_APPROVAL, dialogs, toolhand_approval};
use super::asking::message::message;
use super::beginning::AskingChannel;
use super::record::Asked;

/// What the client is sent to ask a person.
#[derive(Debug)]
pub(super) struct Presented {
    /// Content of the answer.
    pub(super) text: String,
    /// Calls of the client's own tools.
    pub(super) calls: Vec<PresentedCall>,
}

/// A call of a tool that the client declared for asking.
#[derive(Debug)]
pub(super) struct PresentedCall {
    pub(super) tool: &'static str,
    pub(super) arguments: String,
    /// The asks it is about, by their places among those asked.
    pub(super) asks: Vec<usize>,
}

/// By the client's tool if all of it fits, otherwise as the assistant's message.
pub(super) fn present(asked: &[Asked], channel: AskingChannel) -> Presented {
    let calls = match channel {
        AskingChannel::AskUser => by_dialog(asked),
        AskingChannel::ToolhandApproval => by_approvals(asked),
        AskingChannel::Conversation | AskingChannel::Rest | AskingChannel::Nobody => {
            return Presented { text: message(asked, channel), calls: Vec::new() };
        }
    };
    match calls {
        Some(calls) => Presented { text: message(asked, channel), calls },
        None => present(asked, AskingChannel::Conversation),
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
