//! Tells what other programs have changed in the files that the model knows. Pure, but for
//! reading one file.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::patch;
use super::read_state::{
    Content, Fingerprint, Found, MAX_KEPT_BYTES, Observation, ReadState, Suspect,
};
use crate::encoding::{DeclaredEncoding, Encoding};
use crate::reminder::Reminder;
use crate::text::printable_path;
use crate::workspace::{FileVersion, Target};

/// Lines of the diff of one file, and of all together.
const MAX_FILE_LINES: usize = 100;
const MAX_LINES: usize = 400;

/// Bytes of one line of a diff.
const MAX_LINE_BYTES: usize = 500;

/// Files that are named. The others are counted.
const MAX_NAMED: usize = 50;

/// The most bytes that are read of a file to compare it, as many as are hashed when it is shown.
const MAX_COMPARED_BYTES: u64 = 16 << 20;

const BEGIN: &str = "Files that you have read were changed by something other than your \
                     Write, Edit or NotebookEdit:";

/// What the model is told of changed files.
#[derive(Debug, Default)]
pub(crate) struct OutsideChanges {
    told: String,
    lines: usize,
    named: Vec<PathBuf>,
    gone: Vec<PathBuf>,
    observed: Vec<Observation>,
}

/// A file as it is now.
#[derive(Debug)]
pub(crate) struct Current {
    fingerprint: Fingerprint,
    content: Option<Content>,
    /// How it differs from what the model knows, where that was computed.
    diff: Option<Vec<String>>,
}

impl Current {
    /// Reads the file. Fails with `Interrupted` if it changes meanwhile. Blocks.
    pub(crate) fn read(target: &Target) -> io::Result<Self> {
        let file = target.open_resolved_file()?;
        let version = FileVersion::from_metadata(&file.metadata()?);
        let (mut hasher, mut kept) = (blake3::Hasher::new(), Vec::new());
        let mut bytes = (&file).take(MAX_COMPARED_BYTES + 1);
        let mut piece = vec![0; 64 << 10];
        let mut length = 0;
        loop {
            let read = bytes.read(&mut piece)?;
            if read == 0 {
                break;
            }
            length += read;
            hasher.update(&piece[..read]);
            if length <= MAX_KEPT_BYTES {
                kept.extend_from_slice(&piece[..read]);
            }
        }
        if FileVersion::from_metadata(&file.metadata()?) != version {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let is_whole = length as u64 <= MAX_COMPARED_BYTES;
        let fingerprint = Fingerprint { version, hash: is_whole.then(|| hasher.finalize()) };
        let content = (length <= MAX_KEPT_BYTES).then(|| kept.into());
        Ok(Self { fingerprint, content, diff: None })
    }

    /// With the difference from what the model knows, if both are kept texts. Reads the disk, and
    /// takes up to half a second.
    pub(crate) fn with_diff(self, suspect: &Suspect) -> Self {
        if suspect.known.is_same_content(&self.fingerprint) {
            return self;
        }
        let known = self.content.as_ref().and_then(|_| suspect.known_content());
        let diff = match (&known, &self.content) {
            (Some(old), Some(new)) => diff(old, new, suspect.declared_encoding()),
            _ => None,
        };
        Self { diff, ..self }
    }

    pub(crate) fn is_version(&self, version: FileVersion) -> bool {
        self.fingerprint.version == version
    }

    /// Records that the model has seen some of it.
    pub(crate) fn seen_by(self, known: &ReadState, path: &Path) {
        known.saw(path, self.fingerprint, self.content);
    }
}

impl OutsideChanges {
    /// Adds a file that is no longer there.
    pub(crate) fn gone(&mut self, suspect: &Suspect) {
        if self.is_news(suspect, Found::Gone) {
            self.gone.push(suspect.path.clone());
        }
    }

    /// Adds a file of which the model may not see more than its name.
    pub(crate) fn hidden(&mut self, suspect: &Suspect) {
        // The same metadata with a mark say nothing for certain.
        if Found::Version(suspect.known.version) == suspect.found {
            self.observed.push(suspect.nothing_new());
        } else if self.is_news(suspect, suspect.found) {
            self.named.push(suspect.path.clone());
        }
    }

    /// Whether the model is to be told that the file is in this state.
    fn is_news(&mut self, suspect: &Suspect, found: Found) -> bool {
        self.observed.push(suspect.told(found));
        !suspect.is_told(found)
    }

