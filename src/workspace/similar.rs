//! Suggests an existing name for a path that leads nowhere.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, openat};

use super::target::{Target, TargetLocation};
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
        let TargetLocation::Missing { directory, below, .. } = self.place() else { return None };
        let wanted = folded(below.first()?);
        let parent = self.real_path().ancestors().nth(below.len())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = Dir::new(openat(directory, ".", flags, Mode::empty()).ok()?).ok()?;
        let names = entries.take(MAX_NAMES).filter_map(Result::ok);
        let mut likely: Vec<(usize, PathBuf, String)> = names
            .filter_map(|entry| {
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
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
}

fn folded(name: &OsStr) -> String {
    name.to_string_lossy().to_lowercase()
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
