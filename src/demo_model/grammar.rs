//! Parses a sentence into rounds of tool calls.
//!
//! Commands joined by "and" are called in one round; those after "then" in the next.
//! Arguments may be quoted. Verbs may be in upper or lower case.

use std::collections::HashSet;

use serde_json::{Value, json};

/// A tool call that the sentence asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// The calls of `sentence`, round by round. The error is the part that was not
/// understood.
pub(super) fn rounds(sentence: &str) -> Result<Vec<Vec<Call>>, String> {
    let mut groups: Vec<Vec<Command>> = Vec::new();
    for clause in clauses(sentence)? {
        let commands = clause.commands().ok_or_else(|| clause.text().to_owned())?;
        match groups.last_mut() {
            Some(group) if !clause.is_next_round => group.extend(commands),
            _ => groups.push(commands),
        }
    }
    Ok(schedule(groups))
}

enum Command {
    Call(Call),
    /// Takes two rounds, because an edit needs the file read first.
    Replace {
        file: String,
        old: String,
        new: String,
    },
}

/// Assigns the groups to rounds. A group takes as many rounds as its longest command.
fn schedule(groups: Vec<Vec<Command>>) -> Vec<Vec<Call>> {
    let mut rounds = Vec::new();
    let mut read = HashSet::new();
    for group in groups {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for command in group {
            match command {
                Command::Call(call) => {
                    read.extend(file_read(&call));
                    first.push(call);
                }
                Command::Replace { file, old, new } => {
                    if read.insert(file.clone()) {
                        first.push(call("Read", json!({ "file_path": file })));
                    }
                    let input = json!({ "file_path": file, "old_string": old, "new_string": new });
                    second.push(call("Edit", input));
                }
            }
        }
        rounds.extend([first, second].into_iter().filter(|round| !round.is_empty()));
    }
    rounds
}

fn file_read(call: &Call) -> Option<String> {
    let file = call.arguments.get("file_path")?.as_str()?;
    (call.tool == "Read").then(|| file.to_owned())
}

fn call(tool: &str, arguments: Value) -> Call {
    Call { tool: tool.to_owned(), arguments }
}

#[derive(Clone, Copy)]
enum Verb {
    Read,
    Find,
    List,
    Run,
    Write,
    Replace,
    Call,
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
            _ => return None,
        })
    }
}

/// A verb and its words, such as `find TODO in src`.
struct Clause<'a> {
    source: &'a str,
    verb: Verb,
    words: Vec<Word<'a>>,
    is_next_round: bool,
}

fn clauses(source: &str) -> Result<Vec<Clause<'_>>, String> {
    let words = words(source);
    let start = words.iter().position(|word| !word.is_courtesy()).unwrap_or(0);
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    let mut at = start;
    while at < words.len() {
        let joint = words[at..].iter().take_while(|word| word.is_joint()).count();
        let after_comma = at > start && words[at - 1].ends_with_comma();
        let begins = at == start || joint > 0 || after_comma;
        let verb = words.get(at + joint).filter(|_| begins).and_then(Verb::from_word);
        match (verb, clauses.last_mut()) {
            (Some(verb), _) => {
                let is_next_round = words[at..at + joint].iter().any(Word::is_then);
                clauses.push(Clause { source, verb, words: Vec::new(), is_next_round });
                at += joint;
            }
            (None, Some(clause)) => clause.words.push(words[at]),
            (None, None) => return Err(source.trim().to_owned()),
        }
        at += 1;
    }
    if clauses.is_empty() { Err(source.trim().to_owned()) } else { Ok(clauses) }
}

