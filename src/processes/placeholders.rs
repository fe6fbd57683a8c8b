//! Makes the files that stand for missing ones while a command runs, counts who uses them, and
//! removes them after the last one.
//!
//! A missing file is protected by a mount, and a mount needs something to be on. Commands of
//! several sessions may run in one workspace. To remove the placeholder of one would take the
//! protection from the others.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};

use self::left_behind::LeftBehind;
use super::confinement::MaskKind;
use super::handles;
use super::masks::{Entry, Masks, Placeholder};
use crate::sync;

pub use self::left_behind::sweep_if_asked;
pub(super) use self::left_behind::{Sweeper, is_watched};

mod left_behind;

/// The placeholders in use, of all commands of this process.
static IN_USE: Mutex<Option<HashMap<PathBuf, InUse>>> = Mutex::new(None);

#[derive(Debug)]
struct InUse {
    entry: Entry,
    made: Made,
    users: usize,
}

/// A placeholder on the disk.
#[derive(Debug)]
struct Made {
    /// Its directory, wherever that is moved.
    directory: OwnedFd,
    name: OsString,
    placeholder: Placeholder,
}

/// Holds placeholders for one command, outer ones first.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    held: Vec<PathBuf>,
    sweeper: Sweeper,
}

impl Placeholders {
    /// Chooses the masks while no placeholder comes or goes: what is there only as another
    /// command's placeholder is missing.
    pub(super) fn hold(sweeper: &Sweeper, masks: impl FnOnce() -> Masks) -> (Self, Masks) {
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
            // Whoever makes it first notes it: what is noted and not there does no harm.
            let left = LeftBehind { path: path.into(), placeholder };
            sweeper.note(&left);
            match Made::new(path, placeholder) {
                Ok(made) => {
                    in_use.insert(path.to_owned(), InUse { entry, made, users: 1 });
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
        (Self { held, sweeper: sweeper.clone() }, masks)
    }
}

impl Made {
    /// No name above it may be a link: a command may have put one there.
    fn new(path: &Path, placeholder: Placeholder) -> io::Result<Self> {
        let nowhere = || io::Error::from(io::ErrorKind::NotFound);
        let (directory, name) = path.parent().zip(path.file_name()).ok_or_else(nowhere)?;
        let directory = handles::open(directory)?;
        match placeholder.text() {
            None => mkdirat(&directory, name, Mode::RWXU)?,
            Some(text) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = openat(&directory, name, flags, Mode::RUSR | Mode::WUSR)?;
                File::from(file).write_all(text.as_bytes())?;
            }
        }
        Ok(Self { directory, name: name.to_owned(), placeholder })
    }

    /// One that is there already.
    fn there(path: &Path, placeholder: Placeholder) -> Option<Self> {
        let directory = handles::open(path.parent()?).ok()?;
        Some(Self { directory, name: path.file_name()?.to_owned(), placeholder })
    }

    /// Removes it if it is as it was made. A program outside may have put something in.
    fn remove(&self) -> io::Result<()> {
        match self.placeholder.text() {
            None => unlinkat(&self.directory, &self.name, AtFlags::REMOVEDIR)?,
            Some(text) if self.holds(text)? => {
                unlinkat(&self.directory, &self.name, AtFlags::empty())?;
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn holds(&self, text: &str) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.directory, &self.name, flags, Mode::empty())?);
        let mut there = Vec::new();
        let is_file = file.metadata()?.is_file();
        file.take(text.len() as u64 + 1).read_to_end(&mut there)?;
        Ok(is_file && there == text.as_bytes())
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        let mut in_use = sync::lock(&IN_USE);
        let in_use = in_use.get_or_insert_default();
        for path in self.held.drain(..).rev() {
            let Some(used) = in_use.get_mut(&path) else { continue };
            used.users -= 1;
            if 0 < used.users {
                continue;
            }
            // An error means that somebody else has removed it, or uses it.
            if let Some(used) = in_use.remove(&path) {
                _ = used.made.remove();
            }
        }
        if in_use.is_empty() {
            self.sweeper.forget();
        }
    }
}
