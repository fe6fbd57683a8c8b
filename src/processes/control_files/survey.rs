//! Looks for directories that hold control files, repositories or set-user-id files, some levels
//! below a root. Remembers what it has seen, so that the next command pays one look for each
//! directory, and each index of git, that has not changed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::git_index;
use super::kind;
use super::observed::Index;
use crate::clock;
use crate::file_id::FileVersion;
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

/// A change within the same tick of the clock as the look makes no other version.
const SETTLING_MS: i64 = 10_000;

/// Indexes that are remembered.
const MAX_INDEXES: usize = 500;

/// Files of directories that have changed whose modes are looked at, for one root.
const MAX_MODES: usize = 10_000;

/// Set-user-id and set-group-id.
const SETS_ID: u32 = 0o6000;

/// Package managers and compilers fill these, and programs run what is in them anyway.
const DEPENDENCIES: [&str; 10] = [
    "node_modules",
    "bower_components",
    "vendor",
    "Pods",
    "target",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
    ".nox",
];

/// What git takes a directory for a repository by, where there is no `.git`: the first and the
/// others side by side, or the first and a file that names where the others are.
const HEAD: &str = "HEAD";
const BESIDE_HEAD: [&str; 2] = ["objects", "refs"];
const COMMON_DIRECTORY: &str = "commondir";

/// What one directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) controls: Vec<OsString>,
    pub(super) has_repository: bool,
    /// Whether git takes the directory itself for a repository.
    pub(super) is_bare: bool,
    /// Set-user-id and set-group-id files.
    pub(super) set_id: Vec<OsString>,
    subdirectories: Vec<OsString>,
    /// There are more subdirectories than are looked at.
    is_cut: bool,
}

/// What was found in a root.
#[derive(Debug, Default)]
pub(super) struct SurveyedRoot {
    /// The directories that hold control files or are repositories.
    pub(super) holders: Vec<Holder>,
    /// Set-user-id and set-group-id files.
    pub(super) set_id: Vec<PathBuf>,
    /// There are more directories than are looked at.
    pub(super) is_cut: bool,
}

/// A directory that holds control files.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) directory: PathBuf,
    pub(super) listing: Arc<Listing>,
}

/// What is known of all roots.
#[derive(Debug, Default)]
pub(in crate::processes) struct Survey {
    roots: Mutex<HashMap<PathBuf, Arc<Mutex<Known>>>>,
    /// By the directory of git that each is in.
    indexes: Mutex<HashMap<PathBuf, Index>>,
}

/// What is known of one root.
#[derive(Debug, Default)]
struct Known {
    listings: HashMap<PathBuf, (FileVersion, Arc<Listing>)>,
    /// Those that have been found. A command that makes thousands of directories does not make
    /// the sandbox forget them.
    holders: BTreeSet<PathBuf>,
}

impl Survey {
    /// What is in a root, itself included.
    pub(super) fn look(&self, root: &Path) -> SurveyedRoot {
        let remembered = {
            let mut roots = sync::lock(&self.roots);
            if MAX_ROOTS <= roots.len() && !roots.contains_key(root) {
                roots.clear();
            }
            Arc::clone(roots.entry(root.to_owned()).or_default())
        };
        sync::lock(&remembered).look_below(root)
    }

    /// The index in a directory of git.
    pub(super) fn index(&self, git: &Path) -> Index {
        let path = git.join("index");
        let metadata = fs::symlink_metadata(&path).ok();
        let version = metadata.as_ref().map(FileVersion::from_metadata);
        let known = sync::lock(&self.indexes).get(git).cloned();
        if let Some(known) = known.filter(|known| known.version == version) {
            return known;
        }
        let index = Index { version, gitlinks: Arc::new(git_index::gitlinks(&path)) };
        let mut indexes = sync::lock(&self.indexes);
        if MAX_INDEXES <= indexes.len() {
            indexes.clear();
        }
        if version.as_ref().is_none_or(is_settled) {
            indexes.insert(git.to_owned(), index.clone());
        } else {
            indexes.remove(git);
        }
        index
    }
}

/// One look at a root.
struct Look<'a> {
    known: &'a mut Known,
    /// The files whose modes may still be looked at.
    modes_left: usize,
    visited: HashSet<PathBuf>,
    found: SurveyedRoot,
}

impl Known {
    fn look_below(&mut self, root: &Path) -> SurveyedRoot {
        self.look_below_with(root, MAX_MODES)
    }