impl Clause<'_> {
    fn commands(&self) -> Option<Vec<Command>> {
        let words = &self.words[..];
        let input = match self.verb {
            Verb::Read => return self.reads(),
            Verb::Find => {
                let (what, place) = split_last(words, &["in"]);
                let what = skip(what, &["for", "all", "the", "text", "word", "string"]);
                with_path(json!({ "pattern": literal(&self.quote(what)?) }), place)
                    .map(|input| with(input, "output_mode", "content"))
            }
            Verb::List => {
                let (what, place) = split_last(words, &["in"]);
                let what = without(what, &["me", "all", "the", "files", "matching"]);
                let pattern = what.first().map_or("*", |word| word.argument());
                with_path(json!({ "pattern": pattern }), place)
            }
            Verb::Run => Some(json!({ "command": self.quote(words)? })),
            Verb::Write => {
                let (text, file) = split_last(words, &["to", "into"]);
                let file = file?.first()?.argument();
                Some(json!({ "file_path": file, "content": self.quote(text)? }))
            }
            Verb::Replace => return self.replacement().map(|command| vec![command]),
            Verb::Call => return self.named().map(|call| vec![Command::Call(call)]),
        };
        let tool = match self.verb {
            Verb::Find => "Grep",
            Verb::List => "Glob",
            Verb::Write => "Write",
            _ => "Bash",
        };
        Some(vec![Command::Call(call(tool, input?))])
    }

    /// Parses `a.txt` or `a.txt and b.txt`. Other words after the first file are ignored.
    fn reads(&self) -> Option<Vec<Command>> {
        let mut files = Vec::new();
        for part in self.words.split_inclusive(|word| word.is_joint() || word.ends_with_comma()) {
            let part = without(part, &["me", "the", "file", "files", "contents", "of", "please"]);
            let part: Vec<_> = part.into_iter().filter(|word| !word.is_joint()).collect();
            match (&part[..], files.is_empty()) {
                ([file, ..], true) | ([file], false) => files.push(file.argument()),
                _ => {}
            }
        }
        let read = |file| Command::Call(call("Read", json!({ "file_path": file })));
        (!files.is_empty()).then(|| files.into_iter().map(read).collect())
    }

    /// Parses `A with B in FILE`.
    fn replacement(&self) -> Option<Command> {
        let with = self.words.iter().position(|word| word.is(&["with", "by"]))?;
        let (new, file) = split_last(&self.words[with + 1..], &["in"]);
        Some(Command::Replace {
            file: file?.first()?.argument().to_owned(),
            old: self.quote(&self.words[..with])?,
            new: self.quote(new)?,
        })
    }

    /// Parses `TOOL with {…}`: any offered tool, the client's included.
    fn named(&self) -> Option<Call> {
        let (tool, input) = self.words.split_first()?;
        let input = skip(input, &["with"]);
        let arguments = match input {
            [] => json!({}),
            _ => serde_json::from_str(&self.quote(input)?).ok()?,
        };
        Some(call(tool.argument(), arguments))
    }

    /// The source text of the words, or the contents of a quoted word.
    fn quote(&self, words: &[Word<'_>]) -> Option<String> {
        let text = match words {
            [] => return None,
            [word] => word.text,
            [first, .., last] => &self.source[first.start..last.end],
        };
        Some(text.to_owned())
    }

    fn text(&self) -> &str {
        match (self.words.first(), self.words.last()) {
            (Some(first), Some(last)) => &self.source[first.start..last.end],
            _ => self.source.trim(),
        }
    }
}

/// Splits the words at the last one in `at`; the second part is `None` if there is none.
fn split_last<'w, 'a>(
    words: &'w [Word<'a>],
    at: &[&str],
) -> (&'w [Word<'a>], Option<&'w [Word<'a>]>) {
    match words.iter().rposition(|word| word.is(at)) {
        Some(at) if at + 1 < words.len() => (&words[..at], Some(&words[at + 1..])),
        _ => (words, None),
    }
}

/// Skips these words at the front, but never the last word.
fn skip<'w, 'a>(mut words: &'w [Word<'a>], fillers: &[&str]) -> &'w [Word<'a>] {
    while let [first, rest @ ..] = words {
        if rest.is_empty() || !first.is(fillers) {
            break;
        }
        words = rest;
    }
    words
}

fn without<'a>(words: &[Word<'a>], fillers: &[&str]) -> Vec<Word<'a>> {
    words.iter().filter(|word| !word.is(fillers)).copied().collect()
}

