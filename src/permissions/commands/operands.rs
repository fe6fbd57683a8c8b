//! Lists the files that a command line names, as far as its programs are known.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ParsedCommand;
use super::directories::{Directories, Place, directories, normalized, value};
use super::part::{Part, Redirect, RedirectKind, RedirectTarget};
use super::word::{Piece, Word};

pub(super) use self::arguments::GivenOption;
pub(crate) use self::changes::{ChangedName, ChangesBefore, NameChange};
pub(super) use self::programs::{SHOWING_GIT, sed_arguments, starting_points};
pub(super) use self::sed_script::SedScript;

mod arguments;
mod changes;
mod programs;
mod scripts;
mod sed_script;

/// A file that a command names, by an operand or a redirect.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) path: OperandPath,
    pub(crate) access: OperandAccess,
    /// Everything below it, too.
    pub(crate) is_recursive: bool,
    /// Touched only if the directory that the path stands in is one: `cp a b` writes `b`, or `b/a`.
    pub(crate) is_possible: bool,
    /// The program, or the redirect's operator.
    pub(crate) by: String,
    /// What other parts of the line change before.
    pub(crate) before: ChangesBefore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OperandAccess {
    Read,
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OperandPath {
    /// Absolute. `..` stands in it as written, since a link may be before it.
    Known(PathBuf),
    /// Relative to a directory that is not known.
    Relative(PathBuf),
    /// A pattern of the shell, absolute if the directory is known. `\` escapes what is text.
    Pattern(String),
    /// Not known before the command runs, as written.
    Unknown(String),
}

/// A word that names a file.
#[derive(Clone, Debug)]
struct Named {
    word: Word,
    access: OperandAccess,
    is_recursive: bool,
    /// The file of this name in the directory that `word` names.
    below: Option<Word>,
}

impl Named {
    fn new(word: Word, access: OperandAccess) -> Self {
        Self { word, access, is_recursive: false, below: None }
    }
}

impl ParsedCommand {
    /// The files that the line names, those of the commands within wrappers too. A relative path
    /// is there once for each directory that it may mean.
    pub(crate) fn operands(&self, place: &Place<'_>) -> Vec<Operand> {
        let directories = directories(&self.reached, place);
        let finders = directories.iter().map(|directories| Finder { place, directories });
        let mut changed = Vec::new();
        let mut of_parts = Vec::new();
        for (index, (reached, finder)) in self.reached.iter().zip(finders).enumerate() {
            let operands = finder.of_part(&reached.part);
            changed.extend(finder.changed_names(&reached.part, &operands, index));
            of_parts.push(operands);
        }
        let changed: Arc<[ChangedName]> = changed.into();
        let mut operands: Vec<Operand> = Vec::new();
        for (index, (reached, of_part)) in self.reached.iter().zip(of_parts).enumerate() {
            // What a script holds is not looked at for its order.
            let is_ordered = self.is_ordered && reached.level == 0;
            let before = ChangesBefore::new(&changed, index, is_ordered);
            for operand in of_part {
                let operand = Operand { before: before.clone(), ..operand };
                if !operands.iter().any(|known| known.is_same(&operand)) {
                    operands.push(operand);
                }
            }
        }
        operands
    }
}

/// Whether the words name a file that their program writes, or may.
pub(super) fn writes(words: &[Word]) -> bool {
    programs::named_files(words).iter().any(|named| named.access == OperandAccess::Write)
}

impl ParsedCommand {
    /// What the words of programs that are not known may name: files or directories, with those
    /// that the programs run in where the line leads elsewhere.
    pub(crate) fn possible_files(&self, place: &Place<'_>) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for (reached, directories) in self.reached.iter().zip(directories(&self.reached, place)) {
            let is_known = reached.part.program().is_none_or(programs::is_recognised);
            if is_known {
                continue;
            }
            let words = reached.part.words.iter().skip(1).filter_map(Word::literal);
            let texts: Vec<&str> = words.flat_map(possible_names).collect();
            for directory in &directories.known {
                files.extend(texts.iter().map(|text| normalized(&directory.join(text))));
                if directory != place.directory {
                    files.push(directory.clone());
                }
            }
        }
        files
    }

    /// Whether all that it writes is named in it, as far as its programs are known. git writes in
    /// the repository, but for its settings.
    pub(crate) fn names_what_it_writes(&self) -> bool {
        let is_known = |part: &Part| match part.program() {
            None => true,
            Some("git") => !part.words.iter().any(|word| word.is("config")),
            Some(program) => programs::is_recognised(program),
        };
        self.reached.iter().all(|reached| is_known(&reached.part))
    }
}

/// The texts of a word that may be a file: itself, or the value of an option.
fn possible_names(word: &str) -> impl Iterator<Item = &str> {
    let is_option = word.starts_with('-');
    let value = word.split_once('=').map(|(_, value)| value);
    let attached = word.get(2..).filter(|_| is_option && !word.starts_with("--"));
    let itself = (!is_option).then_some(word);
    [itself, value, attached].into_iter().flatten().filter(|text| !text.is_empty())
}

impl Operand {
    fn is_same(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.access, it.is_recursive, it.is_possible);
        of(self) == of(other)
            && self.path == other.path
            && self.by == other.by
            && self.before.is_same(&other.before)
    }
}

struct Finder<'a> {
    place: &'a Place<'a>,
    directories: &'a Directories,
}

