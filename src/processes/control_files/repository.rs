//! Protects what of a git repository is not data: programs, and settings that name programs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::observed::worktree;
use super::survey::Survey;
use super::{ControlFiles, REPOSITORY, kind, shut_above};
use crate::processes::git_settings::{self, GitValue, is_include};
use crate::processes::linked_repository::LinkedRepository;
use crate::processes::masks::Placeholder;
use crate::processes::plain_file;

/// Linked worktrees that are looked at.
const MAX_WORKTREES: usize = 200;

/// Names among which linked worktrees are looked for.
const MAX_WORKTREE_NAMES: usize = 20_000;

/// The most of a settings file that is read for paths.
const MAX_SETTINGS: u64 = 256 << 10;

/// How far settings that name others are followed, and how many files for one repository.
const MAX_INCLUDES: usize = 5;
const MAX_SETTINGS_FILES: usize = 50;

/// The kernel opens no longer path.
const MAX_PATH: usize = 4096;

/// Repositories that are looked at.
const MAX_REPOSITORIES: usize = 500;

/// Gitlinks of one index that are looked at.
const MAX_GITLINKS: usize = 500;

impl ControlFiles {
    /// Protects the repository of a directory.
    pub(super) fn worktree(&mut self, directory: &Path) {
        self.observed.worktrees.insert(directory.to_owned());
        self.repository(&directory.join(REPOSITORY), directory);
    }

    /// Reads the indexes of the repositories, and protects those that they link to, wherever these
    /// are: git enters them.
    pub(super) fn indexes(&mut self, survey: &Survey) {
        while let Some((git, top)) = self.unread.pop_first() {
            let index = survey.index(&git);
            let top = top.unwrap_or_else(|| worktree(&git).to_owned());
            if let Ok(gitlinks) = &*index.gitlinks {
                self.observed.is_cut |= MAX_GITLINKS < gitlinks.len();
                for gitlink in gitlinks.iter().take(MAX_GITLINKS) {
                    self.linked(&top, gitlink);
                }
            }
            self.observed.indexes.insert(git, index);
        }
    }

    /// Protects the repository at a gitlink, if there is one.
    fn linked(&mut self, top: &Path, gitlink: &Path) {
        let is_below = gitlink.components().all(|part| matches!(part, Component::Normal(_)));
        let directory = is_below.then(|| without_links_above(&top.join(gitlink))).flatten();
        let Some(directory) = directory else { return };
        let is_inside = self.roots.iter().any(|root| directory.starts_with(root));
        if is_inside && kind(&directory.join(REPOSITORY)).is_some() {
            self.worktree(&directory);
        }
    }

    /// Protects a repository, or the one that a file or a link leads to. `top` is where its files
    /// begin.
    fn repository(&mut self, path: &Path, top: &Path) {
        match kind(path) {
            Some(kind) if kind.is_dir() => self.git_directory(path, Some(top)),
            Some(kind) if kind.is_file() => {
                self.present(path);
                let named = read(path).and_then(|text| {
                    let named = text.strip_prefix("gitdir:")?.trim().to_owned();
                    fs::canonicalize(path.parent()?.join(named)).ok()
                });
                if let Some(target) = named {
                    self.git_directory(&target, Some(top));
                }
            }
            Some(kind) if kind.is_symlink() => {
                if let Some(target) = self.link(path).filter(|target| target.is_dir()) {
                    self.git_directory(&target, Some(top));
                }
            }
            _ => {}
        }
    }

    /// Protects a repository that lies outside of the roots, and in it what is not the root's:
    /// other worktrees.
    pub(super) fn linked_repository(&mut self, linked: &LinkedRepository) {
        self.git_directory(&linked.directory, None);
        let Some(own) = &linked.own else { return };
        for name in ["HEAD", "index"] {
            self.present(&linked.directory.join(name));
        }
        for other in self.linked_worktrees(&linked.directory) {
            if other != *own {
                self.present(&other);
            }
        }
    }

