//! Reads a person's reply at the terminal: as many lines as what is asked takes.

use std::collections::HashSet;
use std::io;

use super::error::{AskError, ErrorKind};
use super::output::to_stderr;
use crate::agent::asking::choice::Choice;
use crate::agent::asking::reply::choice_with_code;
use crate::tools::choice_text::ChoiceText;

/// What a reply answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Questions of one ask, as many as this number; each is answered on a line of its own.
    Questions { code: String, count: usize },
    /// Approvals that are answered with one choice for all or a line `CODE choice` each.
    Approvals {
        codes: Vec<String>,
        /// The choices that calls offer themselves.
        labels: Vec<String>,
    },
}

impl Expected {
    /// A reply that names what it answers, for a message.
    pub(super) fn example(&self) -> String {
        let code = match self {
            Self::Questions { code, .. } => code,
            Self::Approvals { codes, .. } => codes.first().map_or("", String::as_str),
        };
        if code.is_empty() { "1".to_owned() } else { format!("\"{code} 1\"") }
    }
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

/// The next line as it was typed; `None` at the end of the input.
pub(super) async fn read_line() -> Result<Option<String>, AskError> {
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
            Expected::Questions { count, .. } if *count > 1 => {
                format!("question {} of {count} > ", self.lines.len() + 1)
            }
            Expected::Approvals { codes, .. } if codes.len() > 1 => {
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
            return (!self.named.is_empty()).then(|| self.with_codes());
        }
        self.lines.push(line.to_owned());
        let is_whole = match &self.expected {
            Expected::Questions { count, .. } => *count <= self.lines.len(),
            Expected::Approvals { codes, .. } => {
                let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
                self.named.extend(choice_with_code(&codes, line).map(|(place, _)| place));
                self.named.is_empty() || self.named.len() == codes.len()
            }
        };
        is_whole.then(|| self.with_codes())
    }

    /// The lines with the codes of what was shown: by now the session may ask something else, and
    /// that is not what the person has read. Words that are no choice stay as they are.
    fn with_codes(&self) -> String {
        let whole = self.lines.join("\n");
        match &self.expected {
            Expected::Questions { code, .. } if !code.is_empty() && !begins_with(&whole, code) => {
                format!("{code} {whole}")
            }
            Expected::Approvals { codes, labels } if self.named.is_empty() => {
                let is_choice = is_choice(&whole, labels);
                let codes = codes.iter().filter(|code| is_choice && !code.is_empty());
                let lines: Vec<String> = codes.map(|code| format!("{code} {whole}")).collect();
                if lines.is_empty() { whole } else { lines.join("\n") }
            }
            _ => whole,
        }
    }
}

/// Whether the first word is the code.
fn begins_with(reply: &str, code: &str) -> bool {
    let first = reply.split_whitespace().next().unwrap_or_default();
    first.strip_suffix(':').unwrap_or(first).eq_ignore_ascii_case(code)
}

/// Whether the text is a choice: one that every approval has, or one of these.
fn is_choice(text: &str, labels: &[String]) -> bool {
    let read = ChoiceText::new(text);
    Choice::read(text).is_some()
        || read.number.is_some()
        || labels.iter().any(|label| read.is_label(label))
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
        let questions = |count| Expected::Questions { code: "KXTZ".to_owned(), count };
        check(questions(1), &["", "1"], "> ", Some("KXTZ 1"));
        check(questions(2), &["1"], "question 1 of 2 > ", None);
        check(questions(2), &["1", ""], "question 2 of 2 > ", None);
        check(questions(2), &["", "1", "", "2"], "question 2 of 2 > ", Some("KXTZ 1\n2"));
        let three = ["kxtz: 1", "yes", "in my words"];
        let sent = Some("kxtz: 1\nyes\nin my words");
        check(questions(3), &three, "question 3 of 3 > ", sent);
        let of_old_server = Expected::Questions { code: String::new(), count: 1 };
        check(of_old_server, &["1"], "> ", Some("1"));
    }

    #[test]
    fn approvals_take_one_choice_or_a_line_for_each_code() {
        let codes = |codes: &[&str]| Expected::Approvals {
            codes: codes.iter().map(|&code| code.into()).collect(),
            labels: vec!["go on".to_owned()],
        };
        for (one, sent) in [
            ("1", "KXQZ 1"),
            ("yes.", "KXQZ yes."),
            ("Go on", "KXQZ Go on"),
            ("4", "KXQZ 4"),
            ("KXQZ 1", "KXQZ 1"),
            ("what for?", "what for?"),
        ] {
            check(codes(&["KXQZ"]), &["", one], "> ", Some(sent));
        }
        check(codes(&[""]), &["1"], "> ", Some("1"));
        let first = "one choice for all 3, or a line `CODE choice` for each > ";
        let three = || codes(&["KXQZ", "BCDF", "GHJK"]);
        for all in ["what for?", "KXQZ, perhaps", "KXQZ", "ZZZZ 1"] {
            check(three(), &["", all], first, Some(all));
        }
        check(three(), &["1"], first, Some("KXQZ 1\nBCDF 1\nGHJK 1"));
        check(three(), &["no"], first, Some("KXQZ no\nBCDF no\nGHJK no"));
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
