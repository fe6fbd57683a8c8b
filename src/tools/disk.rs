//! Runs work that blocks on the disk in threads of its own.

use super::tool::{ToolError, ToolOutput};
use crate::blocking::FILES;
use crate::permissions::Permit;
use crate::workspace::Target;

/// Runs `work` on the file that the call is permitted to use.
pub(super) async fn with_file(
    permit: Permit,
    work: impl FnOnce(&Target) -> Result<ToolOutput, ToolError> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    let target = permit.into_target().ok_or_else(|| ToolError::failed("no file was permitted"))?;
    FILES.run(move || work(&target)).await.map_err(ToolError::failed)?
}
