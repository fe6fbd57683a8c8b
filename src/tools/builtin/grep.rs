//! Searches files for a regular expression with ripgrep's engine, in process.

mod file_bytes;
mod first_lines;
mod foreign_text;
mod found;
mod pattern;
mod pieces;
mod query;
mod render;
mod return_ends;
mod search;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::files::Files;
use crate::input_schema::PropertyAliases;
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::tool::{CallContext, Concurrency, StartRule, Tool, ToolError, ToolOutput};
use crate::tools::walk::Search;

use search::Searching;

#[derive(Clone, Debug, Default)]
pub(crate) struct Grep {
    pub(in crate::tools) search: Search,
    pub(in crate::tools) files: Arc<Files>,
}

impl Grep {
    /// Searches files in the encodings that these know.
    pub(crate) fn with_files(self, files: Arc<Files>) -> Self {
        Self { files, ..self }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GrepInput {
    /// Regular expression in ripgrep's syntax. Literal braces need a backslash, as in
    /// `interface\{\}`.
    pattern: String,
    /// File or directory to search; the working directory if left out.
    path: Option<PathBuf>,
    /// Only files that match one of these globs, such as `*.js` or `*.{ts,tsx}, !*.d.ts`.
    glob: Option<String>,
    /// Only files of this type, such as `rust`, `py` or `js`.
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// What to answer: matching lines (`content`), paths of files with a match, newest
    /// first (`files_with_matches`, the default), or matching lines per file (`count`).
    #[serde(default)]
    output_mode: OutputMode,
    /// Lines to show after each match. Only with `output_mode` `content`.
    #[serde(rename = "-A")]
    after: Option<usize>,
    /// Lines to show before each match. Only with `output_mode` `content`.
    #[serde(rename = "-B")]
    before: Option<usize>,
    /// Lines to show before and after each match. Only with `output_mode` `content`.
    #[serde(rename = "-C")]
    around: Option<usize>,
    /// Whether to show line numbers; true if left out.
    #[serde(rename = "-n")]
    line_numbers: Option<bool>,
    /// Ignore case.
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    /// Show only the matching part of each line.
    #[serde(rename = "-o")]
    only_matching: Option<bool>,
    /// Lines, paths or counts to answer at most; 250 if left out, 0 for no limit.
    head_limit: Option<usize>,
    /// Lines, paths or counts to leave out at the beginning, to go on where an earlier
    /// answer ended.
    offset: Option<usize>,
    /// Let matches span lines, and `.` match line ends.
    multiline: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputMode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

impl Tool for Grep {
    type Input = GrepInput;

    const NAME: &'static str = "Grep";
    const ACCESS: AccessKind = AccessKind::Read;
    const DESCRIPTION: &'static str = "Searches file contents with a regular expression \
        (ripgrep's engine). Hidden files are searched; files that .gitignore leaves out are not, \
        unless path names them.";
    const PROPERTY_ALIASES: PropertyAliases = &[
        ("case_insensitive", "-i"),
        ("after_context", "-A"),
        ("before_context", "-B"),
        ("context", "-C"),
        ("line_numbers", "-n"),
    ];
    const START: StartRule = StartRule::Closed;
    const MAX_RESULT_CHARS: Option<usize> = Some(20_000);

    fn concurrency(&self, _: &GrepInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, input: &GrepInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Search(context.resolve(input.path.as_deref()))
    }

    fn headline(&self, input: &GrepInput) -> String {
        input.pattern.clone()
    }

    async fn execute(
        &self,
        input: GrepInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let cancelled = context.cancelled.clone();
        let tool = self.clone();
        let prepare = move |bounds| Searching::prepare(&tool, &input, permit, &context, bounds);
        self.search.run(&cancelled, prepare).await
    }
}
