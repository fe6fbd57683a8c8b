//! Decides what of an output goes into its file, and knows how far it has come. Pure: the
//! writing itself is done by [`write()`], off the asynchronous threads.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use crate::text;

/// Bytes that a file gives back when the disk is full. The record of a few turns takes less.
const GIVEN_BACK: u64 = 2 << 20;

/// Makes the file of an output, or gives the one that was made before. It may block.
#[derive(Clone)]
pub(crate) struct MakeFile {
    make: Arc<dyn Fn() -> io::Result<File> + Send + Sync>,
    /// Asked for room before each piece; `None`: there is always room.
    quota: Option<Arc<MakeRoom>>,
}

/// Makes room for so many bytes more of the file, and returns for how many there is room.
type MakeRoom = dyn Fn(u64) -> io::Result<u64> + Send + Sync;

/// Why the file of an output ends where the quota does.
const NO_ROOM: &str = "the outputs of running commands fill what may be kept of this session, \
    tools.spill_bytes";

/// Which part of an output goes into a file besides what is kept in memory.
#[derive(Clone, Debug)]
pub(crate) enum KeepOutput {
    /// There is no file.
    Nothing,
    /// All of it, as soon as it is more than is shown.
    WhenLong(MakeFile),
    /// All of it, from the start.
    Always(MakeFile),
}

/// The text on its way into the file.
#[derive(Debug)]
pub(super) struct KeptFile {
    keep: KeepOutput,
    /// The most bytes of the file.
    limit: u64,
    file: Option<Arc<File>>,
    /// Bytes in the file.
    written: u64,
    /// What is being written now.
    writing: Option<Arc<str>>,
    /// What comes after that.
    waiting: String,
    fault: Option<String>,
    is_full: bool,
    /// Whether the command is of no use without the whole of its file: it runs in the background.
    is_needed: bool,
    is_out_of_room: bool,
}

/// A piece of text for the file.
#[derive(Debug)]
pub(in crate::processes) struct Piece {
    make: MakeFile,
    /// `None`: it was not made yet.
    file: Option<Arc<File>>,
    text: Arc<str>,
}

/// How far the writing of a piece has come.
#[derive(Debug, Default)]
pub(in crate::processes) struct WrittenPiece {
    pub(in crate::processes) file: Option<Arc<File>>,
    pub(in crate::processes) bytes: u64,
    /// Bytes that were taken from the end of the file again.
    pub(in crate::processes) given_back: u64,
    pub(in crate::processes) fault: Option<String>,
    /// The quota has no room for the rest.
    pub(in crate::processes) is_out_of_room: bool,
}

/// The part of the text that the file has, and what is not in it yet.
#[derive(Debug)]
pub(super) struct FileParts<'a> {
    pub(super) file: Option<&'a Arc<File>>,
    pub(super) written: u64,
    pub(super) waiting: [&'a str; 2],
}

impl MakeFile {
    pub(crate) fn new(make: impl Fn() -> io::Result<File> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), quota: None }
    }

    /// Asks this for room before each piece.
    pub(crate) fn within(
        self,
        quota: impl Fn(u64) -> io::Result<u64> + Send + Sync + 'static,
    ) -> Self {
        Self { quota: Some(Arc::new(quota)), ..self }
    }
}

impl fmt::Debug for MakeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeFile")
    }
}

impl KeptFile {
    pub(super) fn new(keep: KeepOutput, limit: u64) -> Self {
        Self {
            is_needed: matches!(keep, KeepOutput::Always(_)),
            is_out_of_room: false,
            keep,
            limit,
            file: None,
            written: 0,
            writing: None,
            waiting: String::new(),
            fault: None,
            is_full: false,
        }
    }

    /// Begins the file with all the text `so_far`, if it waits for that.
    pub(super) fn begin(&mut self, so_far: &str) {
        if let KeepOutput::WhenLong(make) = &self.keep {
            self.keep = KeepOutput::Always(make.clone());
            self.push(so_far);
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        if !matches!(self.keep, KeepOutput::Always(_)) || self.fault.is_some() {
            return;
        }
        let room = self.limit.saturating_sub(self.end());
        let kept = text::prefix(text, usize::try_from(room).unwrap_or(usize::MAX));
        self.is_full |= kept.len() < text.len();
        self.waiting.push_str(kept);
    }

    /// Whether text was left out because the file has as much as it may.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Puts all of it into the file from now on, which a task cannot do without.
    pub(super) fn need(&mut self, so_far: &str) {
        self.is_needed = true;
        self.begin(so_far);
    }

    /// Whether text that is needed was left out because the quota had no room for it.
    pub(super) fn lacks_room(&self) -> bool {
        self.is_needed && self.is_out_of_room
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.keep, KeepOutput::WhenLong(_))
    }

