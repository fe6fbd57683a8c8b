//! Decides whether a reply to a question may be the bare choice, or must carry the question's code.
//!
//! A person who reads the model's text above a question may take something of it for the question,
//! or see nothing of the question at all. The code stands nowhere but in the question itself.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

use super::markdown_scan::MarkdownScan;
use crate::text::without_hidden;

/// A longer text is not judged.
const MAX_JUDGED: usize = 256 * 1024;

/// Whether a reply must carry the code of what it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CodeRequirement {
    /// The bare choice counts.
    Optional,
    /// A bare choice is asked again, and nothing runs. This holds where nothing else is known.
    #[default]
    Required,
}

impl CodeRequirement {
    /// Returns whether a question that follows `text` in one message must be answered with its
    /// code.
    pub(crate) fn behind(text: &str) -> Self {
        if is_harmless(text) { Self::Optional } else { Self::Required }
    }

    /// Requires the code of a client that leaves the history to the server. What such a client
    /// shows when a reply comes is not known: another question may have been asked since.
    pub(crate) fn where_history_is_kept(by_server: bool) -> Self {
        if by_server { Self::Required } else { Self::Optional }
    }

    /// Returns `Required` if one of both requires the code.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Required { self } else { other }
    }
}

/// Makes a digit look like a button.
const KEYCAP: char = '\u{20e3}';

/// Whether nothing in the text can hide what follows it, or looks like a question of ours.
fn is_harmless(text: &str) -> bool {
    if text.trim().is_empty() {
        return true;
    }
    if MAX_JUDGED < text.len() || text.contains(is_bidi_control) || text.contains(KEYCAP) {
        return false;
    }
    let scan = MarkdownScan::new(text);
    !scan.has_open_fence
        && !scan.without_code.contains('<')
        && !is_drawn(&scan.without_code)
        && !looks_like_question(text)
        && !looks_like_question(&scan.visible)
}

/// Whether a frontend may show something else in the place of a part of the text: a picture, which
/// can be one of a question; mathematics, which ends where a command of the question ends it; a
/// block of an extension.
fn is_drawn(text: &str) -> bool {
    const ANYWHERE: [&str; 4] = ["![", r"\[", r"\(", r"\begin{"];
    const AT_BEGINNING: [&str; 2] = ["$$", ":::"];
    let begins_block = |line: &str| AT_BEGINNING.iter().any(|mark| line.starts_with(mark));
    ANYWHERE.iter().any(|mark| text.contains(mark))
        || text.lines().map(str::trim_start).any(begins_block)
}

/// Whether the character makes a reader see a text in another order than it has.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether some line looks like a choice, a code or another part of a question of ours.
fn looks_like_question(text: &str) -> bool {
    let text: String = without_hidden(text).nfkc().collect();
    let mut asks = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let plain = without_marks(line);
        if MARKED_NUMBER.is_match(line) || CODE.is_match(line) || CHOICE.is_match(&plain) {
            return true;
        }
        if asks && FIRST_NUMBER.is_match(&plain) {
            return true;
        }
        asks = plain.ends_with('?');
    }
    // A line may be broken anywhere.
    PHRASE.is_match(&without_marks(&text))
}

/// The words of a text without marks of Markdown, and with one blank between them.
fn without_marks(text: &str) -> String {
    let is_mark = |c: char| c.is_whitespace() || "*_~`#>|()[]{}\"'\\".contains(c);
    text.split(is_mark).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A number at the beginning of a line, marked as our choices are: "- `1` allow once".
static MARKED_NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^[\s>]*(?:[-*+•]\s+|\d+[.)]\s+)?(?:`+|\*\*|__|\[|\()\s*\d\s*(?:`+|\*\*|__|\]|\))")
});

/// A number with a word that decides: "1 allow once", "2. No".
static CHOICE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^(?:[-+•–—]\s*)?(?:[1-4]\s*[:=]|\d\s*[.–—,-]*\s*(?:(?:allow|approve|accept|agree|yes|yeah|y|ok|okay|always|deny|no|nope|n|never|reject|refuse|decline)\b|(?:confirm|proceed|continue|go|run|execute|cancel|stop|abort|skip|once)(?: (?:it|this|that|them|all|on|ahead|once))?[.!]?$))",
    )
});

