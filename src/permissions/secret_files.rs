//! Finds the files below the roots that may hold secrets, so that the sandbox can keep them from
//! commands that nobody has approved. Remembers what it has seen, so that the next command pays
//! one look for each directory that has not changed.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::process::geteuid;

use super::path_lists::SENSITIVE;
use super::path_pattern::PatternRoots;
use super::reached::ReachedPath;
use crate::clock;
use crate::file_id::FileVersion;
use crate::sync;

/// How many directories are looked into, nearest to the roots first, and how many entries of one.
/// To ask whether a directory has changed is one call of the system: half a microsecond, or two or
/// three in a virtual machine.
pub(super) const MAX_DIRECTORIES: usize = 10_000;
const MAX_ENTRIES: usize = 20_000;

/// How many directories of dependencies are looked into besides. They hold the files of others,
/// among them keys for tests; what lies beyond is not masked, and nobody is asked about it.
const MAX_DEPENDENCIES: usize = 500;

/// How many roots are remembered.
const MAX_ROOTS: usize = 64;

/// Whether its owner may look up names in a directory.
const OWNER_SEARCHES: u32 = 0o100;

/// A change within the same tick of the clock as the look makes no other version.
const SETTLING_MS: i64 = 10_000;

/// Package managers and compilers fill these with the files of others.
const DEPENDENCIES: [&str; 5] = ["node_modules", "target", ".venv", "venv", ".tox"];

/// Nothing in these is for people to read. git keeps its data under names of its own.
const SKIPPED: [&str; 2] = ["__pycache__", ".git"];

/// What is known of the roots. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct SecretFiles(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    roots: HashMap<PathBuf, Directory>,
    /// The roots of the last look that came to its end with less than half of what it may look
    /// into.
    roomy: Vec<PathBuf>,
}

/// A directory, and what was in it at the last look.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// How it was then. `None`: it has to be read again.
    version: Option<FileVersion>,
    /// Files, and directories as a whole.
    secrets: Vec<PathBuf>,
    subdirectories: Vec<Directory>,
    /// Those that hold dependencies.
    dependencies: Vec<Directory>,
    is_cut: bool,
    /// It could not be listed.
    is_shut: bool,
}

