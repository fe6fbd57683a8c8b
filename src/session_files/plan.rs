//! Keeps the plan of a session: the one file below the state directory that the model may write.
//!
//! It is `sessions/ID/plan.md`. What stands in its place and is no plain file of ours, such as a
//! link, is neither read nor written.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, OFlags, unlinkat};
use rustix::io::Errno;

use super::SessionFiles;
use super::directories::{open_session, session_path};
use crate::named_file::ours::{open_in, replace};
use crate::ownership::Ownership;
use crate::workspace::Target;

/// More is no plan that a person approves.
pub(crate) const MAX_PLAN_BYTES: usize = 100 << 10;

const NAME: &str = "plan.md";

/// Why the plan cannot be read. The text is for the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(
        "the plan in {0} has more than {MAX_PLAN_BYTES} bytes, which nobody is shown; shorten it"
    )]
    TooLong(String),
    #[error("the plan in {0} is not UTF-8 text; write it anew")]
    NotText(String),
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

impl SessionFiles {
    pub(crate) fn plan_path(&self) -> PathBuf {
        session_path(&self.state_dir, &self.session).join(NAME)
    }

    /// Whether `path` names the plan, there or not. Compares names only.
    pub(crate) fn is_plan(&self, path: &Path) -> bool {
        path == self.plan_path()
    }

    /// The plan as a target for the tools, by the handle of its directory. Reads the disk.
    pub(crate) fn open_plan(&self, to_write: bool) -> io::Result<Target> {
        let path = self.plan_path();
        let missing = || {
            let text = format!("{} does not exist: no plan was written yet", path.display());
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        let directory = open_session(&self.state_dir, &self.session, to_write)
            .map_err(|error| if is_missing(&error) { missing() } else { error })?;
        match open_own(&directory, &path)? {
            Some(_) => Target::in_directory(&path, directory.into()),
            None if to_write => Target::missing_in_directory(&path, directory.into()),
            None => Err(missing()),
        }
    }

    /// The text of the plan; `None` if there is none. Reads the disk.
    pub(crate) fn read_plan(&self) -> Result<Option<String>, PlanError> {
        let path = self.plan_path();
        let directory = match open_session(&self.state_dir, &self.session, false) {
            Err(error) if is_missing(&error) => return Ok(None),
            directory => directory?,
        };
        let Some(file) = open_own(&directory, &path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(MAX_PLAN_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        let named = || path.display().to_string();
        if bytes.len() > MAX_PLAN_BYTES {
            return Err(PlanError::TooLong(named()));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| PlanError::NotText(named()))
    }

    /// Makes the plan hold this text, or takes it away. Reads the disk.
    pub(crate) fn put_plan(&self, text: Option<&str>) -> io::Result<()> {
        let opened = open_session(&self.state_dir, &self.session, text.is_some());
        let directory = match opened {
            Err(error) if text.is_none() && is_missing(&error) => return Ok(()),
            directory => directory?,
        };
        match text {
            Some(text) => replace(&directory, NAME, text),
            None => match unlinkat(&directory, NAME, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// The plan in its directory, if there is one. A link, and a file with a second name, is none.
fn open_own(directory: &File, path: &Path) -> io::Result<Option<File>> {
    let foreign = || {
        let path = path.display();
        io::Error::other(format!("{path} is not the file that the server keeps the plan in"))
    };
    let file = match open_in(directory, NAME, OFlags::RDONLY) {
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(foreign());
        }
        file => file?,
    };
    let metadata = file.metadata()?;
    let is_own = Ownership::from_metadata(&metadata).expect_ours().is_ok();
    if is_own && metadata.is_file() && metadata.nlink() <= 1 {
        Ok(Some(file))
    } else {
        Err(foreign())
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::session_files::test_support::session_files;

    #[test]
    fn a_plan_is_put_read_and_taken_away() {
        let state_dir = tempfile::tempdir().unwrap();
        let files = session_files(state_dir.path(), 1 << 20);
        assert!(matches!(files.read_plan(), Ok(None)));
        files.put_plan(None).unwrap();
        assert!(!files.plan_path().parent().unwrap().exists(), "nothing is made for nothing");
        files.put_plan(Some("one")).unwrap();
        files.put_plan(Some("two")).unwrap();
        assert_eq!(files.read_plan().unwrap().as_deref(), Some("two"));
        let mode = fs::metadata(files.plan_path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        files.put_plan(None).unwrap();
        assert!(matches!(files.read_plan(), Ok(None)));
        assert!(files.is_plan(&files.plan_path()));
        assert!(!files.is_plan(&files.plan_path().with_file_name("plan.md~")));
    }

    #[test]
    fn what_is_no_file_of_ours_is_no_plan() {
        let state_dir = tempfile::tempdir().unwrap();
        let files = session_files(state_dir.path(), 1 << 20);
        let elsewhere = state_dir.path().join("keys.toml");
        fs::write(&elsewhere, "secret").unwrap();
        files.put_plan(Some("plan")).unwrap();
        let path = files.plan_path();
        let refused = |what: &str| {
            let error = files.read_plan().unwrap_err().to_string();
            assert!(error.contains("is not the file"), "{what}: {error}");
            assert!(files.open_plan(false).is_err() && files.open_plan(true).is_err(), "{what}");
            fs::remove_file(&path).unwrap();
        };
        fs::remove_file(&path).unwrap();
        symlink(&elsewhere, &path).unwrap();
        refused("a symbolic link");
        fs::hard_link(&elsewhere, &path).unwrap();
        refused("a hard link");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        refused("a named pipe");
        fs::write(&path, vec![b'x'; MAX_PLAN_BYTES + 1]).unwrap();
        assert!(matches!(files.read_plan(), Err(PlanError::TooLong(_))));
        fs::write(&path, b"\xff").unwrap();
        assert!(matches!(files.read_plan(), Err(PlanError::NotText(_))));
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "secret");
    }
}
