//! Writes the answer of a search: one page of results, and notes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::OutputMode;
use super::found::{Found, Key};
use super::query::Query;
use crate::tools::answer::{AnswerText, Page};
use crate::tools::tool::ToolOutput;
use crate::tools::walk::Bounds;

/// Of a search in many files, only so many bytes of results are kept until all are sorted.
const TOO_MANY: &str = "(more results follow, too many to page through: narrow the search)";

/// Said below lines that are left out.
const LONG_LINES: &str = "(lines of over 500 bytes are left out: to see the matches in one, set -o \
    and put .{0,80} before and after the pattern; to see the line itself, Read it with offset and \
    column)";

/// Separates groups of lines that are not adjacent, also across files.
const GROUP_SEPARATOR: &str = "--";

/// `name` is what the answer calls a file below the searched directory.
pub(super) fn answer(
    query: &Query,
    found: Found,
    name: impl Fn(&Path) -> String,
    bounds: &Bounds,
    duration: Duration,
) -> ToolOutput {
    let Found { page, files, matches, skipped, is_of_one_file, .. } = found;
    let known = page.lines() + skipped;
    let overflowed = page.overflowed();
    let limit = query.limit.unwrap_or(usize::MAX);
    let ShownPage { lines, separators, files: shown_files } =
        ShownPage::of(query, page.into_entries(), (query.offset - skipped, limit));
    let filenames: Vec<String> = shown_files.iter().map(|path| name(path)).collect();
    // Once a page of lines is full, no further file is searched. So the others are not known.
    let num_files = match query.mode {
        OutputMode::Content => filenames.len() as u64,
        OutputMode::FilesWithMatches | OutputMode::Count => files,
    };
    let end = query.offset.saturating_add(limit).min(known);
    let more = known > end || overflowed;
    let results = Results {
        mode: query.mode,
        offset: query.offset,
        separators,
        lines: lines.len(),
        has_more: more,
        reachable: if is_of_one_file { usize::MAX } else { known },
        files,
        matches,
    };
    let mut text = AnswerText::from(lines.join("\n")).on_page(results);
    if known == 0 {
        let scope = if bounds.has_searched_all() { "" } else { " in what was searched" };
        text.close(format!("No matches found{scope}"));
    } else if query.offset >= known && !overflowed {
        let offset = query.offset;
        text.close(format!(
            "(offset {offset} is past the end of the results, of which there are {known})"
        ));
    }
    ToolOutput::text(text.closed_by(bounds.notes())).with(json!({
        "mode": mode_name(query.mode),
        "num_files": num_files,
        "num_lines": lines.len(),
        "num_matches": (query.mode == OutputMode::Count).then_some(matches),
        "filenames": filenames,
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
    /// The results that an offset can reach.
    reachable: usize,
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
        if self.mode == OutputMode::Content && shown.lines().any(stands_for_long_line) {
            closing.push(LONG_LINES.to_owned());
        }
        if self.has_more || lines < self.lines {
            let is_reachable = end < self.reachable;
            closing.push(if is_reachable { self.continuation(end) } else { TOO_MANY.to_owned() });
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

/// The requested page.
#[derive(Default)]
struct ShownPage {
    lines: Vec<String>,
    /// The places of the lines that separate groups.
    separators: Vec<usize>,
    /// The files that the lines are of, below the searched directory.
    files: Vec<PathBuf>,
}

impl ShownPage {
    /// Leaves out the first `skip` lines, and takes the next `left`.
    fn of(
        query: &Query,
        entries: impl Iterator<Item = (Key, Vec<u8>)>,
        (mut skip, mut left): (usize, usize),
    ) -> Self {
        let mut page = Self::default();
        for ((_, file), text) in entries {
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            let all = text.split(|byte| *byte == b'\n').count();
            let part = text.split(|byte| *byte == b'\n').skip(skip).take(left);
            let part: Vec<String> = part.map(shown_line).collect();
            skip = skip.saturating_sub(all);
            left -= part.len();
            if part.is_empty() {
                continue;
            }
            if query.has_context() && !page.lines.is_empty() {
                page.separators.push(page.lines.len());
                page.lines.push(GROUP_SEPARATOR.to_owned());
            }
            page.lines.extend(part);
            page.files.push(file);
        }
        page
    }
}

/// A line of results without the carriage return at its end.
fn shown_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = String::from_utf8_lossy(line);
    match line.strip_suffix("[Omitted long line with 1 matches]") {
        Some(place) => format!("{place}[Omitted long line with 1 match]"),
        None => line.into_owned(),
    }
}

/// Whether this stands in the place of a line that is too long to show.
fn stands_for_long_line(line: &str) -> bool {
    let Some((_, what)) = line.rsplit_once("[Omitted long ") else { return false };
    matches!(what, "matching line]" | "context line]")
        || (what.starts_with("line with ")
            && (what.ends_with(" match]") || what.ends_with(" matches]")))
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
