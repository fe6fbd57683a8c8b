//! Opens a file of our own state directory, and refuses one that others may read.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::FileSource;
use crate::named_file::ours;
use crate::ownership::Ownership;
use crate::workspace::FileVersion;

#[derive(Debug)]
pub(crate) struct OwnFile {
    state_dir: PathBuf,
    name: &'static str,
}

impl OwnFile {
    pub(crate) fn new(state_dir: &Path, name: &'static str) -> Self {
        Self { state_dir: state_dir.to_owned(), name }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.state_dir.join(self.name)
    }
}

impl FileSource for OwnFile {
    fn version(&self) -> io::Result<FileVersion> {
        let metadata = fs::symlink_metadata(self.path())?;
        Ok(FileVersion::from_metadata(&metadata))
    }

    fn open(&self) -> Result<File, String> {
        let directory = ours::open_ours(&self.state_dir)?;
        ours::open_in(&directory, self.name, OFlags::RDONLY).map_err(|error| error.to_string())
    }

    fn check(&self, metadata: &Metadata) -> Result<(), String> {
        let ownership = Ownership::from_metadata(metadata);
        ownership.expect_ours()?;
        ownership.refuse_other_readers("chmod 600 it")
    }
}
