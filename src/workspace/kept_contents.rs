//! Keeps the contents of a file that is written in place, and puts them back at the next start if
//! the server was killed meanwhile.
//!
//! A record is one file: a line of JSON, the old contents, the new ones. It appears whole, by a
//! rename, before the first byte of the file changes, and goes when the last one is on the disk.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, mkdirat, openat, renameat, statx, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::half_written::{Direction, Medium, is_half_written, write_over};
use super::handles::{open_directory, open_without_links, regular};
use crate::file_id::FileId;
use crate::ownership::Ownership;
use crate::text::printable_path;

/// How all names begin that we make beside files, and in the directory of notes.
pub(super) const PREFIX: &str = ".toolhand-";

/// A record that is not whole yet.
const PART: &str = ".part";
/// A record of a file that gets its new contents.
const TO_NEW: &str = ".in-place";
/// A record of a file that gets its old contents back.
const TO_OLD: &str = ".put-back";

/// The directory of old contents that could not be put back.
pub(super) const KEPT: &str = "kept";

/// The longest line of JSON: a path of 4096 bytes, as numbers.
const MAX_HEADER: u64 = 64 << 10;

/// As much of a file's name as the name of its kept contents has.
const MAX_NAME: usize = 80;

/// Opens a regular file for reading and writing, and follows no link.
const UPDATE: OFlags = OFlags::RDWR
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Opens the file `name` of an open directory for reading and writing.
pub(super) fn open_for_update(directory: &OwnedFd, name: &OsStr) -> io::Result<File> {
    regular(openat(directory, name, UPDATE, Mode::empty())?)
}

/// The first line of a record.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Without links.
    path: OsString,
    id: FileId,
    /// When the file was made, where the file system knows. The number of a device may be
    /// another one after a restart of the machine or of a container.
    born: Option<(i64, u32)>,
    old: u64,
    new: u64,
    /// The hash of both contents, as the record has them.
    hash: String,
}

/// The contents of a file that is being written in place. If this is neither discarded nor put
/// back, the next start does it.
pub(super) struct KeptContents<'a> {
    notes: OwnedFd,
    id: String,
    old: &'a [u8],
    file: &'a File,
}

/// A file that is about to be written in place.
#[derive(Clone, Copy)]
pub(super) struct FileInPlace<'a> {
    /// Without links.
    pub(super) path: &'a Path,
    pub(super) file: &'a File,
    pub(super) old: &'a [u8],
    pub(super) new: &'a [u8],
}

impl<'a> KeptContents<'a> {
    /// Keeps the contents in the directory of notes, on the disk.
    pub(super) fn keep(notes: OwnedFd, it: FileInPlace<'a>) -> io::Result<Self> {
        let id = Uuid::new_v4().simple().to_string();
        let part = format!("{PREFIX}{id}{PART}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut record = File::from(openat(&notes, &part, flags, Mode::RUSR | Mode::WUSR)?);
        let written = write_record(&mut record, it).and_then(|()| {
            renameat(&notes, &part, &notes, name_of(&id, Direction::ToNew))?;
            sync_directory(&notes)
        });
        match written {
            Ok(()) => Ok(Self { notes, id, old: it.old, file: it.file }),
            Err(error) => {
                for name in [part, name_of(&id, Direction::ToNew)] {
                    let _ = unlinkat(&notes, name, AtFlags::empty());
                }
                Err(error)
            }
        }
    }

    /// The file has its new contents, on the disk.
    pub(super) fn discard(self) {
        discard(&self.notes, &name_of(&self.id, Direction::ToNew));
    }

    /// Gives the file its old contents back, because the new ones could not be written. If that
    /// fails too, the record is left for the next start.
    pub(super) fn put_back(self) -> Result<(), LeftRecord> {
        let done = turn_round(&self.notes, &self.id).and_then(|()| put_back(self.file, self.old));
        match done {
            Ok(()) => {
                discard(&self.notes, &name_of(&self.id, Direction::ToOld));
                Ok(())
            }
            Err(error) => Err(LeftRecord { notes: self.notes, id: self.id, error }),
        }
    }
}

/// The record of a file that could be given neither its new contents nor its old ones.
#[derive(Debug)]
pub(super) struct LeftRecord {
    notes: OwnedFd,
    id: String,
    pub(super) error: io::Error,
}

impl LeftRecord {
    /// The file was written after all.
    pub(super) fn discard(self) {
        for direction in [Direction::ToNew, Direction::ToOld] {
            let _ = unlinkat(&self.notes, name_of(&self.id, direction), AtFlags::empty());
        }
    }
}

fn name_of(id: &str, direction: Direction) -> String {
    let suffix = match direction {
        Direction::ToNew => TO_NEW,
        Direction::ToOld => TO_OLD,
    };
    format!("{PREFIX}{id}{suffix}")
}

fn write_record(record: &mut File, it: FileInPlace<'_>) -> io::Result<()> {
    let metadata = it.file.metadata()?;
    let header = Header {
        path: it.path.into(),
        id: FileId::from_metadata(&metadata),
        born: born(it.file),
        old: it.old.len() as u64,
        new: it.new.len() as u64,
        hash: hash_of(it.old, it.new),
    };
    let mut line = serde_json::to_vec(&header)?;
    line.push(b'\n');
    record.write_all(&line)?;
    record.write_all(it.old)?;
    record.write_all(it.new)?;
    record.sync_all()
}

fn hash_of(old: &[u8], new: &[u8]) -> String {
    blake3::Hasher::new().update(old).update(new).finalize().to_string()
}

/// When the file was made, if the file system tells.
fn born(file: impl AsFd) -> Option<(i64, u32)> {
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let is_told = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    is_told.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec))
}

