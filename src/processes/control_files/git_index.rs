//! Reads of a git index which paths in it are gitlinks: entries that are repositories of their own.
//!
//! The form is that of git's `Documentation/gitformat-index.txt`, in the versions 2 to 4.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::processes::plain_file;

/// An index of a million files has about this size.
const MAX_BYTES: u64 = 128 << 20;

/// What names the paths of the gitlinks in an index.
pub(super) type Gitlinks = BTreeSet<PathBuf>;

/// The index is of a form that is not known, or no file at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

const SIGNATURE: &[u8] = b"DIRC";

/// The length of the counts in front of the entries.
const HEADER: usize = 12;

/// The length of what `stat` says, in front of an entry's object id.
const STAT: usize = 40;

/// Where the mode stands in it.
const MODE: usize = 24;

/// The type of an entry, among the bits of its mode, and the one of a gitlink.
const TYPE: u32 = 0o170_000;
const GITLINK: u32 = 0o160_000;

/// A further word of flags follows. Known from version 3 on.
const EXTENDED: u16 = 0x4000;

/// The lengths of object ids: SHA-1, SHA-256. The index does not say which it has.
const OBJECT_IDS: [usize; 2] = [20, 32];

/// What of the flags is the length of the name. A longer name has all of these bits.
const NAME_LENGTH: u16 = 0x0fff;

/// A longer name is none that a file can have.
const MAX_NAME: usize = 4096;

/// More gitlinks than any project has.
const MAX_GITLINKS: usize = 20_000;

/// An extension that says that the entries are in another file.
const SPLIT: &[u8] = b"link";

/// Reads the index at `path`. One that is missing has no gitlinks.
pub(super) fn gitlinks(path: &Path) -> Result<Gitlinks, Unreadable> {
    // Of one that is too long no part is taken for the whole.
    let bytes = match plain_file::read(path, MAX_BYTES + 1) {
        Ok(bytes) if MAX_BYTES < bytes.len() as u64 => return Err(Unreadable),
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Gitlinks::new()),
        Err(_) => return Err(Unreadable),
    };
    let read = OBJECT_IDS.into_iter().find_map(|id| parse(&bytes, id));
    read.ok_or(Unreadable)
}

/// The gitlinks of an index whose object ids have this length. `None` where it is not of this
/// form from the first byte to the last.
fn parse(bytes: &[u8], object_id: usize) -> Option<Gitlinks> {
    let end = bytes.len().checked_sub(object_id)?;
    let body = bytes.get(..end)?;
    if body.get(..SIGNATURE.len())? != SIGNATURE {
        return None;
    }
    let version = number(body, 4)?;
    let count = number(body, 8)?;
    let mut entries = Entries { body, object_id, version, at: HEADER, name: Vec::new() };
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut gitlinks = Gitlinks::new();
    for _ in 0..count {
        let mode = entries.next()?;
        if mode & TYPE == GITLINK {
            gitlinks.insert(PathBuf::from(OsString::from_vec(entries.name.clone())));
            if MAX_GITLINKS < gitlinks.len() {
                return None;
            }
        }
    }
    extensions_are_known(body.get(entries.at..)?).then_some(gitlinks)
}

/// Whether the extensions reach to the end, and none of them keeps entries elsewhere.
fn extensions_are_known(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some((name, length)) = rest.get(..4).zip(number(rest, 4)) else { return false };
        let after = usize::try_from(length).ok().and_then(|length| rest.get(8..)?.get(length..));
        match after {
            Some(after) if name != SPLIT => rest = after,
            _ => return false,
        }
    }
    true
}

/// The entries of an index, one after the other.
struct Entries<'a> {
    body: &'a [u8],
    object_id: usize,
    version: u32,
    at: usize,
    /// The name of the last one that was read. Version 4 says only how the next one differs.
    name: Vec<u8>,
}

