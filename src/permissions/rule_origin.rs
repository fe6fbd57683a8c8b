//! Says of a rule what models and people are told: its text, where it stands, and why it is there.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleOrigin {
    /// As it is written.
    pub(super) text: String,
    /// `allow`, `ask` or `deny`.
    pub(super) list: &'static str,
    /// The settings file; `None`: the operator's configuration.
    pub(super) file: Option<Arc<Path>>,
    /// What the operator wrote beside it.
    pub(super) reason: Option<Arc<str>>,
}

impl RuleOrigin {
    pub(super) fn new(list: &'static str, text: &str) -> Self {
        Self { text: text.to_owned(), list, file: None, reason: None }
    }

    /// Whether it is for some calls of a tool only.
    pub(super) fn has_specifier(&self) -> bool {
        self.text.contains('(')
    }

    /// The list that it stands in.
    pub(super) fn place(&self) -> String {
        let mut place = format!("`permissions.{}`", self.list);
        if let Some(file) = &self.file {
            // Writing to a string does not fail.
            let _ = write!(place, " of {}", file.display());
        }
        place
    }

    /// Its reason, to follow a sentence.
    pub(super) fn because(&self) -> String {
        self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    }
}