fn sync_directory(directory: &OwnedFd) -> io::Result<()> {
    File::from(directory.try_clone()?).sync_all()
}

/// Notes on the disk that the old contents are being put back.
fn turn_round(notes: &OwnedFd, id: &str) -> io::Result<()> {
    renameat(notes, name_of(id, Direction::ToNew), notes, name_of(id, Direction::ToOld))?;
    sync_directory(notes)
}

/// Removes a record. If that fails, the next start sees that it is of no use.
fn discard(notes: &OwnedFd, name: &str) {
    if let Err(error) = unlinkat(notes, name, AtFlags::empty()) {
        tracing::warn!(%error, name, "kept contents could not be removed");
    }
}

impl Medium for &File {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

fn put_back(mut file: &File, old: &[u8]) -> io::Result<()> {
    let found = read_whole(file, u64::MAX)?;
    write_over(&mut file, &found, old)
}

/// The contents of a file, up to one byte more than `most`.
pub(super) fn read_whole(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = 0;
    let mut piece = vec![0; 1 << 20];
    while at <= most {
        let read = match file.read_at(&mut piece, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..read]);
        at += read as u64;
    }
    Ok(bytes)
}

/// What an entry of the directory of notes is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Record {
        id: String,
        direction: Direction,
    },
    /// A record that was never whole: its file was not touched.
    Part,
    /// The directory of what could not be put back.
    Kept,
    Other,
}

impl Entry {
    pub(super) fn of(name: &OsStr) -> Self {
        if name == KEPT {
            return Self::Kept;
        }
        for (suffix, direction) in [(TO_NEW, Direction::ToNew), (TO_OLD, Direction::ToOld)] {
            if let Some(id) = id_in(name, suffix) {
                return Self::Record { id: id.to_owned(), direction };
            }
        }
        if id_in(name, PART).is_some() { Self::Part } else { Self::Other }
    }
}

/// The id in a name of ours with this end.
pub(super) fn id_in<'n>(name: &'n OsStr, suffix: &str) -> Option<&'n str> {
    let id = name.to_str()?.strip_prefix(PREFIX)?.strip_suffix(suffix)?;
    Uuid::try_parse(id).is_ok().then_some(id)
}

