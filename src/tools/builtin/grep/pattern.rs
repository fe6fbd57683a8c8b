//! Compiles the regular expression as ripgrep does, up to a size.

use grep::regex::{RegexMatcher, RegexMatcherBuilder};

use super::GrepInput;
use crate::text;
use crate::tools::tool::ToolError;

/// Bytes of the compiled expression. Compiling it takes a tenth of a second at most.
const SIZE_LIMIT: usize = 10 << 20;

/// Bytes of the cache of states in each thread.
const CACHE_LIMIT: usize = 16 << 20;

/// Bytes of an error message, which quotes the pattern.
const MAX_REASON: usize = 600;

pub(super) fn compile(input: &GrepInput) -> Result<RegexMatcher, ToolError> {
    let multiline = input.multiline.unwrap_or(false);
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input.ignore_case.unwrap_or(false))
        .multi_line(true)
        // A file with NUL is binary, so no search could find it.
        .ban_byte(Some(0))
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(CACHE_LIMIT);
    if multiline {
        builder.dot_matches_new_line(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&input.pattern).map_err(|error| {
        let reason = error.to_string();
        ToolError::InvalidInput(format!(
            "the pattern is not a valid regular expression: {}{}",
            text::prefix(reason.trim_end(), MAX_REASON),
            hint(&input.pattern, &reason)
        ))
    })
}

fn hint(pattern: &str, reason: &str) -> &'static str {
    if reason.contains("size limit") {
        "\nUse smaller repetitions."
    } else if reason.contains("not allowed in a regex") {
        "\nTo match across lines, set multiline to true."
    } else if has_bare_brace(pattern) {
        "\nTo match a brace literally, put a backslash before it: `\\{`."
    } else {
        ""
    }
}

fn has_bare_brace(pattern: &str) -> bool {
    let mut escaped = false;
    pattern.chars().any(|c| {
        let bare = !escaped && matches!(c, '{' | '}');
        escaped = !escaped && c == '\\';
        bare
    })
}
