//! Defines how a question fails: the exit status, the sentence for stderr, and the error
//! object for `--json`.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::control_characters::in_one_line;
use crate::secret::Secret;
use crate::text::shortened;
use crate::upstream::BodyFault;

/// The longest sentence in bytes. A server may send any text as its error.
const MAX_SENTENCE: usize = 2_000;

/// Why there is no answer, or not a whole one.
#[derive(Debug)]
pub(super) struct AskError {
    pub(super) kind: ErrorKind,
    message: String,
    /// The error object as the server sent it.
    sent: Option<Bytes>,
    /// Whether stdout holds the answer that this is about.
    is_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// The prompt or a flag is wrong.
    Usage,
    /// The configuration, the state directory or a key cannot be used.
    Setup,
    /// Nothing listens there.
    NoServer,
    /// The connection broke, or nothing came in time.
    Connection,
    /// What came is not an answer of such a server.
    InvalidAnswer,
    /// The server answered with an error.
    Server,
    /// Stdout cannot be written.
    Output,
    /// Stdout was closed by its reader.
    ReaderGone,
    /// The turn waits for a person's answer, and there is nobody to ask.
    Suspended,
    /// A limit cut the answer off.
    CutOff,
    /// The model refused, or a content filter stopped it.
    Refused,
}

impl ErrorKind {
    pub(super) fn exit_status(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Suspended => 3,
            Self::CutOff => 4,
            Self::Refused => 5,
            Self::NoServer => 6,
            Self::ReaderGone => super::READER_GONE,
            Self::Setup | Self::Connection | Self::InvalidAnswer | Self::Server | Self::Output => 1,
        }
    }

    /// The `code` of our own error objects.
    fn code(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Setup => "setup",
            Self::NoServer => "no_server",
            Self::Connection => "connection_lost",
            Self::InvalidAnswer => "invalid_answer",
            Self::Server => "server_error",
            Self::Output | Self::ReaderGone => "output",
            Self::Suspended => "suspended",
            Self::CutOff => "cut_off",
            Self::Refused => "refused",
        }
    }
}

impl AskError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), sent: None, is_answered: false }
    }

    /// The connection ended before the answer did.
    pub(super) fn cut(reason: &str) -> Self {
        let message = format!("the server's answer broke off before its end: {reason}");
        Self::new(ErrorKind::Connection, message)
    }

    /// The connection broke in the middle of the answer.
    pub(super) fn broken_off(error: &dyn Error) -> Self {
        Self::cut(&root_cause(error))
    }

    /// Nothing came for this time.
    pub(super) fn silent(time: Duration) -> Self {
        let message = format!("the server has sent nothing for {} s", time.as_secs());
        Self::new(ErrorKind::Connection, message)
    }

    /// With what the user may do.
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.message = format!("{}; {hint}", self.message);
        self
    }

    /// With the error object as it came.
    pub(super) fn sent_as(self, body: Bytes) -> Self {
        Self { sent: Some(body), ..self }
    }

    /// About an answer that was shown.
    pub(super) fn about_answer(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { is_answered: true, ..Self::new(kind, message) }
    }

    /// Whether stdout got nothing that tells of it.
    pub(super) fn is_unreported(&self) -> bool {
        !self.is_answered
    }

    /// Removes the key, which a server may repeat in its error.
    pub(super) fn without_key(mut self, key: Option<&Secret>) -> Self {
        let Some(key) = key else { return self };
        self.message = self.message.replace(key.expose(), "[key]");
        if let Some(sent) = &self.sent {
            let text = String::from_utf8_lossy(sent);
            if text.contains(key.expose()) {
                self.sent = Some(text.replace(key.expose(), "[key]").into());
            }
        }
        self
    }

    /// One line for stderr, safe on a terminal.
    pub(super) fn sentence(&self) -> String {
        in_one_line(&shortened(&self.message, MAX_SENTENCE))
    }

    /// The error object for stdout.
    pub(super) fn object(&self) -> Bytes {
        self.sent.clone().unwrap_or_else(|| {
            let error = json!({
                "message": self.message,
                "type": "ask_error",
                "param": null,
                "code": self.kind.code(),
            });
            format!("{}\n", json!({ "error": error })).into()
        })
    }
}

impl From<BodyFault> for AskError {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge(most) => {
                let message = format!("the server's answer is larger than {most} bytes");
                Self::new(ErrorKind::InvalidAnswer, message)
            }
            BodyFault::Broken(error) => Self::broken_off(&error),
        }
    }
}

/// The innermost reason, without the layers around it.
pub(super) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_the_server_repeats_is_removed() {
        let key = Secret::new("th-12345678");
        let body = Bytes::from_static(br#"{"error":{"message":"th-12345678 is wrong"}}"#);
        let error = AskError::new(ErrorKind::Server, "th-12345678 is wrong").sent_as(body);

        let error = error.without_key(Some(&key));

        assert_eq!(error.sentence(), "[key] is wrong");
        assert_eq!(error.object(), r#"{"error":{"message":"[key] is wrong"}}"#);
    }

    #[test]
    fn the_sentence_is_one_safe_line() {
        let error =
            AskError::new(ErrorKind::Server, format!("\x1b]0;x\x07\n{}", "a".repeat(9_999)));

        let sentence = error.sentence();

        assert!(sentence.starts_with(r"\x1b]0;x\x07\naaa"), "{sentence}");
        assert!(sentence.len() < MAX_SENTENCE + 100);
    }
}