/// A record of a server that has ended.
struct Record {
    header: Header,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// What a file holds that a killed server was writing.
enum Left {
    /// The old or the new contents.
    Whole,
    /// A part of the new contents, and what it holds.
    Half(File, Vec<u8>),
    /// Something else, or it is no longer there.
    Changed,
}

/// Sees to the file of a record: puts its old contents back if it is half written, and keeps them
/// aside if it was changed since. The record then goes. It stays if that fails, for the next
/// start.
pub(super) fn settle(
    notes: &OwnedFd,
    notes_path: &Path,
    id: &str,
    direction: Direction,
) -> io::Result<()> {
    let name = name_of(id, direction);
    let record = Record::read(notes, &name)?;
    let path = Path::new(&record.header.path);
    let failed = |error: io::Error| {
        let path = printable_path(path);
        io::Error::new(
            error.kind(),
            format!(
                "{path} may be half written, and is looked at again at the next start; its old \
                 contents are in {}: {error}",
                printable_path(&notes_path.join(&name))
            ),
        )
    };
    match record.left(direction).map_err(failed)? {
        Left::Whole => {}
        Left::Half(file, found) => {
            if direction == Direction::ToNew {
                turn_round(notes, id)?;
            }
            write_over(&mut &file, &found, &record.old).map_err(failed)?;
            tracing::warn!(
                path = printable_path(path),
                "a file that was half written in place has its old contents again"
            );
            return remove(notes, &name_of(id, Direction::ToOld));
        }
        Left::Changed => {
            let kept = keep_aside(notes, id, path, &record.old).map_err(failed)?;
            tracing::warn!(
                path = printable_path(path),
                kept = printable_path(&notes_path.join(kept)),
                "a file that was being written in place when the server was killed has been changed \
                 or removed since: it is left as it is, and its contents from before are kept"
            );
        }
    }
    remove(notes, &name)
}

fn remove(notes: &OwnedFd, name: &str) -> io::Result<()> {
    Ok(unlinkat(notes, name, AtFlags::empty())?)
}

impl Record {
    fn read(notes: &OwnedFd, name: &str) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::other(format!("{name}: {what}"));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = regular(openat(notes, name, flags, Mode::empty())?)?;
        Ownership::from_metadata(&file.metadata()?).expect_ours().map_err(|it| wrong(&it))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        (&mut reader).take(MAX_HEADER).read_until(b'\n', &mut line)?;
        let header: Header = serde_json::from_slice(&line).map_err(|_| wrong("it is no record"))?;
        let mut part = |length: u64| {
            let mut bytes = Vec::new();
            (&mut reader).take(length).read_to_end(&mut bytes).map(|_| bytes)
        };
        let (old, new) = (part(header.old)?, part(header.new)?);
        if hash_of(&old, &new) != header.hash {
            return Err(wrong("it is damaged"));
        }
        Ok(Self { header, old, new })
    }

    fn left(&self, direction: Direction) -> io::Result<Left> {
        let Some(file) = self.open()? else { return Ok(Left::Changed) };
        let metadata = file.metadata()?;
        let longest = self.header.old.max(self.header.new);
        if !self.is_of(&file, &metadata) || longest < metadata.len() {
            return Ok(Left::Changed);
        }
        let found = read_whole(&file, longest)?;
        if found == self.old || found == self.new {
            file.sync_all()?;
            return Ok(Left::Whole);
        }
        let is_ours = is_half_written(&found, &self.old, &self.new, direction);
        Ok(if is_ours { Left::Half(file, found) } else { Left::Changed })
    }

    /// Opens the file of the record as it was opened when it was written: no part of the path
    /// may be a link. `None` if there is no file.
    fn open(&self) -> io::Result<Option<File>> {
        let path = Path::new(&self.header.path);
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(None);
        };
        let opened = open_without_links(directory)
            .map_err(io::Error::from)
            .and_then(|directory| open_for_update(&directory, name));
        match opened {
            Err(error) if is_gone(&error) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Whether it is the file that was written, and no other one in its place.
    fn is_of(&self, file: &File, metadata: &Metadata) -> bool {
        let Header { id, born: then, .. } = self.header;
        let is_same_device = metadata.dev() == id.device;
        let is_born_then = then.is_some() && born(file) == then;
        metadata.ino() == id.inode && (is_same_device || is_born_then)
    }
}

/// Whether something else than our file has its name, or nothing.
fn is_gone(error: &io::Error) -> bool {
    let kind = matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory);
    kind || matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO)
    )
}

/// Keeps old contents for a person, in a file that has the name of theirs at its end.
fn keep_aside(notes: &OwnedFd, id: &str, path: &Path, old: &[u8]) -> io::Result<PathBuf> {
    match mkdirat(notes, KEPT, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let kept = open_directory(notes, KEPT.as_ref())?;
    let of: String = path.file_name().map(|name| printable_path(name.as_ref())).unwrap_or_default();
    let name = format!("{id}-{}", crate::text::prefix(&of, MAX_NAME));
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::TRUNC | OFlags::CLOEXEC;
    let mut file = File::from(openat(&kept, &name, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(old)?;
    file.sync_all()?;
    let readable = openat(&kept, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    sync_directory(&readable)?;
    Ok(Path::new(KEPT).join(name))
}