    /// Whether a further diff would be shown.
    pub(crate) fn has_room(&self) -> bool {
        self.lines < MAX_LINES
    }

    /// Adds a file that was read again. One that still holds what the model knows is no news.
    pub(crate) fn compared(&mut self, suspect: &Suspect, current: Current) {
        let Current { fingerprint, content, diff } = current;
        if suspect.known.is_same_content(&fingerprint) {
            if suspect.is_told(Found::Gone) {
                let name = name_of(&suspect.path);
                let _ = write!(self.told, "\n\n{name}\n[File is there again, unchanged]");
            }
            return self.observed.push(suspect.unchanged(fingerprint.version));
        }
        let found = Found::Version(fingerprint.version);
        let Some(diff) = diff.filter(|_| self.has_room()) else {
            if self.is_news(suspect, found) {
                self.named.push(suspect.path.clone());
            }
            return;
        };
        let room = MAX_FILE_LINES.min(MAX_LINES - self.lines);
        let (shown, is_whole) = cut(&diff, room);
        if is_whole {
            self.observed.push(suspect.shown(fingerprint, content));
        } else if !self.is_news(suspect, found) {
            return;
        }
        self.lines += shown.lines().count();
        let _ = write!(self.told, "\n\n{}\n{shown}", name_of(&suspect.path));
    }

    /// The reminder, `None` if there is no news; and what was observed, for
    /// [`ReadState::observed`].
    pub(crate) fn into_reminder(self) -> (Option<String>, Vec<Observation>) {
        let Self { mut told, named, gone, observed, .. } = self;
        for path in gone.iter().take(MAX_NAMED) {
            let _ = write!(told, "\n\n{}\n[File deleted]", name_of(path));
        }
        if gone.len() > MAX_NAMED {
            let _ = write!(told, "\n({} more files deleted)", gone.len() - MAX_NAMED);
        }
        if !named.is_empty() {
            let names: Vec<_> = named.iter().take(MAX_NAMED).map(|path| name_of(path)).collect();
            let names = names.join("\n");
            let also = if told.is_empty() { "Changed" } else { "Also changed" };
            let _ = write!(told, "\n\n{also}; read them again before you edit them:\n{names}");
        }
        if named.len() > MAX_NAMED {
            let _ = write!(told, "\n({} more files)", named.len() - MAX_NAMED);
        }
        let reminder =
            (!told.is_empty()).then(|| Reminder::new(format!("{BEGIN}{told}")).to_string());
        (reminder, observed)
    }
}

/// A path in one line, which cannot pass for the end of the reminder.
fn name_of(path: &Path) -> String {
    let name = printable_path(path);
    name.replace('<', "\\u{3c}").replace('>', "\\u{3e}")
}

/// The unified diff of two texts in the encoding that is named for them, if any; `None` if one of
/// them is no text.
fn diff(old: &[u8], new: &[u8], declared: Option<DeclaredEncoding>) -> Option<Vec<String>> {
    let [old, new] = [old, new].map(|bytes| {
        let encoding = Encoding::recognise_declared(bytes, true, declared).ok()?;
        let (text, is_broken) = encoding.decode(bytes);
        (!is_broken && !text.contains('\0')).then(|| text.into_owned())
    });
    let hunks = patch::between(old?.as_bytes(), new?.as_bytes())?;
    Some(patch::lines_of(&hunks)).filter(|lines| !lines.is_empty())
}

/// At most `room` lines of a diff, and whether these are all of it, whole.
fn cut(diff: &[String], room: usize) -> (String, bool) {
    let mut is_whole = diff.len() <= room;
    let mut lines: Vec<String> = Vec::new();
    for line in diff.iter().take(room) {
        let shown = crate::text::prefix(line, MAX_LINE_BYTES);
        let is_cut = shown.len() < line.len();
        is_whole &= !is_cut;
        lines.push(if is_cut { format!("{shown}…") } else { shown.to_owned() });
    }
    if !is_whole {
        let more = diff.len().saturating_sub(room);
        let what = if more > 0 { format!("{more} more lines") } else { "long lines".to_owned() };
        lines.push(format!("(diff cut: {what}; read the file before you edit it)"));
    }
    (lines.join("\n"), is_whole)
}

#[cfg(test)]
mod tests;
