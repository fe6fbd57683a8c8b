//! Reads the ignore files from a root of the workspace down to the searched directory.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::Arc;

use super::rules::{Present, Reader, Rules};
use crate::workspace::Directory;

/// The rules above a directory.
pub(super) struct Above {
    pub(super) rules: Option<Arc<Rules>>,
    /// Whether they leave out the directory itself, or one above it.
    pub(super) leaves_out: bool,
}

/// Reads the ignore files from the open root down to the directory at `to`.
pub(super) fn above(root_path: &Path, root: Directory, to: &Path, reader: &Reader<'_>) -> Above {
    let mut above = Above { rules: Rules::above(root_path), leaves_out: false };
    let (mut here, mut path) = (root, root_path.to_owned());
    for part in to.strip_prefix(root_path).unwrap_or(Path::new("")).components() {
        let Component::Normal(name) = part else { break };
        let present = Present::look(&here);
        above.rules = Rules::within(above.rules.as_ref(), &here, &path, present, reader);
        path.push(name);
        let rules = above.rules.as_deref();
        above.leaves_out |= rules.is_some_and(|rules| rules.leave_out(&path, true));
        let Ok(name) = CString::new(name.as_bytes()) else { break };
        // The searched directory may have moved since it was permitted. It is already open,
        // so the search goes on without the rules further down.
        let Ok(next) = here.open_directory(&name) else { break };
        here = next;
    }
    above
}
