//! Bounds globs before anything parses them.

use crate::tools::tool::ToolError;

/// Longer patterns are a model gone astray, and deep ones overflow the parser.
const MAX_PATTERN_CHARS: usize = 1024;
const MAX_BRACE_DEPTH: usize = 10;

/// Refuses globs that would overwhelm the parser.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), ToolError> {
    if is_too_long(pattern) {
        return Err(ToolError::InvalidInput(format!(
            "the glob is longer than {MAX_PATTERN_CHARS} characters"
        )));
    }
    if is_too_deep(pattern) {
        return Err(ToolError::InvalidInput(format!(
            "the glob has more than {MAX_BRACE_DEPTH} levels of braces"
        )));
    }
    Ok(())
}

/// The same of a rule in an ignore file.
pub(super) fn is_too_large(rule: &str) -> bool {
    is_too_long(rule) || is_too_deep(rule)
}

fn is_too_long(pattern: &str) -> bool {
    pattern.len() > MAX_PATTERN_CHARS && pattern.chars().nth(MAX_PATTERN_CHARS).is_some()
}

fn is_too_deep(pattern: &str) -> bool {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in pattern.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > MAX_BRACE_DEPTH
}
