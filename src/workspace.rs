//! Resolves paths beneath the roots of a workspace, and opens what they lead to.
//!
//! A path is judged by where it really leads, so resolving it also opens it. A [`Target`]
//! holds the directory in which its name was found. All later operations start from that
//! handle and follow no link.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::text::printable;

pub(crate) use crate::file_id::{FileId, FileVersion};
pub(crate) use bound_directory::{BoundDirectory, DirectoryId, directory_there};
pub(crate) use content_state::ContentState;
pub(crate) use directory::Directory;
pub(crate) use handles::OpenFile;
pub(crate) use own_files::OwnFiles;
pub(crate) use readable_roots::{ReadableRoot, ReadableRoots};
pub(crate) use similar::NameTwin;
use target::HoldingRoot;
pub(crate) use target::{NameMatch, Target};
pub(crate) use temp_files::TempFiles;
pub(crate) use write_outcome::{ReplaceError, WhyInPlace, WrittenFile};

mod attributes;
mod bound_directory;
mod content_state;
mod direct;
mod directories;
pub(crate) mod directory;
mod half_written;
mod handles;
mod in_place;
mod kept_contents;
mod own_files;
mod readable_roots;
mod replace;
mod similar;
mod target;
mod temp_files;
mod walk;
mod write_outcome;

/// The kernel's limit on one path. Longer paths are a mistake or an attack.
const MAX_PATH_BYTES: usize = 4096;

/// The directories that tools may reach, held open.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The workspace itself, then the additional directories. Never empty.
    roots: Vec<Root>,
}

#[derive(Clone, Debug)]
struct Root {
    /// The path that the operator wrote, made absolute.
    given: PathBuf,
    /// The same path with every link resolved.
    real: PathBuf,
    handle: Arc<OwnedFd>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("{} is outside the workspace{}", path.display(), destination_note(path, leads_to))]
    Outside { path: PathBuf, leads_to: PathBuf },
    #[error("{0}")]
    BadPath(String),
    /// A link of the kernel's own under `/proc`: to a file that a process holds open, or to
    /// the root of a process.
    #[error("{} leads through a link to an open file or another process", .0.display())]
    Magic(PathBuf),
    #[error("{}: {}", path.display(), explain(source))]
    Io { path: PathBuf, source: io::Error },
}

/// Explains the error that the kernel gave for a path.
fn explain(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOTDIR) => "a part of this path is a file, not a directory".to_owned(),
        Some(Errno::LOOP) => "the links of this path lead in a circle".to_owned(),
        Some(Errno::NAMETOOLONG) => "a name in this path is too long".to_owned(),
        _ => error.to_string(),
    }
}

/// Says where the path leads, if that differs from the path itself.
fn destination_note(path: &Path, leads_to: &Path) -> String {
    let mut text = String::new();
    if path != leads_to {
        let _ = write!(text, ": it leads to {}", leads_to.display());
    }
    text
}

impl Workspace {
    /// Opens each root. The first is the workspace itself, the others are
    /// `additional_directories`.
    pub(crate) fn open(roots: Vec<PathBuf>) -> Result<Self, ResolveError> {
        let roots: Vec<Root> =
            roots.into_iter().map(|root| Root::open(&root)).collect::<Result<_, _>>()?;
        if roots.is_empty() {
            return Err(ResolveError::BadPath("a workspace needs a directory".to_owned()));
        }
        Ok(Self { roots })
    }

    /// The workspace's own directory, with every link resolved.
    pub(crate) fn root(&self) -> &Path {
        &self.roots[0].real
    }

