//! Tells which control files a command has changed where nothing could protect them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How deep the directories among them are looked into, and how many files are noted.
const DEPTH: usize = 3;
const MAX_FILES: usize = 5000;

/// When each of them was last changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::processes) struct Snapshot(BTreeMap<PathBuf, Stamp>);

/// The file's number, and when its content or its name last changed.
type Stamp = (u64, i64, i64);

impl Snapshot {
    pub(in crate::processes) fn take(paths: &[PathBuf]) -> Self {
        let mut files = BTreeMap::new();
        for path in paths {
            note(path, DEPTH, &mut files);
        }
        Self(files)
    }

    /// Those that differ in a later one.
    pub(in crate::processes) fn changed(&self, later: &Self) -> Vec<PathBuf> {
        let all = self.0.keys().chain(later.0.keys());
        let mut changed: Vec<_> =
            all.filter(|path| self.0.get(*path) != later.0.get(*path)).cloned().collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

/// Notes a file or a link, or the files of a directory.
fn note(path: &Path, depth: usize, files: &mut BTreeMap<PathBuf, Stamp>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_dir() && 0 < depth {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            note(&entry.path(), depth - 1, files);
        }
        return;
    }
    if files.len() < MAX_FILES {
        let stamp = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        files.insert(path.to_owned(), stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_changed_and_removed_is_named() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("hooks")).unwrap();
        for name in [".envrc", ".npmrc", ".bashrc"] {
            fs::write(path(name), "a").unwrap();
        }
        std::os::unix::fs::symlink("one", path(".claude")).unwrap();
        let paths = ["hooks", ".envrc", ".npmrc", ".bashrc", ".claude"].map(path);
        let before = Snapshot::take(&paths);
        assert_eq!(before.changed(&Snapshot::take(&paths)), Vec::<PathBuf>::new());

        fs::write(path("hooks/pre-commit"), "x").unwrap();
        fs::write(path("new"), "b").unwrap();
        fs::rename(path("new"), path(".envrc")).unwrap();
        fs::remove_file(path(".npmrc")).unwrap();
        fs::remove_file(path(".claude")).unwrap();
        std::os::unix::fs::symlink("two", path(".claude")).unwrap();

        let changed = before.changed(&Snapshot::take(&paths));
        assert_eq!(changed, [".claude", ".envrc", ".npmrc", "hooks/pre-commit"].map(path));
    }
}
