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

/// The ends of the lines that a pattern is matched against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// Without carriage returns, which would keep a pattern that meets them from matching.
    Plain,
    /// As they are in the file: the pattern meets no carriage returns.
    AsInFile,
    /// As they are in the file, also where lines end at `\r` alone: the pattern asks for that.
    WithReturns,
}

impl LineEnds {
    pub(super) fn of(pattern: &str) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        match () {
            () if is_plain(&chars) => Self::AsInFile,
            () if asks_for_carriage_return(&chars) => Self::WithReturns,
            () => Self::Plain,
        }
    }
}

/// Whether a pattern has nothing that could match a carriage return, or stop at one: it consists
/// of letters and of signs that stand for themselves.
fn is_plain(pattern: &[char]) -> bool {
    let mut rest = pattern;
    while let [first, behind @ ..] = rest {
        rest = behind;
        let is_plain = match first {
            '\\' => {
                let escaped = rest.first();
                rest = rest.get(1..).unwrap_or_default();
                escaped.is_some_and(|c| c.is_ascii_punctuation() || matches!(c, 'b' | 'w' | 'd'))
            }
            '$' | '.' | '[' | ']' | '\r' | '\n' => false,
            '(' => !matches!(rest, ['?', next, ..] if *next != ':'),
            _ => true,
        };
        if !is_plain {
            return false;
        }
    }
    true
}

/// Whether a pattern cannot match without a carriage return, as far as its letters tell. One that
/// may be missing (`\r?`) and one that is excluded (`[^\r\n]`) are not asked for.
fn asks_for_carriage_return(pattern: &[char]) -> bool {
    let mut at = 0;
    // For each class around this place, whether it excludes what is in it.
    let mut classes = Vec::new();
    while let Some(c) = pattern.get(at) {
        let rest = &pattern[at..];
        let mut length = 1;
        match c {
            '[' => {
                let excludes = rest.get(1) == Some(&'^');
                length += usize::from(excludes);
                // A bracket that comes first stands for itself.
                length += usize::from(rest.get(length) == Some(&']'));
                classes.push(excludes);
            }
            ']' => _ = classes.pop(),
            '\\' => length = escape_length(rest),
            _ => {}
        }
        if is_carriage_return(&rest[..length.min(rest.len())]) {
            let may_be_missing = classes.is_empty() && matches!(rest.get(length), Some('?' | '*'));
            let is_excluded = classes.last() == Some(&true);
            if !may_be_missing && !is_excluded {
                return true;
            }
        }
        at += length;
    }
    false
}

/// The length of an escape such as `\n`, `\x0d` or `\u{d}`.
fn escape_length(rest: &[char]) -> usize {
    match rest.get(1) {
        Some('x' | 'u' | 'U') if rest.get(2) == Some(&'{') => {
            rest.iter().position(|c| *c == '}').map_or(rest.len(), |end| end + 1)
        }
        Some('x') => 4,
        Some('u') => 6,
        Some('U') => 10,
        _ => 2,
    }
}

fn is_carriage_return(token: &[char]) -> bool {
    match token {
        ['\r'] | ['\\', 'r'] => true,
        ['\\', 'x' | 'u' | 'U', digits @ ..] => {
            let digits: String = digits.iter().filter(|c| !matches!(c, '{' | '}')).collect();
            u32::from_str_radix(&digits, 16) == Ok(u32::from('\r'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_24_a_pattern_that_meets_line_ends_gets_plain_ones() {
        for pattern in
            ["pass$", ":\n", r":\n    pass", "a.b", r"\s+x", "[^a]", "(?m)a", "^$", r"\D"]
        {
            assert_eq!(LineEnds::of(pattern), LineEnds::Plain, "{pattern}");
        }
        for pattern in ["needle", r"fn main\(", "a|b", r"\bx\b", "(?:a)+", "", "^x", r"\w+", "字"]
        {
            assert_eq!(LineEnds::of(pattern), LineEnds::AsInFile, "{pattern}");
        }
        for pattern in [r"x\r?$", r"a[^\r\n]*$", r"[^\x0d]b$", r"\x{d}*\n", r"\\r.", r"[]^\n]$"] {
            assert_eq!(LineEnds::of(pattern), LineEnds::Plain, "{pattern}");
        }
        for pattern in [r"\r", r"\x0D$", "\r$", r"[\r\n]+", r"a\r\n", r"\u{000D}\n", r"\u000d$"] {
            assert_eq!(LineEnds::of(pattern), LineEnds::WithReturns, "{pattern}");
        }
    }
}