    /// Looks at the modes of this many files at most.
    fn look_below_with(&mut self, root: &Path, modes_left: usize) -> SurveyedRoot {
        let mut look = Look {
            known: self,
            modes_left,
            visited: HashSet::new(),
            found: SurveyedRoot::default(),
        };
        for directory in look.known.holders.clone() {
            look.at(directory);
        }
        let mut level = vec![root.to_owned()];
        for depth in 0..=DEPTH {
            let mut next = Vec::new();
            for directory in level {
                let listing = look.at(directory.clone());
                let left = MAX_DIRECTORIES.saturating_sub(look.visited.len() + next.len());
                look.found.is_cut |= listing.is_cut;
                if depth < DEPTH {
                    look.found.is_cut |= left < listing.subdirectories.len();
                    let below = listing.subdirectories.iter().take(left);
                    next.extend(below.map(|name| directory.join(name)));
                }
            }
            level = next;
        }
        let Look { visited, found, .. } = look;
        // Some have gone. To look for them each time would cost as much as the look itself.
        if visited.len() < self.listings.len() {
            self.listings.retain(|directory, _| visited.contains(directory));
        }
        found
    }
}

impl Look<'_> {
    fn at(&mut self, directory: PathBuf) -> Arc<Listing> {
        let listing = self.listing(&directory);
        let is_new = self.visited.insert(directory.clone());
        if !is_new {
            return listing;
        }
        for name in &listing.set_id {
            self.found.set_id.push(directory.join(name));
        }
        let holds = !listing.controls.is_empty() || listing.has_repository || listing.is_bare;
        if holds && self.found.holders.len() < MAX_HOLDERS {
            self.known.holders.insert(directory.clone());
            self.found.holders.push(Holder { directory, listing: Arc::clone(&listing) });
        } else {
            self.found.is_cut |= holds;
        }
        listing
    }

    fn listing(&mut self, directory: &Path) -> Arc<Listing> {
        let Some(metadata) = fs::symlink_metadata(directory).ok().filter(Metadata::is_dir) else {
            return Arc::default();
        };
        let version = FileVersion::from_metadata(&metadata);
        if let Some((known, listing)) = self.known.listings.get(directory)
            && *known == version
        {
            return Arc::clone(listing);
        }
        let listing = Arc::new(Listing::read(directory, |file| self.sets_id(file)));
        if is_settled(&version) {
            let kept = (version, Arc::clone(&listing));
            self.known.listings.insert(directory.to_owned(), kept);
        } else {
            self.known.listings.remove(directory);
        }
        listing
    }

    /// Whether whoever runs a file has the rights of its owner or its group.
    fn sets_id(&mut self, file: &DirEntry) -> bool {
        let Some(fewer) = self.modes_left.checked_sub(1) else {
            self.found.is_cut = true;
            return false;
        };
        self.modes_left = fewer;
        file.metadata().is_ok_and(|metadata| metadata.mode() & SETS_ID != 0)
    }
}

fn is_settled(version: &FileVersion) -> bool {
    version.has_settled(SETTLING_MS, clock::now_ms())
}

impl Listing {
    /// Reads a directory, once. `sets_id` looks at the mode of a file.
    fn read(directory: &Path, mut sets_id: impl FnMut(&DirEntry) -> bool) -> Self {
        let above = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut listing = Self::default();
        let mut of_repository = Vec::new();
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            // Who knows a name may still use it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Self::asked(directory);
            }
            Err(_) => return listing,
        };
        for (count, entry) in entries.flatten().enumerate() {
            if MAX_ENTRIES <= count {
                let Self { set_id, subdirectories, .. } = listing;
                return Self { set_id, subdirectories, ..Self::asked(directory) };
            }
            let name = entry.file_name();
            let kind = entry.file_type().ok();
            if kind.is_some_and(|kind| kind.is_file()) && sets_id(&entry) {
                listing.set_id.push(name.clone());
            }
            of_repository.extend(name.to_str().and_then(of_bare_repository));
            if name.eq_ignore_ascii_case(REPOSITORY) {
                listing.has_repository = true;
            } else if is_control(&above, &name) {
                listing.controls.push(name);
            } else if !DEPENDENCIES.iter().any(|skipped| name == *skipped)
                && kind.is_some_and(|kind| kind.is_dir())
            {
                if listing.subdirectories.len() < MAX_DIRECTORIES {
                    listing.subdirectories.push(name);
                } else {
                    listing.is_cut = true;
                }
            }
        }
        listing.is_bare = is_bare(|name| of_repository.contains(&name));
        // So that what is found does not depend on the file system's order.
        listing.controls.sort();
        listing.subdirectories.sort();
        listing
    }

    /// Asks for each name: for a directory that has too many, or does not tell them.
    fn asked(directory: &Path) -> Self {
        let names = PROTECTED_NAMES.iter().flat_map(ProtectedName::spellings).map(OsString::from);
        // Of a repository only parts are read-only, or nobody could commit.
        let is_there =
            |name: &OsString| *name != *REPOSITORY && kind(&directory.join(name)).is_some();
        Self {
            controls: names.filter(is_there).collect(),
            has_repository: kind(&directory.join(REPOSITORY)).is_some(),
            is_bare: is_bare(|name| kind(&directory.join(name)).is_some()),
            set_id: Vec::new(),
            subdirectories: Vec::new(),
            is_cut: true,
        }
    }
}

