//! Keeps the files that the server writes for a session: answers that were too long for the
//! model, and the output of commands.
//!
//! They lie in `sessions/ID/output` of the state directory. Every open starts at the state
//! directory and goes on by single names, without following a link, so that nothing that
//! takes the place of a directory or a file leads elsewhere. The files go with the session, whose
//! whole directory is removed when the store forgets it.

mod contents;
mod directories;
mod finds;
mod plan;
mod quota;
mod under_way;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustix::fs::{AtFlags, OFlags, unlinkat};
use uuid::Uuid;

pub(crate) use self::directories::{SessionDirectories, remove_orphans};
use self::directories::{open_outputs, outputs_path, sessions_path};
use self::finds::SessionFinds;
pub(crate) use self::plan::{MAX_PLAN_BYTES, PlanError};
pub(crate) use self::under_way::UnlookedCommand;
use crate::ids::SessionId;
use crate::named_file::ours::open_in;
use crate::ownership::Ownership;
use crate::sync;

/// Ends the names of files that hold text.
const TEXT: &str = ".txt";

/// Ends the names of files that hold something else.
const BYTES: &str = ".bin";

/// Hexadecimal digits that make a name unique in its session.
const DIGITS: usize = 8;

/// Longer than any name that the server gives.
const MAX_STEM: usize = 100;

/// The files of one session. All its turns and tasks share them.
#[derive(Debug)]
pub(crate) struct SessionFiles {
    state_dir: PathBuf,
    session: SessionId,
    /// `tools.spill_bytes`.
    max_bytes: u64,
    /// The files that are being written. They are never removed to make room.
    growing: Mutex<Vec<GrowingFile>>,
    /// The bytes that may be written before the disk is asked for room again. Held meanwhile, by
    /// threads that may wait for it.
    room: Mutex<u64>,
    /// Held while a text is kept: the same one may come twice at once.
    keeping: Mutex<()>,
    /// What commands have left in the workspace. `None`: it was not read yet.
    finds: Mutex<Option<SessionFinds>>,
}

/// A new file of a session. It counts as being written until this is dropped.
#[derive(Debug)]
pub(crate) struct SessionFile {
    /// Open for reading and appending. What happens to the name does not matter to it.
    pub(crate) file: File,
    /// What the model calls it.
    pub(crate) path: PathBuf,
    name: String,
    files: Arc<SessionFiles>,
}

/// A file that is being written.
#[derive(Clone, Debug)]
struct GrowingFile {
    name: String,
    /// The bytes that it may have by now, some of which may not be written yet.
    claimed: u64,
}

/// A name for a file, or for what writes it, that no other of the session has.
pub(crate) fn unique_stem(kind: &str) -> String {
    let digits = Uuid::new_v4().simple().to_string();
    format!("{kind}_{}", &digits[..DIGITS])
}

impl SessionFiles {
    fn new(state_dir: PathBuf, session: SessionId, max_bytes: u64) -> Self {
        let (growing, room, keeping, finds) = Default::default();
        Self { state_dir, session, max_bytes, growing, room, keeping, finds }
    }

    /// Makes the file `stem.txt`, which only we may read. First removes the oldest files that
    /// are no longer written, until `expected` bytes more are within `tools.spill_bytes`. Reads
    /// the disk.
    pub(crate) fn create(self: &Arc<Self>, stem: &str, expected: u64) -> io::Result<SessionFile> {
        self.create_named(format!("{stem}{TEXT}"), expected)
    }

    fn create_named(self: &Arc<Self>, name: String, expected: u64) -> io::Result<SessionFile> {
        if !is_file_name(&name) {
            return Err(io::Error::other("not a valid name for a file of a session"));
        }
        let directory = open_outputs(&self.state_dir, &self.session, true)?;
        let mut room = sync::lock(&self.room);
        *room = self.room_in(&directory, expected)?.saturating_sub(expected);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let file = open_in(&directory, &name, flags)?;
        sync::lock(&self.growing).push(GrowingFile { name: name.clone(), claimed: expected });
        drop(room);
        let path = self.path_of_name(&name);
        Ok(SessionFile { file, path, name, files: Arc::clone(self) })
    }

    /// Removes the oldest files that are no longer written, until there is room for so many bytes,
    /// and returns for how many there is.
    fn room_in(&self, directory: &File, bytes: u64) -> io::Result<u64> {
        let growing = sync::lock(&self.growing).clone();
        quota::make_room(directory, (self.max_bytes, bytes), &growing)
    }

    /// Makes room for so many bytes more of a file that grows. Returns for how many there is room:
    /// what else grows is never removed. Asks the disk only where what it said before is used up.
    fn claim(&self, name: &str, bytes: u64) -> io::Result<u64> {
        let mut room = sync::lock(&self.room);
        if *room < bytes {
            let directory = open_outputs(&self.state_dir, &self.session, true)?;
            *room = self.room_in(&directory, bytes)?;
        }
        let claimed = bytes.min(*room);
        *room -= claimed;
        let mut growing = sync::lock(&self.growing);
        if let Some(file) = growing.iter_mut().find(|file| file.name == name) {
            file.claimed += claimed;
        }
        Ok(claimed)
    }

