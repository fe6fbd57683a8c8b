//! Defines a part of a command line: one simple command with its redirects.

use super::word::Word;

/// One simple command, or the redirects or the arithmetic of a compound one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "where it stands, each by itself")]
pub(crate) struct Part {
    /// The part as written, with assignments and redirects.
    pub(crate) source: String,
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
    /// Stands inside `$(…)`, `` `…` ``, `<(…)` or `>(…)`.
    pub(crate) is_substituted: bool,
    /// Stands in a loop or a function, so it may run at another time than its place says.
    pub(super) is_repeated: bool,
    /// Reads what a part in front of it prints, through a pipe.
    pub(super) is_fed: bool,
    /// Evaluates text as arithmetic or as the name of a variable, which can run commands.
    pub(super) is_evaluation: bool,
    /// Runs only if the part at this index ended with success, and directly after it.
    pub(super) after_success_of: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// `None` if the value is not known before the command runs.
    pub(crate) value: Option<String>,
    /// The words that it is made of: one, or all values of a loop.
    pub(super) values: Vec<Word>,
    /// The variable of a loop. It is not in the environment of the commands.
    pub(super) is_loop_variable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) kind: RedirectKind,
    pub(crate) descriptor: Option<u32>,
    pub(crate) target: RedirectTarget,
    /// Standard error goes there too: `&>`, `&>>`, `>&` before a file.
    pub(super) takes_errors: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectKind {
    Read,
    /// `>`, `>|`, `&>`, `>&`.
    Write,
    /// `>>`, `&>>`.
    Append,
    /// `<>`, which creates the file.
    ReadWrite,
    /// `<<`, `<<<`: text of the command line itself.
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedirectTarget {
    File(Word),
    /// `/dev/null`
    Null,
    /// `2>&1`, `>&-`
    Descriptor,
    /// A here-string.
    Text,
    /// A here-document, with its text as far as nothing is expanded in it.
    Document(String),
}

impl Part {
    /// Whether it is given text of the command line itself on a descriptor.
    pub(super) fn has_text_input(&self) -> bool {
        self.redirects.iter().any(|redirect| redirect.kind == RedirectKind::Text)
    }

    /// The texts of its here-documents.
    pub(super) fn documents(&self) -> impl Iterator<Item = &str> {
        self.redirects.iter().filter_map(|redirect| match &redirect.target {
            RedirectTarget::Document(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The words as written, without assignments and redirects.
    pub(crate) fn text(&self) -> String {
        joined(&self.words, |word| &word.raw)
    }

    /// The words with their quotes removed, without assignments and redirects.
    pub(crate) fn unquoted(&self) -> String {
        joined(&self.words, |word| &word.unquoted)
    }

    /// The name of the program without its directory, if it is known.
    pub(super) fn program(&self) -> Option<&str> {
        self.words.first()?.base_name()
    }

    /// Whether the program's name is known only when the command runs.
    pub(crate) fn has_uncertain_name(&self) -> bool {
        self.is_evaluation || self.words.first().is_some_and(Word::is_uncertain_name)
    }
}

pub(super) fn joined(words: &[Word], text: impl Fn(&Word) -> &str) -> String {
    words.iter().map(text).collect::<Vec<_>>().join(" ")
}
