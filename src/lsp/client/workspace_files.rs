//! Visits the files of a workspace, the upper directories first.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Directories with what others wrote, or programs made.
const PASSED_OVER: [&str; 2] = ["node_modules", "target"];

/// An entry of a directory, as a visitor is shown it.
pub(super) enum WorkspaceEntry<'a> {
    File {
        name: &'a Path,
        directory: &'a Path,
    },
    /// A directory that cannot be read, or more entries than are looked at.
    Unknown,
}

/// Visits what is below the roots, until there is an answer or nothing more. Looks at `most`
/// entries of directories. Reads the disk.
pub(super) fn visit_entries<T>(
    roots: &[PathBuf],
    most: usize,
    mut visit: impl FnMut(WorkspaceEntry<'_>) -> ControlFlow<T>,
) -> ControlFlow<T> {
    let mut directories: VecDeque<PathBuf> = roots.iter().cloned().collect();
    let mut looked_at: HashSet<PathBuf> = HashSet::new();
    let mut entries = 0;
    while let Some(directory) = directories.pop_front() {
        if !looked_at.insert(directory.clone()) {
            continue;
        }
        let Ok(listed) = fs::read_dir(&directory) else {
            visit(WorkspaceEntry::Unknown)?;
            continue;
        };
        for entry in listed.flatten() {
            entries += 1;
            if most < entries {
                return visit(WorkspaceEntry::Unknown);
            }
            let name = entry.file_name();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                visit(WorkspaceEntry::File { name: Path::new(&name), directory: &directory })?;
            } else if !is_passed_over(&name) {
                directories.push_back(entry.path());
            }
        }
    }
    ControlFlow::Continue(())
}

/// Whether what is in the directory of this name is not looked at.
fn is_passed_over(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || PASSED_OVER.iter().any(|other| name == *other)
}
