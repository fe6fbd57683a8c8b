//! Checks the size of globs before they are parsed, and matches names in either normal form.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use crate::look_alike::{normal_path, normal_text};
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

/// A glob for paths, which takes a letter with an accent and a letter followed by its accent for
/// the same.
#[derive(Debug)]
pub(crate) struct PathGlob {
    matcher: GlobMatcher,
    /// A glob of ASCII names no letter with an accent.
    is_ascii: bool,
}

impl PathGlob {
    pub(crate) fn compile(pattern: &str) -> Result<Self, String> {
        let normal = normal_text(pattern);
        let glob = GlobBuilder::new(&normal).literal_separator(true).build();
        let glob = glob.map_err(|error| error.to_string())?;
        Ok(Self { matcher: glob.compile_matcher(), is_ascii: pattern.is_ascii() })
    }

    pub(crate) fn is_match(&self, path: &Path) -> bool {
        if self.is_ascii {
            return self.matcher.is_match(path);
        }
        self.matcher.is_match(normal_path(path))
    }
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
