//! An open directory: what is in it is reached by single names, following no link.
//!
//! Nothing that changes underneath can lead out of it: there are no paths here.

use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::Errno;

use super::handles::{READ, expect_regular, regular};

const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The longest path that the kernel takes at once, with its final NUL.
const MAX_PATH: usize = 4096;

/// Which file this is, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

impl FileId {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    pub(super) fn from_stat(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl Directory {
    /// Opens what `handle` stands for, for listing.
    pub(super) fn again(handle: impl AsFd) -> io::Result<Self> {
        Ok(Self(openat(handle, c".", LIST, Mode::empty())?))
    }

    /// A directory in this one.
    pub(crate) fn open_directory(&self, name: &CStr) -> io::Result<Self> {
        gate::pass(name);
        Ok(Self(openat(&self.0, name, LIST, Mode::empty())?))
    }

    /// A directory so many levels below this one, however long the path to it is.
    pub(crate) fn open_below(&self, names: &[&CStr]) -> io::Result<Self> {
        let mut here = Self::again(&self.0)?;
        let mut rest = names;
        while !rest.is_empty() {
            let (path, taken) = beginning(rest);
            here = here.open_path(&path, &rest[..taken])?;
            rest = &rest[taken..];
        }
        Ok(here)
    }

    fn open_path(&self, path: &[u8], names: &[&CStr]) -> io::Result<Self> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(&self.0, path, LIST, Mode::empty(), resolve) {
            // A kernel without it, or a container that forbids it.
            Err(Errno::NOSYS | Errno::PERM) => {
                let mut here = Self::again(&self.0)?;
                for name in names {
                    here = here.open_directory(name)?;
                }
                Ok(here)
            }
            opened => Ok(Self(opened?)),
        }
    }

    /// A regular file in this directory, opened for reading without blocking.
    pub(crate) fn open_file(&self, name: &CStr) -> io::Result<File> {
        gate::pass(name);
        regular(openat(&self.0, name, READ, Mode::empty())?)
    }

    /// The same where it is not known that it is no device: opening some is an act.
    pub(crate) fn open_file_of_unknown_kind(&self, name: &CStr) -> io::Result<File> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        expect_regular(FileType::from_raw_mode(stat.st_mode))?;
        self.open_file(name)
    }

    /// Of a name here; of a link, not of what it leads to.
    pub(crate) fn stat(&self, name: &CStr) -> io::Result<(FileId, Stat)> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((FileId::from_stat(&stat), stat))
    }

    pub(crate) fn id(&self) -> io::Result<FileId> {
        Ok(FileId::from_stat(&fstat(&self.0)?))
    }

    /// Hands on the next entries, with what the listing knows of their kind: `enough` of
    /// them or a few more. False when there are no others.
    pub(crate) fn list(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        enough: usize,
        mut take: impl FnMut(&CStr, FileType),
    ) -> io::Result<bool> {
        let mut taken = 0;
        let mut entries = RawDir::new(&self.0, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                take(name, entry.file_type());
                taken += 1;
            }
            // The kernel goes on behind what it has written, so all of that is taken.
            if entries.is_buffer_empty() && taken >= enough {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// As many names as fit into one path, and how many those are.
fn beginning(names: &[&CStr]) -> (Vec<u8>, usize) {
    let mut path = Vec::new();
    let mut taken = 0;
    for name in names {
        let name = name.to_bytes();
        if taken > 0 && path.len() + 1 + name.len() >= MAX_PATH {
            break;
        }
        if taken > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        taken += 1;
    }
    (path, taken)
}

/// Stops a thread at the opening of a name, in tests: a file system that hangs.
pub(crate) mod gate {
    use std::ffi::CStr;

    #[cfg(not(test))]
    pub(super) fn pass(_: &CStr) {}

    #[cfg(test)]
    pub(super) fn pass(name: &CStr) {
        test::pass(name);
    }

    #[cfg(test)]
    pub(crate) mod test {
        use std::collections::HashMap;
        use std::ffi::CStr;
        use std::sync::{Condvar, Mutex};

        static SHUT: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);
        static CHANGED: Condvar = Condvar::new();

        /// Nobody gets past this name until this is dropped. The name must be no other
        /// test's.
        pub(crate) struct Gate(&'static str);

        impl Gate {
            pub(crate) fn shut(name: &'static str) -> Self {
                let mut shut = SHUT.lock().unwrap();
                shut.get_or_insert_default().insert(name.to_owned(), 0);
                Self(name)
            }

            pub(crate) fn waiting(&self) -> usize {
                SHUT.lock().unwrap().as_ref().unwrap()[self.0]
            }

            /// Blocks until so many threads stand before the gate.
            pub(crate) fn wait_for(&self, threads: usize) {
                let mut shut = SHUT.lock().unwrap();
                while shut.as_ref().unwrap()[self.0] < threads {
                    shut = CHANGED.wait(shut).unwrap();
                }
            }
        }

        impl Drop for Gate {
            fn drop(&mut self) {
                SHUT.lock().unwrap().as_mut().unwrap().remove(self.0);
                CHANGED.notify_all();
            }
        }

        pub(super) fn pass(name: &CStr) {
            let mut shut = SHUT.lock().unwrap();
            let Some(name) = name.to_str().ok() else { return };
            let Some(waiting) = shut.as_mut().and_then(|gates| gates.get_mut(name)) else { return };
            *waiting += 1;
            CHANGED.notify_all();
            while shut.as_ref().is_some_and(|gates| gates.contains_key(name)) {
                shut = CHANGED.wait(shut).unwrap();
            }
        }
    }
}