    /// Keeps a text in the file `stem.txt`, whose name is made of what it holds. One that is
    /// there stays, and counts as written now. Reads the disk.
    pub(crate) fn keep(self: &Arc<Self>, stem: &str, text: &str) -> io::Result<PathBuf> {
        self.keep_named(format!("{stem}{TEXT}"), text.as_bytes())
    }

    /// Keeps what is no text in the file `stem.bin`, likewise. Writes the disk.
    pub(crate) fn keep_bytes(self: &Arc<Self>, stem: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        self.keep_named(format!("{stem}{BYTES}"), bytes)
    }

    fn keep_named(self: &Arc<Self>, name: String, bytes: &[u8]) -> io::Result<PathBuf> {
        if self.max_bytes < bytes.len() as u64 {
            return Err(io::Error::other("it is longer than tools.spill_bytes"));
        }
        let _keeping = sync::lock(&self.keeping);
        let path = self.path_of_name(&name);
        if let Ok((directory, file)) = self.locate(&path) {
            if file.metadata()?.len() == bytes.len() as u64 {
                file.set_modified(SystemTime::now())?;
                return Ok(path);
            }
            // A server was killed while it wrote it.
            unlinkat(&directory, &name, AtFlags::empty())?;
        }
        let mut created = self.create_named(name, bytes.len() as u64)?;
        created.file.write_all(bytes).inspect_err(|_| created.remove())?;
        Ok(path)
    }

    fn path_of_name(&self, name: &str) -> PathBuf {
        outputs_path(&self.state_dir, &self.session).join(name)
    }

    /// Whether `path` names a file of this session, there or not. Compares names only.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        self.own_name(path).is_some()
    }

    /// The directory of the files of all sessions.
    pub(crate) fn of_all_sessions(&self) -> PathBuf {
        sessions_path(&self.state_dir)
    }

    /// Opens a file of this session for reading. `NotFound` says that it is no longer kept. An
    /// entry that is none of ours (a link, another user's file, a file with a second name)
    /// is refused.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        Ok(self.locate(path)?.1)
    }

    /// The same, with the directory that holds it.
    pub(crate) fn locate(&self, path: &Path) -> io::Result<(File, File)> {
        let gone = || {
            let text = format!(
                "{} is no longer kept, or never was: the oldest of the files here is removed when \
                 they have more than tools.spill_bytes together",
                path.display()
            );
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        let name = self.own_name(path).ok_or_else(gone)?;
        let opened = open_outputs(&self.state_dir, &self.session, false).and_then(|directory| {
            let file = open_in(&directory, name, OFlags::RDONLY)?;
            Ok((directory, file))
        });
        let (directory, file) = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => gone(),
            _ => error,
        })?;
        let replaced = || {
            let text = format!("{} is not the file that the server wrote", path.display());
            io::Error::other(text)
        };
        if !is_ours(&file) {
            return Err(replaced());
        }
        Ok((directory, file))
    }

    fn own_name<'path>(&self, path: &'path Path) -> Option<&'path str> {
        let rest = path.strip_prefix(outputs_path(&self.state_dir, &self.session)).ok()?;
        rest.to_str().filter(|name| is_file_name(name))
    }
}

impl SessionFile {
    /// Makes room for so many bytes more of the file, before they are written. Returns for how many
    /// there is room within `tools.spill_bytes`.
    pub(crate) fn make_room(&self, bytes: u64) -> io::Result<u64> {
        self.files.claim(&self.name, bytes)
    }

    /// Removes what could not be written whole.
    pub(crate) fn remove(&self) {
        let opened = open_outputs(&self.files.state_dir, &self.files.session, false);
        if let Ok(directory) = opened {
            // It is gone, or will go with the session.
            _ = unlinkat(&directory, &self.name, AtFlags::empty());
        }
    }
}

impl Drop for SessionFile {
    fn drop(&mut self) {
        sync::lock(&self.files.growing).retain(|file| file.name != self.name);
    }
}

/// Whether the server may have given this name.
fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let stem = [TEXT, BYTES].into_iter().find_map(|suffix| name.strip_suffix(suffix));
    stem.is_some_and(|stem| (1..=MAX_STEM).contains(&stem.len()) && stem.bytes().all(is_plain))
}

/// Only a regular file with one name that nobody else may read can be one that we wrote.
fn is_ours(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    file.metadata().is_ok_and(|metadata| {
        let ownership = Ownership::from_metadata(&metadata);
        let is_private = ownership.expect_ours().and_then(|()| ownership.refuse_other_readers(""));
        is_private.is_ok() && metadata.is_file() && metadata.nlink() <= 1
    })
}

/// Reads the beginning of a file that only we can have written.
fn read_ours(directory: &File, name: &str, most: u64) -> io::Result<Vec<u8>> {
    let file = open_in(directory, name, OFlags::RDONLY)?;
    if !is_ours(&file) {
        return Err(io::Error::other("it is not the file that the server wrote"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod test_support {
    //! Files of a session in a temporary state directory.

    use super::*;

    /// The files of a new session below `state_dir`.
    pub(crate) fn session_files(state_dir: &Path, max_bytes: u64) -> Arc<SessionFiles> {
        let state_dir = state_dir.canonicalize().unwrap();
        SessionDirectories::new(&state_dir, max_bytes).files_of(&SessionId::random())
    }
}

#[cfg(test)]
mod tests;
