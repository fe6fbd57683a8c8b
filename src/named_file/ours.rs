//! Opens directories that are ours alone, and reads and replaces files in them. Follows no link.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::read_open;
use crate::ownership::Ownership;

/// Opens the directory, and checks that it is ours alone. Creates it if it is missing, and locks
/// nothing.
pub(crate) fn open_directory(path: &Path) -> Result<File, String> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            return Err("is a symbolic link; name the directory itself".into());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| format!("cannot be made: {error}"))?,
        Ok(_) | Err(_) => {}
    }
    open_ours(path)
}

/// Opens an existing directory, and checks that it is ours alone.
pub(crate) fn open_ours(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(
        rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| io::Error::from(error).to_string())?,
    );
    let metadata = directory.metadata().map_err(|error| error.to_string())?;
    let ownership = Ownership::from_metadata(&metadata);
    ownership.expect_ours()?;
    let remedy = "chmod 700 it";
    ownership.refuse_other_writers(remedy)?;
    ownership.expect_usable(remedy)?;
    Ok(directory)
}

/// Follows no link, and does not wait for the other end of a pipe.
pub(crate) fn open_in(directory: &File, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(File::from(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Reads a file that only we may read, as text. `None`: there is none. The error follows the
/// name of the file.
pub(crate) fn read_text(directory: &File, name: &str, most: u64) -> Result<Option<String>, String> {
    let file = match open_in(directory, name, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let (bytes, metadata) = read_open(&file, most).map_err(|error| error.to_string())?;
    let ownership = Ownership::from_metadata(&metadata);
    ownership.expect_ours()?;
    ownership.refuse_other_readers("chmod 600 it")?;
    String::from_utf8(bytes).map(Some).map_err(|_| "is not UTF-8".to_owned())
}

/// Replaces the file in one step, so that no reader finds half of it. Only we may read it.
pub(crate) fn replace(directory: &File, name: &str, text: &str) -> io::Result<()> {
    let new_name = format!(".{name}.new");
    match unlinkat(directory, &new_name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = open_in(directory, &new_name, flags)?;
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    renameat(directory, &new_name, directory, name)?;
    directory.sync_all()
}

/// Waits until no other command holds the lock. It is held until the file is dropped.
pub(crate) fn lock(directory: &File, name: &str) -> io::Result<File> {
    let file = open_in(directory, name, OFlags::RDWR | OFlags::CREATE)?;
    file.lock()?;
    Ok(file)
}
/// A reason on one line, and what to do about it.
pub(crate) fn with_remedy(reason: &str, remedy: &str) -> String {
    format!("{}; {remedy}", reason.lines().collect::<Vec<_>>().join(" "))
}
