//! Opens settings files: the user's by its path, a workspace's beneath its root.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::live_file::FileSource;
use crate::named_file;
use crate::ownership::Ownership;
use crate::workspace::{FileVersion, ResolveError, Workspace};

/// The user's own file. It may be a link, as those who keep such files in a repository have it.
#[derive(Debug)]
pub(super) struct UserSource<'a>(pub(super) &'a Path);

/// A file of a workspace, by its path below the root. A link in it must not lead out.
#[derive(Debug)]
pub(super) struct WorkspaceSource<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) path: &'a str,
}

impl FileSource for UserSource<'_> {
    /// A file counts as missing only where nothing bears its name: a link that leads to nothing, or
    /// a file in the place of the directory, is one that cannot be read.
    fn version(&self) -> io::Result<FileVersion> {
        let found = fs::metadata(self.0).map(|metadata| FileVersion::from_metadata(&metadata));
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound && !is_missing(self.0) => {
                Err(ErrorKind::Other.into())
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(ErrorKind::Other.into()),
            found => found,
        }
    }

    fn open(&self) -> Result<File, String> {
        named_file::open(self.0).map_err(|error| match error.kind() {
            ErrorKind::NotFound => "is a link that leads to nothing".to_owned(),
            _ => error.to_string(),
        })
    }

    /// As of `toolhand.toml`: who writes it decides what runs without asking.
    fn check(&self, metadata: &Metadata) -> Result<(), String> {
        let ownership = Ownership::from_metadata(metadata);
        ownership.expect_ours_or_roots()?;
        ownership.refuse_other_writers("chmod go-w it")
    }
}

/// Whether neither the file nor a directory above it is a link that leads to nothing.
fn is_missing(path: &Path) -> bool {
    !path.ancestors().any(is_dangling_link)
}

fn is_dangling_link(path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    is_link && fs::metadata(path).is_err()
}

impl WorkspaceSource<'_> {
    fn whole_path(&self) -> PathBuf {
        self.workspace.root().join(self.path)
    }
}

impl FileSource for WorkspaceSource<'_> {
    fn version(&self) -> io::Result<FileVersion> {
        self.workspace.version_of(Path::new(self.path))
    }

    fn open(&self) -> Result<File, String> {
        // An additional directory is another place: a link to it leads out as well.
        let target = self.workspace.without_additional().resolve(&self.whole_path());
        let target = target.map_err(|error| match error {
            ResolveError::Outside { leads_to, .. } => {
                format!("leads out of the workspace, to {}", leads_to.display())
            }
            ResolveError::Io { source, .. } => source.to_string(),
            error => error.to_string(),
        })?;
        target.open_file().map_err(|error| error.to_string())
    }
}
