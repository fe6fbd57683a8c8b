//! Ignore files: reads them from open directories, within bounds, and matches as ripgrep
//! does.
//!
//! They are untrusted: only regular files are read, and no links followed, since a link
//! would tell by its effect what the file it leads to holds. The `ignore` crate only
//! matches the lines that it is handed here.

use std::ffi::CStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;

use super::Bounds;
use super::io_errors::reason;
use super::pattern::is_too_large;
use crate::sync;
use crate::text::BYTE_ORDER_MARK;
use crate::workspace::Directory;

/// Bytes of one ignore file that count.
const MAX_BYTES: usize = 1 << 20;

/// Rules of one file, and of all files in one walk: 10,000 can take 80 MB when compiled.
const MAX_RULES: usize = 10_000;
const MAX_RULES_OF_A_WALK: usize = 20_000;

/// Compiling more rules than this takes long, and much memory for the time.
const MANY_RULES: usize = 500;

/// In the order in which they beat each other.
const NAMES: [&CStr; 3] = [c".rgignore", c".ignore", c".gitignore"];
const GIT_IGNORE: usize = 2;
const EXCLUDE: usize = 3;

/// Only one thread at a time compiles many rules, so that callers that start searches and
/// leave cannot pile up half-compiled ones.
static COMPILING: Mutex<()> = Mutex::new(());

/// The rules that hold in a directory: its own, then those of the ones above.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    /// One for each of [`NAMES`], then `.git/info/exclude`.
    own: [Option<Gitignore>; 4],
    /// Whether a repository begins here: its rules come from nowhere above.
    is_repository: bool,
    is_in_repository: bool,
}

/// What one walk still takes of ignore files.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) bounds: &'a Bounds,
    pub(super) rules_left: &'a AtomicUsize,
}

/// Which ignore files a directory has, and what they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Present {
    files: [Option<FileType>; 3],
    git: Option<FileType>,
    has_jj: bool,
}

pub(super) fn rules_of_a_walk() -> AtomicUsize {
    AtomicUsize::new(MAX_RULES_OF_A_WALK)
}

impl Present {
    /// Takes note of an entry of the directory.
    pub(super) fn note(&mut self, name: &CStr, kind: FileType) {
        if !name.to_bytes().starts_with(b".") {
            return;
        }
        if let Some(index) = NAMES.iter().position(|known| *known == name) {
            self.files[index] = Some(kind);
        } else if name == c".git" {
            self.git = Some(kind);
        } else if name == c".jj" {
            self.has_jj = true;
        }
    }

    /// Asks for each, where the whole directory has not been listed.
    pub(super) fn look(directory: &Directory) -> Self {
        let mut present = Self::default();
        for name in NAMES.into_iter().chain([c".git", c".jj"]) {
            if let Ok((_, stat)) = directory.stat(name) {
                present.note(name, FileType::from_raw_mode(stat.st_mode));
            }
        }
        present
    }

    fn is_repository(self) -> bool {
        self.git.is_some() || self.has_jj
    }

    fn is_nothing(self) -> bool {
        self.files.iter().all(Option::is_none) && !self.is_repository()
    }
}

impl Rules {
    /// What holds above a root: no rules, but maybe a repository.
    pub(super) fn above(root: &Path) -> Option<Arc<Self>> {
        let is_in_repository = root.ancestors().skip(1).any(|directory| {
            [".git", ".jj"].iter().any(|name| directory.join(name).symlink_metadata().is_ok())
        });
        is_in_repository.then(|| {
            let own = [const { None }; 4];
            Arc::new(Self { above: None, own, is_repository: true, is_in_repository })
        })
    }

    /// What holds in `directory` at `path`.
    pub(super) fn within(
        above: Option<&Arc<Self>>,
        directory: &Directory,
        path: &Path,
        present: Present,
        reader: &Reader<'_>,
    ) -> Option<Arc<Self>> {
        if present.is_nothing() {
            return above.cloned();
        }
        let is_repository = present.is_repository();
        let is_in_repository = is_repository || above.is_some_and(|above| above.is_in_repository);
        let mut own = [const { None }; 4];
        for (index, kind) in present.files.into_iter().enumerate() {
            let counts = index != GIT_IGNORE || is_in_repository;
            if let Some(kind) = kind.filter(|_| counts) {
                own[index] = reader.read(directory, NAMES[index], kind, path, path);
            }
        }
        if present.git == Some(FileType::Directory) {
            own[EXCLUDE] = reader.read_exclude(directory, path);
        }
        if !is_repository && own.iter().all(Option::is_none) {
            return above.cloned();
        }
        Some(Arc::new(Self { above: above.cloned(), own, is_repository, is_in_repository }))
    }