impl Finder<'_> {
    fn of_part(&self, part: &Part) -> Vec<Operand> {
        let named = programs::named_files(&part.words);
        let by = part.program().unwrap_or_default();
        let files = named.iter().flat_map(|named| self.resolved(named, by));
        let redirects = part.redirects.iter().flat_map(|redirect| self.of_redirect(redirect));
        files.chain(redirects).collect()
    }

    /// The names that a part changes, of which `operands` are those that it names.
    fn changed_names(&self, part: &Part, operands: &[Operand], index: usize) -> Vec<ChangedName> {
        let named = changes::changed_by(&part.words, operands);
        let named = named.into_iter().map(|(operand, change)| (operand.path, change));
        let filled = changes::filled_by(&part.words);
        let filled = filled.iter().flat_map(|directory| self.paths(directory));
        let filled = filled.map(|path| (path, NameChange::Contents));
        let absolute = |(path, change)| match path {
            OperandPath::Known(path) => Some(ChangedName::new(path, change, index)),
            OperandPath::Pattern(pattern) => {
                let change = match change {
                    NameChange::File | NameChange::Directory | NameChange::Removed => change,
                    _ => NameChange::Contents,
                };
                Some(ChangedName::new(before_pattern(&pattern)?, change, index))
            }
            // Asked about in any case.
            OperandPath::Relative(_) | OperandPath::Unknown(_) => None,
        };
        named.chain(filled).filter_map(absolute).collect()
    }

    fn of_redirect(&self, redirect: &Redirect) -> Vec<Operand> {
        let RedirectTarget::File(word) = &redirect.target else { return Vec::new() };
        let (accesses, by): (&[_], _) = match redirect.kind {
            RedirectKind::Text => return Vec::new(),
            RedirectKind::Read => (&[OperandAccess::Read], "<"),
            RedirectKind::Write => (&[OperandAccess::Write], ">"),
            RedirectKind::Append => (&[OperandAccess::Write], ">>"),
            RedirectKind::ReadWrite => (&[OperandAccess::Read, OperandAccess::Write], "<>"),
        };
        let named = |access: &OperandAccess| Named::new(word.clone(), *access);
        accesses.iter().flat_map(|access| self.resolved(&named(access), by)).collect()
    }

    fn resolved(&self, named: &Named, by: &str) -> Vec<Operand> {
        let paths = match &named.below {
            None => self.paths(&named.word),
            Some(file) => self.paths_below(&named.word, file),
        };
        let operand = |path| Operand {
            path,
            access: named.access,
            is_recursive: named.is_recursive,
            is_possible: named.below.is_some(),
            by: by.to_owned(),
            before: ChangesBefore::default(),
        };
        paths.into_iter().map(operand).collect()
    }

    fn paths(&self, word: &Word) -> Vec<OperandPath> {
        if let Some(text) = value(word, self.place, self.directories) {
            return self.in_each(&text, OperandPath::Known, OperandPath::Relative);
        }
        let Some(pattern) = pattern(word, self.place) else {
            return vec![OperandPath::Unknown(word.raw.clone())];
        };
        let as_text = |path: PathBuf| OperandPath::Pattern(path.to_string_lossy().into_owned());
        self.in_each(&pattern, |path| as_text(escaped_base(path, &pattern)), as_text)
    }

    fn in_each(
        &self,
        text: &str,
        known: impl Fn(PathBuf) -> OperandPath,
        relative: impl Fn(PathBuf) -> OperandPath,
    ) -> Vec<OperandPath> {
        if text.is_empty() {
            return Vec::new();
        }
        let path = Path::new(text);
        if path.is_absolute() {
            return vec![known(path.to_owned())];
        }
        let mut paths: Vec<_> =
            self.directories.known.iter().map(|directory| known(directory.join(path))).collect();
        if self.directories.or_unknown {
            paths.push(relative(path.to_owned()));
        }
        paths
    }

    /// The file of the same name in a directory.
    fn paths_below(&self, directory: &Word, file: &Word) -> Vec<OperandPath> {
        let name = value(file, self.place, self.directories);
        let name = name.as_deref().map(|name| name.trim_end_matches('/'));
        let name = name.and_then(|name| Path::new(name).file_name());
        let below = |path: OperandPath| match (path, name) {
            (OperandPath::Known(path), Some(name)) => OperandPath::Known(path.join(name)),
            (OperandPath::Relative(path), Some(name)) => OperandPath::Relative(path.join(name)),
            (OperandPath::Known(path), None) => {
                OperandPath::Pattern(format!("{}/*", escaped(&path.to_string_lossy())))
            }
            (path, _) => path,
        };
        self.paths(directory).into_iter().map(below).collect()
    }
}

/// The word as a pattern, if nothing but patterns makes it unknown.
fn pattern(word: &Word, place: &Place<'_>) -> Option<String> {
    if word.has_braces {
        return None;
    }
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => Some(escaped(text)),
        Piece::Glob(glob) => Some(glob.to_string()),
        Piece::Home => Some(escaped(place.home.to_str()?)),
        Piece::Variable(name) if name == "HOME" => Some(escaped(place.home.to_str()?)),
        Piece::Variable(_) | Piece::Unknown(_) => None,
    };
    word.pieces.iter().map(text).collect()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if "*?[]\\".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The directory that an absolute pattern stands in.
fn before_pattern(pattern: &str) -> Option<PathBuf> {
    let path = Path::new(pattern);
    let is_text = |name: &&std::ffi::OsStr| !name.to_string_lossy().contains(['*', '?', '[', '\\']);
    let names = path.components().map(std::path::Component::as_os_str).take_while(is_text);
    path.is_absolute().then(|| names.collect())
}

/// The directory before a pattern is text, so what looks like a pattern in it is escaped.
fn escaped_base(path: PathBuf, pattern: &str) -> PathBuf {
    if Path::new(pattern).is_absolute() {
        return path;
    }
    let text = path.to_string_lossy().into_owned();
    let base = text.strip_suffix(pattern).unwrap_or_default();
    PathBuf::from(format!("{}{pattern}", escaped(base)))
}