    /// Bytes that wait for the disk.
    pub(super) fn unwritten(&self) -> usize {
        self.waiting.len()
    }

    /// Why the file does not have the whole text.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub(super) fn parts(&self) -> FileParts<'_> {
        let writing = self.writing.as_deref().unwrap_or_default();
        FileParts {
            file: self.file.as_ref(),
            written: self.written,
            waiting: [writing, &self.waiting],
        }
    }

    /// The next piece to write; none while one is being written.
    pub(super) fn next_piece(&mut self) -> Option<Piece> {
        let KeepOutput::Always(make) = &self.keep else { return None };
        if self.waiting.is_empty() || self.writing.is_some() {
            return None;
        }
        let text: Arc<str> = std::mem::take(&mut self.waiting).into();
        self.writing = Some(Arc::clone(&text));
        Some(Piece { make: make.clone(), file: self.file.clone(), text })
    }

    pub(super) fn piece_written(&mut self, written: WrittenPiece) {
        self.writing = None;
        self.file = written.file.or(self.file.take());
        self.written = (self.written + written.bytes).saturating_sub(written.given_back);
        self.is_out_of_room |= written.is_out_of_room;
        let no_room = written.is_out_of_room.then(|| NO_ROOM.to_owned());
        if let Some(fault) = written.fault.or(no_room) {
            self.give_up(fault);
        }
    }

    /// Writes nothing more.
    pub(super) fn give_up(&mut self, fault: String) {
        self.fault = Some(fault);
        self.writing = None;
        self.waiting = String::new();
    }

    /// Closes the file. Returns whether it has the whole text.
    pub(super) fn close(&mut self) -> bool {
        let was_kept = matches!(self.keep, KeepOutput::Always(_));
        self.keep = KeepOutput::Nothing;
        self.file = None;
        was_kept && self.fault.is_none() && !self.is_full && self.end() == self.written
    }

    /// Bytes of the text up to here.
    fn end(&self) -> u64 {
        let parts = self.parts();
        parts.waiting.iter().map(|part| part.len() as u64).sum::<u64>() + parts.written
    }
}

/// Writes a piece to the end of its file, whatever its name leads to by now. Blocks.
pub(in crate::processes) fn write(piece: &Piece) -> WrittenPiece {
    let file = match &piece.file {
        Some(file) => Arc::clone(file),
        None => match (piece.make.make)() {
            Ok(file) => Arc::new(file),
            Err(error) => return WrittenPiece::failed(&error),
        },
    };
    let text = match room_for(piece) {
        Ok(text) => text,
        Err(error) => return WrittenPiece { file: Some(file), ..WrittenPiece::failed(&error) },
    };
    let (bytes, fault) = write_all(&file, text.as_bytes());
    let given_back = fault.as_ref().map_or(0, |fault| give_back(&file, fault));
    let fault = fault.map(|error| error.to_string());
    let is_out_of_room = text.len() < piece.text.len();
    WrittenPiece { file: Some(file), bytes, given_back, fault, is_out_of_room }
}

/// The part of the piece that the quota has room for.
fn room_for(piece: &Piece) -> io::Result<&str> {
    let Some(quota) = &piece.make.quota else { return Ok(&piece.text) };
    let room = quota(piece.text.len() as u64)?;
    Ok(text::prefix(&piece.text, usize::try_from(room).unwrap_or(usize::MAX)))
}

impl WrittenPiece {
    fn failed(error: &io::Error) -> Self {
        Self { fault: Some(error.to_string()), ..Self::default() }
    }
}

/// On a full disk, cuts the file, so that what matters more can still be written there: the
/// record of the session. Returns how many bytes it has less.
fn give_back(file: &File, fault: &io::Error) -> u64 {
    if !matches!(fault.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return 0;
    }
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let less = length.min(GIVEN_BACK);
    if file.set_len(length - less).is_ok() { less } else { 0 }
}

/// Says how much was written before the error, if there is one.
fn write_all(mut file: &File, bytes: &[u8]) -> (u64, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written as u64, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written as u64, Some(error)),
        }
    }
    (written as u64, None)
}
