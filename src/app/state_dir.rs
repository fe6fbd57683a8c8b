//! Opens the state directory: checks its owner and mode, locks it, keeps the first key.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::state_lock::{StateLock, lock};
use crate::config::secrets;
use crate::named_file;
pub(super) use crate::named_file::ours::{open_directory, open_in, open_ours};
use crate::ownership::Ownership;
use crate::secret::Secret;
use crate::workspace::TempFiles;

const KEY: &str = "api-key";
/// Holds the key until it is written whole.
const NEW_KEY: &str = ".api-key.new";

/// As many bits as the hash that keys are compared by.
const KEY_BYTES: usize = 32;

/// Longer than any key, so that a wrong file is not read whole.
const MAX_KEY_BYTES: u64 = 4096;

/// The state directory, locked for as long as this value lives.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    directory: File,
    _lock: StateLock,
}

/// Why the directory cannot be used, in one line.
#[derive(Debug, thiserror::Error)]
#[error("state directory {}: {reason}", path.display())]
pub(crate) struct StateError {
    path: PathBuf,
    reason: String,
}

impl StateError {
    pub(super) fn new(path: &Path, reason: String) -> Self {
        Self { path: path.to_owned(), reason }
    }
}

/// The client key in the directory.
#[derive(Debug)]
pub(crate) struct KeptKey {
    pub(crate) path: PathBuf,
    pub(crate) key: Secret,
    pub(crate) is_new: bool,
}

