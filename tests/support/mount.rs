//! Mounts directories. Only root may, and not in every environment: then there is no mount.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Mounted for as long as this lives.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// Shows `from` at `to` as well.
    pub(crate) fn bind(from: &Path, to: PathBuf) -> Option<Self> {
        let status = Command::new("mount").arg("--bind").args([from, &to]).status();
        status.is_ok_and(|status| status.success()).then_some(Self(to))
    }

    /// Replaces `directory` with one that holds so many bytes.
    pub(crate) fn small(directory: &Path, bytes: usize) -> Option<Self> {
        let size = format!("size={bytes}");
        let arguments = ["-t", "tmpfs", "-o", &size, "none"];
        let status = Command::new("mount").args(arguments).arg(directory).status();
        status.is_ok_and(|status| status.success()).then(|| Self(directory.to_owned()))
    }

    /// Nobody can write into `directory` any more.
    pub(crate) fn read_only(directory: &Path) -> Option<Self> {
        let mount = Self::bind(directory, directory.to_owned())?;
        let options = "remount,bind,ro";
        let status = Command::new("mount").args(["-o", options]).arg(directory).status();
        status.is_ok_and(|status| status.success()).then_some(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
