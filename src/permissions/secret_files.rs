//! Finds the files below the roots that may hold secrets, so that the sandbox can keep them from
//! commands that nobody has approved. Remembers what it has seen, so that the next command pays
//! one look for each directory that has not changed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::path_lists::SENSITIVE;
use super::path_pattern::PatternRoots;
use super::reached::ReachedPath;
use crate::sync;

/// How many directories are looked into, nearest to the root first, and how many entries of one.
/// To ask whether a directory has changed takes a few microseconds.
const MAX_DIRECTORIES: usize = 2000;
const MAX_ENTRIES: usize = 20_000;

/// A change within the same tick of the clock as the look shows in no time stamp.
const SETTLED: Duration = Duration::from_secs(10);

/// Package managers and compilers fill these with the files of others; git keeps its data in the
/// last one under names of its own.
const SKIPPED: [&str; 7] =
    ["node_modules", "target", "__pycache__", ".venv", "venv", ".tox", ".git"];

/// What is known of directories. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct SecretFiles(Arc<Mutex<Known>>);

/// What each directory holds, and how it was when that was read.
type Known = HashMap<PathBuf, (Stamp, Arc<Listing>)>;

/// Changes whenever the directory does; nobody but root can set it back.
type Stamp = (u64, u64, i64, i64);

#[derive(Debug, Default)]
struct Listing {
    /// Files, and directories as a whole.
    secrets: Vec<OsString>,
    subdirectories: Vec<OsString>,
    is_cut: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct FoundSecrets {
    pub(super) paths: Vec<PathBuf>,
    /// There was more than is looked at.
    pub(super) is_cut: bool,
}

impl SecretFiles {
    /// Those below the roots.
    pub(super) fn below(&self, roots: &PatternRoots) -> FoundSecrets {
        let mut known = sync::lock(&self.0);
        let mut found = FoundSecrets::default();
        let mut visited = HashSet::new();
        let mut waiting: VecDeque<PathBuf> = roots.roots.iter().cloned().collect();
        while let Some(directory) = waiting.pop_front() {
            if MAX_DIRECTORIES <= visited.len() {
                found.is_cut = true;
                break;
            }
            if !visited.insert(directory.clone()) {
                continue;
            }
            let listing = listing(&mut known, &directory, roots);
            found.is_cut |= listing.is_cut;
            found.paths.extend(listing.secrets.iter().map(|name| directory.join(name)));
            waiting.extend(listing.subdirectories.iter().map(|name| directory.join(name)));
        }
        if MAX_DIRECTORIES * 8 < known.len() {
            known.retain(|directory, _| visited.contains(directory));
        }
        found
    }
}

fn listing(known: &mut Known, directory: &Path, roots: &PatternRoots) -> Arc<Listing> {
    let Some(metadata) = fs::symlink_metadata(directory).ok().filter(Metadata::is_dir) else {
        return Arc::default();
    };
    let stamp = (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
    if let Some((_, listing)) = known.get(directory).filter(|(seen, _)| *seen == stamp) {
        return Arc::clone(listing);
    }
    let listing = Arc::new(Listing::read(directory, roots));
    if is_settled(&metadata) {
        known.insert(directory.to_owned(), (stamp, Arc::clone(&listing)));
    } else {
        known.remove(directory);
    }
    listing
}

fn is_settled(metadata: &Metadata) -> bool {
    let changed = u64::try_from(metadata.ctime()).ok();
    let settled = changed.and_then(|seconds| {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds) + SETTLED)
    });
    settled.is_some_and(|settled| settled < SystemTime::now())
}

impl Listing {
    fn read(directory: &Path, roots: &PatternRoots) -> Self {
        let mut listing = Self::default();
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for (count, entry) in entries.enumerate() {
            if MAX_ENTRIES <= count {
                listing.is_cut = true;
                break;
            }
            let name = entry.file_name();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = directory.join(&name);
            if ReachedPath::met(&path, is_directory, roots).on(&SENSITIVE).is_some() {
                listing.secrets.push(name);
            } else if is_directory && !SKIPPED.iter().any(|skipped| name == *skipped) {
                listing.subdirectories.push(name);
            }
        }
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(secrets: &SecretFiles, root: &Path) -> Vec<String> {
        let roots = PatternRoots { home: "/nowhere".into(), roots: vec![root.to_owned()] };
        let found = secrets.below(&roots);
        assert!(!found.is_cut);
        let below = found.paths.iter().map(|path| path.strip_prefix(root).unwrap());
        let mut names: Vec<_> = below.map(|path| path.display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_and_whole_directories_are_found_at_any_depth() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path();
        for name in [
            ".env",
            "a/b/c/d/key.pem",
            "a/.aws/credentials",
            ".env.example",
            "node_modules/x/test.pem",
            ".git/refs/heads/secrets",
            "src/main.rs",
        ] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        let secrets = SecretFiles::default();
        let expected = [".env", "a/.aws", "a/b/c/d/key.pem"];
        assert_eq!(found(&secrets, root), expected);
        fs::write(root.join("a/b/.netrc"), "").unwrap();
        assert_eq!(found(&secrets, root), [".env", "a/.aws", "a/b/.netrc", "a/b/c/d/key.pem"]);
        fs::remove_file(root.join("a/b/.netrc")).unwrap();
        assert_eq!(found(&secrets, root), expected);
    }

    #[test]
    fn more_directories_than_are_looked_into_are_told() {
        let ground = tempfile::tempdir().unwrap();
        for number in 0..MAX_DIRECTORIES {
            fs::create_dir(ground.path().join(format!("d{number}"))).unwrap();
        }
        fs::write(ground.path().join(".env"), "").unwrap();
        let roots = PatternRoots { home: "/x".into(), roots: vec![ground.path().to_owned()] };
        let found = SecretFiles::default().below(&roots);
        assert!(found.is_cut && found.paths == [ground.path().join(".env")]);
    }
}
