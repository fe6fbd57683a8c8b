//! Follows `cd` through a line, to know which directories its relative paths may mean.
//!
//! A `cd` may fail, or run in a subshell. So what comes after it may run in either directory,
//! but for what `&&` joins to it directly.

use std::path::{Component, Path, PathBuf};

use super::part::Part;
use super::reach::Reached;
use super::word::{Piece, Word};

/// Where a line would run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) home: &'a Path,
}

/// The directories in which a command may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directories {
    pub(super) known: Vec<PathBuf>,
    /// It may run elsewhere too.
    pub(super) or_unknown: bool,
}

/// More directories than this are as good as unknown.
const MAX_DIRECTORIES: usize = 8;

/// Variables that decide where `cd` goes, or what `~` means.
const DECIDING: [&str; 4] = ["CDPATH", "HOME", "OLDPWD", "PWD"];

impl Directories {
    fn add(&mut self, other: &Self) {
        self.or_unknown |= other.or_unknown;
        for directory in &other.known {
            if !self.known.contains(directory) {
                self.known.push(directory.clone());
            }
        }
        if self.known.len() > MAX_DIRECTORIES {
            self.known.truncate(1);
            self.or_unknown = true;
        }
    }
}

/// The directories of each reached command, in order.
pub(super) fn directories(reached: &[Reached], place: &Place<'_>) -> Vec<Directories> {
    let is_lost = reached.iter().any(|reached| loses_order(&reached.part));
    let start = Directories { known: vec![place.directory.to_owned()], or_unknown: is_lost };
    let mut walk = Walk { current: start.clone(), base: start, success: Vec::new(), from: None };
    reached.iter().map(|reached| walk.step(reached, place)).collect()
}

/// Whether the order of the line does not tell which directory a command runs in.
fn loses_order(part: &Part) -> bool {
    let assigns = part.assignments.iter().any(|one| DECIDING.contains(&one.name.as_str()));
    let declares = matches!(
        part.program(),
        Some("export" | "declare" | "typeset" | "read" | "local" | "readonly")
    ) && part.words[1..].iter().any(|word| {
        let name = word.as_assignment().map_or(word.unquoted.as_str(), |(name, _)| name);
        DECIDING.contains(&name)
    });
    assigns || declares || (part.is_repeated && may_change_directory(part))
}

fn may_change_directory(part: &Part) -> bool {
    let changes = matches!(part.program(), Some("cd" | "pushd" | "popd" | "." | "source"));
    changes || (part.has_uncertain_name() && !part.is_evaluation)
}

struct Walk {
    /// All directories so far.
    current: Directories,
    /// Those of the part that is being walked.
    base: Directories,
    /// Those after each part, if it succeeded.
    success: Vec<Directories>,
    from: Option<usize>,
}

impl Walk {
    fn step(&mut self, reached: &Reached, place: &Place<'_>) -> Directories {
        let Reached { part, from, level } = reached;
        if self.from != Some(*from) {
            self.from = Some(*from);
            let after = part.after_success_of.and_then(|index| self.success.get(index));
            self.base = after.unwrap_or(&self.current).clone();
            self.success.push(self.base.clone());
        } else if *level > 0 {
            self.base.add(&self.current);
        }
        let base = self.base.clone();
        if may_change_directory(part) {
            let changed = changed(part, &base, place);
            self.current.add(&changed);
            if let Some(success) = self.success.last_mut() {
                // A `cd` of the part itself decides. One in a script may not be the last.
                *success = if *level == 0 { changed } else { self.current.clone() };
            }
        }
        base
    }
}

fn changed(part: &Part, base: &Directories, place: &Place<'_>) -> Directories {
    let unknown = Directories { known: Vec::new(), or_unknown: true };
    let is_push = part.program() == Some("pushd");
    if part.program() != Some("cd") && !is_push {
        return unknown;
    }
    let is_option = |word: &&Word| ["-L", "-P", "-e", "-@", "--"].iter().any(|it| word.is(it));
    let mut arguments = part.words[1..].iter().skip_while(|word| !is_push && is_option(word));
    let (first, second) = (arguments.next(), arguments.next());
    if second.is_some() {
        return unknown;
    }
    let Some(word) = first else {
        // `pushd` alone exchanges two directories.
        let known = if is_push { Vec::new() } else { vec![place.home.to_owned()] };
        return Directories { known, or_unknown: is_push };
    };
    match value(word, place, base) {
        // `pushd +1` turns the stack.
        Some(target) if !target.starts_with(['-', '+']) => entered(base, Path::new(&target)),
        _ => unknown,
    }
}

fn entered(base: &Directories, target: &Path) -> Directories {
    let or_unknown = base.or_unknown && !target.is_absolute();
    let mut after = Directories { known: Vec::new(), or_unknown };
    for directory in &base.known {
        let joined = directory.join(target);
        // bash takes `..` out of the text first, and tries the path itself if that is not there.
        let known = vec![normalized(&joined), joined];
        after.add(&Directories { known, or_unknown: false });
    }
    after
}

/// The value of a word, as far as the place tells what its expansions mean.
pub(super) fn value(word: &Word, place: &Place<'_>, base: &Directories) -> Option<String> {
    if word.has_braces {
        return None;
    }
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => Some(text.clone()),
        Piece::Home => Some(place.home.to_str()?.to_owned()),
        Piece::Variable(name) if name == "HOME" => Some(place.home.to_str()?.to_owned()),
        Piece::Variable(name) if name == "PWD" && !base.or_unknown => match base.known.as_slice() {
            [directory] => Some(directory.to_str()?.to_owned()),
            _ => None,
        },
        _ => None,
    };
    word.pieces.iter().map(text).collect()
}

/// The path without `.` and `..`, by its text alone.
pub(in crate::permissions) fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normalized.pop();
            }
            Component::CurDir => {}
            _ => normalized.push(component),
        }
    }
    normalized
}
