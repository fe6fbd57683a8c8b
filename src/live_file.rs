//! Reads a file again whenever it has changed.
//!
//! Each use asks for the file's version, which is one system call of about a microsecond. A watch
//! by inotify would hear of no change on a network file system, and would need a watch for each
//! directory above the file, since any of them may be replaced.

mod own_file;

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Seek as _};

pub(crate) use self::own_file::OwnFile;
use crate::clock;
use crate::encoding;
use crate::named_file;
use crate::workspace::FileVersion;

/// A file that changed later than this before it was read is read once more: a second change
/// within one tick of the file system's clock makes no other version. The slowest clock ticks
/// every 10 ms; the rest is for file servers.
const SETTLING_MS: i64 = 100;

/// Attempts to read a file while somebody writes it.
const MAX_ATTEMPTS: usize = 4;

/// Where a file is, and who may have written it.
pub(crate) trait FileSource {
    /// Which file is there, and in which state.
    fn version(&self) -> io::Result<FileVersion>;

    /// Opens it, without waiting for anybody. The error follows the name of the file.
    fn open(&self) -> Result<File, String>;

    /// Refuses a file of which another user may decide what it holds.
    fn check(&self, _metadata: &Metadata) -> Result<(), String> {
        Ok(())
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileContents {
    Missing,
    Text(String),
    /// The reason follows the name of the file.
    Unreadable(String),
}

/// What was made of a file's contents.
#[derive(Debug)]
pub(crate) struct LiveFile<T> {
    seen: Option<Seen>,
    digest: Option<blake3::Hash>,
    value: T,
}

pub(crate) type Version = Result<FileVersion, ErrorKind>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    version: Version,
    is_settled: bool,
}

impl<T> LiveFile<T> {
    /// Holds `value` until the file is read for the first time.
    pub(crate) fn new(value: T) -> Self {
        Self { seen: None, digest: None, value }
    }

    /// What is held, without a look at the file.
    pub(crate) fn unread(&self) -> &T {
        &self.value
    }

