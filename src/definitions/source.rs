//! Lists and opens the files of definitions beneath one root, by directory handles.
//!
//! A link counts as long as it leads to somewhere beneath the root. Each look leaves a trace, by
//! which a later one finds out whether anything has changed.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use super::DefinitionScope;
use crate::encoding::{self, Binary, DecodedText};
use crate::file_encodings::FileEncodings;
use crate::live_file;
use crate::named_file;
use crate::ownership::Ownership;
use crate::workspace::{Directory, FileVersion, ResolveError, Target, Workspace};

/// Entries of all directories of one root. A directory with more is no place of definitions.
const MAX_ENTRIES: usize = 4096;

/// Bytes of a listing that are read at once.
const BUFFER: usize = 16 << 10;

/// What was there when it was looked at.
pub(super) type SeenVersion = live_file::Version;

/// A place of definitions: the user's directory, or the `.claude` of a workspace.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) scope: DefinitionScope,
    /// What links must not lead out of.
    root: Workspace,
    encodings: Arc<FileEncodings>,
    /// The place's path below the root.
    below: &'static str,
    seen: RefCell<Vec<(PathBuf, SeenVersion)>>,
    /// Entries that may still be listed.
    left: Cell<usize>,
}

/// An open directory and its entries, sorted by name.
#[derive(Debug)]
pub(super) struct Listing {
    directory: Directory,
    /// Its path below the root.
    path: PathBuf,
    pub(super) entries: Vec<Entry>,
    /// Whether there are more than are listed.
    pub(super) is_cut: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    name: CString,
    kind: FileType,
}

impl Source {
    pub(super) fn new(
        scope: DefinitionScope,
        root: Workspace,
        encodings: Arc<FileEncodings>,
    ) -> Self {
        let below = match scope {
            DefinitionScope::User => "",
            DefinitionScope::Workspace => ".claude",
        };
        let (seen, left) = (RefCell::default(), Cell::new(MAX_ENTRIES));
        Self { scope, root, encodings, below, seen, left }
    }

