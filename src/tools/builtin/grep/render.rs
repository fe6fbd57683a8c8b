//! Writes the answer of a search: one page of results, and notes.

use std::time::Duration;

use serde_json::json;

use super::OutputMode;
use super::found::Found;
use super::query::Query;
use crate::tools::answer::{AnswerText, Page};
use crate::tools::tool::ToolOutput;
use crate::tools::walk::Bounds;

/// Separates groups of lines that are not adjacent, also across files.
const GROUP_SEPARATOR: &str = "--";

pub(super) fn answer(
    query: &Query,
    found: Found,
    bounds: &Bounds,
    duration: Duration,
) -> ToolOutput {
    let Found { page, files, matches } = found;
    let known = page.lines();
    let overflowed = page.overflowed();
    let limit = query.limit.unwrap_or(usize::MAX);
    let (lines, separators) = shown(query, page.into_texts(), limit);
    let end = query.offset.saturating_add(limit).min(known);
    let more = known > end || overflowed;
    let results = Results {
        mode: query.mode,
        offset: query.offset,
        separators,
        lines: lines.len(),
        has_more: more,
        files,
        matches,
    };
    let mut text = AnswerText::from(lines.join("\n")).on_page(results);
    if known == 0 {
        let scope = if bounds.has_searched_all() { "" } else { " in what was searched" };
        text.close(format!("No matches found{scope}"));
    } else if query.offset >= known {
        let offset = query.offset;
        text.close(format!("(offset {offset} is past the end: there are {known} results)"));
    }
    ToolOutput::text(text.closed_by(bounds.notes())).with(json!({
        "mode": mode_name(query.mode),
        "num_files": files,
        "num_lines": lines.len(),
        "num_matches": (query.mode == OutputMode::Count).then_some(matches),
        "truncated": more || bounds.is_partial(),
        "duration_ms": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
    }))
}

/// The results of an answer, from which its closing lines are made.
#[derive(Debug)]
struct Results {
    mode: OutputMode,
    /// How many results come before the first one.
    offset: usize,
    /// Lines of the body that are no results, by their places.
    separators: Vec<usize>,
    /// The lines of the whole body.
    lines: usize,
    /// Whether results come after the last one.
    has_more: bool,
    files: u64,
    matches: u64,
}

impl Page for Results {
    fn closing_lines(&self, shown: &str) -> Vec<String> {
        let lines = shown.lines().count();
        let separators = self.separators.iter().take_while(|place| **place < lines).count();
        let end = self.offset + lines - separators;
        let mut closing = Vec::new();
        if self.mode == OutputMode::Count && self.files > 0 {
            let files = plural(self.files, "file");
            closing.push(format!("({} in all, in {} {files})", self.matches, self.files));
        }
        if self.has_more || lines < self.lines {
            closing.push(self.continuation(end));
        }
        closing
    }
}

impl Results {
    fn continuation(&self, end: usize) -> String {
        let how = format!("set offset to {end} to go on, or narrow the search");
        match self.mode {
            OutputMode::Content => format!("(more lines follow: {how})"),
            OutputMode::FilesWithMatches | OutputMode::Count => {
                let rest = self.files.saturating_sub(end as u64);
                format!("({rest} more {}: {how})", plural(rest, "file"))
            }
        }
    }
}

/// The lines of the requested page, and the places of those that separate groups.
fn shown(
    query: &Query,
    texts: impl Iterator<Item = Vec<u8>>,
    limit: usize,
) -> (Vec<String>, Vec<usize>) {
    let (mut lines, mut separators) = (Vec::new(), Vec::new());
    let (mut skip, mut left) = (query.offset, limit);
    for text in texts {
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let all = text.split(|byte| *byte == b'\n').count();
        let part = text.split(|byte| *byte == b'\n').skip(skip).take(left);
        let part: Vec<String> =
            part.map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        skip = skip.saturating_sub(all);
        left -= part.len();
        if query.has_context() && !lines.is_empty() && !part.is_empty() {
            separators.push(lines.len());
            lines.push(GROUP_SEPARATOR.to_owned());
        }
        lines.extend(part);
    }
    (lines, separators)
}

fn plural(count: u64, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn mode_name(mode: OutputMode) -> &'static str {
    match mode {
        OutputMode::Content => "content",
        OutputMode::FilesWithMatches => "files_with_matches",
        OutputMode::Count => "count",
    }
}
