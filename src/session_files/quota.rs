//! Removes a session's oldest files until the rest is small enough.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, statat, unlinkat};

/// A file that may be removed.
struct Kept {
    name: Vec<u8>,
    bytes: u64,
    /// When it was last written.
    written: (i64, u64),
}

/// Removes files of `directory`, the one that was written least recently first, until all
/// together have at most `most` bytes. Never one of `growing`, which count all the same.
pub(super) fn make_room(directory: &File, most: u64, growing: &[String]) -> io::Result<()> {
    let mut total = 0;
    let mut ended = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        // What has vanished meanwhile takes no room.
        let Ok(stat) = statat(directory, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW)
        else {
            continue;
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            continue;
        }
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        total += bytes;
        if !growing.iter().any(|growing| growing.as_bytes() == name) {
            ended.push(Kept { name, bytes, written: (stat.st_mtime, stat.st_mtime_nsec) });
        }
    }
    ended.sort_unstable_by_key(|kept| kept.written);
    for oldest in ended {
        if total <= most {
            break;
        }
        unlinkat(directory, OsStr::from_bytes(&oldest.name), AtFlags::empty())?;
        total -= oldest.bytes;
    }
    Ok(())
}
