//! Reduces texts to what stays the same on their way through a frontend.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::agent::asking::question_text;
use crate::progress_lines;
use crate::text;

/// The longest words of a user message that are kept and compared as they are.
const MAX_WORDS: usize = 10_000;

/// What an assistant said: white space collapsed, without what frontends add of ours
/// (progress lines, `<details type=…>` blocks) and without reasoning. A question of ours at the
/// end stays whole, whatever the text before it leaves open.
pub(crate) fn said(text: &str) -> String {
    let (text, question) = text.split_at(question_start(text));
    let text = without_thoughts(text);
    let plain = without_details(text);
    let plain = without_progress(&plain);
    let mut said = collapsed(&plain);
    let question = collapsed(question);
    if !said.is_empty() && !question.is_empty() {
        said.push(' ');
    }
    said + &question
}

/// Finds the byte at which the last question of ours begins: its heading has a code, and stands
/// behind a rule or first of all.
fn question_start(text: &str) -> usize {
    const RULE: &str = "\n---";
    let is_question = |rest: &str| {
        let heading = rest.trim_start().lines().next().unwrap_or_default();
        heading.starts_with("**") && !question_text::codes_in(heading).is_empty()
    };
    if is_question(text) {
        return 0;
    }
    let mut rules = text.rmatch_indices(RULE).map(|(at, _)| at);
    rules.find(|at| is_question(&text[at + RULE.len()..])).unwrap_or(text.len())
}

/// The words of a user message. A frontend's wrapping of attached files ends with `</context>`.
/// Of very long words the beginning is kept, and a hash that tells them from others.
///
/// The words are only compared, so any template's wrapping is taken off: one that stayed would
/// make a message differ from itself when it comes again unwrapped. What may be consent is read
/// by a stricter rule, in `agent::asking::reply`.
pub(crate) fn words(text: &str) -> String {
    let words = collapsed(unwrapped(text));
    if words.len() <= MAX_WORDS {
        return words;
    }
    let hash = blake3::hash(words.as_bytes()).to_hex();
    format!("{} {hash}", text::prefix(&words, MAX_WORDS))
}

fn unwrapped(text: &str) -> &str {
    const END: &str = "</context>";
    let behind = text.rfind(END).map(|at| &text[at + END.len()..]);
    behind.filter(|words| !words.trim().is_empty()).unwrap_or(text)
}

/// The bytes of the message's [`words`] at which its further lines begin. Very long words have
/// none.
pub(crate) fn line_starts(text: &str) -> Vec<usize> {
    let text = unwrapped(text);
    if !text.contains('\n') {
        return Vec::new();
    }
    let mut starts = Vec::new();
    let mut end = 0;
    for line in text.lines() {
        let length = collapsed(line).len();
        if length == 0 {
            continue;
        }
        if 0 < end {
            end += 1;
            starts.push(end);
        }
        end += length;
        if MAX_WORDS < end {
            return Vec::new();
        }
    }
    starts
}

/// Each run of white space becomes one space, and none is left at the ends.
fn collapsed(text: &str) -> String {
    if text.is_ascii() {
        let is_other = |byte: &u8| (b'\t'..=b'\r').contains(byte);
        if !text.as_bytes().iter().any(is_other) && !text.contains("  ") {
            return text.trim().to_owned();
        }
        return collapsed_ascii(text);
    }
    let mut collapsed = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !collapsed.is_empty() {
            collapsed.push(' ');
        }
        collapsed.push_str(word);
    }
    collapsed
}

/// The same, several times as fast: each request collapses all that the assistant ever said.
fn collapsed_ascii(text: &str) -> String {
    let mut bytes = vec![0; text.len()];
    let (mut end, mut is_behind_space) = (0, true);
    for byte in text.bytes() {
        let is_space = matches!(byte, b'\t'..=b'\r' | b' ');
        bytes[end] = if is_space { b' ' } else { byte };
        end += usize::from(!(is_space && is_behind_space));
        is_behind_space = is_space;
    }
    bytes.truncate(end);
    if bytes.last() == Some(&b' ') {
        bytes.pop();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Whether the texts are the same but for white space. A frontend may join the pieces of an
/// answer with white space or without.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    solid(one).eq(solid(other))
}

/// Whether `text` begins with `start`, but for white space.
pub(crate) fn begins_with(text: &str, start: &str) -> bool {
    let mut chars = solid(text);
    solid(start).all(|c| chars.next() == Some(c))
}

/// What stands behind the first characters of `text`, as many as `start` has beside white
/// space.
pub(crate) fn behind<'a>(text: &'a str, start: &str) -> &'a str {
    let Some(last) = solid(start).count().checked_sub(1) else { return text };
    let mut solid = text.char_indices().filter(|(_, c)| !c.is_whitespace());
    solid.nth(last).map_or("", |(at, c)| &text[at + c.len_utf8()..])
}

/// The characters that are no white space.
pub(crate) fn solid(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_whitespace())
}

/// Removes a block of reasoning that stands first.
fn without_thoughts(text: &str) -> &str {
    let trimmed = text.trim_start();
    let Some(rest) = trimmed.strip_prefix("<think>") else { return text };
    rest.split_once("</think>").map_or("", |(_, rest)| rest)
}

