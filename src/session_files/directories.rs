//! Finds and makes the directories of sessions, and removes those of sessions that are gone.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::{Mode, OFlags, mkdirat};
use rustix::io::Errno;

use super::SessionFiles;
use crate::ids::SessionId;
use crate::named_file::ours::{open_in, open_ours};
use crate::ownership::Ownership;
use crate::sync;

/// The directories of all sessions, in the state directory.
const SESSIONS: &str = "sessions";

/// The directory of the files that the server writes, beside that of the commands' own
/// temporary files.
const OUTPUT: &str = "output";

/// The commands of a session that were not looked at yet.
const UNDER_WAY: &str = "under-way";

/// The contents of files that the model has seen.
const CONTENTS: &str = "contents";

/// Gives each session its files.
#[derive(Debug)]
pub(crate) struct SessionDirectories {
    state_dir: PathBuf,
    max_bytes: u64,
    /// Of sessions that have a turn or a task.
    in_use: Mutex<HashMap<SessionId, Weak<SessionFiles>>>,
}

impl SessionDirectories {
    /// `max_bytes` is `tools.spill_bytes`.
    pub(crate) fn new(state_dir: &Path, max_bytes: u64) -> Self {
        // The paths that the model is told are the ones that it gives back.
        let state_dir = state_dir.canonicalize().unwrap_or_else(|_| state_dir.to_owned());
        Self { state_dir, max_bytes, in_use: Mutex::default() }
    }

    pub(crate) fn files_of(&self, session: &SessionId) -> Arc<SessionFiles> {
        let mut in_use = sync::lock(&self.in_use);
        if let Some(files) = in_use.get(session).and_then(Weak::upgrade) {
            return files;
        }
        in_use.retain(|_, files| files.strong_count() > 0);
        let (state_dir, max_bytes) = (self.state_dir.clone(), self.max_bytes);
        let files = Arc::new(SessionFiles::new(state_dir, session.clone(), max_bytes));
        in_use.insert(session.clone(), Arc::downgrade(&files));
        files
    }
}

/// Where the directories of all sessions are.
pub(super) fn sessions_path(state_dir: &Path) -> PathBuf {
    state_dir.join(SESSIONS)
}

/// Where the files of a session are.
pub(super) fn outputs_path(state_dir: &Path, session: &SessionId) -> PathBuf {
    session_path(state_dir, session).join(OUTPUT)
}

/// Where the directory of a session is.
pub(super) fn session_path(state_dir: &Path, session: &SessionId) -> PathBuf {
    sessions_path(state_dir).join(session.as_str())
}

/// Opens the directory of a session's files. Each part is ours and no link.
pub(super) fn open_outputs(
    state_dir: &Path,
    session: &SessionId,
    create: bool,
) -> io::Result<File> {
    open_below(state_dir, &[SESSIONS, session.as_str(), OUTPUT], create)
}

/// Opens the directory of a session, in the same way.
pub(super) fn open_session(
    state_dir: &Path,
    session: &SessionId,
    create: bool,
) -> io::Result<File> {
    open_below(state_dir, &[SESSIONS, session.as_str()], create)
}

/// Opens the directory of the commands that were not looked at yet, in the same way.
pub(super) fn open_under_way(
    state_dir: &Path,
    session: &SessionId,
    create: bool,
) -> io::Result<File> {
    open_below(state_dir, &[SESSIONS, session.as_str(), UNDER_WAY], create)
}

/// Opens the directory of the contents of files that the model has seen, in the same way.
pub(super) fn open_contents(
    state_dir: &Path,
    session: &SessionId,
    create: bool,
) -> io::Result<File> {
    open_below(state_dir, &[SESSIONS, session.as_str(), CONTENTS], create)
}

fn open_below(state_dir: &Path, names: &[&str], create: bool) -> io::Result<File> {
    let mut here = open_ours(state_dir).map_err(io::Error::other)?;
    for &name in names {
        if create {
            match mkdirat(&here, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        here = open_in(&here, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let ownership = Ownership::from_metadata(&here.metadata()?);
        ownership
            .expect_ours()
            .and_then(|()| ownership.refuse_other_writers("chmod 700 it"))
            .map_err(|reason| io::Error::other(format!("{name} {reason}")))?;
    }
    Ok(here)
}

/// Removes the directories of sessions that are not `known`: a server that was killed made
/// them, or a database that is gone knew them. Nothing else may start sessions meanwhile. Reads
/// the disk.
pub(crate) fn remove_orphans(state_dir: &Path, known: &HashSet<SessionId>) -> io::Result<()> {
    let sessions = state_dir.join(SESSIONS);
    let entries = match fs::read_dir(&sessions) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let session = name.to_str().and_then(SessionId::parse);
        if let Some(session) = session.filter(|session| !known.contains(session)) {
            fs::remove_dir_all(sessions.join(session.as_str()))?;
        }
    }
    Ok(())
}
