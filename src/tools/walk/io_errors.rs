//! Classifies errors of the file system: a file that is gone, or a reason for the answer.

use std::io;

use rustix::io::Errno;

/// Whether the file or directory has vanished, or something else has taken its name, such as
/// a link.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, NotFound};
    let kind = error.kind();
    matches!(kind, NotFound | NotADirectory | IsADirectory | InvalidInput)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// The reason for the answer why something could not be read.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "no right to read it".to_owned(),
        _ => error.to_string(),
    }
}
