//! Reads and writes `trust.toml`.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::named_file::ours;

pub(super) const NAME: &str = "trust.toml";
/// Locked by the command that changes the list.
const LOCK: &str = "trust.lock";

/// Thousands of directories.
pub(super) const MAX_BYTES: u64 = 4 << 20;

const HEADER: &str = "# Directories whose settings files count whole. `toolhand trust` writes this \
                      file, and a running server reads it at once.\n\n";

/// What to do about a list that cannot be read. It follows the reason.
const REMEDY: &str =
    "nothing is trusted until it is mended, or deleted and the directories are trusted again";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stored {
    trusted: Vec<StoredDirectory>,
}

/// A directory as it is written. TOML's numbers are too small for those of some file systems.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDirectory {
    path: PathBuf,
    device: String,
    inode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    born: Option<String>,
}

/// A trusted directory, by its path with every link resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrustedDirectory {
    pub(crate) path: PathBuf,
    pub(crate) id: DirectoryId,
}

/// Tells a directory from another one that is put in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryId {
    device: u64,
    inode: u64,
    /// When it was made, if the file system knows: the number of an inode that was removed is
    /// given to a new one.
    born: Option<String>,
}

impl DirectoryId {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        let born = metadata.created().ok();
        let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.map(|born| format!("{}.{:09}", born.as_secs(), born.subsec_nanos()));
        Self { device: metadata.dev(), inode: metadata.ino(), born }
    }

    /// Whether `found` is the directory that was trusted.
    pub(super) fn is(&self, found: &Self) -> bool {
        let is_as_old = self.born.is_none() || self.born == found.born;
        self.device == found.device && self.inode == found.inode && is_as_old
    }
}

impl StoredDirectory {
    fn new(TrustedDirectory { path, id }: TrustedDirectory) -> Self {
        let DirectoryId { device, inode, born } = id;
        Self { path, device: device.to_string(), inode: inode.to_string(), born }
    }

    fn read(self) -> Result<TrustedDirectory, String> {
        let Self { path, device, inode, born } = self;
        let number = |name: &str, text: &str| {
            let shown = path.display();
            text.parse().map_err(|_| format!("{shown}: {name} is no number: {text:?}"))
        };
        let (device, inode) = (number("device", &device)?, number("inode", &inode)?);
        if !path.is_absolute() {
            return Err(format!("{} is no absolute path", path.display()));
        }
        Ok(TrustedDirectory { path, id: DirectoryId { device, inode, born } })
    }
}

/// The list. The error follows the name of the file.
pub(super) fn read(directory: &File) -> Result<Vec<TrustedDirectory>, String> {
    let text =
        ours::read_text(directory, NAME, MAX_BYTES).map_err(|reason| with_remedy(&reason))?;
    text.map_or_else(|| Ok(Vec::new()), |text| parse(&text))
}

pub(super) fn parse(text: &str) -> Result<Vec<TrustedDirectory>, String> {
    let stored: Result<Stored, _> = toml::from_str(text);
    let stored = stored.map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count());
        with_remedy(&format!("line {}: {}", line + 1, error.message()))
    })?;
    let read = stored.trusted.into_iter().map(StoredDirectory::read);
    read.collect::<Result<_, _>>().map_err(|reason| with_remedy(&reason))
}

pub(super) fn with_remedy(reason: &str) -> String {
    format!("{}; {REMEDY}", reason.lines().collect::<Vec<_>>().join(" "))
}

/// Replaces the file in one step.
pub(super) fn write(directory: &File, list: Vec<TrustedDirectory>) -> io::Result<()> {
    let trusted = list.into_iter().map(StoredDirectory::new).collect();
    let text = toml::to_string(&Stored { trusted }).map_err(io::Error::other)?;
    ours::replace(directory, NAME, &format!("{HEADER}{text}"))
}

/// Waits for commands that change the list at the moment.
pub(super) fn lock(directory: &File) -> io::Result<File> {
    ours::lock(directory, LOCK)
}
