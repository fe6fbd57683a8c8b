//! Mounts directories. Only root may, and not in every environment: then there is no mount.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

/// Mounted for as long as this lives.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// Shows `from` at `to` as well.
    pub(crate) fn bind(from: &Path, to: PathBuf) -> Option<Self> {
        mount_bind(from, &to).ok()?;
        Some(Self(to))
    }

    /// Replaces `directory` with one of our own that holds so many bytes.
    pub(crate) fn small(directory: &Path, bytes: usize) -> Option<Self> {
        let options = CString::new(format!("size={bytes},mode=700")).expect("plain text");
        mount("none", directory, "tmpfs", MountFlags::empty(), options.as_c_str()).ok()?;
        Some(Self(directory.to_owned()))
    }

    /// Nobody can write into `directory` any more.
    pub(crate) fn read_only(directory: &Path) -> Option<Self> {
        let mount = Self::bind(directory, directory.to_owned())?;
        mount_remount(directory, MountFlags::BIND | MountFlags::RDONLY, "").ok()?;
        Some(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _gone = unmount(&self.0, UnmountFlags::DETACH);
    }
}
