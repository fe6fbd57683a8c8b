//! Finds what the files that a command names lead to.

use std::fs;
use std::path::{Path, PathBuf};

use super::changed::{Certainty, ChangedNames};
use super::expand::{self, MAX_ENTRIES};
use super::{Surroundings, below};
use crate::permissions::commands::{
    ChangesBefore, Operand, OperandAccess, OperandPath, normalized,
};
use crate::permissions::reached::ReachedPath;
use crate::permissions::rule_origin::RuleOrigin;
use crate::workspace::{FileId, Workspace};

/// A file that a command reads or writes.
#[derive(Clone, Debug)]
pub(in crate::permissions) struct CommandFile {
    /// As the line names it, absolute.
    named: PathBuf,
    /// With every link resolved.
    real: PathBuf,
    /// Both below the roots that hold them.
    below_roots: [PathBuf; 2],
    is_directory: bool,
    is_outside: bool,
    /// `None`: it is not there.
    pub(in crate::permissions) id: Option<FileId>,
    pub(in crate::permissions) access: OperandAccess,
    /// The program, or the redirect's operator.
    pub(in crate::permissions) by: String,
    /// For a directory that is read or changed as a whole: what is in it.
    pub(in crate::permissions) below: Option<below::Found>,
    pub(in crate::permissions) own_state: OwnState,
    /// The rule that denies this very file, whatever its name.
    pub(in crate::permissions) denied_by: Option<RuleOrigin>,
    /// Stands below a directory that the line makes first.
    pub(in crate::permissions) is_in_new_directory: bool,
}

/// Where the server's own state directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::permissions) enum OwnState {
    Elsewhere,
    /// The file is in it.
    Around,
    /// It is in the directory, and is read or changed with it.
    Below,
}

/// The files of one command that are looked at. A command with more is asked about.
pub(super) const MAX_FILES: usize = 256;

/// Programs that name what is in a directory, or move it, and do not read it.
const NOT_READING: [&str; 2] = ["ls", "mv"];

/// A file that is known only when the command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::permissions) struct UnknownFile {
    /// As written.
    pub(in crate::permissions) written: String,
    pub(in crate::permissions) access: OperandAccess,
    pub(in crate::permissions) by: String,
}

impl CommandFile {
    fn open(
        named: &Path,
        operand: &Operand,
        surroundings: Surroundings<'_>,
        left: &mut usize,
    ) -> Self {
        let Surroundings { workspace, roots, is_own_state, .. } = surroundings;
        let target = Workspace::resolve_outside(named).ok();
        let plain = normalized(named);
        let real = target.as_ref().map_or_else(|| plain.clone(), |it| it.real_path().to_owned());
        let metadata = target.as_ref().and_then(|target| target.metadata().ok());
        let is_directory = metadata.as_ref().is_some_and(std::fs::Metadata::is_dir);
        let is_whole = operand.is_recursive && is_directory;
        let is_written = operand.access == OperandAccess::Write;
        let is_walked = is_whole && (is_written || !NOT_READING.contains(&operand.by.as_str()));
        let below = is_walked.then(|| below::found(&real, left));
        let is_in_it = is_own_state(&plain, target.as_ref());
        let holds_it = || below.iter().flat_map(|it| &it.paths).any(|it| is_own_state(it, None));
        let own_state = if is_in_it {
            OwnState::Around
        } else if holds_it() {
            OwnState::Below
        } else {
            OwnState::Elsewhere
        };
        Self {
            below_roots: [&plain, &real].map(|path| workspace.below_root(path).to_owned()),
            is_outside: roots.below(&real).is_none(),
            below,
            own_state,
            denied_by: None,
            is_in_new_directory: false,
            named: plain,
            real,
            is_directory,
            id: metadata.as_ref().map(FileId::from_metadata),
            access: operand.access,
            by: operand.by.clone(),
        }
    }

    pub(in crate::permissions) fn reached(&self) -> ReachedPath<'_> {
        ReachedPath {
            asked: &self.named,
            real: &self.real,
            below_roots: [&self.below_roots[0], &self.below_roots[1]],
            is_directory: self.is_directory,
            is_outside: self.is_outside,
        }
    }

    pub(in crate::permissions) fn named(&self) -> &Path {
        &self.named
    }

    pub(in crate::permissions) fn leads_to(&self) -> &Path {
        &self.real
    }

    /// Whether it is a file that is read, and none of the server's own.
    pub(in crate::permissions) fn is_read(&self) -> bool {
        !self.is_written() && !self.is_directory && self.own_state == OwnState::Elsewhere
    }

    pub(in crate::permissions) fn is_directory(&self) -> bool {
        self.is_directory
    }

    pub(in crate::permissions) fn is_redirect(&self) -> bool {
        matches!(self.by.as_str(), "<" | ">" | ">>" | "<>")
    }

    pub(in crate::permissions) fn is_written(&self) -> bool {
        self.access == OperandAccess::Write
    }
}

impl UnknownFile {
    pub(in crate::permissions) fn is_written(&self) -> bool {
        self.access == OperandAccess::Write
    }
}

/// The files of the operands, and those that are not known yet.
pub(super) fn open(
    operands: &[Operand],
    surroundings: Surroundings<'_>,
) -> (Vec<CommandFile>, Vec<UnknownFile>) {
    let mut files = Vec::new();
    let mut unknown = Vec::new();
    let mut left = MAX_ENTRIES;
    let mut changed = ChangedNames::default();
    let mut before = &ChangesBefore::default();
    for operand in operands {
        if !operand.before.is_same(before) {
            before = &operand.before;
            changed = ChangedNames::new(before);
        }
        let mut not_known = |written: &str| {
            let (access, by) = (operand.access, operand.by.clone());
            unknown.push(UnknownFile { written: written.to_owned(), access, by });
        };
        let paths = match &operand.path {
            OperandPath::Known(path) => vec![path.clone()],
            OperandPath::Pattern(pattern) if pattern.starts_with('/') => {
                expand::matching(pattern, &mut left).unwrap_or_else(|expand::TooMany| {
                    not_known(pattern);
                    Vec::new()
                })
            }
            // Rules and lists look at it as if it stood in each root.
            OperandPath::Relative(path) => {
                not_known(&path.display().to_string());
                surroundings.roots.roots.iter().map(|root| root.join(path)).collect()
            }
            OperandPath::Pattern(written) | OperandPath::Unknown(written) => {
                not_known(written);
                Vec::new()
            }
        };
        let is_there = |path: &PathBuf| {
            let is_made = || path.parent().is_some_and(|path| changed.may_make_directory(path));
            !operand.is_possible || is_in_directory(path) || is_made()
        };
        for path in paths.into_iter().filter(is_there) {
            if files.len() == MAX_FILES {
                not_known(&path.display().to_string());
                return (files, unknown);
            }
            let mut file = CommandFile::open(&path, operand, surroundings, &mut left);
            match changed.certainty(&path, file.leads_to(), operand) {
                Certainty::Known => {}
                Certainty::InNewDirectory => file.is_in_new_directory = true,
                Certainty::Unknown => not_known(&path.display().to_string()),
            }
            files.push(file);
        }
    }
    unknown.dedup();
    (files, unknown)
}

/// Whether the path stands in a directory that is there.
fn is_in_directory(path: &Path) -> bool {
    let parent = path.parent().map(fs::metadata);
    parent.is_some_and(|metadata| metadata.is_ok_and(|metadata| metadata.is_dir()))
}
