//! Removes a session's oldest files until the rest is small enough.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, statat, unlinkat};
use rustix::io::Errno;

use super::GrowingFile;

/// A file that may be removed.
struct Kept {
    name: Vec<u8>,
    bytes: u64,
    /// When it was last written.
    written: (i64, u64),
}

/// Removes files of `directory`, the one that was written least recently first, until `wanted`
/// bytes more are within `most`. Never one of `growing`, which count all the same. Returns for how
/// many bytes there is room then.
pub(super) fn make_room(
    directory: &File,
    (most, wanted): (u64, u64),
    growing: &[GrowingFile],
) -> io::Result<u64> {
    let mut total = 0;
    let mut ended = Vec::new();
    for kept in files_of(directory)? {
        if let Some(file) = growing.iter().find(|file| file.name.as_bytes() == kept.name) {
            total += kept.bytes.max(file.claimed);
        } else {
            total += kept.bytes;
            ended.push(kept);
        }
    }
    ended.sort_unstable_by_key(|kept| kept.written);
    for oldest in ended {
        if total.saturating_add(wanted) <= most {
            break;
        }
        remove(directory, &oldest)?;
        total -= oldest.bytes;
    }
    Ok(most.saturating_sub(total))
}

/// Removes files of `directory`, the one that was written least recently first, until there are at
/// most `count` with `bytes` bytes together.
pub(super) fn keep_newest(directory: &File, (count, bytes): (usize, u64)) -> io::Result<()> {
    let mut files = files_of(directory)?;
    files.sort_unstable_by_key(|kept| kept.written);
    let mut left = files.len();
    let mut total: u64 = files.iter().map(|kept| kept.bytes).sum();
    for oldest in &files {
        if left <= count && total <= bytes {
            break;
        }
        remove(directory, oldest)?;
        left -= 1;
        total -= oldest.bytes;
    }
    Ok(())
}

/// The files of `directory`.
fn files_of(directory: &File) -> io::Result<Vec<Kept>> {
    let mut files = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        // What has vanished meanwhile takes no room.
        let Ok(stat) = statat(directory, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW)
        else {
            continue;
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            files.push(Kept { name, bytes, written: (stat.st_mtime, stat.st_mtime_nsec) });
        }
    }
    Ok(files)
}

/// One that somebody else has removed is as well.
fn remove(directory: &File, kept: &Kept) -> io::Result<()> {
    match unlinkat(directory, OsStr::from_bytes(&kept.name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
