//! Reads files that the operator has named. Accepts regular files of a limited size only,
//! and never waits for the other end of a pipe.

pub(crate) mod ours;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads the whole file if it has at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<(Vec<u8>, Metadata)> {
    read_open(&open(path)?, most)
}

/// Opens a regular file, and waits for nobody.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Check before opening, because opening some devices has effects. Another file may be
    // there by then, so whoever reads it checks again.
    expect_regular(&fs::metadata(path)?)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Reads the whole of an open file in the same way.
pub(crate) fn read_open(file: &File, most: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let metadata = file.metadata()?;
    expect_regular(&metadata)?;
    let expected = metadata.len().min(most) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    // One byte more shows that the file is too large. The length in the metadata may be
    // wrong (`/proc`).
    file.take(most + 1).read_to_end(&mut bytes)?;
    if most < bytes.len() as u64 {
        return Err(io::Error::other(format!("is larger than {most} bytes")));
    }
    Ok((bytes, metadata))
}

/// Refuses what is no file, such as a pipe.
pub(crate) fn expect_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(io::Error::other("is not a regular file")) }
}

/// What is wrong with a text of TOML, in one line with the number of the line.
pub(crate) fn located(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count());
    format!("line {}: {}", line + 1, error.message())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn reads_files_and_waits_for_nobody() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "1234").unwrap();
        mkfifoat(CWD, home.path().join("pipe"), Mode::RUSR).unwrap();
        let error = |path: &Path| read(path, 3).unwrap_err().to_string();

        assert_eq!(read(&path, 4).unwrap().0, b"1234");
        assert_eq!(error(&path), "is larger than 3 bytes");
        for what in [&home.path().join("pipe"), home.path(), Path::new("/dev/zero")] {
            assert_eq!(error(what), "is not a regular file");
        }
        assert!(read(Path::new("/proc/self/status"), 1 << 20).is_ok());
    }
}
