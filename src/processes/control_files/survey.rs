//! Looks for directories that hold control files, some levels below a root. Remembers what it has
//! seen, so that the next command pays one look for each directory that has not changed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::kind;
use crate::protected_names::{PROTECTED_NAMES, ProtectedName, REPOSITORY};
use crate::sync;

/// How far below a root existing ones are looked for, and in how many directories at most.
const DEPTH: usize = 3;
const MAX_DIRECTORIES: usize = 5000;

/// Directories that hold some, for one root. Each costs mounts.
const MAX_HOLDERS: usize = 500;

/// Directories with more entries are asked for each name instead of being listed.
const MAX_ENTRIES: usize = 20_000;

/// Roots that are remembered.
const MAX_ROOTS: usize = 64;

/// A change within the same tick of the clock as the look shows in no time stamp.
const SETTLED: Duration = Duration::from_secs(10);

/// Package managers and compilers fill these, and programs run what is in them anyway.
const DEPENDENCIES: [&str; 6] = ["node_modules", "target", "__pycache__", ".venv", "venv", ".tox"];

/// What one directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) controls: Vec<OsString>,
    pub(super) has_repository: bool,
    subdirectories: Vec<OsString>,
}

/// A directory that holds control files.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) directory: PathBuf,
    pub(super) listing: Arc<Listing>,
}

/// What is known of all roots.
#[derive(Debug, Default)]
pub(in crate::processes) struct Survey(Mutex<HashMap<PathBuf, Arc<Mutex<Known>>>>);

/// What is known of one root.
#[derive(Debug, Default)]
struct Known {
    listings: HashMap<PathBuf, (Stamp, Arc<Listing>)>,
    /// Those that have been found. A command that makes thousands of directories does not make
    /// the sandbox forget them.
    holders: BTreeSet<PathBuf>,
}

/// Changes whenever the directory does; nobody but root can set it back.
type Stamp = (u64, u64, i64, i64);

impl Survey {
    /// The directories in a root, itself included, that hold control files.
    pub(super) fn holders(&self, root: &Path) -> Vec<Holder> {
        let remembered = {
            let mut roots = sync::lock(&self.0);
            if MAX_ROOTS <= roots.len() && !roots.contains_key(root) {
                roots.clear();
            }
            Arc::clone(roots.entry(root.to_owned()).or_default())
        };
        sync::lock(&remembered).holders(root)
    }
}

impl Known {
    fn holders(&mut self, root: &Path) -> Vec<Holder> {
        let mut visited = HashSet::new();
        let mut found = Vec::new();
        for directory in self.holders.clone() {
            self.look(directory, &mut visited, &mut found);
        }
        let mut level = vec![root.to_owned()];
        for depth in 0..=DEPTH {
            let mut next = Vec::new();
            for directory in level {
                let listing = self.look(directory.clone(), &mut visited, &mut found);
                let left = MAX_DIRECTORIES.saturating_sub(visited.len() + next.len());
                if depth < DEPTH {
                    let below = listing.subdirectories.iter().take(left);
                    next.extend(below.map(|name| directory.join(name)));
                }
            }
            level = next;
        }
        self.listings.retain(|directory, _| visited.contains(directory));
        found
    }

    fn look(
        &mut self,
        directory: PathBuf,
        visited: &mut HashSet<PathBuf>,
        found: &mut Vec<Holder>,
    ) -> Arc<Listing> {
        let listing = self.listing(&directory);
        let holds = !listing.controls.is_empty() || listing.has_repository;
        let is_new = visited.insert(directory.clone());
        if holds && is_new && found.len() < MAX_HOLDERS {
            self.holders.insert(directory.clone());
            found.push(Holder { directory, listing: Arc::clone(&listing) });
        }
        listing
    }

