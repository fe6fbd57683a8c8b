//! Captures a command's output as clean text: its beginning and its end in memory that does not
//! grow with the output, and all of it in a file where the caller wants that.

mod head_and_tail;
mod kept_file;
mod redrawn;

use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use encoding_rs::{Decoder, UTF_8};

pub(crate) use self::head_and_tail::HeadAndTail;
use self::kept_file::KeptFile;
pub(crate) use self::kept_file::{KeepOutput, MakeFile};
pub(super) use self::kept_file::{Piece, WrittenPiece, write};
use self::redrawn::RedrawnLine;
use super::terminal::TerminalFilter;
use crate::{sync, text};

/// A command is heard no further while so many bytes wait for a slow disk.
const MAX_UNWRITTEN: usize = 512 << 10;

/// The output of a command that runs or has ended. Clones are the same output.
#[derive(Clone, Debug)]
pub(crate) struct CommandOutput(Arc<Mutex<Capture>>);

/// What a command has printed from some byte of its clean text on.
#[derive(Debug)]
pub(crate) struct Unread {
    /// The first part: these bytes of the file.
    pub(crate) in_file: Range<u64>,
    /// The file, open for reading and writing, until the output is [released].
    ///
    /// [released]: CommandOutput::release
    pub(crate) file: Option<Arc<File>>,
    /// The bytes after that which are kept nowhere.
    pub(crate) missing: u64,
    /// The rest of what is final.
    pub(crate) rest: String,
    /// A line that has not ended, and may still be redrawn.
    pub(crate) unfinished: String,
    /// The byte at which the next look goes on.
    pub(crate) end: u64,
}

/// What is new of an output, for a person who watches.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct LatestOutput {
    /// The last whole lines printed since the look before, as many as fit.
    pub(crate) lines: String,
    /// The line that has not ended, as it is now. It may still be redrawn.
    pub(crate) unfinished: String,
    /// The byte at which the next look goes on.
    pub(crate) end: u64,
}

impl CommandOutput {
    /// At most `shown` characters will be shown, and `limit` bytes go into the file.
    pub(super) fn new(shown: usize, keep: KeepOutput, limit: u64) -> Self {
        Self(Arc::new(Mutex::new(Capture::new(shown, KeptFile::new(keep, limit)))))
    }

    /// For text that no command prints; of it at most `shown` characters are kept.
    pub(crate) fn for_text(shown: usize) -> Self {
        Self::new(shown, KeepOutput::Nothing, u64::MAX)
    }

    /// What has been printed so far: as in [`HeadAndTail::render`].
    pub(crate) fn render(&self, most: usize, hint: &str) -> String {
        self.so_far().0.render(most, hint)
    }

    /// What has been printed so far, and the byte at which a later look goes on.
    pub(crate) fn so_far(&self) -> (HeadAndTail, u64) {
        let capture = self.lock();
        let mut shown = capture.shown.clone();
        let end = shown.bytes();
        shown.push(capture.line.unfinished());
        (shown, end)
    }

    /// What has been printed since this byte, at most so many bytes of lines and as many of the line
    /// that has not ended.
    pub(crate) fn latest_since(&self, offset: u64, most: usize) -> LatestOutput {
        let capture = self.lock();
        let (missing, printed) = capture.shown.since(offset);
        let shown = if missing == 0 && printed.len() <= most {
            printed
        } else {
            text::whole_lines_of_tail(text::suffix(printed, most))
        };
        LatestOutput {
            lines: shown.to_owned(),
            unfinished: text::suffix(capture.line.unfinished(), most).to_owned(),
            end: capture.shown.bytes(),
        }
    }