    /// Protects a directory of git.
    pub(super) fn git_directory(&mut self, git: &Path, top: Option<&Path>) {
        let is_inside = self.roots.iter().any(|root| git.starts_with(root));
        if !is_inside || !git.is_dir() || self.repositories.contains(git) {
            return;
        }
        if MAX_REPOSITORIES <= self.repositories.len() {
            self.observed.is_cut = true;
            return;
        }
        self.repositories.insert(git.to_owned());
        if shut_above(&git.join("config")).is_some_and(|shut| shut == git) {
            self.present(git);
            return;
        }
        self.unread.insert(git.to_owned(), top.map(Path::to_owned));
        self.keep(git);
        if kind(&git.join("commondir")).is_some() {
            self.present(&git.join("config.worktree"));
            return self.present(&git.join("commondir"));
        }
        // With it missing, one file would put all of the others aside. Where that would change
        // what git does, the file may come, and is told.
        if !says_what_its_files_are(git) {
            self.protect(&git.join("commondir"), Placeholder::CommonDirectory);
        }
        self.worktree_settings(git, git);
        for name in ["hooks", "modules"] {
            self.protect(&git.join(name), Placeholder::Directory);
        }
        // git reads an empty file as a missing one.
        for name in ["config", "info/attributes"] {
            self.protect(&git.join(name), Placeholder::EmptyFile);
        }
        let worktrees = self.linked_worktrees(git);
        self.worktrees(git, &worktrees);
        self.named_in_settings(git, &self.tops(git, top, &worktrees));
    }

    /// The directories of a repository's linked worktrees. Where there are more than are looked at,
    /// nothing in any of them may be written: not even in the one of a root.
    fn linked_worktrees(&mut self, git: &Path) -> Vec<PathBuf> {
        let worktrees = git.join("worktrees");
        let listing = fs::read_dir(&worktrees);
        if listing.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            self.present(&worktrees);
        }
        let mut entries = listing.into_iter().flatten().flatten();
        let paths = entries.by_ref().take(MAX_WORKTREE_NAMES).map(|entry| entry.path());
        // Directories that git takes for none of its own do not count: anybody can make many.
        let mut found: Vec<PathBuf> = paths.filter(|path| is_linked_worktree(path)).collect();
        found.sort();
        if entries.next().is_some() || MAX_WORKTREES < found.len() {
            found.truncate(MAX_WORKTREES);
            self.observed.is_cut = true;
            self.present(&worktrees);
        }
        found
    }

    /// The directories of linked worktrees say where the settings are, too.
    fn worktrees(&mut self, git: &Path, worktrees: &[PathBuf]) {
        for worktree in worktrees {
            if !self.repositories.contains(worktree) {
                self.unread.entry(worktree.clone()).or_default();
            }
            self.present(&worktree.join("commondir"));
            self.present(&worktree.join("gitdir"));
            self.worktree_settings(git, worktree);
        }
    }

    /// The directories in which git runs with the settings of a repository. Relative paths in them
    /// begin there. What comes with a push runs in git's own.
    fn tops(&self, git: &Path, top: Option<&Path>, worktrees: &[PathBuf]) -> BTreeSet<PathBuf> {
        let of_roots = self.linked.iter().filter(|linked| linked.directory == git);
        let mut tops: BTreeSet<PathBuf> = of_roots.map(|linked| linked.root.clone()).collect();
        tops.extend([git, top.unwrap_or_else(|| worktree(git))].map(Path::to_owned));
        tops.extend(worktrees.iter().filter_map(|own| top_of_worktree(own)));
        tops
    }

    /// Settings of one worktree, which git looks for only where the others say so.
    fn worktree_settings(&mut self, git: &Path, worktree: &Path) {
        let path = worktree.join("config.worktree");
        let settings = read(&git.join("config")).unwrap_or_default();
        if settings.to_ascii_lowercase().contains("worktreeconfig") {
            self.protect(&path, Placeholder::EmptyFile);
        } else {
            self.present(&path);
        }
    }

    /// Directories of hooks and further settings that the repository's settings name, and those
    /// that these name in turn.
    fn named_in_settings(&mut self, git: &Path, tops: &BTreeSet<PathBuf>) {
        self.named_by_person(tops);
        let mut read_already = BTreeSet::new();
        let mut files = vec![git.join("config")];
        for _ in 0..=MAX_INCLUDES {
            let mut included = Vec::new();
            for file in files {
                if MAX_SETTINGS_FILES <= read_already.len() {
                    self.observed.is_cut = true;
                    return;
                }
                if read_already.insert(file.clone()) {
                    included.extend(self.named_in_file(&file, tops));
                }
            }
            files = included;
        }
        self.observed.is_cut |= files.iter().any(|file| !read_already.contains(file));
    }

    /// Protects what the person's own settings name for every repository.
    fn named_by_person(&mut self, tops: &BTreeSet<PathBuf>) {
        for path in self.of_person.clone() {
            for path in tops.iter().filter_map(|top| without_links_above(&top.join(&path))) {
                if !tops.contains(&path) {
                    self.named(path);
                }
            }
        }
    }

    /// Protects what one file of settings names. Returns the settings in the roots among it.
    fn named_in_file(&mut self, file: &Path, tops: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let Some((settings, directory)) = read(file).zip(file.parent()) else { return Vec::new() };
        let mut included = Vec::new();
        for GitValue { section, key, value } in git_settings::values(&settings) {
            let is_include = is_include(&section) && key == "path";
            let bases: Vec<&Path> = match (section.as_str(), key.as_str()) {
                ("core", "hookspath" | "attributesfile") => {
                    tops.iter().map(PathBuf::as_path).collect()
                }
                _ if is_include => vec![directory],
                _ => continue,
            };
            for path in bases.iter().filter_map(|base| without_links_above(&base.join(&value))) {
                if tops.contains(&path) {
                    continue;
                }
                if is_include {
                    let real = fs::canonicalize(&path).ok();
                    included.extend(real.filter(|real| self.is_below_root(real)));
                }
                self.named(path);
            }
        }
        included
    }

    fn is_below_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root) && path != root)
    }

    /// Protects a path that settings name, if it lies in a root.
    fn named(&mut self, path: PathBuf) {
        if !self.is_below_root(&path) {
            return;
        }
        if kind(&path).is_none() {
            self.observed.missing_targets.insert(path);
        } else {
            self.present(&path);
        }
    }
}

