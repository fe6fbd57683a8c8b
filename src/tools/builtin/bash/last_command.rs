//! Decides whether exit code 1 of a command line is a failure. For `grep`, it means "nothing
//! found" and is not. A command line that is not fully understood counts as a failure. Pure.

use std::iter::Peekable;
use std::str::Chars;

/// Programs whose exit code 1 is an answer, not a failure.
const ANSWERING: [&str; 12] =
    ["grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "[[", "find", "pgrep", "which"];

/// The same for subcommands of git.
const ANSWERING_GIT: [&str; 2] = ["diff", "grep"];

/// Options of git that take the next word as their value.
const GIT_OPTIONS_WITH_VALUE: [&str; 5] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace"];

/// Words that begin and end a compound command.
const OPENING: [&str; 7] = ["if", "while", "until", "for", "select", "{", "function"];
const CLOSING: [&str; 3] = ["fi", "done", "}"];

/// Words of compound commands before which and behind which commands stand.
const JOINING: [&str; 5] = ["then", "else", "elif", "do", "time"];

/// What ends the line, or changes the meaning of an exit code.
const DECISIVE: [&str; 7] = ["exit", "set", "trap", "exec", "coproc", "!", "case"];

/// Whether exit code 1 of `text` is an answer. The last simple command decides, if it stands in
/// no compound one.
pub(super) fn exit_code_one_is_an_answer(text: &str) -> bool {
    let Some(commands) = simple_commands(text) else { return false };
    let mut depth = 0_usize;
    for command in &commands {
        for word in &command[..] {
            match word.as_str() {
                word if OPENING.contains(&word) => depth += 1,
                word if CLOSING.contains(&word) => depth = depth.saturating_sub(1),
                word if JOINING.contains(&word) => {}
                word if DECISIVE.contains(&word) => return false,
                _ => break,
            }
            if word == "function" {
                // Its name follows, and then its body.
                break;
            }
        }
    }
    depth == 0 && commands.last().is_some_and(|last| is_answering(last))
}

fn is_answering(command: &[String]) -> bool {
    let mut words = command.iter().map(String::as_str).skip_while(|word| is_assignment(word));
    let Some(program) = words.next() else { return false };
    match program.rsplit('/').next() {
        // It says whether there is such a command.
        Some("command") => matches!(words.next(), Some("-v" | "-V" | "-pv" | "-pV")),
        Some("git") => git_command(words).is_some_and(|command| ANSWERING_GIT.contains(&command)),
        name => name.is_some_and(|name| ANSWERING.contains(&name)),
    }
}

fn git_command<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    loop {
        let word = words.next()?;
        if GIT_OPTIONS_WITH_VALUE.contains(&word) {
            words.next()?;
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The words of each command in a list, without redirections. What stands in substitutions is no
/// part of them: it does not decide the exit code. `None` if the text has subshells or other
/// syntax, or ends in the background.
fn simple_commands(text: &str) -> Option<Vec<Vec<String>>> {
    let mut scan = Scan { rest: text.chars().peekable(), ..Scan::default() };
    while let Some(character) = scan.rest.next() {
        scan.take(character)?;
    }
    scan.end_command();
    (!scan.is_background).then_some(scan.commands)
}

struct Scan<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// Whether the next word is the target of a redirection.
    is_target: bool,
    /// Whether that is the end of a here-document.
    is_delimiter: bool,
    /// The ends of here-documents that begin behind this line.
    delimiters: Vec<String>,
    /// Whether the last command ended with `&`. Its exit code is then unknown.
    is_background: bool,
}

impl Default for Scan<'_> {
    fn default() -> Self {
        Self {
            rest: "".chars().peekable(),
            commands: Vec::new(),
            words: Vec::new(),
            word: None,
            is_target: false,
            is_delimiter: false,
            delimiters: Vec::new(),
            is_background: false,
        }
    }
}

impl Scan<'_> {
    fn take(&mut self, character: char) -> Option<()> {
        match character {
            '(' if self.word.as_ref().is_some_and(|word| word.ends_with('$')) => {
                self.skip_to(')')?;
            }
            '`' => self.skip_to('`')?,
            // Between double brackets these join conditions, and compare.
            '&' | '|' | '(' | ')' | '<' | '>' | '\n' if self.is_in_condition() => self.end_word(),
            ' ' | '\t' => self.end_word(),
            '\n' => {
                self.end_command();
                self.skip_documents()?;
            }
            ';' | '|' => self.end_command(),
            '&' if self.rest.peek() == Some(&'>') => self.end_word(),
            '&' if self.is_target && self.word.is_none() => {}
            '&' => {
                let is_and = self.rest.next_if_eq(&'&').is_some();
                self.end_command();
                self.is_background = !is_and;
            }
            '\'' => self.quoted()?,
            '"' => self.double_quoted()?,
            '\\' => match self.rest.next()? {
                '\n' => {}
                literal => self.push(literal),
            },
            '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
            '<' | '>' => self.redirection(character)?,
            '(' | ')' => return None,
            literal => self.push(literal),
        }
        Some(())
    }

    /// Whether this is between `[[` and `]]`.
    fn is_in_condition(&self) -> bool {
        let is_end = |word: &String| word == "]]";
        self.words.first().is_some_and(|word| word == "[[")
            && !self.words.last().is_some_and(is_end)
            && !self.word.as_ref().is_some_and(is_end)
    }

    fn push(&mut self, character: char) {
        self.is_background = false;
        self.word.get_or_insert_default().push(character);
    }

    fn quoted(&mut self) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match self.rest.next()? {
                '\'' => return Some(()),
                literal => self.push(literal),
            }
        }
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                '\\' => {
                    let escaped = self.rest.next()?;
                    self.push(escaped);
                }
                '`' => self.skip_to('`')?,
                '$' if self.rest.next_if_eq(&'(').is_some() => self.skip_to(')')?,
                literal => self.push(literal),
            }
        }
    }

    /// Skips the rest of a substitution, with those in it.
    fn skip_to(&mut self, end: char) -> Option<()> {
        let mut open = vec![end];
        while let Some(end) = open.last().copied() {
            match self.rest.next()? {
                '\\' if end != '\'' => _ = self.rest.next()?,
                character if character == end => _ = open.pop(),
                _ if end == '\'' => {}
                '(' => open.push(')'),
                // A here-document may hold anything.
                '<' if self.rest.next_if_eq(&'<').is_some() => return None,
                '#' if end != '"' => return None,
                '\'' if end != '"' => open.push('\''),
                quote @ ('"' | '`') => open.push(quote),
                _ => {}
            }
        }
        self.word.get_or_insert_default();
        Some(())
    }

    /// Skips the here-documents of the line that has ended.
    fn skip_documents(&mut self) -> Option<()> {
        for delimiter in std::mem::take(&mut self.delimiters) {
            loop {
                self.rest.peek()?;
                let line: String = self.rest.by_ref().take_while(|c| *c != '\n').collect();
                if line.trim_start_matches('\t') == delimiter {
                    break;
                }
            }
        }
        Some(())
    }

    fn redirection(&mut self, first: char) -> Option<()> {
        // In `2>`, the digits are a file descriptor, not a word.
        if self.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        if self.rest.next_if_eq(&'(').is_some() {
            // A command takes the place of a file's name.
            return self.skip_to(')');
        }
        let second = self.rest.next_if(|c| matches!(c, '<' | '>' | '|' | '&'));
        if (first, second) == ('<', Some('<')) && self.rest.next_if_eq(&'<').is_none() {
            _ = self.rest.next_if_eq(&'-');
            self.is_delimiter = true;
        }
        self.is_target = true;
        Some(())
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.is_delimiter) {
            self.delimiters.push(word);
            self.is_target = false;
        } else if std::mem::take(&mut self.is_target) {
            // It is no word of the command.
        } else {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        (self.is_target, self.is_delimiter) = (false, false);
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_answer_with_one() {
        for text in [
            "grep x f",
            "rg x",
            "/usr/bin/diff a b",
            "test -f a",
            "[ -f a ]",
            "find . -name x",
            "git diff --exit-code",
            "egrep x f | fgrep y",
            "cmp a b",
            "pgrep -x nginx",
            "which cargo",
            "command -v cargo >/dev/null",
            "[[ -f a ]]",
            "[[ -f a && ( -d b || c < d ) ]]",
            "make; [[ $x =~ ^a|b$ ]]",
            "git -C sub --no-pager grep x",
            "cd sub && grep -r 'a; b' . 2>&1",
            "cat f | LC_ALL=C grep \"a && b\" > /dev/null",
            "sleep 1 & grep x f",
            "grep x f &> out",
            "grep x f # then what?\n",
            "echo a\ngrep x \\\n f;",
            "diff <(echo a) <(echo b)",
            "diff <(echo 'a)' | sort) /dev/null",
            "grep x < <(echo a)",
            "grep x <<< abc",
            "grep x <<E\na; false\nE",
            "grep x <<-'E' >out\n\ta\n\tE\n",
            "grep x $(make)",
            "grep \"$(make \"all\")\" f",
            "grep `make` f",
            "x=$(ls | wc -l); grep $x f",
            "while false; do :; done; grep x /dev/null",
            "if make; then ls; else pwd; fi && grep x f",
            "for f in a b; do cat $f; done; diff a b",
            "function f { ls; }; grep x /dev/null",
            "{ make; }; grep x f",
            "command -pv zzz",
        ] {
            assert!(exit_code_one_is_an_answer(text), "{text}");
        }
    }

    #[test]
    fn everything_else_fails_with_one() {
        for text in [
            "",
            "false",
            "make",
            "git status",
            "git",
            "git -C diff commit",
            "grep x f; make",
            "grep x f || exit 1",
            "exit 1; grep x f",
            "set -e; make; grep x f",
            "! grep x f",
            "if grep x f; then make; fi",
            "(grep x f)",
            "{ make; grep x f; }",
            "x=$(false)",
            "grep x f &",
            "grep x <(make",
            "grep \"$(make\" f",
            "grep x <<E\nE\nmake",
            "cat <<E; make\ngrep x f\nE",
            "grep x $(cat <<E\n)\nE\n); make",
            "if make; then exit 1; fi; grep x f",
            "while true; do grep x f; done",
            "for f in a; do grep x $f; done",
            "function f { make; exit 1; }; grep x f",
            "case a in a) make;; esac; grep x f",
            "f() { make; }; grep x f",
            "grep 'x f",
            "echo grep",
            "> grep",
            "xargs grep x",
            "trap 'exit 1' EXIT; grep x f",
            "command make",
            "command",
            "[[ -f a ]] && make",
            "[[ -f a ]] || (exit 1)",
            "! [[ -f a ]]",
            "[[ -f a ]] &",
            "[[ -f 'a ]]",
        ] {
            assert!(!exit_code_one_is_an_answer(text), "{text}");
        }
    }
}
