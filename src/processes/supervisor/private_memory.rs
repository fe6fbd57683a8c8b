//! Finds what a command has written into the directories in memory that are its own: it is lost
//! when the command has ended.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::views::GIT_SETTINGS;
use crate::processes::bwrap::{self, Mount, SHARED_MEMORY};
use crate::processes::confinement::{Confinement, Level};
use crate::processes::protocol::{DroppedPaths, MAX_DROPPED};

/// Where programs keep copies below home of what they can get or make again, without being asked
/// to. Nobody misses them.
const CACHES: [&str; 21] = [
    ".bash_history",
    ".bundle/cache",
    ".cache",
    ".cargo/.global-cache",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/git",
    ".cargo/registry",
    ".config/configstore",
    ".config/go/telemetry",
    ".gradle",
    ".ivy2/cache",
    ".java",
    ".lesshst",
    ".local/share/pnpm",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".python_history",
    ".wget-hsts",
    "go/pkg",
];

/// How many entries are looked at. A command that makes more is told of the first ones.
const MAX_ENTRIES: usize = 2_000;

/// A path of more bytes is counted and not named.
const MAX_NAME_BYTES: usize = 1_024;

/// The directories in memory of one command.
#[derive(Debug, Default)]
pub(super) struct PrivateMemory {
    directories: Vec<PathBuf>,
    /// What is in them and no loss: caches, and what was mounted there.
    passed_over: Vec<PathBuf>,
    /// The file that the supervisor itself has made there, and its text.
    given: Option<(PathBuf, String)>,
}

impl PrivateMemory {
    /// Those that a confinement makes. One that only reads is expected to leave nothing.
    pub(super) fn of(confinement: Option<&Confinement>) -> Self {
        let confinement = confinement.filter(|it| it.level == Level::Bwrap && !it.reads_only);
        let Some(confinement) = confinement else { return Self::default() };
        let mut directories = vec![PathBuf::from(SHARED_MEMORY)];
        let mut passed_over = CACHES.map(|name| confinement.home.path().join(name)).to_vec();
        for mount in bwrap::mounts(confinement) {
            let place = mount.at().to_owned();
            if matches!(mount, Mount::Memory(_)) {
                directories.push(place);
            } else {
                passed_over.push(place);
            }
        }
        let settings = confinement.git_settings.clone();
        let given = settings.map(|text| (confinement.home.path().join(GIT_SETTINGS), text));
        Self { directories, passed_over, given }
    }

    /// What the command has left in them; `None` if that is nothing. Of a directory that it made
    /// only the name is told.
    pub(super) fn written(&self) -> Option<DroppedPaths> {
        let mut found = Vec::new();
        let mut left = MAX_ENTRIES;
        for directory in &self.directories {
            self.look_into(directory, &mut found, &mut left);
        }
        if found.is_empty() {
            return None;
        }
        found.sort();
        let all = found.len();
        found.retain(|path| path.as_os_str().len() <= MAX_NAME_BYTES);
        found.truncate(MAX_DROPPED);
        let more = all - found.len();
        Some(DroppedPaths { named: found.into_iter().map(Into::into).collect(), more })
    }

    /// Whether this is the supervisor's own file, unchanged.
    fn is_as_given(&self, path: &Path, metadata: &Metadata) -> bool {
        let given = self.given.as_ref().filter(|(given, _)| given == path);
        given.is_some_and(|(_, text)| {
            // A pipe of that name would be waited for.
            metadata.is_file()
                && metadata.len() == text.len() as u64
                && fs::read(path).is_ok_and(|now| now == text.as_bytes())
        })
    }

