//! Protects what of a git repository is not data: programs, and settings that name programs.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{ControlFiles, kind};
use crate::processes::linked_repository::LinkedRepository;
use crate::processes::masks::Placeholder;

/// Linked worktrees that are looked at.
const MAX_WORKTREES: usize = 200;

/// The most of a settings file that is read for paths.
const MAX_SETTINGS: u64 = 256 << 10;

impl ControlFiles {
    /// Protects a repository, or the one that a file or a link leads to.
    pub(super) fn repository(&mut self, path: &Path) {
        match kind(path) {
            Some(kind) if kind.is_dir() => self.git_directory(path),
            Some(kind) if kind.is_file() => {
                self.present(path);
                let named = read(path).and_then(|text| {
                    let named = text.strip_prefix("gitdir:")?.trim().to_owned();
                    fs::canonicalize(path.parent()?.join(named)).ok()
                });
                if let Some(target) = named {
                    self.git_directory(&target);
                }
            }
            Some(kind) if kind.is_symlink() => {
                if let Some(target) = self.link(path).filter(|target| target.is_dir()) {
                    self.git_directory(&target);
                }
            }
            _ => {}
        }
    }

    /// Protects a repository that lies outside of the roots, and in it what is not the root's:
    /// other worktrees.
    pub(super) fn linked(&mut self, linked: &LinkedRepository) {
        self.git_directory(&linked.directory);
        let Some(own) = &linked.own else { return };
        for name in ["HEAD", "index"] {
            self.present(&linked.directory.join(name));
        }
        for other in worktrees(&linked.directory).filter(|other| other != own) {
            self.present(&other);
        }
    }

    fn git_directory(&mut self, git: &Path) {
        let is_inside = self.roots.iter().any(|root| git.starts_with(root));
        if !is_inside || !git.is_dir() || !self.repositories.insert(git.to_owned()) {
            return;
        }
        self.keep(git);
        if kind(&git.join("commondir")).is_some() {
            self.present(&git.join("config.worktree"));
            return self.present(&git.join("commondir"));
        }
        // With it missing, one file would put all of the others aside.
        self.protect(&git.join("commondir"), Placeholder::CommonDirectory);
        self.worktree_settings(git, git);
        for name in ["hooks", "modules"] {
            self.protect(&git.join(name), Placeholder::Directory);
        }
        // git reads an empty file as a missing one.
        for name in ["config", "info/attributes"] {
            self.protect(&git.join(name), Placeholder::EmptyFile);
        }
        self.worktrees(git);
        self.named_in_settings(git);
    }

    /// The directories of linked worktrees say where the settings are, too.
    fn worktrees(&mut self, git: &Path) {
        for worktree in worktrees(git) {
            self.present(&worktree.join("commondir"));
            self.present(&worktree.join("gitdir"));
            self.worktree_settings(git, &worktree);
        }
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

    /// Directories of hooks and further settings that the repository's settings name.
    fn named_in_settings(&mut self, git: &Path) {
        let Some(settings) = read(&git.join("config")) else { return };
        let worktree = git.parent().unwrap_or(git);
        for (key, value) in settings.lines().filter_map(setting) {
            let base = match key.as_str() {
                "hookspath" | "attributesfile" => worktree,
                "path" => git,
                _ => continue,
            };
            if let Some(path) = without_links_above(&base.join(value))
                && self.roots.iter().any(|root| path.starts_with(root) && path != *root)
                && path != worktree
            {
                self.present(&path);
            }
        }
    }
}

/// The directories of a repository's linked worktrees.
fn worktrees(git: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten();
    let paths = entries.take(MAX_WORKTREES).map(|entry| entry.path());
    paths.filter(|path| kind(path).is_some_and(|kind| kind.is_dir()))
}

/// A key in lower case, and its value without quotes.
fn setting(line: &str) -> Option<(String, &str)> {
    let (key, value) = line.split_once('=')?;
    // The key may stand behind the name of its section.
    let key = key.rsplit_once(']').map_or(key, |(_, key)| key);
    Some((key.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
}

/// The path with every link resolved but the last one.
fn without_links_above(path: &Path) -> Option<PathBuf> {
    Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?))
}

fn read(path: &Path) -> Option<String> {
    let is_file = kind(path).is_some_and(|kind| kind.is_file());
    let mut text = Vec::new();
    is_file
        .then(|| fs::File::open(path).ok()?.take(MAX_SETTINGS).read_to_end(&mut text).ok())??;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_key_and_a_value() {
        let check = |line, key: &str, value| assert_eq!(setting(line), Some((key.into(), value)));
        check("\thooksPath = .githooks", "hookspath", ".githooks");
        check("[include] path=\"../shared\"", "path", "../shared");
        assert_eq!(setting("[core]"), None);
    }
}
