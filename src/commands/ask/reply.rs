//! Reads a person's reply at the terminal: as many lines as what is asked takes.

use std::collections::HashSet;
use std::io;

use super::error::{AskError, ErrorKind};
use super::output::to_stderr;
use crate::agent::asking::reply::choice_with_code;

/// What a reply answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// So many questions, with a line each.
    Questions(usize),
    /// The approvals of these codes, with one choice for all or a line `CODE choice` each.
    Approvals(Vec<String>),
}

/// The lines that were typed so far.
#[derive(Debug)]
struct Reply {
    expected: Expected,
    lines: Vec<String>,
    /// The places of the codes that the lines name.
    named: HashSet<usize>,
}

/// The whole reply; `None` if the input ends before it (Ctrl-D).
pub(super) async fn read(expected: Expected) -> Result<Option<String>, AskError> {
    let mut reply = Reply::new(expected);
    loop {
        to_stderr(&reply.prompt());
        let Some(line) = read_line().await? else { return Ok(None) };
        if let Some(whole) = reply.take(line.trim()) {
            return Ok(Some(whole));
        }
    }
}

async fn read_line() -> Result<Option<String>, AskError> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|length| (length > 0).then_some(line))
    });
    let read = reading.await.unwrap_or_else(|died| Err(io::Error::other(died)));
    read.map_err(|error| {
        let message = format!("the reply cannot be read from the terminal: {error}");
        AskError::new(ErrorKind::Usage, message)
    })
}

impl Reply {
    fn new(expected: Expected) -> Self {
        Self { expected, lines: Vec::new(), named: HashSet::new() }
    }

    /// Says what the next line answers.
    fn prompt(&self) -> String {
        match &self.expected {
            Expected::Questions(count) if *count > 1 => {
                format!("question {} of {count} > ", self.lines.len() + 1)
            }
            Expected::Approvals(codes) if codes.len() > 1 => {
                let count = codes.len();
                if self.lines.is_empty() {
                    format!("one choice for all {count}, or a line `CODE choice` for each > ")
                } else {
                    let left = count - self.named.len();
                    format!("{left} of {count} left (an empty line leaves them out) > ")
                }
            }
            _ => "> ".to_owned(),
        }
    }

    /// Takes a line without the white space around it. Returns the reply when it is whole.
    fn take(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            // The codes that no line names are left out. Otherwise it is no reply at all.
            return (!self.named.is_empty()).then(|| self.lines.join("\n"));
        }
        self.lines.push(line.to_owned());
        let is_whole = match &self.expected {
            Expected::Questions(count) => *count <= self.lines.len(),
            Expected::Approvals(codes) => {
                let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
                self.named.extend(choice_with_code(&codes, line).map(|(place, _)| place));
                self.named.is_empty() || self.named.len() == codes.len()
            }
        };
        is_whole.then(|| self.lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types these lines. Returns the last prompt, and what is sent after the last line.
    #[track_caller]
    fn type_in(expected: Expected, lines: &[&str]) -> (String, Option<String>) {
        let mut reply = Reply::new(expected);
        let (mut prompt, mut sent) = (reply.prompt(), None);
        for line in lines {
            assert_eq!(sent, None, "nothing is read behind a whole reply: {line:?}");
            prompt = reply.prompt();
            sent = reply.take(line);
        }
        (prompt, sent)
    }

    #[track_caller]
    fn check(expected: Expected, lines: &[&str], prompt: &str, sent: Option<&str>) {
        let sent = sent.map(str::to_owned);
        assert_eq!(type_in(expected, lines), (prompt.to_owned(), sent), "{lines:?}");
    }

    #[test]
    fn each_question_takes_a_line() {
        check(Expected::Questions(1), &["", "1"], "> ", Some("1"));
        check(Expected::Questions(2), &["1"], "question 1 of 2 > ", None);
        check(Expected::Questions(2), &["1", ""], "question 2 of 2 > ", None);
        check(Expected::Questions(2), &["", "1", "", "2"], "question 2 of 2 > ", Some("1\n2"));
        let three = ["KXQZ 1", "yes", "in my words"];
        let sent = Some("KXQZ 1\nyes\nin my words");
        check(Expected::Questions(3), &three, "question 3 of 3 > ", sent);
    }

    #[test]
    fn approvals_take_one_choice_or_a_line_for_each_code() {
        let codes =
            |codes: &[&str]| Expected::Approvals(codes.iter().map(|&code| code.into()).collect());
        for one in ["1", "KXQZ 1", "what for?"] {
            check(codes(&["KXQZ"]), &["", one], "> ", Some(one));
        }
        let first = "one choice for all 3, or a line `CODE choice` for each > ";
        let three = || codes(&["KXQZ", "BCDF", "GHJK"]);
        for all in ["1", "no", "what for?", "KXQZ, perhaps", "KXQZ", "ZZZZ 1"] {
            check(three(), &["", all], first, Some(all));
        }
        let second = "2 of 3 left (an empty line leaves them out) > ";
        check(three(), &["KXQZ 1"], first, None);
        check(three(), &["KXQZ 1", ""], second, Some("KXQZ 1"));
        check(three(), &["KXQZ 1", "always bcdf"], second, None);
        let third = "1 of 3 left (an empty line leaves them out) > ";
        let lines = ["KXQZ 1", "always bcdf", "GHJK: no"];
        check(three(), &lines, third, Some("KXQZ 1\nalways bcdf\nGHJK: no"));
        let lines = ["KXQZ 1", "KXQZ 1", "what is the other?", ""];
        check(three(), &lines, second, Some("KXQZ 1\nKXQZ 1\nwhat is the other?"));
    }
}
