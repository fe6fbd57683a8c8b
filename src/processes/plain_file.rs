//! Reads small files that others have made: what stands at their paths may be anything.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Reads the first `max` bytes of a plain file. A link, a pipe or a device is none, and nobody can
/// keep the reader waiting.
pub(super) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("no plain file"));
    }
    let length = metadata.len().min(max);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn only_plain_files_are_read_and_no_more_of_them_than_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "a text").unwrap();
        assert_eq!(read(&path("file"), 100).unwrap(), b"a text");
        assert_eq!(read(&path("file"), 6).unwrap(), b"a text");
        assert_eq!(read(&path("file"), 3).unwrap(), b"a t");

        mkfifoat(CWD, path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        symlink("file", path("link")).unwrap();
        for name in ["pipe", "link", "."] {
            assert!(read(&path(name), 100).is_err(), "{name}");
        }
        let missing = read(&path("missing"), 100).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
