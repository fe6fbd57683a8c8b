//! Asks a person questions with options to choose from.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::text::one_line;
use crate::tools::question::{Question, QuestionOption};
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct AskUserQuestion;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AskUserQuestionInput {
    /// The questions, one to four.
    #[schemars(length(min = 1, max = 4))]
    questions: Vec<OneQuestion>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct OneQuestion {
    /// The whole question; each of a call is different.
    #[schemars(length(min = 1, max = 1000))]
    question: String,
    /// A word or two for it.
    #[schemars(length(max = 12))]
    header: String,
    /// Two to four answers to choose from. The person can always answer in other words.
    #[schemars(length(min = 2, max = 4))]
    options: Vec<OneOption>,
    /// Whether several may be chosen.
    #[serde(default, rename = "multiSelect")]
    multi_select: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct OneOption {
    /// The answer in a few words; each of a question is different.
    #[schemars(length(min = 1))]
    label: String,
    /// What choosing it means; may be empty.
    #[serde(default)]
    description: String,
}

impl Tool for AskUserQuestion {
    type Input = AskUserQuestionInput;

    const NAME: &'static str = "AskUserQuestion";
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Asks the user up to four questions and waits for the \
        answers. Use it where the user must decide, and not to ask for leave to use a tool.";

    fn access_request(&self, _: &AskUserQuestionInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &AskUserQuestionInput) -> String {
        let first = input.questions.first().map(|question| question.question.as_str());
        first.unwrap_or_default().to_owned()
    }

    fn questions(&self, input: &AskUserQuestionInput) -> Option<Result<Vec<Question>, ToolError>> {
        Some(distinct(input))
    }

    /// The pipeline answers the call with what the person says, and never runs it.
    async fn execute(
        &self,
        _: AskUserQuestionInput,
        _: Permit,
        _: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        Err(ToolError::failed("no person was asked"))
    }
}

/// The questions, if a reply can tell them and their options apart.
fn distinct(input: &AskUserQuestionInput) -> Result<Vec<Question>, ToolError> {
    let mut questions = HashSet::new();
    for OneQuestion { question, options, .. } in &input.questions {
        if question.trim().is_empty() || !questions.insert(folded(question)) {
            return Err(ToolError::InvalidInput(format!(
                "questions: each must be different and not empty, and {question:?} is not"
            )));
        }
        let mut labels = HashSet::new();
        for OneOption { label, .. } in options {
            if label.trim().is_empty() || !labels.insert(folded(label)) {
                return Err(ToolError::InvalidInput(format!(
                    "options of {question:?}: each label must be different and not empty, and \
                     {label:?} is not"
                )));
            }
        }
    }
    Ok(input.questions.iter().map(OneQuestion::to_question).collect())
}

/// A reply is read without regard to case and white space.
fn folded(text: &str) -> String {
    one_line(text).to_lowercase()
}

impl OneQuestion {
    fn to_question(&self) -> Question {
        let option = |option: &OneOption| QuestionOption {
            label: option.label.clone(),
            description: option.description.clone(),
        };
        Question {
            question: self.question.clone(),
            header: self.header.clone(),
            options: self.options.iter().map(option).collect(),
            multi_select: self.multi_select,
        }
    }
}
