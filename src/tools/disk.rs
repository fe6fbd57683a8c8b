//! Work that blocks on the disk, done where it holds up nobody.

use tokio::task;

use super::tool::{ToolError, ToolOutput};
use crate::permissions::Permit;
use crate::workspace::Target;

/// Runs what a call does with the one file it was permitted.
pub(super) async fn with_file(
    permit: Permit,
    work: impl FnOnce(&Target) -> Result<ToolOutput, ToolError> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    let target = permit.into_target().ok_or_else(|| ToolError::failed("no file was permitted"))?;
    blocking(move || work(&target)).await
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    task::spawn_blocking(work).await.map_err(ToolError::failed)?
}
