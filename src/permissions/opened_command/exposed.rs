//! Finds what a command that reads could show of the roots, where no mask can hide it.

use std::fs;
use std::path::{Path, PathBuf};

use super::expand::MAX_ENTRIES;

/// Why a command that names no file may show one that is not for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::permissions) enum Exposed {
    File(PathBuf),
    /// There is more in the roots than is looked at, or something that cannot be looked at.
    Unseen,
}

/// The first file below the roots of which `shows` says that it is not for a reader. Links are not
/// followed: the sandbox shows the roots, and of what lies elsewhere only what the system shares.
pub(super) fn exposed<'r>(
    roots: impl Iterator<Item = &'r Path>,
    shows: impl Fn(&Path) -> bool,
) -> Option<Exposed> {
    let mut left = MAX_ENTRIES;
    let mut pending: Vec<PathBuf> = roots.map(Path::to_owned).collect();
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { return Some(Exposed::Unseen) };
        for entry in entries.flatten() {
            let Some(fewer) = left.checked_sub(1) else { return Some(Exposed::Unseen) };
            left = fewer;
            let path = entry.path();
            if shows(&path) {
                return Some(Exposed::File(path));
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && !holds_objects(&path) {
                pending.push(path);
            }
        }
    }
    None
}

/// Whether a repository keeps its objects there, by the thousand and under names that tell nothing.
fn holds_objects(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name);
    path.ends_with("objects") && parent.is_some_and(|parent| parent == ".git")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_must_not_show_is_found_at_any_depth() {
        let ground = tempfile::tempdir().unwrap();
        fs::create_dir_all(ground.path().join("a/b")).unwrap();
        fs::create_dir_all(ground.path().join(".git/objects/ab")).unwrap();
        fs::write(ground.path().join(".git/objects/ab/secret"), "").unwrap();
        let is_secret = |path: &Path| path.ends_with("secret");
        let look = || exposed(std::iter::once(ground.path()), is_secret);
        assert_eq!(look(), None);
        let secret = ground.path().join("a/b/secret");
        fs::write(&secret, "").unwrap();
        assert_eq!(look(), Some(Exposed::File(secret)));
        let missing = ground.path().join("missing");
        assert_eq!(exposed(std::iter::once(&*missing), is_secret), Some(Exposed::Unseen));
    }
}
