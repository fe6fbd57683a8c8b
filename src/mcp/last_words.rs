//! Says why a server has ended: the reason that we know, with the last lines of its own.

use crate::text;

/// Lines that a person reads to see what is wrong.
const MAX_LINES: usize = 3;

const MAX_CHARS: usize = 400;

/// The reason, with what the server has said at last on its standard error.
pub(super) fn with_last_words(why: String, said: &str) -> String {
    let lines: Vec<String> =
        said.lines().map(text::shown_line).filter(|line| says_something(line)).collect();
    if lines.is_empty() {
        return why;
    }
    let last = lines[lines.len().saturating_sub(MAX_LINES)..].join(" | ");
    format!("{why}; its last words: {}", text::last_chars(&last, MAX_CHARS))
}

/// What languages and package managers write around an error.
fn says_something(line: &str) -> bool {
    let line = line.trim();
    let is_of_stack = line.starts_with("at ") || line.starts_with("Node.js v");
    let is_of_npm = line.starts_with("npm notice") || line.starts_with("npm warn");
    let is_mark = line.chars().all(|c| "^~-=|{} ".contains(c));
    !is_of_stack && !is_of_npm && !is_mark && !line.contains("A complete log of this run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, expected: &str) {
        assert_eq!(with_last_words("exit code 1".to_owned(), said), expected);
    }

    #[test]
    fn outside_52_the_last_lines_are_told_and_not_the_stack() {
        check("", "exit code 1");
        check(" \n\n", "exit code 1");
        check("API_URL is required\n", "exit code 1; its last words: API_URL is required");
        let node = "file:///x.js:3\n  throw new Error(\"no key\")\n  ^\n\nError: no key\n    \
                    at x (y)\n    at z\n\nNode.js v20.20.2\n";
        check(
            node,
            "exit code 1; its last words: file:///x.js:3 | throw new Error(\"no key\") | Error: no key",
        );
        check(
            "no database\nnpm notice\nnpm notice New major version of npm available!\n",
            "exit code 1; its last words: no database",
        );
        let long = "x".repeat(9_000);
        assert!(with_last_words(String::new(), &long).len() < 500);
    }
}
