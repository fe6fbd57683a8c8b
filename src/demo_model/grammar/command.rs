//! Translates a clause into the commands that it asks for.

use serde_json::{Value, json};

use super::clause::{Clause, Verb};
use super::word::{Word, skip, split_last, without};
use super::{Call, Command, call};
use crate::definitions::BUILT_IN_AGENTS;

impl Clause<'_> {
    pub(super) fn commands(&self) -> Option<Vec<Command>> {
        let one = match self.verb {
            Verb::Read => return self.reads(),
            Verb::Find => Command::Call(call("Grep", self.search()?)),
            Verb::List => Command::Call(call("Glob", self.listing())),
            Verb::Run => {
                Command::Call(call("Bash", json!({ "command": self.quote(&self.words)? })))
            }
            Verb::Write => {
                let (text, file) = split_last(&self.words, &["to", "into"]);
                let file = file?.first()?.argument();
                let input = json!({ "file_path": file, "content": self.quote(text)? });
                Command::Call(call("Write", input))
            }
            Verb::Replace => self.replacement()?,
            Verb::Plan => {
                let what = skip(&self.words, &["to", "how"]);
                Command::Plan(self.quote(what)?)
            }
            Verb::Call => Command::Call(self.named()?),
            Verb::Use => Command::Call(self.of_server()?),
            Verb::Ask => Command::Call(call("Task", self.task()?)),
            Verb::Fetch => {
                let page = skip(&self.words, &["the", "page", "url"]);
                Command::Call(call("WebFetch", json!({ "url": page.first()?.argument() })))
            }
        };
        Some(vec![one])
    }

    /// Parses `a.txt` or `a.txt and b.txt`. Other words after the first file are ignored.
    fn reads(&self) -> Option<Vec<Command>> {
        let mut files = Vec::new();
        for part in
            self.words.split_inclusive(|word| word.is_conjunction() || word.ends_with_comma())
        {
            let part = without(part, &["me", "the", "file", "files", "contents", "of", "please"]);
            let part: Vec<_> = part.into_iter().filter(|word| !word.is_conjunction()).collect();
            match (&part[..], files.is_empty()) {
                ([file, ..], true) | ([file], false) => files.push(file.argument()),
                _ => {}
            }
        }
        let read = |file| Command::Call(call("Read", json!({ "file_path": file })));
        (!files.is_empty()).then(|| files.into_iter().map(read).collect())
    }

    /// Parses `TEXT in DIR`.
    fn search(&self) -> Option<Value> {
        let (what, place) = split_last(&self.words, &["in"]);
        let what = skip(what, &["for", "all", "the", "text", "word", "string"]);
        let mut input = json!({ "pattern": literal(&self.quote(what)?) });
        if let Some(place) = directory(place) {
            input["path"] = place.into();
        }
        input["output_mode"] = "content".into();
        Some(input)
    }

    /// Parses `GLOB`, `GLOB in DIR` or `DIR`.
    fn listing(&self) -> Value {
        const FILLERS: [&str; 10] = [
            "me",
            "all",
            "the",
            "files",
            "file",
            "matching",
            "directory",
            "folder",
            "contents",
            "everything",
        ];
        let (what, place) = split_last(&self.words, &["in", "of", "under"]);
        let what = without(what, &FILLERS);
        let what = what.first().map_or("*", Word::argument);
        let place = directory(place);
        let (pattern, path) = match (names_directory(what), place) {
            (false, place) => (what, place.map(str::to_owned)),
            (true, None) => ("*", Some(what.to_owned())),
            (true, Some(place)) => ("*", Some(format!("{}/{what}", place.trim_end_matches('/')))),
        };
        match path {
            Some(path) => json!({ "pattern": pattern, "path": path }),
            None => json!({ "pattern": pattern }),
        }
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

    /// Parses `AGENT to DO SOMETHING`.
    fn task(&self) -> Option<Value> {
        let (agent, prompt) = skip(&self.words, &["the"]).split_first()?;
        let prompt = self.quote(skip(prompt, &["agent", "to"]))?;
        let named = agent.argument();
        let known = BUILT_IN_AGENTS.into_iter().find(|name| name.eq_ignore_ascii_case(named));
        let description: Vec<&str> = prompt.split_whitespace().take(5).collect();
        Some(json!({
            "description": description.join(" "),
            "prompt": prompt,
            "subagent_type": known.unwrap_or(named),
        }))
    }

    /// Parses `TOOL with {…}`: any offered tool, the client's included.
    fn named(&self) -> Option<Call> {
        let (tool, input) = self.words.split_first()?;
        Some(call(tool.argument(), self.input(input)?))
    }

    /// Parses `SERVER TOOL with {…}`: a tool of an MCP server, by the server's own name for it.
    fn of_server(&self) -> Option<Call> {
        let [server, tool, input @ ..] = &self.words[..] else { return None };
        let name = format!("mcp__{}__{}", server.argument(), tool.argument());
        Some(call(&name, self.input(input)?))
    }

    /// Parses `with {…}`, or nothing.
    fn input(&self, words: &[Word<'_>]) -> Option<Value> {
        match skip(words, &["with"]) {
            [] => Some(json!({})),
            input => json_of(&self.quote(input)?),
        }
    }
}

/// The JSON, also where an editor has made its quotation marks typographic.
fn json_of(text: &str) -> Option<Value> {
    let straight = || text.replace(['“', '”', '„'], "\"");
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&straight())).ok()
}

fn directory<'a>(place: Option<&[Word<'a>]>) -> Option<&'a str> {
    let place = without(place?, &["the", "directory", "folder"]);
    place.first().map(Word::argument)
}

/// Whether the word names a directory: it has no wildcard, and no extension as a file has.
fn names_directory(word: &str) -> bool {
    let name = word.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let has_extension = name.trim_start_matches('.').contains('.');
    !word.is_empty() && !word.contains(['*', '?', '[', ']', '{', '}']) && !has_extension
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
