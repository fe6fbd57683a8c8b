//! Checks the size of globs before they are parsed.

use crate::tools::tool::ToolError;

/// Longer patterns are mistakes. Deeper ones overflow the stack of the parser.
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

/// Whether a rule of an ignore file is over these limits.
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
