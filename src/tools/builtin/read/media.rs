//! Recognises files that are no text, and takes their contents into memory.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::other_pictures;
use crate::blocking::{DECODING, FILES};
use crate::documents::pdf;
use crate::files::notebook::is_called_one;
use crate::files::{Content, Fingerprint, MAX_KEPT_BYTES};
use crate::tools::tool::{CallContext, PictureFormat, ToolError};
use crate::workspace::{FileVersion, Target};

/// The largest file that is taken into memory.
const MAX_FILE_BYTES: u64 = 100_000_000;

/// Bytes that tell the format of a picture.
const PICTURE_BYTES: usize = 12;

/// How long reading it may take. A file system that hangs must not keep others from decoding.
const MAX_READ_TIME: Duration = Duration::from_secs(20);

/// What a file is, if it is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Picture(PictureFormat),
    Pdf,
    /// Its contents are text, so its name decides.
    Notebook,
}

/// An open file.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) kind: Kind,
    file: File,
    version: FileVersion,
    pub(super) path: PathBuf,
    real_path: PathBuf,
}

/// What a file holds, for the read state.
#[derive(Debug)]
pub(super) struct Contents {
    real_path: PathBuf,
    fingerprint: Fingerprint,
    kept: Option<Content>,
}

impl Kind {
    /// Looks at the first bytes of the file. Empty notebooks are empty files.
    pub(super) fn recognise(file: &File, path: &Path) -> io::Result<Option<Self>> {
        let first = &first_bytes(file)?[..];
        Ok(match PictureFormat::recognise(&first[..first.len().min(PICTURE_BYTES)]) {
            Some(format) => Some(Self::Picture(format)),
            None if first.starts_with(b"%PDF-") || pdf::is_document(first) => Some(Self::Pdf),
            None => (!first.is_empty() && is_called_one(path)).then_some(Self::Notebook),
        })
    }
}

/// The first bytes of a file.
fn first_bytes(file: &File) -> io::Result<Vec<u8>> {
    let mut first = vec![0; pdf::FIRST_BYTES];
    let mut length = 0;
    while length < first.len() {
        match file.read_at(&mut first[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    first.truncate(length);
    Ok(first)
}

/// What a binary file is that holds a picture in a format which is not shown.
pub(super) fn other_picture(file: &File) -> Option<&'static str> {
    other_pictures::name(&first_bytes(file).ok()?)
}

impl Media {
    pub(super) fn new(kind: Kind, file: File, target: &Target) -> io::Result<Self> {
        let version = FileVersion::from_metadata(&file.metadata()?);
        let (path, real_path) = (target.path().to_owned(), target.real_path().to_owned());
        Ok(Self { kind, file, version, path, real_path })
    }

    /// Runs `work` on the contents. Of such work two pieces run at once in the whole server.
    pub(super) async fn with_contents<T, E>(
        self,
        context: &CallContext,
        work: impl FnOnce(&Path, Bytes) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ToolError> + Send + 'static,
    {
        let slot = DECODING.enter().await.map_err(ToolError::failed)?;
        let Self { kind, file, version, path, real_path } = self;
        let name = path.display().to_string();
        let read = move || {
            let bytes = read_whole(&file, version)?;
            // Of what is no text no difference is ever shown.
            let is_kept = kind == Kind::Notebook && bytes.len() <= MAX_KEPT_BYTES;
            let kept = is_kept.then(|| Arc::from(&bytes[..]));
            let fingerprint = Fingerprint::from_bytes(version, &bytes);
            Ok((bytes, Contents { real_path, fingerprint, kept }))
        };
        let read = in_time(&name, FILES.run(read)).await?.map_err(ToolError::failed)?;
        let (bytes, contents) = read.map_err(|error: io::Error| could_not_read(&name, &error))?;
        let done = match slot.spawn(move || work(&path, bytes)).await {
            Ok(done) => done?,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => panic::resume_unwind(panic),
                Err(_) => return Err(ToolError::Cancelled.into()),
            },
        };
        contents.seen(context).await?;
        Ok(done)
    }

    /// The open file, whose contents will be read by another process.
    pub(super) fn into_file(self) -> (File, PathBuf, Contents) {
        // Its hash is not known, so that the identity of the file decides whether it is the same.
        let fingerprint = Fingerprint { version: self.version, hash: None };
        let contents = Contents { real_path: self.real_path, fingerprint, kept: None };
        (self.file, self.path, contents)
    }
}

impl Contents {
    /// Records that the answer shows some of it. It does not before there is one.
    pub(super) async fn seen(self, context: &CallContext) -> Result<(), ToolError> {
        let agent = Arc::clone(&context.agent);
        let Self { real_path, fingerprint, kept } = self;
        let see = move || agent.read_state.saw(&real_path, fingerprint, kept);
        FILES.run(see).await.map_err(ToolError::failed)
    }
}

async fn in_time<T>(name: &str, read: impl Future<Output = T>) -> Result<T, ToolError> {
    let late = |_| {
        let seconds = MAX_READ_TIME.as_secs();
        ToolError::Failed(format!("{name} could not be read within {seconds} s"))
    };
    timeout(MAX_READ_TIME, read).await.map_err(late)
}

fn read_whole(file: &File, version: FileVersion) -> io::Result<Bytes> {
    let too_large = || {
        let limit = MAX_FILE_BYTES / 1_000_000;
        io::Error::other(format!("it has more than {limit} MB, the most that is read"))
    };
    // No byte of a file that says that it is too large is read. Others may still grow.
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large());
    }
    if FileVersion::from_metadata(&file.metadata()?) != version {
        return Err(io::Error::other("it changed while it was being read; read it again"));
    }
    Ok(bytes.into())
}

pub(super) fn could_not_read(name: &str, error: &io::Error) -> ToolError {
    ToolError::Failed(format!("could not read {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use super::*;

    #[test]
    fn no_byte_is_read_of_a_file_that_is_too_large() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(MAX_FILE_BYTES + 1).unwrap();
        let version = FileVersion::from_metadata(&file.metadata().unwrap());
        let error = read_whole(&file, version).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 100 MB, the most that is read");
        assert_eq!(file.stream_position().unwrap(), 0);
        file.set_len(3).unwrap();
        let version = FileVersion::from_metadata(&file.metadata().unwrap());
        assert_eq!(read_whole(&file, version).unwrap().len(), 3);
    }
}