    /// What the file says now. `make` is called for contents that differ from those before, with
    /// what was made of those. Blocks.
    pub(crate) fn current(
        &mut self,
        source: &impl FileSource,
        most: u64,
        make: impl FnOnce(FileContents, &T) -> T,
    ) -> &T {
        let version = source.version().map_err(|error| error.kind());
        if self.seen.as_ref().is_some_and(|seen| seen.is_settled && seen.version == version) {
            return &self.value;
        }
        let (contents, version) = match version {
            Err(ErrorKind::NotFound | ErrorKind::NotADirectory) => (FileContents::Missing, version),
            version => read(source, most, version),
        };
        let digest = contents.digest();
        if self.digest != Some(digest) {
            self.value = make(contents, &self.value);
            self.digest = Some(digest);
        }
        let is_settled = is_settled(&version, clock::now_ms());
        self.seen = Some(Seen { version, is_settled });
        &self.value
    }
}

impl FileContents {
    fn digest(&self) -> blake3::Hash {
        let (kind, text) = match self {
            Self::Missing => ("missing", ""),
            Self::Text(text) => ("text", text.as_str()),
            Self::Unreadable(reason) => ("unreadable", reason.as_str()),
        };
        blake3::Hasher::new_derive_key(kind).update(text.as_bytes()).finalize()
    }
}

/// Whether another change would show as another version.
pub(crate) fn is_settled(version: &Version, now_ms: i64) -> bool {
    version.as_ref().map_or(true, |version| version.has_settled(SETTLING_MS, now_ms))
}

/// Reads a file whole in one state.
fn read(source: &impl FileSource, most: u64, before: Version) -> (FileContents, Version) {
    let unreadable = |reason: String, version| (FileContents::Unreadable(reason), version);
    let mut file = match source.open() {
        Ok(file) => file,
        Err(reason) => return unreadable(reason, before),
    };
    let mut version = before;
    for _ in 0..MAX_ATTEMPTS {
        match read_once(&mut file, source, most) {
            Ok((text, before, after)) if before == after => {
                return (FileContents::Text(text), Ok(after));
            }
            Ok((.., after)) => version = Ok(after),
            Err(reason) => return unreadable(reason, version),
        }
    }
    unreadable("keeps changing while it is read".to_owned(), version)
}

type Read = (String, FileVersion, FileVersion);

fn read_once(file: &mut File, source: &impl FileSource, most: u64) -> Result<Read, String> {
    let shown = |error: io::Error| error.to_string();
    // A pipe cannot be rewound, and that is not what is wrong with it.
    named_file::expect_regular(&file.metadata().map_err(shown)?).map_err(shown)?;
    file.rewind().map_err(shown)?;
    let (bytes, metadata) = named_file::read_open(file, most).map_err(shown)?;
    source.check(&metadata)?;
    let after = file.metadata().map_err(shown)?;
    let text = encoding::exact_text(bytes)?;
    let versions = [metadata, after].map(|metadata| FileVersion::from_metadata(&metadata));
    Ok((text, versions[0], versions[1]))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A file, and how often it was opened.
    struct Counted {
        path: PathBuf,
        opened: Cell<usize>,
        /// Appends to the file after each opening, so many times.
        grows: Cell<usize>,
    }

    impl FileSource for Counted {
        fn version(&self) -> io::Result<FileVersion> {
            fs::metadata(&self.path).map(|metadata| FileVersion::from_metadata(&metadata))
        }

        fn open(&self) -> Result<File, String> {
            self.opened.set(self.opened.get() + 1);
            File::open(&self.path).map_err(|error| error.to_string())
        }

        fn check(&self, _: &Metadata) -> Result<(), String> {
            if self.grows.get() > 0 {
                self.grows.set(self.grows.get() - 1);
                let text = fs::read_to_string(&self.path).unwrap();
                fs::write(&self.path, text + "+").unwrap();
            }
            Ok(())
        }
    }

    fn counted(directory: &tempfile::TempDir) -> Counted {
        let path = directory.path().join("file");
        Counted { path, opened: Cell::new(0), grows: Cell::new(0) }
    }

    fn told(live: &mut LiveFile<Vec<FileContents>>, source: &Counted) -> Vec<FileContents> {
        let make = |contents, before: &Vec<_>| [&before[..], &[contents]].concat();
        live.current(source, 10, make).clone()
    }

    #[test]
    fn only_other_contents_are_made_into_something() {
        let directory = tempfile::tempdir().unwrap();
        let source = counted(&directory);
        let mut live = LiveFile::new(Vec::new());
        assert_eq!(told(&mut live, &source), [FileContents::Missing]);
        assert_eq!(told(&mut live, &source), [FileContents::Missing]);
        let text = |text: &str| FileContents::Text(text.to_owned());
        for contents in ["a", "a", "b"] {
            fs::write(&source.path, contents).unwrap();
            told(&mut live, &source);
        }
        assert_eq!(told(&mut live, &source), [FileContents::Missing, text("a"), text("b")]);
        fs::remove_file(&source.path).unwrap();
        assert_eq!(told(&mut live, &source).last(), Some(&FileContents::Missing));
    }

    #[test]
    fn an_old_file_is_looked_at_and_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let source = counted(&directory);
        fs::write(&source.path, "a").unwrap();
        let version = source.version().unwrap();
        assert!(!is_settled(&Ok(version), version.changed_ms() + 1));
        assert!(is_settled(&Ok(version), version.changed_ms() + SETTLING_MS));
        let mut live = LiveFile::new(Vec::new());
        told(&mut live, &source);
        live.seen = Some(Seen { version: Ok(version), is_settled: true });
        let opened = source.opened.get();
        told(&mut live, &source);
        assert_eq!(source.opened.get(), opened);
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again_and_not_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let source = counted(&directory);
        fs::write(&source.path, "a").unwrap();
        source.grows.set(2);
        let mut live = LiveFile::new(Vec::new());
        assert_eq!(told(&mut live, &source), [FileContents::Text("a++".into())]);
        source.grows.set(100);
        fs::write(&source.path, "b").unwrap();
        let reason = "keeps changing while it is read".to_owned();
        assert_eq!(told(&mut live, &source).last(), Some(&FileContents::Unreadable(reason)));
    }
}
