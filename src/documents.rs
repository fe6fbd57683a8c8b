//! Takes the text out of foreign documents, in a worker process: every parser of PDF or HTML
//! crashes, or does not end, on some document.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::process::ExitCode;

use rustix::fs::{MemfdFlags, memfd_create};

pub(crate) mod html;
pub(crate) mod pdf;

/// Why a document was not converted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionError {
    #[error("interrupted")]
    Cancelled,
    #[error("it takes too long to convert")]
    TimedOut,
    #[error("it has too much text")]
    TooMuch,
    #[error("its converter crashed, or ran out of time or memory")]
    BrokeDown,
    #[error("{0}")]
    Unreadable(String),
    #[error("its converter could not be started: {0}")]
    NotStarted(String),
}

/// Reads a document if this process was started for it. Must be called before this process has
/// anything that a document could reach.
pub fn read_if_asked() -> Option<ExitCode> {
    #[cfg(feature = "pdf")]
    if let Some(code) = pdf::extract_if_asked() {
        return Some(code);
    }
    html::convert_if_asked()
}

/// A file of these bytes, to be read from its start.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("document", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}