    /// The path below the root of a directory of the place.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        Path::new(self.below).join(name)
    }

    /// The workspace, or the user's directory.
    pub(super) fn root_path(&self) -> &Path {
        self.root.root()
    }

    /// The path of a file, by its path below the root.
    pub(super) fn whole_path(&self, path: &Path) -> PathBuf {
        self.root.root().join(path)
    }

    /// Everything that was looked at, with its state before that, by its path below the root.
    pub(super) fn into_seen(self) -> Vec<(PathBuf, SeenVersion)> {
        self.seen.into_inner()
    }

    /// The state of what has this path below the root.
    pub(super) fn version(&self, path: &Path) -> SeenVersion {
        self.root.version_of(path).map_err(|error| error.kind())
    }

    /// Lists a directory of the place. `None`: it is not there.
    pub(super) fn list(&self, name: &str) -> Result<Option<Listing>, String> {
        let path = self.path_of(name);
        let version = self.version(&path);
        self.seen.borrow_mut().push((path.clone(), version));
        if matches!(version, Err(ErrorKind::NotFound | ErrorKind::NotADirectory)) {
            return Ok(None);
        }
        let directory = self.resolve(&path)?.open_directory().map_err(|error| error.to_string())?;
        self.list_open(path, directory).map(Some)
    }

    /// Lists a directory that another one lists.
    pub(super) fn list_in(&self, listing: &Listing, entry: &Entry) -> Result<Listing, String> {
        let path = listing.path_of(entry);
        self.seen.borrow_mut().push((path.clone(), self.version(&path)));
        let directory = match entry.kind {
            FileType::Directory => listing.directory.open_directory(&entry.name),
            _ => self.resolve(&path)?.open_directory(),
        };
        self.list_open(path, directory.map_err(|error| error.to_string())?)
    }

    fn list_open(&self, path: PathBuf, directory: Directory) -> Result<Listing, String> {
        let mut entries = Vec::new();
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut is_more = true;
        while is_more && entries.len() <= self.left.get() {
            let take = |name: &CStr, kind| {
                if !name.to_bytes().starts_with(b".") {
                    entries.push(Entry { name: name.to_owned(), kind });
                }
            };
            is_more = directory.list(&mut buffer, 1, take).map_err(|error| error.to_string())?;
        }
        let is_cut = entries.len() > self.left.get();
        entries.truncate(self.left.get());
        self.left.set(self.left.get() - entries.len());
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Listing { directory, path, entries, is_cut })
    }

    /// Reads a file that a directory lists.
    pub(super) fn read(
        &self,
        listing: &Listing,
        entry: &Entry,
        most: u64,
    ) -> Result<DecodedText, String> {
        let path = listing.path_of(entry);
        let open = || match entry.kind {
            FileType::RegularFile => {
                let opened = listing.directory.open_file(&entry.name);
                opened.map(|opened| opened.file).map_err(|error| error.to_string())
            }
            _ => self.open(&path),
        };
        self.read_opened(&path, open, most)
    }

    /// Reads the file `name` in a directory that another one lists. `None`: it is not there.
    pub(super) fn read_in(
        &self,
        listing: &Listing,
        entry: &Entry,
        name: &CStr,
        most: u64,
    ) -> Result<Option<DecodedText>, String> {
        let path = listing.path_of(entry).join(OsStr::from_bytes(name.to_bytes()));
        let direct = || -> io::Result<File> {
            listing.directory.open_directory(&entry.name)?.open_file_of_unknown_kind(name)
        };
        let opened = match entry.kind {
            FileType::Directory => direct().ok(),
            _ => None,
        };
        if opened.is_none()
            && let Err(error) = self.version(&path)
        {
            self.seen.borrow_mut().push((path, Err(error)));
            return Ok(None);
        }
        let open = || opened.map_or_else(|| self.open(&path), Ok);
        self.read_opened(&path, open, most).map(Some)
    }

    /// Reads a file by its path below the root. Returns what it was found to be as well.
    pub(super) fn read_path(&self, path: &Path, most: u64) -> Result<(String, Target), String> {
        let target = self.resolve(path)?;
        let read = self.read_opened(path, || open_target(&target), most)?;
        Ok((read.text, target))
    }

    fn read_opened(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<File, String>,
        most: u64,
    ) -> Result<DecodedText, String> {
        let read = open().and_then(|file| {
            let (bytes, metadata) =
                named_file::read_open(&file, most).map_err(|error| error.to_string())?;
            self.check(&metadata)?;
            let declared = || self.encodings.declared(&self.whole_path(path));
            let text = encoding::text_of(&bytes, true, declared);
            let text = text.map_err(|Binary(what)| format!("is no text but {what}"))?;
            Ok((text, FileVersion::from_metadata(&metadata)))
        });
        let version = match &read {
            Ok((_, version)) => Ok(*version),
            Err(_) => self.version(path),
        };
        self.seen.borrow_mut().push((path.to_owned(), version));
        read.map(|(text, _)| text)
    }

    fn open(&self, path: &Path) -> Result<File, String> {
        open_target(&self.resolve(path)?)
    }

    fn resolve(&self, path: &Path) -> Result<Target, String> {
        self.root.resolve(&self.whole_path(path)).map_err(|error| match error {
            ResolveError::Outside { leads_to, .. } => {
                let root = self.root.root().display();
                format!("is a link that leads out of {root}, to {}", leads_to.display())
            }
            ResolveError::Io { source, .. } => source.to_string(),
            error => error.to_string(),
        })
    }

    /// As of the user's settings: what another user writes must not instruct the model. A
    /// workspace's files are whoever's the operator trusted them to be.
    fn check(&self, metadata: &Metadata) -> Result<(), String> {
        if self.scope == DefinitionScope::Workspace {
            return Ok(());
        }
        let ownership = Ownership::from_metadata(metadata);
        ownership.expect_ours_or_roots()?;
        ownership.refuse_other_writers("chmod go-w it")
    }
}

fn open_target(target: &Target) -> Result<File, String> {
    // Whatever such a file is, it was not written for a model.
    if target.real_path().extension().is_none_or(|extension| extension != "md") {
        return Err("is a link to something else than Markdown".to_owned());
    }
    target.open_resolved_file().map_err(|error| error.to_string())
}

impl Listing {
    /// Whether both are of one directory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.directory.id().is_ok_and(|id| other.directory.id().is_ok_and(|other| id == other))
    }

    /// The path of an entry below the root.
    pub(super) fn path_of(&self, entry: &Entry) -> PathBuf {
        self.path.join(entry.name())
    }
}

impl Entry {
    pub(super) fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }

    /// Whether it may be a directory. What a link leads to, only the look at it tells.
    pub(super) fn may_be_directory(&self) -> bool {
        matches!(self.kind, FileType::Directory | FileType::Symlink | FileType::Unknown)
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }
}
