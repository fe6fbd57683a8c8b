//! Tells of a repository that begins above the workspace: the sandbox does not show it, and git
//! says only that there is none.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::output_end::printed;
use crate::blocking::FILES;
use crate::processes::Finished;
use crate::protected_names::REPOSITORY;
use crate::text::printable;

/// How git says so, in English and without a sandbox of its own.
const NO_REPOSITORY: &str = "not a git repository";

/// Says where the repository of the workspace begins, if git has missed it because it begins above.
/// `root` is that of the workspace; `None`: no sandbox hides anything.
pub(super) async fn note(finished: &Finished, root: Option<PathBuf>) -> Option<String> {
    let root = root.filter(|_| is_missed(finished))?;
    FILES.run(move || of_workspace(&root)).await.ok().flatten()
}

/// Whether git has found no repository.
fn is_missed(finished: &Finished) -> bool {
    printed(finished).contains(NO_REPOSITORY)
}

/// Reads the disk.
fn of_workspace(root: &Path) -> Option<String> {
    let has_repository = |directory: &Path| directory.join(REPOSITORY).symlink_metadata().is_ok();
    if has_repository(root) {
        return None;
    }
    let top = root.ancestors().skip(1).find(|directory| has_repository(directory))?;
    let top = printable(top.as_os_str().as_bytes());
    Some(format!(
        "(the repository of the workspace begins at {top}, above it, and the sandbox shows no \
         command what lies outside of the workspace. Only the operator can change that, by making \
         {top} the workspace)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_above_is_named_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let root = top.join("packages/one");
        std::fs::create_dir_all(&root).unwrap();
        assert_eq!(of_workspace(&root), None);
        std::fs::create_dir(top.join(".git")).unwrap();
        let told = of_workspace(&root).unwrap();
        assert!(told.contains(&format!("begins at {}, above it", top.display())), "{told}");
        std::fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(of_workspace(&root), None);
    }
}
