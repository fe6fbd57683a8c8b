//! Keeps the list of the directories that the operator trusts: `trust.toml` in the state
//! directory. Trust is for exactly one directory, none above or below it.

mod file;
mod live;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use self::file::Stored;
pub(crate) use self::live::{LiveTrust, TrustState};
use crate::named_file::ours;
use crate::workspace::{BoundDirectory, DirectoryId};

/// The list, for the commands that change it. A server may run beside them.
#[derive(Debug)]
pub(crate) struct TrustList {
    state_dir: PathBuf,
    directory: File,
}

/// Why a directory cannot be trusted, or not be forgotten, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("state directory {}: {reason}", path.display())]
    StateDir { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    List { path: PathBuf, reason: String },
    #[error("{}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("{} is not a directory: trust is for a workspace", .0.display())]
    NoDirectory(PathBuf),
    #[error("/ is not trusted: name the directory of one project")]
    Root,
    #[error("{} is not UTF-8, so it cannot be in the list", .0.display())]
    Name(PathBuf),
    #[error("{} is not in the list; `toolhand trust --list` shows it", .0.display())]
    Missing(PathBuf),
}

impl TrustList {
    /// Opens the state directory, which is made if it is missing.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, TrustError> {
        let refuse = |reason| TrustError::StateDir { path: state_dir.to_owned(), reason };
        let directory = ours::open_directory(state_dir).map_err(refuse)?;
        Ok(Self { state_dir: state_dir.to_owned(), directory })
    }

    pub(crate) fn list(&self) -> Result<Vec<BoundDirectory>, TrustError> {
        self.stored().map(|stored| stored.trusted)
    }

    fn stored(&self) -> Result<Stored, TrustError> {
        file::read(&self.directory).map_err(|reason| self.fault(reason))
    }

    /// Trusts the directory that is there now, without its `.mcp.json`. Returns its real path.
    pub(crate) fn add(&self, directory: &Path) -> Result<PathBuf, TrustError> {
        let trusted = trusted(directory)?;
        let path = trusted.path.clone();
        self.change(|list| {
            list.trusted.retain(|other| other.path != trusted.path);
            list.mcp_json.remove(&trusted.path);
            list.trusted.push(trusted);
            Ok(())
        })?;
        Ok(path)
    }

    /// Trusts the `.mcp.json` with this digest too. `path` is of the list.
    pub(crate) fn add_mcp_file(&self, path: &Path, digest: String) -> Result<(), TrustError> {
        self.change(|list| {
            if !list.trusted.iter().any(|trusted| trusted.path == path) {
                return Err(TrustError::Missing(path.to_owned()));
            }
            list.mcp_json.insert(path.to_owned(), digest);
            Ok(())
        })
    }

    /// Trusts the directory no more. It need not exist any more. Returns its path in the list.
    pub(crate) fn remove(&self, directory: &Path) -> Result<PathBuf, TrustError> {
        let failed = |source| TrustError::Directory { path: directory.to_owned(), source };
        let written = std::path::absolute(directory).map_err(failed)?;
        let real = fs::canonicalize(directory).ok();
        self.change(|list| {
            let is_it = |path: &Path| Some(path) == real.as_deref() || path == written;
            let found = list.trusted.iter().position(|trusted| is_it(&trusted.path));
            let found = found.ok_or_else(|| TrustError::Missing(directory.to_owned()))?;
            let path = list.trusted.remove(found).path;
            list.mcp_json.remove(&path);
            Ok(path)
        })
    }

    /// Reads, changes and writes the file, while no other command does.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Stored) -> Result<T, TrustError>,
    ) -> Result<T, TrustError> {
        let unwritten = |error: io::Error| self.fault(format!("cannot be written: {error}"));
        let _lock = file::lock(&self.directory).map_err(unwritten)?;
        let mut list = self.stored()?;
        let done = change(&mut list)?;
        file::write(&self.directory, &list).map_err(unwritten)?;
        Ok(done)
    }

    fn fault(&self, reason: String) -> TrustError {
        TrustError::List { path: self.state_dir.join(file::NAME), reason }
    }
}

/// The directory as it is kept.
fn trusted(directory: &Path) -> Result<BoundDirectory, TrustError> {
    let failed = |source| TrustError::Directory { path: directory.to_owned(), source };
    let path = fs::canonicalize(directory).map_err(failed)?;
    let metadata = fs::metadata(&path).map_err(failed)?;
    if !metadata.is_dir() {
        return Err(TrustError::NoDirectory(path));
    }
    if path.parent().is_none() {
        return Err(TrustError::Root);
    }
    if path.to_str().is_none() {
        return Err(TrustError::Name(path));
    }
    Ok(BoundDirectory { path, id: DirectoryId::from_metadata(&metadata) })
}

#[cfg(test)]
mod tests;
