//! Puts what a person is asked into the form in which the client can ask it.

use super::beginning::AskingChannel;
use super::record::Asked;
use crate::execution::ask::About;

/// What the client is sent to ask a person.
#[derive(Debug, Default)]
pub(super) struct Presented {
    /// Content of the answer.
    pub(super) text: String,
    /// Calls of the client's own tools.
    pub(super) calls: Vec<PresentedCall>,
}

/// A call of a tool that the client declared for asking.
#[derive(Debug)]
pub(super) struct PresentedCall {
    pub(super) tool: String,
    pub(super) arguments: String,
    /// The asks it is about, by their places among those asked.
    pub(super) asks: Vec<usize>,
}

pub(super) fn present(asked: &[Asked], _channel: AskingChannel) -> Presented {
    let texts: Vec<_> = asked.iter().map(text_of).collect();
    Presented { text: texts.join("\n\n"), calls: Vec::new() }
}

fn text_of(asked: &Asked) -> String {
    let Asked { code, ask, .. } = asked;
    match &ask.about {
        About::Effect(effect) => format!("{}\n\n(`{code}`)", effect.markdown),
        About::Questions { questions } => {
            let questions: Vec<_> =
                questions.iter().map(|question| question.question.clone()).collect();
            format!("{}\n\n(`{code}`)", questions.join("\n"))
        }
    }
}
