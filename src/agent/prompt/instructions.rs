//! Reads `AGENTS.md` and `CLAUDE.md` of the workspace's root, and what they import.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::imports::imports;
use crate::encoding;
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

/// Reads the files. Those that lie outside the roots count if the workspace `may_lead_out`.
/// Blocks.
pub(super) fn read(
    files: &UnaskedFiles,
    home: &Path,
    may_lead_out: MayLeadOut,
) -> Vec<InstructionFile> {
    let (found, known) = (Vec::new(), HashSet::new());
    let opened = 0;
    let mut reader = Reader { files, home, may_lead_out, found, known, opened, left: MAX_BYTES };
    for name in NAMES {
        reader.add(&files.workspace().root().join(name), 0);
    }
    reader.found
}

struct Reader<'a> {
    files: &'a UnaskedFiles,
    home: &'a Path,
    may_lead_out: MayLeadOut,
    found: Vec<InstructionFile>,
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
        self.found.push(InstructionFile { path: path.to_owned(), text, is_cut });
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
        let decoded = encoding::text_of(&bytes, !is_cut).ok()?.text;
        let is_cut = is_cut || decoded.len() > self.left;
        let text = without_hidden(prefix(&decoded, self.left)).trim().to_owned();
        (!text.is_empty()).then_some((text, is_cut))
    }
}