    /// Goes no deeper than to what it passes over, so the cost does not grow with what was written.
    fn look_into(&self, directory: &Path, found: &mut Vec<PathBuf>, left: &mut usize) {
        let Ok(of_directory) = fs::symlink_metadata(directory) else { return };
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            // Another file system is mounted there.
            let is_mount = metadata.dev() != of_directory.dev();
            let is_no_loss = self.passed_over.contains(&path) || self.is_as_given(&path, &metadata);
            if is_mount || is_no_loss {
                continue;
            }
            let leads_to_others = self.passed_over.iter().any(|it| it.starts_with(&path));
            if metadata.is_dir() && leads_to_others {
                self.look_into(&path, found, left);
            } else {
                found.push(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What is found in a home with these files, directories (`/` at the end) and links (`@`).
    fn found_in(entries: &[&str], mounted: &[&str]) -> Option<(Vec<String>, usize)> {
        let home = tempfile::tempdir().unwrap();
        for entry in entries {
            let path = home.path().join(entry.trim_end_matches(['/', '@']));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match entry.chars().last() {
                Some('/') => fs::create_dir_all(&path).unwrap(),
                Some('@') => symlink("/", &path).unwrap(),
                _ if *entry == GIT_SETTINGS => fs::write(&path, "given").unwrap(),
                _ => fs::write(&path, "x").unwrap(),
            }
        }
        let passed_over = CACHES.iter().chain(mounted).map(|name| home.path().join(name)).collect();
        let given = Some((home.path().join(GIT_SETTINGS), "given".to_owned()));
        let memory =
            PrivateMemory { directories: vec![home.path().to_owned()], passed_over, given };
        let DroppedPaths { named, more } = memory.written()?;
        let below = |path| Path::new(&path).strip_prefix(home.path()).unwrap().to_owned();
        Some((named.into_iter().map(|path| below(path).display().to_string()).collect(), more))
    }

    #[track_caller]
    fn check(entries: &[&str], named: &[&str], more: usize) {
        let found = found_in(entries, &[".local/bin", "w"]);
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found, Some((named, more)), "{entries:?}");
    }

    #[test]
    fn what_was_made_is_named_at_its_top() {
        check(&["note.txt"], &["note.txt"], 0);
        check(&["a/b/c", "a/d"], &["a"], 0);
        check(&["empty/", "link@"], &["empty", "link"], 0);
        check(&["a", "b", "c", "d", "e", "f", "g"], &["a", "b", "c", "d", "e"], 2);
        check(&[".config/pip/pip.conf", ".npmrc"], &[".config/pip", ".npmrc"], 0);
        check(&[".local/bin/tool", ".local/share/x/y"], &[".local/share/x"], 0);
        check(&["w/file", "x"], &["x"], 0);
    }

    #[test]
    fn caches_alone_are_no_loss() {
        for entries in [
            &[][..],
            &[".cache/pip/x", ".npm/_cacache/y", ".config/go/telemetry/z", ".cargo/registry/a"],
            &[".local/bin/tool", "w/file", ".config/"],
            &[GIT_SETTINGS],
        ] {
            assert_eq!(found_in(entries, &[".local/bin", "w"]), None, "{entries:?}");
        }
        check(&[".cache/pip/x", "note.txt"], &["note.txt"], 0);
    }

    #[test]
    fn the_settings_of_git_are_told_once_a_command_has_changed_them() {
        check(&[".gitconfig/"], &[GIT_SETTINGS], 0);
        check(&[".gitconfig@"], &[GIT_SETTINGS], 0);
    }

    #[test]
    fn the_look_is_bounded_and_a_long_name_is_only_counted() {
        let long = "l".repeat(250);
        let deep = format!("w2/{long}/{long}/{long}/{long}/{long}/file");
        let mounted = [&deep[..deep.len() - 5]];
        let file = format!("{}x", &deep[..deep.len() - 6]);
        let found = found_in(&[&file, "a"], &mounted).unwrap();
        assert_eq!(found, (vec!["a".to_owned()], 1));

        let many: Vec<String> = (0..MAX_ENTRIES + 50).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (named, more) = found_in(&many, &[]).unwrap();
        assert_eq!(named.len() + more, MAX_ENTRIES);
    }
}