    fn listing(&mut self, directory: &Path) -> Arc<Listing> {
        let Some(metadata) = fs::symlink_metadata(directory).ok().filter(Metadata::is_dir) else {
            return Arc::default();
        };
        let stamp = (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        if let Some((known, listing)) = self.listings.get(directory)
            && *known == stamp
        {
            return Arc::clone(listing);
        }
        let listing = Arc::new(Listing::read(directory));
        if is_settled(&metadata) {
            self.listings.insert(directory.to_owned(), (stamp, Arc::clone(&listing)));
        } else {
            self.listings.remove(directory);
        }
        listing
    }
}

fn is_settled(metadata: &Metadata) -> bool {
    let changed = u64::try_from(metadata.ctime()).ok();
    let changed = changed.and_then(|seconds| {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds) + SETTLED)
    });
    changed.is_some_and(|settled| settled < SystemTime::now())
}

impl Listing {
    fn read(directory: &Path) -> Self {
        let above = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut listing = Self::default();
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for (count, entry) in entries.enumerate() {
            if MAX_ENTRIES <= count {
                return Self { subdirectories: listing.subdirectories, ..Self::asked(directory) };
            }
            let name = entry.file_name();
            if name.eq_ignore_ascii_case(REPOSITORY) {
                listing.has_repository = true;
            } else if is_control(&above, &name) {
                listing.controls.push(name);
            } else if listing.subdirectories.len() < MAX_DIRECTORIES
                && !DEPENDENCIES.iter().any(|skipped| name == *skipped)
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
            {
                listing.subdirectories.push(name);
            }
        }
        // So that what is found does not depend on the file system's order.
        listing.controls.sort();
        listing.subdirectories.sort();
        listing
    }

    /// Asks for each name: for a directory that has too many.
    fn asked(directory: &Path) -> Self {
        let names = PROTECTED_NAMES.iter().flat_map(ProtectedName::spellings).map(OsString::from);
        Self {
            controls: names.filter(|name| kind(&directory.join(name)).is_some()).collect(),
            has_repository: kind(&directory.join(REPOSITORY)).is_some(),
            subdirectories: Vec::new(),
        }
    }
}

fn is_control(above: &str, name: &OsStr) -> bool {
    let name = name.to_str();
    name.is_some_and(|name| PROTECTED_NAMES.iter().any(|known| known.fits(above, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(survey: &Survey, root: &Path) -> Vec<String> {
        let holders = survey.holders(root).into_iter();
        let below = holders.map(|holder| holder.directory.strip_prefix(root).unwrap().to_owned());
        below.map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn three_levels_are_looked_at_and_dependencies_are_not() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a/b/c/.claude", "a/b/c/d/.claude", "node_modules/x/.vscode", "e/.git"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        assert_eq!(found(&Survey::default(), root.path()), ["e", "a/b/c"]);
    }

    #[test]
    fn what_was_found_stays_found_among_a_hundred_thousand_directories() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("zzz/.claude")).unwrap();
        let survey = Survey::default();
        assert_eq!(found(&survey, root.path()), ["zzz"]);
        for number in 0..MAX_DIRECTORIES + 10 {
            fs::create_dir(root.path().join(format!("d{number:06}"))).unwrap();
        }
        assert_eq!(found(&survey, root.path()), ["zzz"]);
        assert!(found(&Survey::default(), root.path()).is_empty(), "the flood is too small");
    }

    #[test]
    fn a_directory_that_has_settled_is_read_again_only_when_it_changes() {
        let root = tempfile::tempdir().unwrap();
        let metadata = fs::symlink_metadata(root.path()).unwrap();
        assert!(!is_settled(&metadata));
        let stamp = (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        let mut known = Known::default();
        let remembered = Arc::new(Listing { has_repository: true, ..Listing::default() });
        known.listings.insert(root.path().to_owned(), (stamp, Arc::clone(&remembered)));
        assert_eq!(known.listing(root.path()), remembered);
        // The clock of the file system may not have moved on since the directory was made.
        let old = (stamp.0, stamp.1, stamp.2 - 1, stamp.3);
        known.listings.insert(root.path().to_owned(), (old, remembered));
        assert_eq!(*known.listing(root.path()), Listing::default());
        assert!(!known.listings.contains_key(root.path()));
    }
}
