//! Keeps the tools that change files from breaking a settings file.

use super::tool::ToolOutput;
use crate::files::{FileError, FileSnapshot, Files};
use crate::workspace::Target;

/// The new contents of a file with the answer, unless they would break a settings file.
pub(crate) fn checked(
    files: &Files,
    target: &Target,
    current: Option<&FileSnapshot>,
    (bytes, mut answer): (Vec<u8>, ToolOutput),
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    let before = current.map(|current| current.bytes.as_slice());
    let warning = files.guard().check(target, before, &bytes).map_err(FileError::Refused)?;
    if let Some(warning) = warning {
        answer.text.close(warning);
    }
    Ok((bytes, answer))
}
