//! Finds the bodies of here-documents.

use std::ops::Range;

use super::super::Doubt;
use super::delimiter::Delimiter;

/// The lines of a body with the one that ends it, and the text that they hold.
pub(super) struct FoundBody {
    pub(super) lines: Range<usize>,
    pub(super) text: String,
}

/// Finds the body that begins at `start`. bash joins lines before it looks for the end, unless the
/// delimiter is quoted.
pub(super) fn find(line: &str, start: usize, delimiter: &Delimiter) -> Result<FoundBody, Doubt> {
    let mut at = start;
    let mut text = String::new();
    while at < line.len() {
        let (joined, end) = joined_line(line, at, delimiter)?;
        at = end;
        if delimiter.ends(&joined)? {
            return Ok(FoundBody { lines: start..at, text });
        }
        let kept = if delimiter.strips_tabs { joined.trim_start_matches('\t') } else { &joined };
        text.push_str(kept);
        text.push('\n');
    }
    // The body has no end.
    Err(Doubt::Syntax)
}

/// The line of a body that begins at `start`, and where the next one begins.
fn joined_line(line: &str, start: usize, delimiter: &Delimiter) -> Result<(String, usize), Doubt> {
    let mut joined = String::new();
    let mut at = start;
    loop {
        let rest = &line[at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        let part = &rest[..length];
        let is_last = length == rest.len();
        at += if is_last { length } else { length + 1 };
        let backslashes = part.len() - part.trim_end_matches('\\').len();
        if delimiter.is_quoted || backslashes.is_multiple_of(2) {
            joined.push_str(part);
            return Ok((joined, at));
        }
        if is_last {
            return Err(Doubt::Syntax);
        }
        joined.push_str(&part[..part.len() - 1]);
    }
}
