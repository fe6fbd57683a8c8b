//! Resolves a path with one `openat2` for its directory.
//!
//! This is the fast way. It gives up with `None` if the kernel refuses the path or if the
//! last part is a link. `walk` then resolves the path or finds the reason.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::Errno;

use super::Workspace;
use super::handles::open_entry;
use super::target::{Target, TargetLocation};

pub(super) fn resolve(workspace: &Workspace, path: &Path) -> Option<Target> {
    let (root, rest) = workspace.locate(path)?;
    let Some(name) = rest.file_name() else {
        return Some(Target::root(path, root.held()));
    };
    let directory = open_directory(root.handle.as_ref(), rest.parent()?)?;
    let real = name_of(&directory).filter(|real| real.starts_with(&root.real))?.join(name);
    let name = name.to_owned();
    let place = match open_entry(&directory, &name) {
        Ok(handle) if is_link(&handle)? => return None,
        Ok(handle) => TargetLocation::Entry { directory, name, handle },
        Err(Errno::NOENT) => {
            TargetLocation::Missing { directory, below: vec![name], is_private: false }
        }
        Err(_) => return None,
    };
    Some(Target::new(path, real, place, root.held()))
}

fn open_directory(root: &OwnedFd, beneath: &Path) -> Option<OwnedFd> {
    let beneath = if beneath.as_os_str().is_empty() { Path::new(".") } else { beneath };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(root, beneath, flags, Mode::empty(), resolve).ok()
}

/// The path under which the kernel knows an open directory.
fn name_of(directory: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let name = readlinkat(CWD, link, Vec::new()).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
}

fn is_link(handle: &OwnedFd) -> Option<bool> {
    let stat = fstat(handle).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}
