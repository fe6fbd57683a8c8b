//! Writes the answer of a search: one page of results, and notes.

use std::time::Duration;

use serde_json::json;

use super::OutputMode;
use super::found::Found;
use super::query::Query;
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
    let mut lines = shown(query, page.into_texts(), limit);
    let end = query.offset.saturating_add(limit).min(known);
    let more = known > end || overflowed;
    let num_lines = lines.len();
    if known == 0 {
        let scope = if bounds.has_searched_all() { "" } else { " in what was searched" };
        lines.push(format!("No matches found{scope}"));
    } else if query.offset >= known {
        lines.push(format!("(offset {} is past the end: there are {known} results)", query.offset));
    }
    if query.mode == OutputMode::Count && files > 0 {
        lines.push(format!("({matches} in all, in {files} {})", plural(files, "file")));
    }
    if more {
        lines.push(continuation(query, files, end));
    }
    lines.extend(bounds.notes());
    ToolOutput::text(lines.join("\n")).with(json!({
        "mode": mode_name(query.mode),
        "num_files": files,
        "num_lines": num_lines,
        "num_matches": (query.mode == OutputMode::Count).then_some(matches),
        "truncated": more || bounds.is_partial(),
        "duration_ms": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
    }))
}

/// The lines of the requested page.
fn shown(query: &Query, texts: impl Iterator<Item = Vec<u8>>, limit: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
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
            lines.push(GROUP_SEPARATOR.to_owned());
        }
        lines.extend(part);
    }
    lines
}

fn continuation(query: &Query, files: u64, end: usize) -> String {
    let how = format!("set offset to {end} to go on, or narrow the search");
    let total = usize::try_from(files).unwrap_or(usize::MAX);
    match query.mode {
        OutputMode::Content => format!("(more lines follow: {how})"),
        OutputMode::FilesWithMatches | OutputMode::Count => {
            let rest = total.saturating_sub(end);
            format!("({rest} more {}: {how})", plural(rest as u64, "file"))
        }
    }
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
