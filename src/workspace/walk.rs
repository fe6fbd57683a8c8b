//! Resolves a path one component at a time, and reads links itself.
//!
//! This is the slow way, for kernels without `openat2` and for harmless paths that `openat2`
//! refuses: links with an absolute path into a root, links from one root into another, and
//! missing directories. No step lets the kernel follow a link, and `..` returns to the
//! handle that we came from. So a concurrent change of the tree cannot lead out of the
//! roots.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, fstat, fstatfs, readlinkat};
use rustix::io::Errno;

use super::handles::{duplicate, open_entry};
use super::target::{Target, TargetLocation};
use super::{ResolveError, Root, Workspace};

/// The kernel follows as many.
const MAX_LINKS: usize = 40;

/// `PROC_SUPER_MAGIC`. Links in this file system lead to open files and to the roots of
/// other processes.
const PROC_FILE_SYSTEM: i64 = 0x9fa0;

pub(super) fn resolve(workspace: &Workspace, path: &Path) -> Result<Target, ResolveError> {
    let (root, rest) = workspace.locate(path).ok_or_else(|| outside(path, path))?;
    let pending = names(rest).collect();
    Walk { workspace, asked: path, root, trail: Vec::new(), pending, links: 0 }.run()
}

struct Walk<'a> {
    workspace: &'a Workspace,
    asked: &'a Path,
    root: &'a Root,
    /// The directories entered beneath the root, with their handles.
    trail: Vec<(OsString, OwnedFd)>,
    pending: VecDeque<OsString>,
    links: usize,
}

impl Walk<'_> {
    fn run(mut self) -> Result<Target, ResolveError> {
        while let Some(name) = self.pending.pop_front() {
            if name == ".." {
                self.ascend()?;
                continue;
            }
            match open_entry(self.here(), &name) {
                Ok(handle) => self.enter(name, handle)?,
                Err(Errno::NOENT) => return self.missing(name),
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.arrived()
    }

    fn here(&self) -> &OwnedFd {
        self.trail.last().map_or(self.root.handle.as_ref(), |(_, handle)| handle)
    }

    fn real(&self) -> PathBuf {
        let mut real = self.root.real.clone();
        real.extend(self.trail.iter().map(|(name, _)| name));
        real
    }

    fn ascend(&mut self) -> Result<(), ResolveError> {
        if self.trail.pop().is_some() {
            return Ok(());
        }
        let above = self.root.real.parent().unwrap_or(Path::new("/")).to_owned();
        self.jump(&above)
    }

    fn enter(&mut self, name: OsString, handle: OwnedFd) -> Result<(), ResolveError> {
        let stat = fstat(&handle).map_err(|error| self.failed(error))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return self.follow(&handle);
        }
        self.trail.push((name, handle));
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd) -> Result<(), ResolveError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(self.failed(Errno::LOOP));
        }
        let file_system = fstatfs(link).map_err(|error| self.failed(error))?;
        if file_system.f_type == PROC_FILE_SYSTEM {
            return Err(ResolveError::Magic(self.asked.to_owned()));
        }
        let leads_to = readlinkat(link, "", Vec::new()).map_err(|error| self.failed(error))?;
        let leads_to = Path::new(OsStr::from_bytes(leads_to.as_bytes())).to_owned();
        if leads_to.is_absolute() {
            return self.jump(&leads_to);
        }
        self.prepend(&leads_to);
        Ok(())
    }

    fn jump(&mut self, to: &Path) -> Result<(), ResolveError> {
        let located = self.workspace.locate(to);
        let (root, rest) = located.ok_or_else(|| self.outside(to))?;
        self.root = root;
        self.trail.clear();
        self.prepend(rest);
        Ok(())
    }

    fn prepend(&mut self, path: &Path) {
        self.pending = names(path).chain(self.pending.drain(..)).collect();
    }

    fn arrived(mut self) -> Result<Target, ResolveError> {
        let real = self.real();
        let Some((name, handle)) = self.trail.pop() else {
            return Ok(Target::root(self.asked, self.root.held()));
        };
        let directory = duplicate(self.here()).map_err(|error| self.failed(error))?;
        let place = TargetLocation::Entry { directory, name, handle };
        Ok(Target::new(self.asked, real, place, self.root.held()))
    }

    fn missing(self, name: OsString) -> Result<Target, ResolveError> {
        let below: Vec<OsString> = std::iter::once(name).chain(self.pending.clone()).collect();
        if below.iter().any(|name| name == "..") {
            return Err(self.failed(Errno::NOENT));
        }
        let mut real = self.real();
        real.extend(&below);
        let directory = duplicate(self.here()).map_err(|error| self.failed(error))?;
        let place = TargetLocation::Missing { directory, below, is_private: false };
        Ok(Target::new(self.asked, real, place, self.root.held()))
    }

    fn outside(&self, leads_to: &Path) -> ResolveError {
        let mut whole = leads_to.to_owned();
        whole.extend(&self.pending);
        outside(self.asked, &super::absolute(Path::new("/"), &whole))
    }

    fn failed(&self, error: Errno) -> ResolveError {
        ResolveError::Io { path: self.asked.to_owned(), source: io::Error::from(error) }
    }
}

fn outside(path: &Path, leads_to: &Path) -> ResolveError {
    ResolveError::Outside { path: path.to_owned(), leads_to: leads_to.to_owned() }
}

/// The parts of a path without `.` and `/`. Keeps `..`.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}