#[expect(clippy::unnecessary_wraps, reason = "every arm of `commands` is an option")]
fn with_path(input: Value, place: Option<&[Word<'_>]>) -> Option<Value> {
    let place =
        place.and_then(|words| without(words, &["the", "directory", "folder"]).first().copied());
    Some(match place {
        Some(place) => with(input, "path", place.argument()),
        None => input,
    })
}

fn with(mut input: Value, name: &str, value: &str) -> Value {
    input[name] = value.into();
    input
}

/// A regular expression that matches exactly `text`.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[derive(Clone, Copy)]
struct Word<'a> {
    /// Without quotes.
    text: &'a str,
    is_quoted: bool,
    start: usize,
    end: usize,
}

const QUOTES: [(char, char); 4] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”')];

fn words(source: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(skipped) = source[at..].find(|character: char| !character.is_whitespace()) {
        let start = at + skipped;
        let word = quoted(source, start).unwrap_or_else(|| bare(source, start));
        at = word.end;
        words.push(word);
    }
    words
}

fn bare(source: &str, start: usize) -> Word<'_> {
    let end = source[start..].find(char::is_whitespace).map_or(source.len(), |end| start + end);
    Word { text: &source[start..end], is_quoted: false, start, end }
}

/// Parses a quoted word. A quote opens at the start of a word and closes before white
/// space or punctuation.
fn quoted(source: &str, start: usize) -> Option<Word<'_>> {
    let opening = source[start..].chars().next()?;
    let (_, closing) = QUOTES.into_iter().find(|(open, _)| *open == opening)?;
    let inside = start + opening.len_utf8();
    let ends = |end: usize| {
        let after = &source[end + closing.len_utf8()..];
        after.chars().next().is_none_or(|next| next.is_whitespace() || ",;.:!?".contains(next))
    };
    let end = source[inside..]
        .match_indices(closing)
        .map(|(offset, _)| inside + offset)
        .find(|end| ends(*end))?;
    let after = end + closing.len_utf8();
    let comma = usize::from(source[after..].starts_with([',', ';']));
    Some(Word { text: &source[inside..end], is_quoted: true, start, end: after + comma })
}

impl<'a> Word<'a> {
    /// The word as a file, directory or name, without the punctuation of the sentence.
    fn argument(&self) -> &'a str {
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
    fn plain(&self) -> String {
        if self.is_quoted {
            return String::new();
        }
        self.text.trim_end_matches([',', ';', '.']).to_lowercase()
    }

    fn is(&self, words: &[&str]) -> bool {
        words.contains(&self.plain().as_str())
    }

    fn is_then(&self) -> bool {
        self.is(&["then", "finally", "afterwards"])
    }

    fn is_joint(&self) -> bool {
        self.is_then() || self.is(&["and", "also", "please"])
    }

    fn is_courtesy(&self) -> bool {
        const COURTESIES: [&str; 14] = [
            "please", "can", "could", "would", "you", "now", "first", "hi", "hey", "hello", "ok",
            "okay", "just", "and",
        ];
        self.is(&COURTESIES)
    }