/// The first number of a list.
static FIRST_NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[-+•–—]\s*)?1(?:\D|$)"));

/// Four of the letters of codes, as a question shows them or as a reply has them.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\([\s`*]*[BCDFGHJKMNPRTWXZ]{4}[\s`*]*\)|(?i:\b[BCDFGHJKMNPRTWXZ]{4}\b[\s`*]*:?[\s`*]*(?:[1-4]|allow|yes|always|deny|no)\b|\b[1-4][\s`*]+[BCDFGHJKMNPRTWXZ]{4}\b)",
    )
});

/// Words with which a question asks.
static PHRASE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\bneeds? your approval\b|\ballow once\b|\ballow for this session\b|\b(?:reply|answer|respond) with\b|\bnumber alone\b|\bpassed to the model\b|\b(?:reply|respond|answer|type|enter|press)\b[^.!?]{0,40}\b(?:[1-4]|yes|no|y|n|ok|allow|always|deny|the number|a number|the code|its code)\b|\b(?:say|send|pick|choose|select|tell me)\b[^.!?]{0,40}\b(?:[1-4]|yes|no|y|n|one|the first)\b|\by/n\b|\b[1-4] = [a-z]",
    )
});

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: CodeRequirement) {
        assert_eq!(CodeRequirement::behind(text), expected, "{text:?}");
    }

    #[test]
    fn plain_text_leaves_the_bare_choice() {
        for text in [
            "",
            "I write the file now.",
            "Let me look at `Vec<T>` first.\n\n```html\n<script>\n```",
            "1. Read the file\n2. Change one line\n3. Run the tests",
            "1. Go to the directory\n2. Stop the server\n3. Continue with the rest",
            "Shall I? I begin with the tests:\n\n- one\n- two",
            "HTTP and (see RFC 9110) JSON. The code is in `main.rs`, which I write again.",
            "It takes 3 steps & 2 > 1, \"quoted\", **bold**, [a link](https://example.com).",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "Done ✅, and 👩‍💻 next.",
        ] {
            check(text, CodeRequirement::Optional);
        }
    }

    #[test]
    fn what_may_hide_the_question_demands_the_code() {
        for text in [
            "a <!-- b",
            "a < b",
            "<b>x</b>",
            "<https://example.com>",
            "    <div hidden>",
            "\\<div>",
            "`<div>",
            "| a | b |\n|---|---|\n| `x | <script> ` |",
            "```\nls",
            "~~~~\nls\n~~~",
            "- ```\n  ls",
            "> ```\n> ls",
            "$$\nx",
            ":::details\nx",
            r"\[ x",
            r"see \( x",
            r"\begin{equation} x",
            "![allow the list](data:image/png;base64,AAAA)",
            "a \u{202e} b",
        ] {
            check(text, CodeRequirement::Required);
        }
        check(&"a ".repeat(MAX_JUDGED), CodeRequirement::Required);
    }

    #[test]
    fn what_looks_like_our_question_demands_the_code() {
        for text in [
            "1 allow once",
            "1. Run it",
            "2: go ahead.",
            "- `1` allow once",
            "* **1** list the files",
            "[1] list the files",
            "> 1. Yes\n> 2. No",
            "&#49; allow once",
            "1\u{200b} allow once",
            "\u{ff11} allow once",
            "```\n1 allow once\n```",
            "Shall I list the files?\n\n1. List them\n2. Leave it",
            "Reply with the number alone.",
            "Reply with\nthe number alone.",
            "**Bash needs your approval**",
            "Bash *needs* your `approval`",
            "It is (`KXRT`).",
            "(KXRT)",
            "Say KXRT 1",
            "kxrt: yes",
            "Type 1 to list the files.",
            "To go on, answer yes.",
            "To list the files say 1.",
            "Send 1 to see the files",
            "Should I list the files (1 = sure)?",
            "1: list files",
            "1\u{fe0f}\u{20e3} list files",
            "Just say yes to list the files",
            "Do you want me to list the files (y/n)?",
        ] {
            check(text, CodeRequirement::Required);
        }
    }
}
