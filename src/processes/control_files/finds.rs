//! Names what a command has left in the workspace that other programs obey.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::text::{printable, shortened};

/// The most paths of one kind that are named. A checkout changes many.
const MAX_NAMED: usize = 5;

/// The bytes of one path that are shown, and of all paths of one kind. A path in a git index can
/// be longer than any file's.
const MAX_PATH: usize = 200;
const MAX_PATHS: usize = 800;

/// What a command has made or changed that other programs obey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finds {
    found: BTreeSet<Find>,
    /// Some of the workspace was not looked at, because it is too large.
    pub(crate) is_cut: bool,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Find {
    pub(crate) kind: FindKind,
    pub(crate) path: PathBuf,
}

/// What it is. In the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindKind {
    ControlFile,
    /// `.git` at the top of a root that had none.
    TopRepository,
    NestedRepository,
    BareRepository,
    Gitlink,
    /// An index that has changed, and cannot be read for gitlinks.
    UnreadIndex,
    RebaseTodo,
    Remote,
    /// What the settings of a repository name, and was missing.
    SettingsTarget,
    SetId,
}

impl FindKind {
    const ALL: [Self; 10] = [
        Self::ControlFile,
        Self::TopRepository,
        Self::NestedRepository,
        Self::BareRepository,
        Self::Gitlink,
        Self::UnreadIndex,
        Self::RebaseTodo,
        Self::Remote,
        Self::SettingsTarget,
        Self::SetId,
    ];

    /// What one of them is, and several are.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::ControlFile => {
                ["a control file made or changed", "control files made or changed"]
            }
            Self::TopRepository => {
                ["a repository where there was none", "repositories where there were none"]
            }
            Self::NestedRepository => ["a nested repository", "nested repositories"],
            Self::BareRepository => [
                "a directory that git takes for a repository",
                "directories that git takes for repositories",
            ],
            Self::Gitlink => ["a gitlink in a git index", "gitlinks in a git index"],
            Self::UnreadIndex => [
                "a git index that changed and cannot be read",
                "git indexes that changed and cannot be read",
            ],
            Self::RebaseTodo => ["a rebase that runs commands", "rebases that run commands"],
            Self::Remote => {
                ["a remote outside of git's settings", "remotes outside of git's settings"]
            }
            Self::SettingsTarget => [
                "a file that git's settings name and that was missing",
                "files that git's settings name and that were missing",
            ],
            Self::SetId => {
                ["a set-user-id or set-group-id file", "set-user-id or set-group-id files"]
            }
        }
    }

    /// Why it matters.
    fn reason(self) -> &'static str {
        match self {
            Self::ControlFile => "git, editors, shells, package managers or CI run what it says",
            Self::TopRepository | Self::NestedRepository | Self::BareRepository => {
                "git that is used there obeys its settings and hooks"
            }
            Self::Gitlink => "git enters the repository there, and obeys its settings",
            Self::UnreadIndex => "it may hold gitlinks",
            Self::RebaseTodo => "`git rebase --continue` runs them",
            Self::Remote => "`git fetch` and `git pull` obey it by its name",
            Self::SettingsTarget => "git obeys it from now on",
            Self::SetId => "whoever runs it has the rights of its owner or its group",
        }
    }
}

impl Finds {
    pub(super) fn add(&mut self, kind: FindKind, path: PathBuf) {
        self.found.insert(Find { kind, path });
    }

    /// The paths of all finds.
    #[cfg(test)]
    pub(in crate::processes) fn paths(&self) -> Vec<PathBuf> {
        self.found.iter().map(|find| find.path.clone()).collect()
    }

    /// One line for each kind of them: what it is, where, and why it matters.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = FindKind::ALL.into_iter().filter_map(|kind| self.line(kind));
        lines.collect()
    }

    fn line(&self, wanted: FindKind) -> Option<String> {
        let fitting = self.found.iter().filter(|find| find.kind == wanted);
        let paths: Vec<&Path> = fitting.map(|find| find.path.as_path()).collect();
        let [one, several] = wanted.names();
        let what = match paths.len() {
            0 => return None,
            1 => one,
            _ => several,
        };
        let named: Vec<String> = paths
            .iter()
            .take(MAX_NAMED)
            .map(|path| {
                let path = printable(path.as_os_str().as_bytes());
                shortened(&path, MAX_PATH).into_owned()
            })
            .collect();
        let named = named.join(", ");
        let named = shortened(&named, MAX_PATHS);
        let more = match paths.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("{what}: {named}{more} ({})", wanted.reason()))
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn each_kind_is_one_line_and_many_paths_are_counted() {
        let mut finds = Finds::default();
        assert!(finds.lines().is_empty());
        for kind in FindKind::ALL {
            finds.add(kind, "/w/one".into());
        }
        for number in 0..6 {
            finds.add(FindKind::NestedRepository, format!("/w/sub{number}").into());
        }
        finds.add(FindKind::SetId, "/w/a\nb".into());
        assert_snapshot!(finds.lines().join("\n"), @r"
        a control file made or changed: /w/one (git, editors, shells, package managers or CI run what it says)
        a repository where there was none: /w/one (git that is used there obeys its settings and hooks)
        nested repositories: /w/one, /w/sub0, /w/sub1, /w/sub2, /w/sub3 and 2 more (git that is used there obeys its settings and hooks)
        a directory that git takes for a repository: /w/one (git that is used there obeys its settings and hooks)
        a gitlink in a git index: /w/one (git enters the repository there, and obeys its settings)
        a git index that changed and cannot be read: /w/one (it may hold gitlinks)
        a rebase that runs commands: /w/one (`git rebase --continue` runs them)
        a remote outside of git's settings: /w/one (`git fetch` and `git pull` obey it by its name)
        a file that git's settings name and that was missing: /w/one (git obeys it from now on)
        set-user-id or set-group-id files: /w/a\nb, /w/one (whoever runs it has the rights of its owner or its group)
        ");
    }

    #[test]
    fn long_paths_are_cut_and_show_both_ends() {
        let mut finds = Finds::default();
        let long = |number: usize| format!("/w/{number}{}/end", "\u{1b}a".repeat(1_000_000));
        finds.add(FindKind::Gitlink, long(0).into());
        let told = finds.lines().join("\n");
        assert!(told.contains(r": /w/0\u{1b}a") && told.contains("a/end (git enters"), "{told}");
        assert!(told.len() < 320, "{told}");
        for number in 1..9 {
            finds.add(FindKind::Gitlink, long(number).into());
        }
        let told = finds.lines().join("\n");
        assert!(told.contains("a/end and 4 more (git enters"), "{told}");
        assert!(told.len() < 1000, "{told}");
    }

    #[test]
    fn several_of_each_kind_are_named_otherwise_than_one() {
        for kind in FindKind::ALL {
            let [one, several] = kind.names();
            assert_ne!(one, several);
            let mut finds = Finds::default();
            finds.add(kind, "/w/one".into());
            finds.add(kind, "/w/two".into());
            let told = format!("{several}: /w/one, /w/two ({})", kind.reason());
            assert_eq!(finds.lines(), [told]);
        }
    }
}
