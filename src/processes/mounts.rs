//! Reads the kernel's table of mounts.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::place::Place;
use crate::sync;

/// The table of the process that reads it.
const TABLE: &str = "/proc/self/mountinfo";

/// The table as it was last read: mounts of the machine change seldom.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mounted {
    pub(crate) at: Place,
    /// The device, and which of its directories.
    pub(crate) what: Place,
}

#[derive(Debug)]
struct Known {
    /// The kernel tells its holder of changes.
    file: File,
    table: Arc<[Mounted]>,
}

/// All mounts that this process sees, as they are now.
pub(super) fn read() -> io::Result<Vec<Mounted>> {
    parsed(&mut File::open(TABLE)?)
}

/// The same, read only if they have changed since the last call.
pub(super) fn current() -> io::Result<Arc<[Mounted]>> {
    let mut known = sync::lock(&KNOWN);
    if let Some(known) = known.as_ref().filter(|known| !known.has_changed()) {
        return Ok(Arc::clone(&known.table));
    }
    let mut file = File::open(TABLE)?;
    let table: Arc<[Mounted]> = parsed(&mut file)?.into();
    *known = Some(Known { file, table: Arc::clone(&table) });
    Ok(table)
}

impl Known {
    fn has_changed(&self) -> bool {
        let mut watched = [PollFd::new(&self.file, PollFlags::PRI)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let changed = PollFlags::PRI | PollFlags::ERR;
        poll(&mut watched, Some(&at_once)).is_err() || watched[0].revents().intersects(changed)
    }
}

fn parsed(file: &mut File) -> io::Result<Vec<Mounted>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(line).collect())
}

/// `id parent device root at options …`
fn line(text: &[u8]) -> Option<Mounted> {
    let mut fields = text.split(|byte| *byte == b' ').skip(2);
    let (device, root, at) = (fields.next()?, fields.next()?, fields.next()?);
    let what = [device, root].join(&b' ');
    Some(Mounted { at: place(&unescaped(at)), what: place(&what) })
}

fn place(bytes: &[u8]) -> Place {
    Path::new(OsStr::from_bytes(bytes)).into()
}

/// A backslash stands before three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_where_and_what() {
        let text = b"36 35 98:0 /a\\040b /w\\134x\\012y rw,noatime master:1 - ext3 /dev/root rw";
        let Mounted { at, what } = line(text).unwrap();
        assert_eq!(at.path(), Path::new("/w\\x\ny"));
        assert_eq!(what.path(), Path::new("98:0 /a\\040b"));
        assert_eq!(line(b""), None);
        assert_eq!(unescaped(b"a\\9\\04"), b"a\\9\\04");
    }

    #[test]
    fn the_table_has_the_root_each_time() {
        let table = current().unwrap();
        assert!(table.iter().any(|mounted| mounted.at.path() == Path::new("/")));
        let again = current().unwrap();
        assert!(again.iter().any(|mounted| mounted.at.path() == Path::new("/")));
        assert!(read().unwrap().iter().any(|mounted| mounted.at.path() == Path::new("/proc")));
    }
}
