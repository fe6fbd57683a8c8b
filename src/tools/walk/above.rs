//! Reads the ignore files from a root of the workspace down to the searched directory.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::ignore_files::{Reader, rules_of_a_walk};
use super::rules::{Present, Rules};
use super::{Bounds, TIME_LIMIT};
use crate::workspace::Directory;

/// The rules above a directory.
pub(super) struct Above {
    pub(super) rules: Option<Arc<Rules>>,
    /// Whether they leave out the directory itself, or one above it.
    pub(super) leaves_out: bool,
    /// Whether they leave out all that is in it, whatever its name, as `scripts/*` does. Never
    /// true of the root itself.
    pub(super) leaves_out_entries: bool,
}

/// A name that no rule has in mind.
const ANY_NAME: &str = "any name\u{1}";

/// Reads the ignore files from the open root down to the directory at `to`. What they leave out is
/// told of the directory that the names of `inside` lead to from there.
pub(super) fn above(
    root_path: &Path,
    root: Directory,
    to: &Path,
    inside: &[String],
    reader: &Reader<'_>,
) -> Above {
    let mut above =
        Above { rules: Rules::above(root_path), leaves_out: false, leaves_out_entries: false };
    let mut descent =
        Descent { here: root, path: root_path.to_owned(), rules: above.rules.clone() };
    let mut has_arrived = true;
    for part in to.strip_prefix(root_path).unwrap_or(Path::new("")).components() {
        let Component::Normal(name) = part else { break };
        let step = descent.enter(name, reader);
        above.rules.clone_from(&descent.rules);
        above.leaves_out |= step.leaves_out;
        // The searched directory may have moved since it was permitted. It is already open,
        // so the search goes on without the rules further down.
        if !step.is_open {
            has_arrived = false;
            break;
        }
    }
    // The walk reads the ignore files from here on itself, and tells of them.
    let (bounds, rules_left) = (Bounds::new(TIME_LIMIT), rules_of_a_walk());
    let reader = Reader { bounds: &bounds, rules_left: &rules_left, is_too_deep: false };
    for name in inside {
        if !has_arrived {
            break;
        }
        let step = descent.enter(OsStr::new(name), &reader);
        above.leaves_out |= step.leaves_out;
        has_arrived = step.is_open;
    }
    if has_arrived && descent.path != root_path {
        above.leaves_out_entries = descent.leaves_out_entries(&reader);
    }
    above
}

/// A directory on the way down, and the rules above it.
struct Descent {
    here: Directory,
    path: PathBuf,
    rules: Option<Arc<Rules>>,
}

/// One step of a descent.
struct Step {
    /// Whether the rules leave out the directory that was entered.
    leaves_out: bool,
    is_open: bool,
}

impl Descent {
    fn enter(&mut self, name: &OsStr, reader: &Reader<'_>) -> Step {
        self.rules = self.rules_here(reader);
        self.path.push(name);
        let leaves_out =
            self.rules.as_deref().is_some_and(|rules| rules.leave_out(&self.path, true));
        let name = CString::new(name.as_bytes());
        let next = name.ok().and_then(|name| self.here.open_directory(&name).ok());
        let is_open = next.is_some();
        if let Some(next) = next {
            self.here = next;
        }
        Step { leaves_out, is_open }
    }

    fn rules_here(&self, reader: &Reader<'_>) -> Option<Arc<Rules>> {
        let present = Present::look(&self.here);
        Rules::within(self.rules.as_ref(), &self.here, &self.path, present, reader)
    }

    fn leaves_out_entries(&self, reader: &Reader<'_>) -> bool {
        let entry = self.path.join(ANY_NAME);
        self.rules_here(reader)
            .is_some_and(|rules| rules.leave_out(&entry, false) && rules.leave_out(&entry, true))
    }
}