impl Entries<'_> {
    /// Reads the next entry. Returns its mode.
    fn next(&mut self) -> Option<u32> {
        let begin = self.at;
        let mode = number(self.body, begin + MODE)?;
        let mut at = begin + STAT + self.object_id;
        let flags = u16::from_be_bytes(self.body.get(at..at + 2)?.try_into().ok()?);
        at += 2;
        if flags & EXTENDED != 0 {
            if self.version < 3 {
                return None;
            }
            at += 2;
        }
        if self.version == 4 {
            at = self.strip(at)?;
        } else {
            self.name.clear();
        }
        let rest = self.body.get(at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        self.name.extend_from_slice(&rest[..length]);
        at += length;
        self.at = if self.version == 4 {
            at + 1
        } else {
            // One to eight NUL characters make the length a multiple of eight.
            begin + (at - begin + 8) / 8 * 8
        };
        let padding = self.body.get(at..self.at)?;
        let is_named = !self.name.is_empty() && padding.iter().all(|byte| *byte == 0);
        // git goes by this length alone, and would find another entry where it is wrong.
        let told = usize::from(flags & NAME_LENGTH);
        let has_length = told == self.name.len().min(usize::from(NAME_LENGTH));
        (is_named && has_length && self.name.len() <= MAX_NAME).then_some(mode)
    }

    /// Takes off the end of the last name what the next one does not have. Returns where the new
    /// end stands.
    fn strip(&mut self, mut at: usize) -> Option<usize> {
        let mut stripped: usize = 0;
        loop {
            let byte = *self.body.get(at)?;
            at += 1;
            stripped = stripped.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                break;
            }
            // Each number has one form alone.
            stripped = stripped.checked_add(1)?;
        }
        self.name.truncate(self.name.len().checked_sub(stripped)?);
        Some(at)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    const OBJECT: &str = "1111111111111111111111111111111111111111";

    fn git(directory: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        let git = git.args(["-c", "user.name=n", "-c", "user.email=e"]).args(arguments);
        let done = git.current_dir(directory).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A repository with three files and two gitlinks.
    fn repository(format: &str) -> TempDir {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        git(path, &["init", "-q", &format!("--object-format={format}")]);
        for name in ["a", "deep/er/file", "z"] {
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            fs::write(path.join(name), name).unwrap();
        }
        git(path, &["add", "."]);
        let object = if format == "sha1" { OBJECT.to_owned() } else { "1".repeat(64) };
        for name in ["deep/link", "with blank"] {
            let entry = format!("160000,{object},{name}");
            git(path, &["update-index", "--add", "--cacheinfo", &entry]);
        }
        directory
    }

    fn index(directory: &TempDir) -> PathBuf {
        directory.path().join(".git/index")
    }

    fn both() -> Gitlinks {
        ["deep/link", "with blank"].map(PathBuf::from).into()
    }

    #[test]
    fn gitlinks_are_found_in_every_version_and_with_every_object_id() {
        for format in ["sha1", "sha256"] {
            for version in ["2", "3", "4"] {
                let directory = repository(format);
                // Version 3 is written where an entry needs it.
                git(directory.path(), &["update-index", "--index-version", version]);
                if version != "2" {
                    fs::write(directory.path().join("later"), "").unwrap();
                    git(directory.path(), &["add", "--intent-to-add", "later"]);
                }
                let bytes = fs::read(index(&directory)).unwrap();
                assert_eq!(bytes[7].to_string(), version, "{format}");
                assert_eq!(gitlinks(&index(&directory)), Ok(both()), "{format} {version}");
            }
        }
    }

    #[test]
    fn what_has_no_index_has_no_gitlinks() {
        let directory = TempDir::new().unwrap();
        assert_eq!(gitlinks(&directory.path().join("index")), Ok(Gitlinks::new()));
    }

    #[test]
    fn what_is_no_index_or_keeps_its_entries_elsewhere_is_unreadable() {
        let directory = repository("sha1");
        let path = index(&directory);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(gitlinks(&path), Err(Unreadable), "the first {length} bytes");
        }
        let mut other = whole.clone();
        other[7] = 5;
        fs::write(&path, &other).unwrap();
        assert_eq!(gitlinks(&path), Err(Unreadable), "version 5");
        fs::write(&path, &whole).unwrap();
        git(directory.path(), &["update-index", "--split-index"]);
        assert_eq!(gitlinks(&path), Err(Unreadable), "a split index");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("config", &path).unwrap();
        assert_eq!(gitlinks(&path), Err(Unreadable), "a link");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(gitlinks(&path), Err(Unreadable), "a directory");
    }

    /// Whatever the bytes are, reading them ends, and neither panics nor takes much memory.
    #[test]
    fn any_bytes_can_be_read() {
        let directory = repository("sha1");
        let path = index(&directory);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                for object_id in OBJECT_IDS {
                    _ = parse(&changed, object_id);
                }
            }
        }
    }
}
