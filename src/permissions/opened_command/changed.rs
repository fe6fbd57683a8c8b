//! Tells what the disk says of a file that other parts of the line may change before.

use std::path::{Component, Path, PathBuf};

use crate::permissions::commands::{ChangesBefore, NameChange, Operand, OperandAccess, normalized};
use crate::workspace::Workspace;

/// More changed names than this are not compared: then anything may have changed.
const MAX_CHANGES: usize = 256;

/// The names that are changed before an operand is reached, as they are before the line runs.
#[derive(Debug, Default)]
pub(super) struct ChangedNames {
    names: Vec<ResolvedName>,
    is_cut: bool,
}

#[derive(Debug)]
struct ResolvedName {
    /// By its text, and with every link resolved.
    paths: [PathBuf; 2],
    change: NameChange,
}

/// How sure it is what a file leads to when its part runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// As the disk says.
    Known,
    /// Below a directory that the line makes.
    InNewDirectory,
    Unknown,
}

/// Where a path is, seen from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below,
    Equal,
    Above,
}

impl ChangedNames {
    /// Reads the disk.
    pub(super) fn new(before: &ChangesBefore) -> Self {
        let is_cut = before.iter().nth(MAX_CHANGES).is_some();
        let mut names: Vec<ResolvedName> = Vec::new();
        for changed in before.iter().take(MAX_CHANGES) {
            let plain = normalized(&changed.path);
            // The name itself, whatever link stands there: a link is replaced, not followed.
            let itself = itself(&changed.path).unwrap_or_else(|| plain.clone());
            let change = match changed.change {
                NameChange::Target if stays_directory(&plain, &names) => continue,
                NameChange::Target => NameChange::Anything,
                change => change,
            };
            if change == NameChange::Contents {
                // What is below it may be named by where it leads.
                let target = Workspace::resolve_outside(&changed.path).ok();
                let real = target.map_or_else(|| plain.clone(), |it| it.real_path().to_owned());
                names.push(ResolvedName { paths: [real.clone(), real], change });
            }
            names.push(ResolvedName { paths: [plain, itself], change });
        }
        Self { names, is_cut }
    }

    /// How sure it is what the operand's path leads to, which is `real` before the line runs.
    pub(super) fn certainty(&self, path: &Path, real: &Path, operand: &Operand) -> Certainty {
        if self.is_cut {
            return Certainty::Unknown;
        }
        let places = Places::new(path, real);
        let mut certainty = Certainty::Known;
        for name in &self.names {
            match places.relation(name).map(|relation| certainty_by(relation, name.change, operand))
            {
                Some(Certainty::Unknown) => return Certainty::Unknown,
                Some(Certainty::InNewDirectory) => certainty = Certainty::InNewDirectory,
                _ => {}
            }
        }
        certainty
    }

    /// Whether the line may make a directory there.
    pub(super) fn may_make_directory(&self, path: &Path) -> bool {
        let places = Places::new(path, path);
        self.is_cut
            || self.names.iter().any(|name| match places.relation(name) {
                Some(Relation::Below | Relation::Equal) => {
                    !matches!(name.change, NameChange::File | NameChange::Removed)
                }
                // `mkdir -p` makes the directories above as well.
                Some(Relation::Above) => name.change == NameChange::Directory,
                None => false,
            })
    }
}

fn certainty_by(relation: Relation, change: NameChange, operand: &Operand) -> Certainty {
    let removes = matches!(operand.by.as_str(), "rm" | "rmdir");
    let takes_along = operand.is_recursive
        && operand.access == OperandAccess::Read
        && matches!(operand.by.as_str(), "cp" | "mv");
    let is_unknown = match (relation, change) {
        (_, NameChange::Removed) | (Relation::Below | Relation::Equal, NameChange::File) => false,
        (Relation::Below, NameChange::Directory) => return Certainty::InNewDirectory,
        (Relation::Below, _) | (Relation::Equal, NameChange::Anything | NameChange::Target) => true,
        (Relation::Equal | Relation::Above, NameChange::Directory)
        | (Relation::Above, NameChange::File) => takes_along,
        (Relation::Equal, NameChange::Contents) | (Relation::Above, _) => {
            operand.is_recursive && !removes
        }
    };
    if is_unknown { Certainty::Unknown } else { Certainty::Known }
}

/// Whether a real directory is there, which no name before removes.
fn stays_directory(path: &Path, before: &[ResolvedName]) -> bool {
    let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removes = |name: &ResolvedName| {
        let is_gone = matches!(name.change, NameChange::Removed | NameChange::Anything);
        is_gone && name.paths.iter().any(|removed| path.starts_with(removed))
    };
    is_directory && !before.iter().any(removes)
}

/// The path with the links above it resolved, but not the one that it may be itself.
fn itself(path: &Path) -> Option<PathBuf> {
    let (above, name) = (path.parent()?, path.file_name()?);
    let above = Workspace::resolve_outside(above).ok()?;
    Some(above.real_path().join(name))
}

/// All places that a path passes on its way, and those where it ends.
struct Places {
    passed: Vec<PathBuf>,
    ends: [PathBuf; 2],
}

impl Places {
    fn new(path: &Path, real: &Path) -> Self {
        let mut passed = Vec::new();
        let mut current = PathBuf::new();
        for component in path.components() {
            match component {
                Component::CurDir => continue,
                Component::ParentDir => _ = current.pop(),
                _ => current.push(component),
            }
            passed.push(current.clone());
        }
        passed.pop();
        passed.extend(real.ancestors().skip(1).map(Path::to_owned));
        Self { passed, ends: [current, real.to_owned()] }
    }

    fn relation(&self, name: &ResolvedName) -> Option<Relation> {
        let is_there = |path: &PathBuf| name.paths.contains(path);
        if self.passed.iter().any(is_there) {
            return Some(Relation::Below);
        }
        if self.ends.iter().any(is_there) {
            return Some(Relation::Equal);
        }
        let is_above = |end: &PathBuf| name.paths.iter().any(|path| path.starts_with(end));
        self.ends.iter().any(is_above).then_some(Relation::Above)
    }
}
