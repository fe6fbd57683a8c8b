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

use crate::blocking::{DECODING, FILES};
use crate::files::{Fingerprint, MAX_KEPT_BYTES};
use crate::tools::tool::{CallContext, PictureFormat, ToolError};
use crate::workspace::{FileVersion, Target};

/// The largest file that is taken into memory.
const MAX_FILE_BYTES: u64 = 100_000_000;

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

impl Kind {
    /// Looks at the first bytes of the file. Empty notebooks are empty files.
    pub(super) fn recognise(file: &File, path: &Path) -> io::Result<Option<Self>> {
        let mut first = [0; 12];
        let mut length = 0;
        while length < first.len() {
            match file.read_at(&mut first[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let first = &first[..length];
        Ok(match PictureFormat::recognise(first) {
            Some(format) => Some(Self::Picture(format)),
            None if first.starts_with(b"%PDF-") => Some(Self::Pdf),
            None => (!first.is_empty() && is_called_notebook(path)).then_some(Self::Notebook),
        })
    }
}

fn is_called_notebook(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

impl Media {
    pub(super) fn new(kind: Kind, file: File, target: &Target) -> io::Result<Self> {
        let version = FileVersion::from_metadata(&file.metadata()?);
        let (path, real_path) = (target.path().to_owned(), target.real_path().to_owned());
        Ok(Self { kind, file, version, path, real_path })
    }

    /// Runs `work` on the contents. Of such work two pieces run at once in the whole server.
    pub(super) async fn with_contents<T: Send + 'static>(
        self,
        context: &CallContext,
        work: impl FnOnce(&Path, Bytes) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let slot = DECODING.enter().await.map_err(ToolError::failed)?;
        let Self { kind, file, version, path, real_path } = self;
        let name = path.display().to_string();
        let session = Arc::clone(&context.session);
        let read = move || {
            let bytes = read_whole(&file, version)?;
            // Of what is no text no difference is ever shown.
            let is_kept = kind == Kind::Notebook && bytes.len() <= MAX_KEPT_BYTES;
            let kept = is_kept.then(|| bytes.to_vec().into());
            let fingerprint = Fingerprint::from_bytes(version, &bytes);
            session.read_state.saw(&real_path, fingerprint, kept);
            Ok(bytes)
        };
        let bytes = in_time(&name, FILES.run(read)).await?.map_err(ToolError::failed)?;
        let bytes = bytes.map_err(|error: io::Error| could_not_read(&name, &error))?;
        let done = slot.spawn(move || work(&path, bytes)).await;
        done.unwrap_or_else(|error| panic::resume_unwind(error.into_panic()))
    }

    /// The open file. Its contents will be read by another process.
    pub(super) async fn into_file(
        self,
        context: &CallContext,
    ) -> Result<(File, PathBuf), ToolError> {
        // Its hash is not known, so that the identity of the file decides whether it is the same.
        let fingerprint = Fingerprint { version: self.version, hash: None };
        let (session, real_path) = (Arc::clone(&context.session), self.real_path);
        let see = move || session.read_state.saw(&real_path, fingerprint, None);
        FILES.run(see).await.map_err(ToolError::failed)?;
        Ok((self.file, self.path))
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
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES / 1_000_000;
        return Err(io::Error::other(format!(
            "it has more than {limit} MB, the most that is read"
        )));
    }
    if FileVersion::from_metadata(&file.metadata()?) != version {
        return Err(io::Error::other("it changed while it was being read; read it again"));
    }
    Ok(bytes.into())
}

pub(super) fn could_not_read(name: &str, error: &io::Error) -> ToolError {
    ToolError::Failed(format!("could not read {name}: {error}"))
}