/// Removes the blocks in which frontends keep reasoning and cards. They begin a line and have
/// a type; a model's own `<details>` has none. An open block reaches to the end.
fn without_details(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<details";
    const TYPED: &str = "<details type=";
    const CLOSE: &str = "</details>";
    if !text.contains(TYPED) {
        return text.into();
    }
    let mut kept = String::with_capacity(text.len());
    let (mut rest, mut depth, mut at_line_start) = (text, 0_usize, true);
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        let begins_line = if before.is_empty() { at_line_start } else { before.ends_with('\n') };
        if depth == 0 {
            kept.push_str(before);
        }
        let taken = if depth == 0 && begins_line && tag.starts_with(TYPED) {
            depth = 1;
            TYPED.len()
        } else if depth > 0 && tag.starts_with(CLOSE) {
            depth -= 1;
            CLOSE.len()
        } else {
            depth += usize::from(depth > 0 && tag.starts_with(OPEN));
            if depth == 0 {
                kept.push('<');
            }
            1
        };
        at_line_start = taken == CLOSE.len() && depth == 0;
        rest = &tag[taken..];
    }
    if depth == 0 {
        kept.push_str(rest);
    }
    kept.into()
}

/// Removes progress lines. The names of tools are those in lines that tell of an end with time
/// and size, which nobody else writes.
fn without_progress(text: &str) -> Cow<'_, str> {
    let tools: HashSet<&str> = text.lines().filter_map(progress_lines::ended_tool).collect();
    if tools.is_empty() {
        return text.into();
    }
    progress_lines::removed(text, |name| tools.contains(name)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(said(text), expected);
    }

    #[test]
    fn white_space_is_collapsed() {
        check("  a\n\n b\u{a0}\tc ", "a b c");
        check("\n a\x0b\r\n b  c\td \n", "a b c d");
        check(" a b ", "a b");
        for nothing in ["", " ", "\n\n"] {
            check(nothing, "");
        }
    }

    #[test]
    fn what_frontends_add_is_removed_and_the_models_own_stays() {
        let reasoning = "<details type=\"reasoning\" done=\"true\">\n<summary>Thought</summary>\n> hm\n</details>\n";
        check(&format!("{reasoning}Hello"), "Hello");
        check(&format!("a\n{reasoning}b\n{reasoning}"), "a b");
        check("<details type=\"tool_calls\"><details>x</details>y</details>z", "z");
        check("a\n<details type=\"reasoning\">cut", "a");
        check("<details><summary>x</summary></details>", "<details><summary>x</summary></details>");
        check("say <details type=\"x\"> so", "say <details type=\"x\"> so");
        check("<think>hm</think>\nyes", "yes");
        check("use <think>", "use <think>");
        check("a < b <", "a < b <");
    }

    #[test]
    fn a_question_of_ours_is_never_cut() {
        let question = "**Bash needs your approval** (`KXRT`)\n\n```sh\n<details type=x>\n→ Read a.rs\n✓ Read a.rs (1.2 s, 7 characters)\n```";
        for (before, kept) in [
            ("<think>hm", ""),
            ("So.\n<details type=\"reasoning\">\n> hm", "So."),
            ("✓ Read a.rs (1.2 s, 7 characters)\nSo.", "So."),
            ("So.\n\n---\n\n**not ours**\n<details type=x>", "So. --- **not ours**"),
        ] {
            let expected = format!("{kept} --- {}", collapsed(question));
            check(&format!("{before}\n\n---\n\n{question}"), expected.trim());
        }
        check(question, &collapsed(question));
    }

    #[test]
    fn progress_lines_are_known_by_the_line_that_ends_a_call() {
        check("→ Read a.rs\n✓ Read a.rs (1.2 s, 7 characters)\nDone", "Done");
        check("→ Read on\nDone", "→ Read on Done");
    }

    #[test]
    fn a_wrapped_message_counts_by_its_words() {
        let wrapped = "### Task:\nAnswer.\n<context>a file</context>\n\nWhat  is it?";
        assert_eq!(words(wrapped), "What is it?");
        assert_eq!(words("<context>all</context> "), "<context>all</context>");
        let long = "x".repeat(20_000_000);
        assert!(words(&long).len() < 10_100);
        assert_ne!(words(&long), words(&long[1..]));
    }

    #[test]
    fn lines_begin_where_their_words_do() {
        for text in ["a  b\n\n c\td \r\ne", "x\n</context>\n\n über\nuns\n", "one", "\n one \n"] {
            let (words, starts) = (words(text), line_starts(text));
            let mut ends: Vec<usize> = starts.iter().map(|start| start - 1).collect();
            ends.push(words.len());
            let lines: Vec<&str> = [0]
                .iter()
                .chain(&starts)
                .zip(ends)
                .map(|(start, end)| &words[*start..end])
                .collect();
            let own = unwrapped(text).lines().map(collapsed).filter(|line| !line.is_empty());
            assert_eq!(lines, own.collect::<Vec<_>>(), "{text:?}");
        }
        assert!(line_starts(&"x\n".repeat(20_000)).is_empty());
    }

    #[test]
    fn texts_are_compared_without_white_space() {
        assert!(is_same("Hello wor ld", "Hello world") && !is_same("a", "ab"));
        assert!(begins_with("a b c", "ab") && begins_with("a", "") && !begins_with("a", "ab"));
        assert_eq!((behind("a b c", "ab"), behind("a b", "")), (" c", "a b"));
        assert_eq!((behind("ab", "ab"), behind("ab", "abc")), ("", ""));
    }
}
