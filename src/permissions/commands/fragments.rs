//! Splits a line that does not parse into what could be its commands, for deny rules alone.
//!
//! It splits too often rather than too seldom, and looks at no quotes: nobody may hide a denied
//! command behind a line that is too long or that the parser does not understand.

use super::part::Part;
use super::word::Word;

/// Words that may stand before a command.
const LEADING: [&str; 13] = [
    "!", "coproc", "do", "elif", "else", "for", "function", "if", "then", "time", "until", "while",
    "{",
];

pub(super) fn fragments(line: &str) -> Vec<Part> {
    let separators = [';', '|', '&', '\n', '\r', '(', ')', '`', '{', '}', '\0'];
    let joined = line.replace("\\\n", "");
    let mut parts: Vec<_> = joined.split(separators).filter_map(fragment).collect();
    // Quotes may hold separators: `sh -c 'a; b'` is one command as well.
    parts.extend(joined.split('\n').filter_map(fragment));
    parts
}

fn fragment(text: &str) -> Option<Part> {
    let is_blank = |c: char| c.is_whitespace() || c.is_control();
    let words = text.split(is_blank).map(without_quotes).filter(|word| !word.is_empty());
    let is_leading = |word: &String| {
        LEADING.contains(&word.as_str()) || Word::plain(word).as_assignment().is_some()
    };
    let words: Vec<_> = words.skip_while(is_leading).map(|word| Word::plain(&word)).collect();
    let part = Part { source: text.trim().to_owned(), words, ..Part::default() };
    (!part.words.is_empty()).then_some(part)
}

fn without_quotes(word: &str) -> String {
    let word = word.strip_prefix("$'").unwrap_or(word);
    word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect()
}