    /// Whether nothing has been printed so far, but for a line that has not ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().shown.bytes() == 0
    }

    /// Whether bytes that are not UTF-8 were replaced.
    pub(crate) fn is_malformed(&self) -> bool {
        self.lock().is_malformed
    }

    /// Why the file does not have all of it.
    pub(crate) fn file_fault(&self) -> Option<String> {
        self.lock().file.fault().map(str::to_owned)
    }

    pub(crate) fn since(&self, offset: u64) -> Unread {
        let capture = self.lock();
        let parts = capture.file.parts();
        let end = capture.shown.bytes();
        let in_file = offset.min(parts.written)..parts.written;
        let file = parts.file.cloned();
        let mut at = offset.max(parts.written);
        let mut rest = String::new();
        let mut begin = parts.written;
        for part in parts.waiting {
            rest.push_str(skipped(part, at.saturating_sub(begin)));
            begin += part.len() as u64;
        }
        at = at.max(begin);
        // What the file does not get is at least in the tail.
        let (missing, tail) = capture.shown.since(at);
        rest.push_str(tail);
        let unfinished = capture.line.unfinished().to_owned();
        Unread { in_file, file, missing, rest, unfinished, end }
    }

    /// Frees what a command that has ended no longer needs: the file is closed, and what it has
    /// is not kept in memory too.
    pub(crate) fn release(&self) {
        self.lock().release();
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        self.lock().push(bytes);
    }

    /// Ends the output. An incomplete character at the end is replaced.
    pub(crate) fn finish(&self) {
        self.lock().finish();
    }

    /// Whether it has more than `bytes` bytes, or its file is full.
    pub(super) fn exceeds(&self, bytes: u64) -> bool {
        let capture = self.lock();
        bytes < capture.bytes || capture.file.is_full()
    }

    /// Whether the disk keeps up.
    pub(super) fn has_room(&self) -> bool {
        self.lock().file.unwritten() < MAX_UNWRITTEN
    }

    /// Whether the command was to keep all of it, and the quota has no room for more.
    pub(super) fn lacks_room(&self) -> bool {
        self.lock().file.lacks_room()
    }

    /// Puts all of it into the file from now on.
    pub(super) fn keep_all(&self) {
        self.lock().need_file();
    }

    pub(super) fn next_piece(&self) -> Option<Piece> {
        self.lock().file.next_piece()
    }

    pub(super) fn piece_written(&self, written: WrittenPiece) {
        self.lock().file.piece_written(written);
    }

    pub(crate) fn give_up_file(&self, fault: &str) {
        self.lock().file.give_up(fault.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, Capture> {
        sync::lock(&self.0)
    }
}

/// `text` without its first `bytes` bytes. They end between two characters, because every text
/// was passed on as a whole.
fn skipped(text: &str, bytes: u64) -> &str {
    usize::try_from(bytes).ok().and_then(|bytes| text.get(bytes..)).unwrap_or_default()
}

/// Removes escape sequences and the states of redrawn lines, and replaces bytes that are not
/// UTF-8.
#[derive(Debug)]
struct Capture {
    decoder: Decoder,
    plain: TerminalFilter,
    line: RedrawnLine,
    bytes: u64,
    is_malformed: bool,
    shown: HeadAndTail,
    file: KeptFile,
}

impl Capture {
    fn new(shown: usize, file: KeptFile) -> Self {
        Self {
            decoder: UTF_8.new_decoder_without_bom_handling(),
            plain: TerminalFilter::default(),
            line: RedrawnLine::default(),
            bytes: 0,
            is_malformed: false,
            shown: HeadAndTail::new(shown),
            file,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.decode(bytes, false);
    }

    fn finish(&mut self) {
        self.decode(&[], true);
        let mut last = String::new();
        self.line.finish(&mut last);
        self.keep(&last);
    }

    fn decode(&mut self, mut bytes: &[u8], is_last: bool) {
        let (mut decoded, mut plain, mut lines) = (String::new(), String::new(), String::new());
        loop {
            decoded.reserve(bytes.len() + 16);
            let (result, read, replaced) =
                self.decoder.decode_to_string(bytes, &mut decoded, is_last);
            self.is_malformed |= replaced;
            bytes = &bytes[read..];
            self.plain.push(&decoded, &mut plain);
            decoded.clear();
            if result == encoding_rs::CoderResult::InputEmpty {
                break;
            }
        }
        self.line.push(&plain, &mut lines);
        self.keep(&lines);
    }

    fn keep(&mut self, new: &str) {
        if self.file.is_waiting() && !self.shown.fits_with(new) {
            self.begin_file();
        }
        self.shown.push(new);
        self.file.push(new);
    }

    fn release(&mut self) {
        if self.file.close() {
            self.shown.forget();
        }
    }

    /// As long as the file is not begun, the head is all there is.
    fn begin_file(&mut self) {
        self.file.begin(self.shown.head());
    }

    fn need_file(&mut self) {
        self.file.need(self.shown.head());
    }
}

#[cfg(test)]
mod tests;
