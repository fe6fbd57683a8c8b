//! Walks what a recursive command would read.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::FileId;

/// What is below a directory.
#[derive(Clone, Debug, Default)]
pub(in crate::permissions) struct Found {
    /// Files and directories, and what links among them lead to.
    pub(in crate::permissions) paths: Vec<PathBuf>,
    /// There is more than a walk looks at, or something that cannot be looked at.
    pub(in crate::permissions) is_cut: bool,
}

/// Walks the directory, through links as well: some programs follow them. `left` counts down the
/// entries.
pub(super) fn found(directory: &Path, left: &mut usize) -> Found {
    let mut found = Found::default();
    let mut pending = vec![directory.to_owned()];
    let mut visited = HashSet::new();
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            found.is_cut = true;
            continue;
        };
        for entry in entries.flatten() {
            let Some(fewer) = left.checked_sub(1) else {
                return Found { is_cut: true, ..found };
            };
            *left = fewer;
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            found.paths.push(path.clone());
            if kind.is_symlink() {
                // A link that leads nowhere leads to nothing that could be read.
                let Ok(real) = fs::canonicalize(&path) else { continue };
                let Ok(metadata) = fs::metadata(&real) else { continue };
                if metadata.is_dir() && visited.insert(FileId::from_metadata(&metadata)) {
                    pending.push(real.clone());
                }
                found.paths.push(real);
            } else if kind.is_dir() {
                pending.push(path);
            }
        }
    }
    found
}
