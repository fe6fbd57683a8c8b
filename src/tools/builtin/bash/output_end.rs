//! Reads what a command has printed for what it says of itself: a reason stands near the end.

use crate::processes::Finished;

/// Characters of a command's output that reach the model.
pub(super) const MAX_CHARACTERS: usize = 30_000;

/// How many lines of the end of the output are looked at.
const LAST_LINES: usize = 60;

/// What ends a path in a message, besides blanks.
const PATH_ENDS: &str = "'\"`‘’“”:;,()[]{}<>|";

/// What the shell begins its own messages with: the name that it is given.
const OF_THE_SHELL: &str = "bash: ";

/// Whether the shell itself has said of something that it failed.
pub(super) fn shell_has_complained(finished: &Finished) -> bool {
    printed(finished).contains(OF_THE_SHELL)
}

/// What the command has printed, as far as the model is shown it.
pub(super) fn printed(finished: &Finished) -> String {
    let shown = finished.output.so_far().0.shown(MAX_CHARACTERS);
    [shown.head, shown.tail].concat()
}

pub(super) fn last_lines(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().rev().take(LAST_LINES).collect();
    lines.reverse();
    lines
}

/// Whether a line has one of these words, which are in lower case.
pub(super) fn says(line: &str, words: &[&str]) -> bool {
    let line = line.to_lowercase();
    words.iter().any(|words| line.contains(words))
}

/// What in a line may be a path, without the quotes around it.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| c.is_whitespace() || PATH_ENDS.contains(c);
    line.split(is_end).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_in_its_order() {
        let numbers: Vec<_> = (0..LAST_LINES + 2).map(|number| number.to_string()).collect();
        let output = numbers.join("\n");
        let lines = last_lines(&output);
        assert_eq!((lines.len(), lines[0], lines[LAST_LINES - 1]), (LAST_LINES, "2", "61"));
    }

    #[test]
    fn a_path_stands_between_quotes_blanks_and_marks() {
        let said = "cp: ‘/a b’ (\"./c\"): x=/d; [/e]";
        assert_eq!(words(said).collect::<Vec<_>>(), ["cp", "/a", "b", "./c", "x=/d", "/e"]);
        assert!(says("PERMISSION Denied", &["permission denied"]) && !says("x", &["y"]));
    }
}
