//! Looks up commands of programs: `push` of git, `install` of npm.

use super::word::Word;

/// Programs, and words by which each of them does something.
pub(super) type ProgramList = [(&'static [&'static str], &'static [&'static str])];

/// Whether a program is told one of the words that a list has for it. Options of the program may
/// stand before its command.
pub(super) fn is_listed(list: &ProgramList, program: &str, arguments: &[Word]) -> bool {
    let has = |names: &[&str]| arguments.iter().any(|word| names.iter().any(|name| word.is(name)));
    list.iter().any(|(programs, names)| programs.contains(&program) && has(names))
}