    fn ends_with_comma(&self) -> bool {
        !self.is_quoted && self.text.ends_with([',', ';'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the rounds, one on each line, with `expected`.
    fn check(sentence: &str, expected: &str) {
        let rounds = rounds(sentence).unwrap_or_else(|part| panic!("not understood: {part}"));
        let shown: Vec<String> = rounds
            .iter()
            .map(|round| {
                let calls: Vec<String> =
                    round.iter().map(|call| format!("{}{}", call.tool, call.arguments)).collect();
                calls.join(" ")
            })
            .collect();
        assert_eq!(shown.join("\n"), expected, "{sentence}");
    }

    #[test]
    fn reads_a_file() {
        let expected = r#"Read{"file_path":"README.md"}"#;
        check("read README.md", expected);
        check("Please READ the file README.md.", expected);
        check("can you read README.md?", expected);
        check("Read README.md and tell me what it is", expected);
        check("read \"my notes.txt\"", r#"Read{"file_path":"my notes.txt"}"#);
        check("read ../up.txt", r#"Read{"file_path":"../up.txt"}"#);
        check(
            "read a.txt, b.txt and c.txt",
            r#"Read{"file_path":"a.txt"} Read{"file_path":"b.txt"} Read{"file_path":"c.txt"}"#,
        );
    }

    #[test]
    fn finds_text_literally() {
        check("find TODO in src", r#"Grep{"pattern":"TODO","path":"src","output_mode":"content"}"#);
        check(
            "search for 'fn main()' in the directory src",
            r#"Grep{"pattern":"fn main\\(\\)","path":"src","output_mode":"content"}"#,
        );
        check("find in", r#"Grep{"pattern":"in","output_mode":"content"}"#);
    }

    #[test]
    fn lists_by_glob() {
        check("list *.rs", r#"Glob{"pattern":"*.rs"}"#);
        check("list the files in src", r#"Glob{"pattern":"*","path":"src"}"#);
        check(
            "List all files matching **/*.md in docs.",
            r#"Glob{"pattern":"**/*.md","path":"docs"}"#,
        );
    }

    #[test]
    fn runs_a_command_as_it_was_written() {
        check("run cargo --version", r#"Bash{"command":"cargo --version"}"#);
        check(
            "Run echo \"a  b\" | wc and read x",
            r#"Bash{"command":"echo \"a  b\" | wc"} Read{"file_path":"x"}"#,
        );
        check("run `make and read all`", r#"Bash{"command":"make and read all"}"#);
    }

    #[test]
    fn writes_text() {
        check(
            "write hello to the world to x.txt",
            r#"Write{"file_path":"x.txt","content":"hello to the world"}"#,
        );
        check(
            "write \"a\nb\n\" to 'x y.txt'",
            r#"Write{"file_path":"x y.txt","content":"a\nb\n"}"#,
        );
        check("write \"\" to x", r#"Write{"file_path":"x","content":""}"#);
    }

    #[test]
    fn reads_before_it_replaces() {
        check(
            "replace one with two in x.txt",
            "Read{\"file_path\":\"x.txt\"}\nEdit{\"file_path\":\"x.txt\",\"old_string\":\"one\",\"new_string\":\"two\"}",
        );
        check(
            "read x.txt, then replace 'a with b' with c in x.txt",
            "Read{\"file_path\":\"x.txt\"}\nEdit{\"file_path\":\"x.txt\",\"old_string\":\"a with b\",\"new_string\":\"c\"}",
        );
    }

    #[test]
    fn and_means_one_round_and_then_the_next() {
        check(
            "read a and find b in c, and list *.d then run e and then read f",
            concat!(
                r#"Read{"file_path":"a"} Grep{"pattern":"b","path":"c","output_mode":"content"} Glob{"pattern":"*.d"}"#,
                "\n",
                r#"Bash{"command":"e"}"#,
                "\n",
                r#"Read{"file_path":"f"}"#
            ),
        );
        check(
            "replace a with b in f and read g",
            concat!(
                r#"Read{"file_path":"f"} Read{"file_path":"g"}"#,
                "\n",
                r#"Edit{"file_path":"f","old_string":"a","new_string":"b"}"#
            ),
        );
    }

    #[test]
    fn calls_any_tool_by_name() {
        check(
            r#"call get_weather with {"city": "Oslo"} and read x"#,
            r#"get_weather{"city":"Oslo"} Read{"file_path":"x"}"#,
        );
        check("call now", "now{}");
    }

    #[test]
    fn says_which_part_it_did_not_understand() {
        assert_eq!(rounds("what is the weather?"), Err("what is the weather?".to_owned()));
        assert_eq!(rounds("read x and replace a in b"), Err("a in b".to_owned()));
        assert_eq!(rounds(""), Err(String::new()));
        assert_eq!(rounds("read"), Err("read".to_owned()));
    }
}
