//! Defines the questions that the model may ask a person.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "a question has its question, header and options")]
pub(crate) struct Question {
    pub(crate) question: String,
    pub(crate) header: String,
    pub(crate) options: Vec<QuestionOption>,
    pub(crate) multi_select: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuestionOption {
    pub(crate) label: String,
    pub(crate) description: String,
}

/// Stands for the answer to a question that the person left out.
pub(crate) const NO_ANSWER: &str = "(no answer)";
