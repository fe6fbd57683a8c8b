//! Splits a sentence into words, and knows the words that join and introduce commands.

use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    /// Without quotes.
    pub(super) text: &'a str,
    /// Quoted, or a JSON object. Such a word is never a keyword.
    is_quoted: bool,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// After this many braces that begin no object, none is tried any more: each may be looked at
/// up to the end of the sentence.
const MAX_NO_OBJECTS: usize = 16;

const QUOTES: [(char, char); 4] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”')];

pub(super) fn words(source: &str) -> Vec<Word<'_>> {
    let mut splitter = Splitter { source, never_closes: [false; QUOTES.len()], no_objects: 0 };
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(skipped) = source[at..].find(|character: char| !character.is_whitespace()) {
        let word = splitter.word(at + skipped);
        at = word.end;
        words.push(word);
    }
    words
}

struct Splitter<'a> {
    source: &'a str,
    /// The quotes that nothing closes from here on. They are searched for only once, so that
    /// many open quotes cost no more than one.
    never_closes: [bool; QUOTES.len()],
    /// Braces that began no object.
    no_objects: usize,
}

impl<'a> Splitter<'a> {
    fn word(&mut self, start: usize) -> Word<'a> {
        let whole = self.quoted(start).or_else(|| self.object(start));
        whole.unwrap_or_else(|| self.bare(start))
    }

    fn bare(&self, start: usize) -> Word<'a> {
        let source = self.source;
        let end = source[start..].find(char::is_whitespace).map_or(source.len(), |end| start + end);
        Word { text: &source[start..end], is_quoted: false, start, end }
    }

    /// Parses a quoted word. A quote opens at the start of a word and closes before white
    /// space or punctuation.
    fn quoted(&mut self, start: usize) -> Option<Word<'a>> {
        let source = self.source;
        let opening = source[start..].chars().next()?;
        let kind = QUOTES.iter().position(|(open, _)| *open == opening)?;
        if self.never_closes[kind] {
            return None;
        }
        let closing = QUOTES[kind].1;
        let inside = start + opening.len_utf8();
        let ends = |end: usize| {
            let after = &source[end + closing.len_utf8()..];
            after.chars().next().is_none_or(|next| next.is_whitespace() || ",;.:!?".contains(next))
        };
        let end = source[inside..]
            .match_indices(closing)
            .map(|(offset, _)| inside + offset)
            .find(|end| ends(*end));
        self.never_closes[kind] = end.is_none();
        let end = end?;
        Some(self.whole(&source[inside..end], start, end + closing.len_utf8()))
    }

    /// Parses a JSON object, such as the arguments of a tool, as one word.
    fn object(&mut self, start: usize) -> Option<Word<'a>> {
        let rest = &self.source[start..];
        if !rest.starts_with('{') || self.no_objects == MAX_NO_OBJECTS {
            return None;
        }
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        if let Some(Ok(_)) = values.next() {
            let length = values.byte_offset();
            return Some(self.whole(&rest[..length], start, start + length));
        }
        self.no_objects += 1;
        None
    }

    /// A word that ends before `after`, with the comma behind it.
    fn whole(&self, text: &'a str, start: usize, after: usize) -> Word<'a> {
        let comma = usize::from(self.source[after..].starts_with([',', ';']));
        Word { text, is_quoted: true, start, end: after + comma }
    }
}

impl<'a> Word<'a> {
    /// The word as a file, directory or name, without the punctuation of the sentence.
    pub(super) fn argument(&self) -> &'a str {
        if self.is_quoted {
            return self.text;
        }
        let text = self.text.trim_end_matches([',', ';', '!', '?', ':']);
        match text.strip_suffix('.') {
            Some(stem) if !stem.is_empty() && !stem.ends_with(['.', '/']) => stem,
            _ => text,
        }
    }

    /// The word in lower case without a comma. A quoted word is never a keyword.
    pub(super) fn plain(&self) -> String {
        if self.is_quoted {
            return String::new();
        }
        self.text.trim_end_matches([',', ';', '.']).to_lowercase()
    }

    pub(super) fn is(&self, words: &[&str]) -> bool {
        words.contains(&self.plain().as_str())
    }

    pub(super) fn is_then(&self) -> bool {
        self.is(&["then", "finally", "afterwards"])
    }

    pub(super) fn is_joint(&self) -> bool {
        self.is_then() || self.is(&["and", "also", "please"])
    }

    pub(super) fn is_courtesy(&self) -> bool {
        const COURTESIES: [&str; 14] = [
            "please", "can", "could", "would", "you", "now", "first", "hi", "hey", "hello", "ok",
            "okay", "just", "and",
        ];
        self.is(&COURTESIES)
    }

    pub(super) fn ends_with_comma(&self) -> bool {
        !self.is_quoted && self.text.ends_with([',', ';'])
    }
}

/// Splits the words at the last one in `at`; the second part is `None` if there is none.
pub(super) fn split_last<'w, 'a>(
    words: &'w [Word<'a>],
    at: &[&str],
) -> (&'w [Word<'a>], Option<&'w [Word<'a>]>) {
    match words.iter().rposition(|word| word.is(at)) {
        Some(at) if at + 1 < words.len() => (&words[..at], Some(&words[at + 1..])),
        _ => (words, None),
    }
}

/// Skips these words at the front, but never the last word.
pub(super) fn skip<'w, 'a>(mut words: &'w [Word<'a>], fillers: &[&str]) -> &'w [Word<'a>] {
    while let [first, rest @ ..] = words {
        if rest.is_empty() || !first.is(fillers) {
            break;
        }
        words = rest;
    }
    words
}

pub(super) fn without<'a>(words: &[Word<'a>], fillers: &[&str]) -> Vec<Word<'a>> {
    words.iter().filter(|word| !word.is(fillers)).copied().collect()
}