impl StateDir {
    /// Opens and locks the directory. Creates it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        let refuse = |reason: String| StateError { path: path.to_owned(), reason };
        let directory = open_directory(path).map_err(refuse)?;
        let lock = lock(&directory).map_err(refuse)?;
        if let Err(error) = temp_files(path).sweep() {
            // The files that remain are a nuisance, not a danger.
            tracing::warn!(
                %error,
                "files that a killed server left could not be removed: see unfinished in the \
                 state directory"
            );
        }
        Ok(Self { path: path.to_owned(), directory, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn directory(&self) -> &File {
        &self.directory
    }

    /// The client key. Creates one if there is none.
    pub(crate) fn client_key(&self) -> Result<KeptKey, StateError> {
        let refuse = |reason: String| StateError { path: self.path.clone(), reason };
        let path = self.path.join(KEY);
        if let Some(key) = read_key(&self.directory).map_err(refuse)? {
            return Ok(KeptKey { path, key, is_new: false });
        }
        let key = self.make_key().map_err(|error| refuse(format!("{KEY}: {error}")))?;
        Ok(KeptKey { path, key, is_new: true })
    }

    /// Writes the key under another name first, so that no reader finds half of it.
    fn make_key(&self) -> io::Result<Secret> {
        let key = random_key()?;
        let mut file =
            open_in(&self.directory, NEW_KEY, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        file.write_all(key.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        rustix::fs::renameat(&self.directory, NEW_KEY, &self.directory, KEY)?;
        Ok(Secret::new(key))
    }
}

/// The client key in the directory at `path`, if there is one. Creates and locks nothing.
pub(crate) fn kept_key(path: &Path) -> Result<Option<Secret>, StateError> {
    let refuse = |reason: String| StateError { path: path.to_owned(), reason };
    open_ours(path).and_then(|directory| read_key(&directory)).map_err(refuse)
}

fn read_key(directory: &File) -> Result<Option<Secret>, String> {
    let file = match open_in(directory, KEY, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{KEY}: {error}")),
    };
    let (bytes, metadata) =
        named_file::read_open(&file, MAX_KEY_BYTES).map_err(|error| format!("{KEY} {error}"))?;
    let ownership = Ownership::from_metadata(&metadata);
    ownership
        .expect_ours()
        .and_then(|()| ownership.refuse_other_readers("chmod 600 it"))
        .map_err(|reason| format!("{KEY}: {reason}"))?;
    let key = Secret::sendable(String::from_utf8_lossy(&bytes).trim())
        .ok_or_else(|| format!("{KEY} holds no key; delete it and a new one is made"))?;
    secrets::refuse_short(&key)
        .map_err(|reason| format!("{KEY} {reason}; delete it and a new one is made"))?;
    Ok(Some(key))
}

/// The temporary files of all workspaces, noted in this directory.
pub(crate) fn temp_files(path: &Path) -> TempFiles {
    TempFiles::noted_in(path.join("unfinished"))
}

/// The directories of the sessions, each with its commands' temporary files.
pub(crate) fn sessions(path: &Path) -> PathBuf {
    path.join("sessions")
}

/// The directories that MCP servers keep.
pub(crate) fn mcp(path: &Path) -> PathBuf {
    path.join("mcp")
}

/// The list of what stands for missing files in workspaces while commands run.
pub(crate) fn placeholders(path: &Path) -> PathBuf {
    path.join("placeholders")
}

/// Checks the directory and describes it. Creates and locks nothing.
pub(crate) fn inspect(path: &Path) -> Result<&'static str, StateError> {
    let is_missing =
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_missing {
        return Ok("made at the first start");
    }
    let refuse = |reason: String| StateError { path: path.to_owned(), reason };
    open_directory(path).map(|_| "ours").map_err(refuse)
}

pub(super) fn random_key() -> io::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(format!("th-{}", hex.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[track_caller]
    fn check_refused(path: &Path, expected: &str) {
        let error = StateDir::open(path).unwrap_err().to_string();
        assert_eq!(error.replace(&path.display().to_string(), "DIR"), expected);
    }

    #[test]
    fn a_missing_one_is_made_for_us_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("share/toolhand");

        let state = StateDir::open(&path).unwrap();

        assert_eq!(mode_of(&path), 0o700);
        assert_eq!(state.path(), path);
        assert_eq!(mode_of(&path.join("lock")), 0o600);
    }

    #[test]
    fn the_first_key_is_made_once_and_kept() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(&home.path().join("state")).unwrap();

        let first = state.client_key().unwrap();
        let again = state.client_key().unwrap();

        assert!(first.is_new && !again.is_new);
        assert_eq!(first.key, again.key);
        assert_eq!(first.key.expose().len(), "th-".len() + 2 * KEY_BYTES);
        assert_eq!(mode_of(&first.path), 0o600);
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(&home.path().join("state")).unwrap();
        let path = state.client_key().unwrap().path;

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = state.client_key().unwrap_err().to_string();
        assert!(error.ends_with("api-key: others may read it (mode 644); chmod 600 it"), "{error}");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "\n").unwrap();
        let error = state.client_key().unwrap_err().to_string();
        assert!(
            error.ends_with("api-key holds no key; delete it and a new one is made"),
            "{error}"
        );
    }

    #[test]
    fn one_that_others_could_change_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        fs::create_dir(&path).unwrap();
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();

        set(0o777);
        check_refused(&path, "state directory DIR: others may write it (mode 777); chmod 700 it");
        set(0o770);
        check_refused(&path, "state directory DIR: others may write it (mode 770); chmod 700 it");
        set(0o500);
        check_refused(&path, "state directory DIR: is not ours to use (mode 500); chmod 700 it");
        set(0o755);
        StateDir::open(&path).unwrap();
    }

    #[test]
    fn a_link_or_a_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("link");
        symlink(home.path(), &link).unwrap();
        check_refused(&link, "state directory DIR: is a symbolic link; name the directory itself");

        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        check_refused(&file, "state directory DIR: Not a directory (os error 20)");
    }

    #[test]
    fn a_second_one_is_told_who_holds_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let held = StateDir::open(&path).unwrap();

        let holder = std::process::id();
        check_refused(
            &path,
            &format!("state directory DIR: in use by another server, process {holder}"),
        );

        drop(held);
        StateDir::open(&path).unwrap();
    }
}
