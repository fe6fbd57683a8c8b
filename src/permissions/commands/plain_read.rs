//! Recognises a line that shows a file, or lines of one, and does nothing else.

use super::ParsedCommand;
use super::part::Part;
use super::word::Word;

/// Programs that print the files which they are given, or lines of them.
const PRINTERS: [&str; 4] = ["cat", "head", "tail", "grep"];

impl ParsedCommand {
    /// Whether the line is one simple command that prints a file as it is: no pipe, redirect,
    /// substitution or pattern of the shell.
    pub(crate) fn is_plain_read(&self) -> bool {
        let [part] = &self.parts[..] else { return false };
        let is_alone = part.redirects.is_empty() && part.assignments.is_empty();
        self.is_plain && is_alone && !part.is_repeated && prints(part)
    }
}

fn prints(part: &Part) -> bool {
    let words: Option<Vec<&str>> = part.words.iter().map(Word::literal).collect();
    match words.as_deref() {
        Some(["sed", "-n", script, _]) => prints_lines(script),
        Some([name, rest @ ..]) if PRINTERS.contains(name) => {
            let options = rest.iter().take_while(|word| **word != "--");
            let mut options = options.filter_map(|word| word.strip_prefix('-'));
            options.all(|option| shows_lines(name, option))
        }
        _ => false,
    }
}

/// Whether the program prints lines of a file with this option, given without its `-`. Many
/// options of grep print something else.
fn shows_lines(name: &str, option: &str) -> bool {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match name {
        "cat" => option.bytes().all(|letter| b"nbsvetAET".contains(&letter)),
        "head" | "tail" => {
            let lines = option.strip_prefix("-lines=").or(option.strip_prefix('n'));
            let lines = lines.unwrap_or(option);
            number(lines.strip_prefix(['+', '-']).unwrap_or(lines))
        }
        "grep" => {
            let letters = option.trim_start_matches(|c| "niEFGPwxoHhs".contains(c));
            letters.is_empty()
                || letters.strip_prefix(['A', 'B', 'C', 'm', 'e']).is_some_and(number)
        }
        _ => false,
    }
}

/// Whether a script of sed prints lines by their numbers: `5p`, `5,9p`, `5,$p`.
fn prints_lines(script: &str) -> bool {
    let Some(range) = script.strip_suffix('p') else { return false };
    let is_line = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    match range.split_once(',') {
        Some((first, last)) => is_line(first) && (last == "$" || is_line(last)),
        None => is_line(range),
    }
}

#[cfg(test)]
mod tests {
    use crate::permissions::commands::parse;

    #[test]
    fn only_one_simple_command_counts() {
        let reads = |line: &str| parse(line).is_ok_and(|parsed| parsed.is_plain_read());
        for line in [
            "cat a.txt",
            "head -n 5 'a b.txt'",
            "tail -5 a.txt",
            "tail -n +5 a.txt",
            "head --lines=5 a.txt",
            "cat -n a.txt",
            "cat -- -a.txt",
            "grep -n fn src/main.rs",
            "grep -niE -A3 'fn|struct' src/main.rs",
            "grep -C 2 -e fn src/main.rs",
            "sed -n '3,9p' a.txt",
            "sed -n 4p a.txt",
            "sed -n '3,$p' a.txt",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "cat a.txt | head",
            "cat a.txt; ls",
            "cat a.txt && true",
            "cat a.txt &",
            "cat <a.txt",
            "cat a.txt >b.txt",
            "cat *.txt",
            "cat $FILE",
            "cat $(ls)",
            "X=1 cat a.txt",
            "sed 3p a.txt",
            "sed -i -n 3p a.txt",
            "sed -n 's/a/b/p' a.txt",
            "sed -n '3,9p;10w x' a.txt",
            "if true; then cat a.txt; fi",
            "for f in a; do cat a.txt; done",
            "! cat a.txt",
            "sudo cat a.txt",
            "wc a.txt",
            "grep -c fn src/main.rs",
            "grep -nl fn src/main.rs",
            "grep -q fn src/main.rs",
            "grep --count fn src/main.rs",
            "head -c 1 a.txt",
            "tail -f a.txt",
            "cat --help a.txt",
            "",
        ] {
            assert!(!reads(line), "{line}");
        }
    }
}