    /// All roots, with every link resolved: the workspace, then the additional directories.
    pub(crate) fn real_roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.real.as_path())
    }

    /// The path below the innermost root that it names; the whole path if it names none.
    pub(crate) fn below_root<'path>(&self, path: &'path Path) -> &'path Path {
        self.locate(path).map_or(path, |(_, rest)| rest)
    }

    /// Finds the file or directory that `path` leads to, or the place where it would be
    /// created. Follows links as long as they stay beneath the roots. Refuses a path that
    /// ends in a slash and leads to something that is not a directory.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Target, ResolveError> {
        check_spelling(path)?;
        let plain = path.components().as_path();
        let target = match direct::resolve(self, plain) {
            Some(target) => target,
            None => walk::resolve(self, plain)?,
        };
        if names_directory(path) && target.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
            let path = plain.display();
            return Err(ResolveError::BadPath(format!(
                "{path} is no directory, as the slash at the end of the path says"
            )));
        }
        Ok(target)
    }

    /// Finds what a path outside the roots leads to, one component at a time, as beneath a root.
    /// Whoever may use it must have been judged by its real path.
    pub(crate) fn resolve_outside(path: &Path) -> Result<Target, ResolveError> {
        check_spelling(path)?;
        let everything = Self::open(vec![PathBuf::from("/")])?;
        let target = walk::resolve(&everything, path.components().as_path())?;
        let failed =
            |error: Errno| ResolveError::Io { path: path.to_owned(), source: error.into() };
        target.apart_from_roots().map_err(failed)
    }

    /// The same workspace without its additional directories.
    pub(crate) fn without_additional(&self) -> Self {
        Self { roots: vec![self.roots[0].clone()] }
    }

    /// The same workspace with further directories. Those that are roots already are not added.
    pub(crate) fn with_additional(&self, directories: &[PathBuf]) -> Result<Self, ResolveError> {
        let mut roots = self.roots.clone();
        for directory in directories {
            if !roots.iter().any(|root| root.real == *directory) {
                roots.push(Root::open(directory)?);
            }
        }
        Ok(Self { roots })
    }

    /// Which file has this path below the workspace's own directory, and in which state. Follows
    /// links, wherever they lead, and opens nothing.
    pub(crate) fn version_of(&self, below: &Path) -> io::Result<FileVersion> {
        let stat = statat(&self.roots[0].handle, below, AtFlags::empty())?;
        Ok(FileVersion::from_stat(&stat))
    }

    /// The metadata of the directory that was opened as the workspace, even if another one has
    /// taken its path since.
    pub(crate) fn root_metadata(&self) -> io::Result<fs::Metadata> {
        fs::File::from(handles::duplicate(&self.roots[0].handle)?).metadata()
    }

    fn root_handles(&self) -> impl Iterator<Item = &OwnedFd> {
        self.roots.iter().map(|root| root.handle.as_ref())
    }

    /// The innermost root that is a prefix of `path`, and the rest of the path. Compares
    /// names only and reads nothing from the disk.
    fn locate<'path>(&self, path: &'path Path) -> Option<(&Root, &'path Path)> {
        let beneath = |root: &'_ Root| {
            path.strip_prefix(&root.real).or_else(|_| path.strip_prefix(&root.given)).ok()
        };
        self.roots
            .iter()
            .filter_map(|root| beneath(root).map(|rest| (root, rest)))
            .min_by_key(|(_, rest)| rest.components().count())
    }
}

impl Root {
    fn held(&self) -> HoldingRoot {
        HoldingRoot { real: self.real.clone(), handle: Arc::clone(&self.handle) }
    }

    fn open(given: &Path) -> Result<Self, ResolveError> {
        let failed = |source: io::Error| ResolveError::Io { path: given.to_owned(), source };
        let real = fs::canonicalize(given).map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(CWD, &real, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        let spelled = std::path::absolute(given).map_err(failed)?;
        let spelled = absolute(Path::new("/"), &spelled);
        // `a/../b` means `b` only where `a` is not a link.
        let is_same = fs::canonicalize(&spelled).is_ok_and(|path| path == real);
        let given = if is_same { spelled } else { real.clone() };
        Ok(Self { given, real, handle: Arc::new(handle) })
    }
}

fn has_control_character(path: &Path) -> bool {
    path.to_string_lossy().chars().any(char::is_control)
}

fn check_spelling(path: &Path) -> Result<(), ResolveError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH_BYTES {
        return Err(ResolveError::BadPath(format!(
            "the path has {} bytes; {MAX_PATH_BYTES} are the most",
            bytes.len()
        )));
    }
    if has_control_character(path) {
        let path = printable(bytes);
        return Err(ResolveError::BadPath(format!("the path {path} contains a control character")));
    }
    if !path.is_absolute() {
        return Err(ResolveError::BadPath(format!("{} is no absolute path", path.display())));
    }
    Ok(())
}

/// Joins `path` to `base` and removes `.` and `..` by name. Interprets nothing else: no `$`,
/// no `%`, no `file:`. A path with a control character stays as it is written, so that whoever
/// resolves it refuses it: `..` must not take away the name that holds the character.
pub(crate) fn absolute(base: &Path, path: &Path) -> PathBuf {
    let joined = base.join(path);
    if has_control_character(&joined) {
        return joined;
    }
    let mut whole = PathBuf::from("/");
    for part in joined.components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::Normal(name) => whole.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    whole
}

/// As [`absolute`], and replaces a leading `~` with `home`. Keeps a slash at the end.
pub(crate) fn absolute_from_home(base: &Path, home: &Path, path: &Path) -> PathBuf {
    let mut whole = match path.strip_prefix("~") {
        Ok(beneath_home) => absolute(home, beneath_home),
        Err(_) => absolute(base, path),
    };
    let bytes = path.as_os_str().as_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        whole.push("");
    }
    whole
}

/// Whether the path ends in a slash.
pub(crate) fn names_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests;