    /// Whether the rules leave `path` out, of which the last part is in this directory.
    pub(super) fn leave_out(&self, path: &Path, is_directory: bool) -> bool {
        let mut found: [Option<bool>; 4] = [None; 4];
        let mut is_same_repository = true;
        let mut here = Some(self);
        while let Some(rules) = here {
            for (index, own) in rules.own.iter().enumerate() {
                let Some(own) = own else { continue };
                let counts = index < GIT_IGNORE || is_same_repository;
                if counts && found[index].is_none() {
                    found[index] = match own.matched(path, is_directory) {
                        Match::None => None,
                        Match::Ignore(_) => Some(true),
                        Match::Whitelist(_) => Some(false),
                    };
                }
            }
            is_same_repository &= !rules.is_repository;
            here = rules.above.as_deref();
        }
        found.into_iter().flatten().next().unwrap_or(false)
    }
}

/// One after the other, as for a `Node`: they are linked as deep.
impl Drop for Rules {
    fn drop(&mut self) {
        let mut next = self.above.take();
        while let Some(mut rules) = next.and_then(Arc::into_inner) {
            next = rules.above.take();
        }
    }
}

impl Reader<'_> {
    fn read_exclude(&self, directory: &Directory, path: &Path) -> Option<Gitignore> {
        let info = directory.open_directory(c".git").ok()?.open_directory(c"info").ok()?;
        let (_, stat) = info.stat(c"exclude").ok()?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        self.read(&info, c"exclude", kind, &path.join(".git/info"), path)
    }

    /// Reads one file in `directory`, which is at `place`; its rules start from `path`.
    fn read(
        &self,
        directory: &Directory,
        name: &CStr,
        kind: FileType,
        place: &Path,
        path: &Path,
    ) -> Option<Gitignore> {
        let note = |what: &str| {
            let name = name.to_str().unwrap_or_default();
            self.bounds.note_ignore_file(&place.join(name), what);
        };
        match kind {
            FileType::RegularFile | FileType::Unknown => {}
            FileType::Directory => return None,
            FileType::Symlink => {
                note("it is a link, and links are not followed");
                return None;
            }
            _ => {
                note("it is no regular file");
                return None;
            }
        }
        let (bytes, is_whole) = match read_bounded(directory, name) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                note(&reason(&error));
                return None;
            }
        };
        if !is_whole {
            note("only its first MiB counts");
        }
        self.compile(&bytes, path, note)
    }

    fn compile(&self, bytes: &[u8], path: &Path, note: impl Fn(&str)) -> Option<Gitignore> {
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                note("what follows a line that is no UTF-8 does not count");
                let valid = &bytes[..error.valid_up_to()];
                let end = valid.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
                str::from_utf8(&valid[..end]).unwrap_or_default()
            }
        };
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        let rules: Vec<&str> = text.lines().filter(|line| is_rule(line)).collect();
        let taken = self.take(rules.len().min(MAX_RULES));
        if taken < rules.len() {
            note(&format!("only {taken} of its {} rules count", rules.len()));
        }
        if taken == 0 {
            return None;
        }
        let _turn = (taken > MANY_RULES).then(|| sync::lock(&COMPILING));
        if self.bounds.is_over() {
            return None;
        }
        let mut builder = GitignoreBuilder::new(path);
        let mut left_out = 0;
        for rule in &rules[..taken] {
            left_out += usize::from(is_too_large(rule) || builder.add_line(None, rule).is_err());
        }
        if left_out > 0 {
            note(&format!("{left_out} of its rules are too long, nested too deep, or no globs"));
        }
        let compiled = builder.build().inspect_err(|_| note("its rules are too large together"));
        compiled.ok().filter(|rules| !rules.is_empty())
    }

    /// Takes so many rules of those that the walk has left, or all that are.
    fn take(&self, wanted: usize) -> usize {
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let less = |left: usize| Some(left.saturating_sub(wanted));
        let left = self.rules_left.fetch_update(set, fetch, less).unwrap_or(0);
        left.min(wanted)
    }
}

fn is_rule(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

/// The beginning of a file in whole lines, and whether that is all of it.
fn read_bounded(directory: &Directory, name: &CStr) -> io::Result<(Vec<u8>, bool)> {
    let file = directory.open_file_of_unknown_kind(name)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= MAX_BYTES {
        return Ok((bytes, true));
    }
    let end = bytes[..MAX_BYTES].iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    bytes.truncate(end);
    Ok((bytes, false))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_files_of_a_walk_share_its_rules() {
        let bounds = Bounds::new(Duration::ZERO);
        let rules_left = rules_of_a_walk();
        let reader = Reader { bounds: &bounds, rules_left: &rules_left };
        assert_eq!([8000, 8000, 8000, 1].map(|wanted| reader.take(wanted)), [8000, 8000, 4000, 0]);
    }
}
