//! Makes the files that stand for missing ones while a command runs, counts who uses them, and
//! removes them after the last one.
//!
//! A missing file is protected by a mount, and a mount needs something to be on. Commands of
//! several sessions may run in one workspace. To remove the placeholder of one would take the
//! protection from the others.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::confinement::MaskKind;
use super::masks::{Entry, Masks, Placeholder};
use crate::sync;

/// The placeholders in use, of all commands of this process.
static IN_USE: Mutex<Option<HashMap<PathBuf, InUse>>> = Mutex::new(None);

#[derive(Debug)]
struct InUse {
    entry: Entry,
    placeholder: Placeholder,
    users: usize,
}

/// Holds placeholders for one command, outer ones first.
#[derive(Debug)]
pub(super) struct Placeholders(Vec<PathBuf>);

impl Placeholders {
    /// Chooses the masks while no placeholder comes or goes: what is there only as another
    /// command's placeholder is missing.
    pub(super) fn hold(masks: impl FnOnce() -> Masks) -> (Self, Masks) {
        let mut in_use = sync::lock(&IN_USE);
        let in_use = in_use.get_or_insert_default();
        let mut held = Vec::new();
        let masks = masks().filter_map(|path, entry| {
            if let Some(used) = in_use.get_mut(path) {
                used.users += 1;
                held.push(path.to_owned());
                return Some(used.entry);
            }
            let Some(placeholder) = entry.placeholder else { return Some(entry) };
            match make(path, placeholder) {
                Ok(()) => {
                    let used = InUse { entry, placeholder, users: 1 };
                    in_use.insert(path.to_owned(), used);
                    held.push(path.to_owned());
                    Some(entry)
                }
                // Somebody was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let kind = entry.kind.min(MaskKind::ReadOnly);
                    Some(Entry { kind, placeholder: None })
                }
                // What this user cannot make there a command cannot either.
                Err(_) => None,
            }
        });
        (Self(held), masks)
    }
}

fn make(path: &Path, placeholder: Placeholder) -> io::Result<()> {
    match placeholder {
        Placeholder::Directory => DirBuilder::new().mode(0o700).create(path),
        Placeholder::ClosedDirectory => DirBuilder::new().mode(0o600).create(path),
        Placeholder::File(text) => {
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(path);
            file?.write_all(text.as_bytes())
        }
    }
}

impl Drop for Placeholders {
    /// Removes only what is as it was made: nobody could write into it.
    fn drop(&mut self) {
        let mut in_use = sync::lock(&IN_USE);
        let in_use = in_use.get_or_insert_default();
        for path in self.0.drain(..).rev() {
            let Some(used) = in_use.get_mut(&path) else { continue };
            used.users -= 1;
            if 0 < used.users {
                continue;
            }
            let placeholder = used.placeholder;
            in_use.remove(&path);
            match placeholder {
                Placeholder::Directory | Placeholder::ClosedDirectory => _ = fs::remove_dir(&path),
                Placeholder::File(text) => {
                    let is_file = fs::symlink_metadata(&path).is_ok_and(|it| it.is_file());
                    if is_file && fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes()) {
                        _ = fs::remove_file(&path);
                    }
                }
            }
        }
    }
}