/// Whether this user may not look there. A command that runs as the owner can change that, so
/// whatever is there may be a secret.
fn is_denied<T>(looked: &io::Result<T>) -> bool {
    looked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct FoundSecrets {
    pub(super) paths: Vec<PathBuf>,
    /// There was more than is looked at. Dependencies do not count.
    pub(super) is_cut: bool,
}

impl SecretFiles {
    /// Those below the roots.
    pub(super) fn below(&self, roots: &PatternRoots) -> FoundSecrets {
        let mut known = sync::lock(&self.0);
        let mut found = FoundSecrets::default();
        let mut left = Left { directories: MAX_DIRECTORIES, dependencies: MAX_DEPENDENCIES };
        for root in &roots.roots {
            let unread = || Directory::unread(root.clone());
            known.roots.entry(root.clone()).or_insert_with(unread);
        }
        let mut directories: HashMap<_, _> = known.roots.iter_mut().collect();
        let tops = roots.roots.iter().filter_map(|root| directories.remove(root)).collect();
        look_through(tops, roots, &mut left, &mut found);
        // With a root closed nothing would run at all.
        let is_top = |path: &PathBuf| roots.roots.contains(path);
        found.is_cut |= found.paths.iter().any(is_top);
        found.paths.retain(|path| !is_top(path));
        if MAX_ROOTS < known.roots.len() {
            known.roots.retain(|root, _| roots.roots.contains(root));
        }
        let is_roomy = !found.is_cut && MAX_DIRECTORIES < 2 * left.directories;
        known.roomy = if is_roomy { roots.roots.clone() } else { Vec::new() };
        // One root may lie in another.
        found.paths.sort();
        found.paths.dedup();
        found
    }

    /// Whether there is more below the roots than is looked at. Looks again, unless the last look
    /// was at the same roots and needed less than half of the directories that it may look into: a
    /// workspace does not double between two commands, and each one that is confined looks.
    pub(super) fn is_cut(&self, roots: &PatternRoots) -> bool {
        let is_roomy = sync::lock(&self.0).roomy == roots.roots;
        !is_roomy && self.below(roots).is_cut
    }
}

/// How many directories may still be looked into.
struct Left {
    directories: usize,
    dependencies: usize,
}

/// Adds what is found in these directories and below: those nearest to any of them first, and
/// dependencies last.
fn look_through(
    mut waiting: VecDeque<&mut Directory>,
    roots: &PatternRoots,
    left: &mut Left,
    found: &mut FoundSecrets,
) {
    let mut of_others = VecDeque::new();
    while let Some(directory) = waiting.pop_front() {
        let Some(fewer) = left.directories.checked_sub(1) else {
            found.is_cut = true;
            break;
        };
        left.directories = fewer;
        directory.refresh(roots);
        found.is_cut |= directory.is_cut;
        found.paths.extend_from_slice(&directory.secrets);
        waiting.extend(&mut directory.subdirectories);
        of_others.extend(&mut directory.dependencies);
    }
    while let Some(directory) = of_others.pop_front() {
        let Some(fewer) = left.dependencies.checked_sub(1) else { break };
        left.dependencies = fewer;
        directory.refresh(roots);
        found.paths.extend_from_slice(&directory.secrets);
        of_others.extend(&mut directory.subdirectories);
        of_others.extend(&mut directory.dependencies);
    }
}

impl Directory {
    fn unread(path: PathBuf) -> Self {
        Self {
            path,
            version: None,
            secrets: Vec::new(),
            subdirectories: Vec::new(),
            dependencies: Vec::new(),
            is_cut: false,
            is_shut: false,
        }
    }

    /// Reads it if it has changed since the last look.
    fn refresh(&mut self, roots: &PatternRoots) {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => metadata,
            looked => {
                let fresh = Self::unread(std::mem::take(&mut self.path));
                *self = fresh;
                if is_denied(&looked) {
                    self.secrets = vec![self.path.clone()];
                }
                return;
            }
        };
        let version = FileVersion::from_metadata(&metadata);
        if self.version != Some(version) {
            self.read(roots);
            let lacks_search = metadata.mode() & OWNER_SEARCHES == 0;
            let is_own = metadata.uid() == geteuid().as_raw() && !geteuid().is_root();
            if is_own && (self.is_shut || lacks_search) {
                self.secrets = vec![self.path.clone()];
            }
            let has_settled = version.has_settled(SETTLING_MS, clock::now_ms());
            self.version = has_settled.then_some(version);
        }
    }

    /// Reads it. What is known of directories in it that are still there stays known.
    fn read(&mut self, roots: &PatternRoots) {
        let fresh = Self::unread(std::mem::take(&mut self.path));
        let before = std::mem::replace(self, fresh);
        let before = before.subdirectories.into_iter().chain(before.dependencies);
        let mut before: HashMap<PathBuf, Self> =
            before.map(|directory| (directory.path.clone(), directory)).collect();
        let entries = fs::read_dir(&self.path);
        self.is_shut = is_denied(&entries);
        for (count, entry) in entries.into_iter().flatten().flatten().enumerate() {
            if MAX_ENTRIES <= count {
                self.is_cut = true;
                break;
            }
            let name = entry.file_name();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = self.path.join(&name);
            if ReachedPath::met(&path, is_directory, roots).on(&SENSITIVE).is_some() {
                self.secrets.push(path);
                continue;
            }
            if !is_directory || SKIPPED.iter().any(|skipped| name == *skipped) {
                continue;
            }
            let directory = before.remove(&path).unwrap_or_else(|| Self::unread(path));
            if DEPENDENCIES.iter().any(|known| name == *known) {
                self.dependencies.push(directory);
            } else {
                self.subdirectories.push(directory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::processes::test_support::again_unprivileged;

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
        let expected = [".env", "a/.aws", "a/b/c/d/key.pem", "node_modules/x/test.pem"];
        assert_eq!(found(&secrets, root), expected);
        fs::write(root.join("a/b/.netrc"), "").unwrap();
        assert_eq!(
            found(&secrets, root),
            [".env", "a/.aws", "a/b/.netrc", "a/b/c/d/key.pem", "node_modules/x/test.pem"]
        );
        fs::remove_file(root.join("a/b/.netrc")).unwrap();
        assert_eq!(found(&secrets, root), expected);
    }

    /// A command could open it again, and read what was not seen to be there.
    #[test]
    fn a_directory_that_cannot_be_looked_into_may_hold_secrets() {
        use std::os::unix::fs::PermissionsExt as _;
        if geteuid().is_root() {
            return;
        }
        let ground = tempfile::tempdir().unwrap();
        for name in ["d/.env", "d/e/.env", "other/file"] {
            let path = ground.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let secrets = SecretFiles::default();
        for (mode, expected) in [
            (0o700, &["d/.env", "d/e/.env"][..]),
            (0, &["d"]),
            (0o300, &["d"]),
            (0o100, &["d"]),
            (0o600, &["d", "d/e"]),
            (0o400, &["d", "d/e"]),
            (0o500, &["d/.env", "d/e/.env"]),
        ] {
            let set = |mode| {
                fs::set_permissions(ground.path().join("d"), fs::Permissions::from_mode(mode))
            };
            set(mode).unwrap();
            let found = found(&secrets, ground.path());
            set(0o700).unwrap();
            assert_eq!(found, expected, "{mode:o}");
        }
    }

    #[test]
    fn a_root_that_cannot_be_listed_is_not_looked_through() {
        use std::os::unix::fs::PermissionsExt as _;
        if geteuid().is_root() {
            return;
        }
        let ground = tempfile::tempdir().unwrap();
        fs::write(ground.path().join(".env"), "").unwrap();
        let set = |mode| fs::set_permissions(ground.path(), fs::Permissions::from_mode(mode));
        set(0o300).unwrap();
        let roots = PatternRoots { home: "/x".into(), roots: vec![ground.path().to_owned()] };
        let found = SecretFiles::default().below(&roots);
        set(0o700).unwrap();
        assert!(found.is_cut && found.paths.is_empty(), "{found:?}");
    }

    /// Runs the ones above as somebody who is nobody.
    #[test]
    fn an_unprivileged_user_closes_them_too() {
        let Some(said) = again_unprivileged(&["secret_files::tests::a_"]) else { return };
        assert!(
            said.contains("a_root_that_cannot_be_listed_is_not_looked_through ... ok"),
            "{said}"
        );
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

    #[test]
    fn the_first_of_two_roots_leaves_room_for_what_is_near_to_the_second() {
        let (large, small) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for number in 0..MAX_DIRECTORIES {
            fs::create_dir_all(large.path().join(format!("a/b/d{number}"))).unwrap();
        }
        fs::create_dir(small.path().join("c")).unwrap();
        fs::write(small.path().join(".env"), "").unwrap();
        fs::write(small.path().join("c/key.pem"), "").unwrap();
        let roots = vec![large.path().to_owned(), small.path().to_owned()];
        let found = SecretFiles::default().below(&PatternRoots { home: "/x".into(), roots });
        assert!(found.is_cut);
        assert_eq!(found.paths, [small.path().join(".env"), small.path().join("c/key.pem")]);
    }

    #[test]
    fn dependencies_have_a_limit_of_their_own() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path();
        for number in 0..MAX_DEPENDENCIES {
            fs::create_dir_all(root.join(format!("node_modules/d{number}/e"))).unwrap();
        }
        fs::write(root.join("node_modules/.npmrc"), "").unwrap();
        fs::create_dir(root.join("z")).unwrap();
        fs::write(root.join("z/.env"), "").unwrap();
        // They end nobody's look at the rest, and are not told.
        assert_eq!(found(&SecretFiles::default(), root), ["node_modules/.npmrc", "z/.env"]);
    }

    #[test]
    fn what_is_known_of_a_directory_stays_known_when_one_beside_it_comes_or_goes() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/.env"), "").unwrap();
        let roots = PatternRoots { home: "/nowhere".into(), roots: vec![root.to_owned()] };
        let mut directory = Directory::unread(root.to_owned());
        let look = |directory: &mut Directory| {
            let mut left = Left { directories: 10, dependencies: 10 };
            let mut found = FoundSecrets::default();
            look_through(VecDeque::from([directory]), &roots, &mut left, &mut found);
            found.paths
        };
        assert_eq!(look(&mut directory), [root.join("a/b/.env")]);
        // As if it were old enough.
        let b = &mut directory.subdirectories[0].subdirectories[0];
        let metadata = fs::symlink_metadata(&b.path).unwrap();
        b.version = Some(FileVersion::from_metadata(&metadata));
        b.secrets = vec![root.join("kept")];
        fs::create_dir(root.join("new")).unwrap();
        assert_eq!(look(&mut directory), [root.join("kept")]);
        fs::remove_dir(root.join("new")).unwrap();
        fs::rename(root.join("a/b"), root.join("a/c")).unwrap();
        assert_eq!(look(&mut directory), [root.join("a/c/.env")]);
    }

    /// A nested root counts twice, and what is in it is told once.
    #[test]
    fn a_root_in_another_one_is_looked_through_as_well() {
        let ground = tempfile::tempdir().unwrap();
        let inner = ground.path().join(".git/inner");
        fs::create_dir_all(inner.join("a")).unwrap();
        fs::create_dir(ground.path().join("b")).unwrap();
        fs::write(inner.join("a/.env"), "").unwrap();
        fs::write(ground.path().join("b/.env"), "").unwrap();
        let all = [ground.path().to_owned(), inner.clone(), ground.path().join("b")];
        let roots = PatternRoots { home: "/nowhere".into(), roots: all.to_vec() };
        let found = SecretFiles::default().below(&roots);
        assert_eq!(found.paths, [inner.join("a/.env"), ground.path().join("b/.env")]);
    }
}
