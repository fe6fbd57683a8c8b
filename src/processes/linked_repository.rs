//! Finds the repository of a root that is a linked worktree or a submodule: it lies elsewhere,
//! and git cannot do without it.

use std::fs;
use std::path::{Path, PathBuf};

use super::{git_settings, plain_file};
use crate::protected_names::REPOSITORY;

/// The most of a file that is read for a path.
const MAX_BYTES: u64 = 64 << 10;

/// The system's directories for temporary files. Anybody can make a repository there that names a
/// root as its own.
const OF_EVERYBODY: [&str; 2] = ["/tmp", "/var/tmp"];

/// A repository outside of a root, of which that root is a worktree. Commands write there as git
/// does; what other programs obey in it is protected as in a repository that lies in a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkedRepository {
    pub(super) root: PathBuf,
    /// The directory with the objects and settings.
    pub(super) directory: PathBuf,
    /// Of a linked worktree, the directory in the repository that is its own.
    pub(super) own: Option<PathBuf>,
}

impl LinkedRepository {
    /// Reads the disk. What the root says counts only where the repository says the same of the
    /// root: whoever can write the root could name any repository.
    pub(super) fn of(root: &Path) -> Option<Self> {
        let file = root.join(REPOSITORY);
        let named = read_line(&file)?;
        let named = named.strip_prefix("gitdir:")?.trim();
        let directory = fs::canonicalize(root.join(named)).ok()?;
        let found = Self::of_worktree(&directory, &file, root)
            .or_else(|| Self::of_submodule(&directory, root))?;
        let is_apart = !found.directory.starts_with(root) && !root.starts_with(&found.directory);
        (is_apart && !is_of_everybody(&found.directory, root)).then_some(found)
    }

    /// Those of all roots that lie in none of them.
    pub(super) fn of_all(roots: &[PathBuf]) -> Vec<Self> {
        let lies_outside =
            |linked: &Self| !roots.iter().any(|root| linked.directory.starts_with(root));
        let mut all: Vec<Self> = Vec::new();
        for linked in roots.iter().filter_map(|root| Self::of(root)).filter(lies_outside) {
            if !all.contains(&linked) {
                all.push(linked);
            }
        }
        all
    }

    /// `own` is `worktrees/NAME` of a repository, and names the `.git` of the root.
    fn of_worktree(own: &Path, file: &Path, root: &Path) -> Option<Self> {
        let back = read_line(&own.join("gitdir"))?;
        let is_its_own = fs::canonicalize(own.join(back)).ok()? == fs::canonicalize(file).ok()?;
        let worktrees = own.parent().filter(|parent| parent.ends_with("worktrees"))?;
        let directory = worktrees.parent()?;
        let common = fs::canonicalize(own.join(read_line(&own.join("commondir"))?)).ok()?;
        let root = root.to_owned();
        let found = Self { root, directory: directory.to_owned(), own: Some(own.to_owned()) };
        (is_its_own && common == directory && is_repository(directory)).then_some(found)
    }

    /// The settings of a submodule's repository name the root.
    fn of_submodule(directory: &Path, root: &Path) -> Option<Self> {
        let settings = read(&directory.join("config"))?;
        let mut values = git_settings::values(&settings).into_iter();
        // git takes the last one.
        let named = values.rfind(|it| it.section == "core" && it.key == "worktree")?;
        let worktree = fs::canonicalize(directory.join(named.value)).ok()?;
        let is_its_own = worktree == fs::canonicalize(root).ok()?;
        let root = root.to_owned();
        let found = Self { root, directory: directory.to_owned(), own: None };
        (is_its_own && is_repository(directory)).then_some(found)
    }
}

/// Whether a repository lies among temporary files, and its root does not.
fn is_of_everybody(directory: &Path, root: &Path) -> bool {
    OF_EVERYBODY.iter().any(|shared| directory.starts_with(shared) && !root.starts_with(shared))
}

fn is_repository(directory: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| directory.join(name).exists())
}

/// The text of a file of one line.
fn read_line(path: &Path) -> Option<String> {
    let text = read(path)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    (!line.contains('\n')).then(|| line.to_owned())
}

fn read(path: &Path) -> Option<String> {
    String::from_utf8(plain_file::read(path, MAX_BYTES).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A repository with a linked worktree, as git makes them.
    fn linked() -> (TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let (repository, root) = (base.join("main/.git"), base.join("linked"));
        for name in ["objects", "refs", "worktrees/linked"] {
            fs::create_dir_all(repository.join(name)).unwrap();
        }
        fs::create_dir(&root).unwrap();
        let own = repository.join("worktrees/linked");
        fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}/.git\n", root.display())).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(root.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        (directory, repository, root)
    }

    #[test]
    fn a_linked_worktree_has_its_repository_and_a_directory_of_its_own_there() {
        let (_directory, repository, root) = linked();
        let found = LinkedRepository::of(&root).unwrap();
        assert_eq!(found.directory, repository);
        assert_eq!(found.own, Some(repository.join("worktrees/linked")));
        assert_eq!(LinkedRepository::of(repository.parent().unwrap()), None);
    }

    #[test]
    fn a_repository_that_does_not_name_the_root_is_not_its_own() {
        let (directory, repository, root) = linked();
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::copy(root.join(".git"), other.join(".git")).unwrap();
        assert_eq!(LinkedRepository::of(&other), None);

        let own = repository.join("worktrees/linked");
        fs::write(own.join("commondir"), "../../..\n").unwrap();
        assert_eq!(LinkedRepository::of(&root), None);
        fs::write(own.join("commondir"), "../..\n").unwrap();
        assert!(LinkedRepository::of(&root).is_some());
        fs::remove_file(repository.join("HEAD")).unwrap();
        assert_eq!(LinkedRepository::of(&root), None);
    }

    #[test]
    fn a_repository_among_temporary_files_is_only_of_roots_that_are_there() {
        let check = |directory: &str, root: &str, expected: bool| {
            assert_eq!(is_of_everybody(Path::new(directory), Path::new(root)), expected, "{root}");
        };
        check("/tmp/rep", "/home/me/project", true);
        check("/var/tmp/rep/.git", "/home/me/project", true);
        check("/tmp/rep", "/tmp/project", false);
        check("/home/me/rep/.git", "/home/me/project", false);
        check("/home/me/rep/.git", "/tmp/project", false);
        check("/tmpfiles/rep", "/home/me/project", false);
    }

    #[test]
    fn a_submodule_has_the_repository_whose_settings_name_it() {
        let (directory, repository, _) = linked();
        let root = directory.path().canonicalize().unwrap().join("main/part");
        fs::create_dir(&root).unwrap();
        let settings = "[core]\n\tbare = false\n\tworktree = ../part\n";
        fs::write(repository.join("config"), settings).unwrap();
        fs::write(root.join(".git"), "gitdir: ../.git\n").unwrap();
        let found = LinkedRepository::of(&root).unwrap();
        assert_eq!((&found.directory, found.own), (&repository, None));
        let check = |settings: &str, expected: bool| {
            fs::write(repository.join("config"), settings).unwrap();
            assert_eq!(LinkedRepository::of(&root).is_some(), expected, "{settings}");
        };
        check("[core]\n\tworktree = ../elsewhere\n", false);
        check("[core]\nworktree = ../part\nworktree = ../elsewhere\n", false);
        check("[core]\nworktree = ../elsewhere\n[Core] WorkTree = \"../part\" # here\n", true);
        check("[other]\nworktree = ../part\n", false);
        check("[core]\nworktree = ../part\n[core \"x\"]\nworktree = ../elsewhere\n", true);
    }
}
