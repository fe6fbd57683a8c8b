//! Reads `AGENTS.md` and `CLAUDE.md` of the workspace's root, and what they import.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::imports::imports;
use crate::encoding::{self, Binary};
use crate::file_encodings::FileEncodings;
use crate::permissions::{MayLeadOut, UnaskedFiles};
use crate::text::{prefix, without_hidden};
use crate::workspace::{FileId, absolute_from_home};

const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Bytes of all texts together. Every request carries them.
const MAX_BYTES: usize = 40_000;

/// Files between a text and one of the root's.
const MAX_DEPTH: usize = 5;

/// Files, and so openings that a repository can cause.
const MAX_FILES: usize = 100;

/// A file of the workspace with words for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstructionFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Whether it says more.
    pub(crate) is_cut: bool,
}

/// A file that says nothing to the model, or not surely what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OddInstructions {
    pub(crate) path: PathBuf,
    /// It follows the path.
    pub(crate) reason: String,
    pub(crate) is_left_out: bool,
}

/// What the files say, and what is to be told of them to people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadInstructions {
    pub(super) files: Vec<InstructionFile>,
    pub(super) odd: Vec<OddInstructions>,
}

/// Reads the files. Those that lie outside the roots count if the workspace `may_lead_out`.
/// Blocks.
pub(super) fn read(
    files: &UnaskedFiles,
    encodings: &FileEncodings,
    home: &Path,
    may_lead_out: MayLeadOut,
) -> ReadInstructions {
    let mut reader = Reader {
        files,
        encodings,
        home,
        may_lead_out,
        found: ReadInstructions::default(),
        known: HashSet::new(),
        opened: 0,
        left: MAX_BYTES,
    };
    for name in NAMES {
        reader.add(&files.workspace().root().join(name), 0);
    }
    reader.found
}

struct Reader<'a> {
    files: &'a UnaskedFiles,
    encodings: &'a FileEncodings,
    home: &'a Path,
    may_lead_out: MayLeadOut,
    found: ReadInstructions,
    known: HashSet<FileId>,
    opened: usize,
    /// Bytes that may still be read.
    left: usize,
}

impl Reader<'_> {
    /// Adds a file, and behind it those that it imports.
    fn add(&mut self, path: &Path, depth: usize) {
        if self.left == 0 || self.opened == MAX_FILES || depth > MAX_DEPTH {
            return;
        }
        self.opened += 1;
        let Some((text, is_cut)) = self.text(path) else { return };
        self.left -= text.len();
        let directory = path.parent().unwrap_or(path).to_owned();
        let imported = imports(&text).into_iter().map(Path::new);
        let imported = imported.map(|path| absolute_from_home(&directory, self.home, path));
        let imported: Vec<PathBuf> = imported.collect();
        self.found.files.push(InstructionFile { path: path.to_owned(), text, is_cut });
        for path in imported {
            self.add(&path, depth + 1);
        }
    }

    /// As much of the file as there is room for, and whether it says more. Each file is read
    /// once, whatever its names.
    fn text(&mut self, path: &Path) -> Option<(String, bool)> {
        let target = self.files.open(path, self.may_lead_out)?;
        let file = target.open_resolved_file().ok()?;
        let metadata = file.metadata().ok()?;
        if !self.known.insert(FileId::from_metadata(&metadata)) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(self.left as u64 + 1).read_to_end(&mut bytes).ok()?;
        let is_cut = bytes.len() > self.left;
        let decoded = self.decoded(path, &bytes, is_cut)?;
        let is_cut = is_cut || decoded.len() > self.left;
        let text = without_hidden(prefix(&decoded, self.left)).trim().to_owned();
        (!text.is_empty()).then_some((text, is_cut))
    }

    /// The text of these bytes, and a word of what is odd about them.
    fn decoded(&mut self, path: &Path, bytes: &[u8], is_cut: bool) -> Option<String> {
        let declared = || self.encodings.declared(path);
        let (text, reason) = match encoding::text_of(bytes, !is_cut, declared) {
            Ok(decoded) => (Some(decoded.text), decoded.doubt),
            Err(Binary(what)) => (None, Some(format!("is no text but {what}"))),
        };
        let (path, is_left_out) = (path.to_owned(), text.is_none());
        self.found.odd.extend(reason.map(|reason| OddInstructions { path, reason, is_left_out }));
        text
    }
}