/// Whether git can take a directory for the one of a linked worktree.
fn is_linked_worktree(path: &Path) -> bool {
    let is_directory = kind(path).is_some_and(|kind| kind.is_dir());
    is_directory && ["gitdir", "commondir"].iter().any(|name| kind(&path.join(name)).is_some())
}

/// The top of a linked worktree, by its directory in the repository.
fn top_of_worktree(own: &Path) -> Option<PathBuf> {
    let named = read(&own.join("gitdir"))?;
    fs::canonicalize(own.join(named.trim_end()).parent()?).ok()
}

/// Whether settings of a repository say where its files are, or that it has none. git takes no
/// notice of that beside a `commondir`, even of one that names the repository itself.
fn says_what_its_files_are(git: &Path) -> bool {
    let files = ["config", "config.worktree"].iter().filter_map(|name| read(&git.join(name)));
    let mut values = files.flat_map(|text| git_settings::values(&text));
    values.any(|GitValue { section, key, value }| match (section.as_str(), key.as_str()) {
        ("core", "worktree") => true,
        // Of a directory with another name git says so by itself.
        ("core", "bare") => git.ends_with(REPOSITORY) && !is_no(&value),
        _ => false,
    })
}

fn is_no(value: &str) -> bool {
    ["false", "no", "off", "0"].iter().any(|no| value.eq_ignore_ascii_case(no))
}

/// The path with every link resolved but the last one. Directories above it may be missing.
fn without_links_above(path: &Path) -> Option<PathBuf> {
    if MAX_PATH < path.as_os_str().len() {
        return None;
    }
    path.file_name()?;
    for above in path.ancestors().skip(1) {
        match fs::canonicalize(above) {
            Ok(real) => return Some(real.join(path.strip_prefix(above).ok()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    None
}

fn read(path: &Path) -> Option<String> {
    let text = plain_file::read(path, MAX_SETTINGS).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
