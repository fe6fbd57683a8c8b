//! Runs work that blocks on the disk in threads of its own.

use super::tool::{Preview, ToolError};
use crate::blocking::FILES;
use crate::files::FileError;
use crate::permissions::{AskedAccess, Permit};
use crate::workspace::{ContentState, Target};

/// Runs `work` on the file that the call is permitted to use. With the file come the contents
/// that a person approved a change of.
pub(super) async fn with_file<T: Send + 'static>(
    permit: Permit,
    work: impl FnOnce(&Target, Option<ContentState>) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let (target, approved) =
        permit.into_target().ok_or_else(|| ToolError::failed("no file was permitted"))?;
    FILES.run(move || work(&target, approved)).await.map_err(ToolError::failed)?
}

/// The contents of a file, and what a change of them would look like as Markdown.
pub(super) type Previewed = Result<(ContentState, Result<String, FileError>), ToolError>;

/// Shows what a change of the asked file would do. `work` computes it, and writes nothing.
pub(super) async fn preview_of_file(
    asked: &AskedAccess,
    work: impl FnOnce(&Target) -> Previewed + Send + 'static,
) -> Preview {
    let Some(target) = asked.target().cloned() else {
        return Preview::failed(ToolError::failed("no file was judged"), None);
    };
    match FILES.run(move || work(&target)).await.map_err(ToolError::failed) {
        Ok(Ok((contents, Ok(shown)))) => Preview { contents: Some(contents), ..Preview::of(shown) },
        Ok(Ok((contents, Err(error)))) => Preview::failed(error.into(), Some(contents)),
        Ok(Err(error)) | Err(error) => Preview::failed(error, None),
    }
}
