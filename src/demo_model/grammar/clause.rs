//! Splits a sentence into clauses: a verb and its words, such as `find TODO in src`.

use super::word::{Word, words};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    Find,
    List,
    Run,
    Write,
    Replace,
    Call,
    Use,
    Ask,
    Fetch,
    Plan,
}

impl Verb {
    fn from_word(word: &Word<'_>) -> Option<Self> {
        Some(match word.plain().trim_end_matches(':') {
            "read" | "show" => Self::Read,
            "find" | "search" | "grep" => Self::Find,
            "list" | "glob" => Self::List,
            "run" | "execute" => Self::Run,
            "write" | "save" => Self::Write,
            "replace" => Self::Replace,
            "call" => Self::Call,
            "use" => Self::Use,
            "ask" => Self::Ask,
            "fetch" => Self::Fetch,
            "plan" => Self::Plan,
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub(super) struct Clause<'a> {
    source: &'a str,
    pub(super) verb: Verb,
    pub(super) words: Vec<Word<'a>>,
    /// Joined by "then", not by "and".
    pub(super) is_next_round: bool,
}

/// Splits a sentence where a verb stands at its beginning, after "and" or "then", or after a
/// comma. The error is the part that was not understood.
pub(super) fn clauses(source: &str) -> Result<Vec<Clause<'_>>, String> {
    let words = words(source);
    let start = words.iter().position(|word| !word.is_courtesy()).unwrap_or(0);
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    let mut at = start;
    while at < words.len() {
        let conjunctions = words[at..].iter().take_while(|word| word.is_conjunction()).count();
        let after_comma = at > start && words[at - 1].ends_with_comma();
        let begins = at == start || conjunctions > 0 || after_comma;
        let verb = words.get(at + conjunctions).filter(|_| begins).and_then(Verb::from_word);
        match (verb, clauses.last_mut()) {
            (Some(verb), _) => {
                let is_next_round = words[at..at + conjunctions].iter().any(Word::is_then);
                clauses.push(Clause { source, verb, words: Vec::new(), is_next_round });
                at += conjunctions + 1;
            }
            (None, Some(clause)) => {
                let taken = conjunctions.max(1);
                clause.words.extend(&words[at..at + taken]);
                at += taken;
            }
            (None, None) => return Err(source.trim().to_owned()),
        }
    }
    if clauses.is_empty() { Err(source.trim().to_owned()) } else { Ok(clauses) }
}

impl Clause<'_> {
    /// The source text of the words, or the contents of a quoted word.
    pub(super) fn quote(&self, words: &[Word<'_>]) -> Option<String> {
        let text = match words {
            [] => return None,
            [word] => word.text,
            [first, .., last] => &self.source[first.start..last.end],
        };
        Some(text.to_owned())
    }

    pub(super) fn text(&self) -> &str {
        match (self.words.first(), self.words.last()) {
            (Some(first), Some(last)) => &self.source[first.start..last.end],
            _ => self.source.trim(),
        }
    }
}
