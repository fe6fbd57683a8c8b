//! Reads documents from the workspace, through its own handles.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::documents::{Document, MAX_DOCUMENT_BYTES};
use crate::workspace::{FileVersion, Workspace};

/// What has become of an open document.
#[derive(Debug)]
pub(super) enum Now {
    Same,
    Changed(Document),
    /// It is not there, or no document any more.
    Gone,
}

/// Opens a file of the workspace again by its real path. Reads the disk.
pub(super) fn document(workspace: &Workspace, path: &Path) -> Result<Document, String> {
    let target = workspace.resolve(path).map_err(|error| error.to_string())?;
    let file = target.open_resolved_file().map_err(|error| error.to_string())?;
    read(path, &file)
}

/// Whether an open document has changed on the disk. Reads the disk.
pub(super) fn now(workspace: &Workspace, path: &Path, known: &FileVersion) -> Now {
    let is_same = || {
        let metadata = workspace.resolve(path).ok()?.metadata().ok()?;
        Some(FileVersion::from_metadata(&metadata) == *known)
    };
    match is_same() {
        Some(true) => Now::Same,
        Some(false) => document(workspace, path).map_or(Now::Gone, Now::Changed),
        None => Now::Gone,
    }
}

/// The text of an open file; an error if it is none, or too long. Reads the disk.
pub(crate) fn read(path: &Path, mut file: &File) -> Result<Document, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    let metadata = file.metadata().map_err(failed)?;
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if MAX_DOCUMENT_BYTES < bytes.len() as u64 {
        let most = MAX_DOCUMENT_BYTES >> 20;
        return Err(format!("{shown} is larger than {most} MiB, the most for a language server"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text"))?;
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    Ok(Document { path: path.to_owned(), text, version: FileVersion::from_metadata(&metadata) })
}
