//! Defines what a call comes to: output, or an error.

use std::fmt;

use bytes::Bytes;
use serde_json::Value;

use super::answer::AnswerText;
use super::todos::Todo;
use crate::input_schema::InvalidInput;
use crate::permissions::Refusal;
use crate::progress_lines::UNKNOWN_TOOL;

/// The answer to a call that succeeded, or that reports a failure of its own, such as the exit
/// code of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolOutput {
    pub(crate) text: AnswerText,
    /// What the model is shown besides the text.
    pub(crate) pictures: Vec<Picture>,
    /// What is neither text nor a picture. It is kept in files of the session, which the answer
    /// names.
    pub(crate) files: Vec<AnswerFile>,
    /// The new todo list, if the call has written it.
    pub(crate) todos: Option<Vec<Todo>>,
    /// The same answer for programs: hooks and progress events. `Null` if there is only text.
    pub(crate) structured: Value,
    /// Members of `structured` for hooks alone, such as the old contents of a file, which may
    /// be very long.
    pub(crate) hooks_only: &'static [&'static str],
    /// What the person is told as well, a line for each: what a command has left that other
    /// programs obey.
    pub(crate) left_behind: Vec<String>,
    /// Whether the answer reports a failure although the tool itself worked.
    pub(crate) is_error: bool,
}

/// A part of an answer that the model is told of, and not shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnswerFile {
    /// What it is, with its type, such as `audio (audio/wav)`.
    pub(crate) what: String,
    pub(crate) bytes: Bytes,
}

/// A picture for the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    /// What it is of, such as the path of its file.
    pub(crate) name: String,
    pub(crate) format: PictureFormat,
    pub(crate) bytes: Bytes,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// The formats that models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureFormat {
    Png,
    Jpeg,
    Gif,
    WebP,
}

impl PictureFormat {
    const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::WebP];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }

    pub(crate) fn from_media_type(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.media_type() == media_type)
    }
}

/// Why a call failed. The text is for the model and should let it recover.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{UNKNOWN_TOOL}{name} is available{hint}")]
    Unavailable { name: String, hint: String },
    #[error("invalid input: {0}")]
    InvalidInput(String),
    #[error("not permitted: {0}")]
    Denied(String),
    /// A person declined the call.
    #[error("the user declined this call; nothing was done{}", feedback_note(.0.as_deref()))]
    Declined(Option<String>),
    #[error(
        "the approval came too late and counts as declined; nothing was done. Call again if it \
         is still needed"
    )]
    Expired,
    #[error("interrupted")]
    Cancelled,
    /// The call has started an agent that needs a person. It is no answer: the call is made once
    /// more when the person has decided.
    #[error("waits for a person")]
    Suspended,
    /// The file does not exist. The pipeline adds a similar path, if there is one.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Failed(String),
}

/// What the person said with a refusal, as the end of a sentence.
fn feedback_note(feedback: Option<&str>) -> String {
    match feedback.map(str::trim).filter(|feedback| !feedback.is_empty()) {
        Some(feedback) => format!(". The user says: {feedback}"),
        None => String::new(),
    }
}

impl ToolOutput {
    pub(crate) fn text(text: impl Into<AnswerText>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, structured: Value) -> Self {
        self.structured = structured;
        self
    }

    pub(crate) fn hooks_only(mut self, members: &'static [&'static str]) -> Self {
        self.hooks_only = members;
        self
    }
}

impl From<InvalidInput> for ToolError {
    fn from(InvalidInput(reason): InvalidInput) -> Self {
        Self::InvalidInput(reason)
    }
}

impl ToolError {
    pub(crate) fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Policy(reason) => Self::Denied(reason),
            Refusal::Path(reason) => Self::Failed(reason),
        }
    }
}