/// The name, if it is one of those by which git takes a directory for a repository.
fn of_bare_repository(name: &str) -> Option<&'static str> {
    let mut known = BESIDE_HEAD.into_iter().chain([HEAD, COMMON_DIRECTORY]);
    known.find(|known| *known == name)
}

/// Whether git takes a directory that has these names for a repository.
fn is_bare(has: impl Fn(&'static str) -> bool) -> bool {
    has(HEAD) && (BESIDE_HEAD.into_iter().all(&has) || has(COMMON_DIRECTORY))
}

fn is_control(above: &str, name: &OsStr) -> bool {
    let name = name.to_str();
    name.is_some_and(|name| PROTECTED_NAMES.iter().any(|known| known.fits(above, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(survey: &Survey, root: &Path) -> Vec<String> {
        let holders = survey.look(root).holders.into_iter();
        let below = holders.map(|holder| holder.directory.strip_prefix(root).unwrap().to_owned());
        below.map(|path| path.display().to_string()).collect()
    }

    fn listing(known: &mut Known, directory: &Path) -> Arc<Listing> {
        let (visited, found) = (HashSet::new(), SurveyedRoot::default());
        Look { known, modes_left: 0, visited, found }.listing(directory)
    }

    #[test]
    fn three_levels_are_looked_at_and_dependencies_are_not() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a/b/c/.claude", "a/b/c/d/.claude", "node_modules/x/.vscode", "e/.git"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        for name in ["HEAD", "objects", "refs"] {
            fs::create_dir_all(root.path().join("bare").join(name)).unwrap();
            fs::create_dir_all(root.path().join("vendor/bare").join(name)).unwrap();
        }
        for name in ["half/objects", "half/HEAD", "other/commondir", "other/refs", "split/HEAD"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        fs::write(root.path().join("split/commondir"), "../half\n").unwrap();
        assert_eq!(found(&Survey::default(), root.path()), ["bare", "e", "split", "a/b/c"]);
    }

    #[test]
    fn set_user_id_and_set_group_id_files_are_found() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("tool");
        fs::write(&path, "").unwrap();
        let survey = Survey::default();
        let look = || survey.look(root.path()).set_id;
        assert!(look().is_empty());
        for mode in [0o4755, 0o2755] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(look(), std::slice::from_ref(&path));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1755)).unwrap();
        assert!(look().is_empty());
    }

    #[test]
    fn the_modes_of_a_directory_s_files_are_looked_at_as_it_is_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("tool");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        let mut asked = 0;
        let count_files = |_: &DirEntry| {
            asked += 1;
            true
        };
        let listing = Listing::read(root.path(), count_files);
        assert_eq!((listing.set_id, asked), (vec![OsString::from("tool")], 1));
        let none_left = Known::default().look_below_with(root.path(), 0);
        assert!(none_left.set_id.is_empty() && none_left.is_cut);
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
        let unknown = Survey::default().look(root.path());
        assert!(unknown.holders.is_empty() && unknown.is_cut, "the flood is too small");
    }

    #[test]
    fn a_directory_that_has_settled_is_read_again_only_when_it_changes() {
        let root = tempfile::tempdir().unwrap();
        let metadata = fs::symlink_metadata(root.path()).unwrap();
        let version = FileVersion::from_metadata(&metadata);
        assert!(!is_settled(&version));
        let mut known = Known::default();
        let remembered = Arc::new(Listing { has_repository: true, ..Listing::default() });
        known.listings.insert(root.path().to_owned(), (version, Arc::clone(&remembered)));
        assert_eq!(listing(&mut known, root.path()), remembered);
        // The clock of the file system may not have moved on since the directory was made.
        let other = tempfile::tempdir().unwrap();
        let old = FileVersion::from_metadata(&fs::symlink_metadata(other.path()).unwrap());
        known.listings.insert(root.path().to_owned(), (old, remembered));
        assert_eq!(*listing(&mut known, root.path()), Listing::default());
        assert!(!known.listings.contains_key(root.path()));
    }
}
