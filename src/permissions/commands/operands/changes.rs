//! Tells which names a part of a line changes. For the parts behind it the disk, as it is before
//! the line runs, does not say what these names lead to.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::word::Word;
use super::{Operand, OperandAccess};

/// A name that a part of the line changes.
#[derive(Clone, Debug)]
pub(crate) struct ChangedName {
    /// Absolute. `..` stands in it as written.
    pub(crate) path: PathBuf,
    pub(crate) change: NameChange,
    /// The position of the part that changes it.
    part: usize,
}

/// What becomes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// A file is written there.
    File,
    /// A directory is made there.
    Directory,
    /// What was there is removed.
    Removed,
    /// It and what is below it may lead anywhere: to it something is moved, copied or linked.
    Anything,
    /// As `Anything`, unless it is a directory before: then something is put into it.
    Target,
    /// It stays a directory, and what is below it may lead anywhere.
    Contents,
}

/// The names that other parts change before the part of an operand runs, or while it does.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangesBefore {
    all: Arc<[ChangedName]>,
    part: usize,
    /// The parts run one after the other.
    is_ordered: bool,
}

impl ChangedName {
    pub(super) fn new(path: PathBuf, change: NameChange, part: usize) -> Self {
        Self { path, change, part }
    }
}

impl ChangesBefore {
    /// Those before a part; all but its own where the order of the parts is not known.
    pub(super) fn new(all: &Arc<[ChangedName]>, part: usize, is_ordered: bool) -> Self {
        let before = Self { all: Arc::clone(all), part, is_ordered };
        if before.iter().next().is_some() { before } else { Self::default() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ChangedName> {
        self.all.iter().filter(|changed| {
            if self.is_ordered { changed.part < self.part } else { changed.part != self.part }
        })
    }

    /// Whether both hold the same names. The names of one line are compared by their part.
    pub(in crate::permissions) fn is_same(&self, other: &Self) -> bool {
        self.part == other.part && self.all.is_empty() == other.all.is_empty()
    }
}

/// What a program makes of a file that it names. `sources` are the files that it reads.
pub(super) fn change_of(words: &[Word], operand: &Operand, sources: &[Operand]) -> NameChange {
    let is_exact = || has_option(words, 'T', "--no-target-directory");
    let target = || {
        let is_exact = operand.is_possible || is_exact();
        if is_exact { NameChange::Anything } else { NameChange::Target }
    };
    match operand.by.as_str() {
        "mkdir" => NameChange::Directory,
        "install" if has_option(words, 'd', "--directory") => NameChange::Directory,
        "rm" | "rmdir" | "unlink" => NameChange::Removed,
        "mv" if sources.iter().any(|source| source.path == operand.path) => NameChange::Anything,
        "cp" if !copies_links(words) => NameChange::File,
        "mv" | "cp" | "ln" => target(),
        _ => NameChange::File,
    }
}

/// The files of a part that it changes, of those that it names.
pub(super) fn changed_by(words: &[Word], operands: &[Operand]) -> Vec<(Operand, NameChange)> {
    let (sources, written): (Vec<_>, Vec<_>) =
        operands.iter().cloned().partition(|operand| operand.access == OperandAccess::Read);
    let with_change = |operand: Operand| {
        let change = change_of(words, &operand, &sources);
        (operand, change)
    };
    written.into_iter().map(with_change).collect()
}

/// Whether `cp` may leave links behind: everything but the options that are known not to.
fn copies_links(words: &[Word]) -> bool {
    let is_harmless = |word: &Word| {
        let text = word.unquoted.as_str();
        match text.strip_prefix("--") {
            Some(long) => {
                let name = long.split_once('=').map_or(long, |(name, _)| name);
                HARMLESS_OF_CP.contains(&name)
            }
            None if text.starts_with('-') => text[1..].chars().all(|c| "bfinptuvTZ".contains(c)),
            None => true,
        }
    };
    !words.iter().skip(1).all(is_harmless)
}

const HARMLESS_OF_CP: [&str; 10] = [
    "",
    "backup",
    "force",
    "interactive",
    "no-clobber",
    "no-target-directory",
    "suffix",
    "target-directory",
    "update",
    "verbose",
];

/// Whether a word is this option, alone or among other letters, or the beginning of its name.
fn has_option(words: &[Word], letter: char, long: &str) -> bool {
    words.iter().skip(1).any(|word| {
        let text = word.unquoted.as_str();
        let is_long = text.len() > "--".len() && long.starts_with(text);
        let is_short = text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
        is_long || is_short
    })
}

/// The directories into which the words unpack, clone or move files that they do not name.
pub(super) fn filled_by(words: &[Word]) -> Vec<Word> {
    let Some((name, arguments)) = words.split_first() else { return Vec::new() };
    let is_among =
        |letters: &[&str]| arguments.iter().any(|word| letters.contains(&word.unquoted.as_str()));
    let operands = || arguments.iter().filter(|word| !word.unquoted.starts_with('-'));
    match name.base_name().unwrap_or_default() {
        "tar" | "bsdtar" | "gtar" if unpacks(arguments) => {
            or_here(values(arguments, &["-C", "--directory", "--cd"]))
        }
        "unzip" if !is_among(&["-l", "-p", "-t", "-Z"]) => or_here(values(arguments, &["-d"])),
        "7z" | "7za" | "7zr" if is_among(&["x", "e"]) => or_here(values(arguments, &["-o"])),
        "unrar" | "unar" | "cpio" | "pax" | "lha" => or_here(values(arguments, &["-D", "-o"])),
        "rsync" | "scp" => operands().next_back().cloned().into_iter().collect(),
        "git" => filled_by_git(&operands().cloned().collect::<Vec<_>>()),
        _ => Vec::new(),
    }
}

fn filled_by_git(operands: &[Word]) -> Vec<Word> {
    let after = |name: &str| operands.iter().position(|word| word.is(name)).map(|at| at + 1);
    if after("clone").is_some() {
        return vec![here()];
    }
    let moved = after("mv").or_else(|| after("worktree"));
    moved.map(|at| operands[at..].to_vec()).unwrap_or_default()
}

/// Whether the first word, or an option, says to unpack.
fn unpacks(arguments: &[Word]) -> bool {
    arguments.iter().enumerate().any(|(index, word)| {
        let text = word.unquoted.as_str();
        let is_long = text.starts_with("--ex") || text.starts_with("--get");
        let is_bundle = index == 0 || text.starts_with('-') && !text.starts_with("--");
        is_long || (is_bundle && text.contains('x'))
    })
}

/// The values of options, in the same word or the next one.
fn values(arguments: &[Word], options: &[&str]) -> Vec<Word> {
    let mut found = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        for option in options {
            if word.unquoted == *option {
                found.extend(arguments.get(index + 1).cloned());
            } else if word.unquoted.starts_with(option) {
                let joined = word.without_prefix(option.len());
                let joined = joined.and_then(|rest| {
                    let is_long = rest.unquoted.starts_with('=');
                    if is_long { rest.without_prefix("=".len()) } else { Some(rest) }
                });
                found.push(joined.unwrap_or_else(|| Word::unknown(&word.raw)));
            }
        }
    }
    found
}

fn or_here(directories: Vec<Word>) -> Vec<Word> {
    if directories.is_empty() { vec![here()] } else { directories }
}

fn here() -> Word {
    Word::plain(".")
}
