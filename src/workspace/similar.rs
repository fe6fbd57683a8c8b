//! Suggests an existing name for a path that leads nowhere.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, openat};

use super::target::{Target, TargetLocation};
use crate::look_alike::{folded_name, is_equivalent, is_plain, looks_same};
use crate::text;

/// Names that are read. A directory may have millions.
const MAX_NAMES: usize = 10_000;

/// Names that are compared by edit distance, which takes time quadratic in their length.
const MAX_COMPARED: usize = 64;

/// Below this similarity it is another name, not a typing error.
const MIN_SIMILARITY: f64 = 0.6;

impl Target {
    /// The existing path whose name is closest to the first missing part of this target, if
    /// one is close enough. `None` if the target exists. Blocks.
    pub(crate) fn similar(&self, is_excluded: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let TargetLocation::Missing { below, .. } = self.place() else { return None };
        let wanted = folded(below.first()?);
        let parent = self.real_path().ancestors().nth(below.len())?;
        let mut likely: Vec<(usize, PathBuf, String)> = self
            .neighbours()?
            .filter_map(|name| {
                let (path, name) = (parent.join(&name), folded(&name));
                let shared = shared_letters(&wanted, &name);
                let longest = wanted.chars().count().max(name.chars().count());
                let is_likely = shared * 10 >= longest * 6 && !matches!(&*name, "." | "..");
                (is_likely && !is_excluded(&path)).then_some((shared, path, name))
            })
            .collect();
        likely.sort_by(|a, b| (Reverse(a.0), &a.1).cmp(&(Reverse(b.0), &b.1)));
        likely.truncate(MAX_COMPARED);
        let rated = likely
            .into_iter()
            .map(|(_, path, name)| (strsim::normalized_damerau_levenshtein(&wanted, &name), path));
        text::closest(rated, MIN_SIMILARITY).next()
    }

    /// The names in the nearest directory that exists, at most [`MAX_NAMES`].
    fn neighbours(&self) -> Option<impl Iterator<Item = OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(self.directory(), ".", flags, Mode::empty()).ok()?;
        let entries = Dir::new(directory).ok()?.take(MAX_NAMES).filter_map(Result::ok);
        Some(entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned()))
    }

    /// The path as it was asked for, with the first missing name replaced by the one existing name
    /// that looks the same. `None` if nothing is missing, if no name looks the same, or if several
    /// do. Blocks.
    pub(crate) fn twin(&self, is_excluded: impl Fn(&Path) -> bool) -> Option<NameTwin> {
        let TargetLocation::Missing { below, .. } = self.place() else { return None };
        let missing: PathBuf = below.iter().collect();
        // A link that leads nowhere holds other names than the path.
        if !self.path().ends_with(&missing) {
            return None;
        }
        let given = below.first()?.to_str()?;
        let asked_parent = self.path().ancestors().nth(below.len())?;
        let real_parent = self.real_path().ancestors().nth(below.len())?;
        let mut names = self.neighbours()?.enumerate().filter_map(|(index, name)| {
            let name = name.into_string().ok()?;
            let is_twin = looks_same(&name, given) && !is_excluded(&real_parent.join(&name));
            // Where not all names were seen, nobody knows whether there are several.
            let is_last = index + 1 == MAX_NAMES;
            (is_twin || is_last).then_some((is_twin && !is_last, name))
        });
        let (true, name) = names.next()? else { return None };
        if names.next().is_some() {
            return None;
        }
        let is_meant = is_plain(given) || is_equivalent(&name, given);
        let path =
            below.iter().skip(1).fold(asked_parent.join(&name), |path, name| path.join(name));
        Some(NameTwin { path, is_meant })
    }
}

/// An existing name that looks like one that does not exist.
#[derive(Debug)]
pub(crate) struct NameTwin {
    /// The path with the existing name.
    pub(crate) path: PathBuf,
    /// Whether who writes the name can only mean the existing one: it is the same in Unicode's
    /// normal form, or the given name has the plain forms of all characters.
    pub(crate) is_meant: bool,
}

/// The name as it is compared. The same looks alike in every case and normal form.
fn folded(name: &OsStr) -> String {
    folded_name(&name.to_string_lossy()).to_lowercase()
}

/// How many letters the names have in common, in any order. This is an upper bound on the
/// letters in equal places, and cheap.
fn shared_letters(one: &str, other: &str) -> usize {
    let sorted = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters.into_iter().peekable()
    };
    let (mut one, mut other) = (sorted(one), sorted(other));
    let mut shared = 0;
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let order = a.cmp(b);
        shared += usize::from(order.is_eq());
        if order.is_le() {
            one.next();
        }
        if order.is_ge() {
            other.next();
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_common_are_counted_whatever_their_order() {
        assert_eq!(shared_letters("abc", "cab"), 3);
        assert_eq!(shared_letters("aab", "abb"), 2);
        assert_eq!(shared_letters("", "a"), 0);
    }
}
