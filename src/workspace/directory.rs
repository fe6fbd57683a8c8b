//! Lists an open directory, and opens its entries by single names.
//!
//! It follows no link and resolves no path, so a change of the tree below cannot lead out
//! of the directory.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::Errno;

use super::handles::{OpenFile, READ, expect_regular};
use crate::file_id::FileId;

const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The kernel's limit on one path, including its final NUL.
const MAX_PATH: usize = 4096;

#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

impl Directory {
    /// Opens the directory of `handle` once more, for listing. The new handle has its own
    /// position in the listing.
    pub(super) fn again(handle: impl AsFd) -> io::Result<Self> {
        Ok(Self(openat(handle, c".", LIST, Mode::empty())?))
    }

    /// Opens a subdirectory.
    pub(crate) fn open_directory(&self, name: &CStr) -> io::Result<Self> {
        gate::pass(name);
        Ok(Self(openat(&self.0, name, LIST, Mode::empty())?))
    }

    /// Opens the directory at the path `names`, however many levels below this one it lies.
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
            // An old kernel has no `openat2`, and some containers forbid it. Opening one
            // name at a time refuses the same links.
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

    /// Opens a regular file for reading. Never blocks on a named pipe.
    pub(crate) fn open_file(&self, name: &CStr) -> io::Result<OpenFile> {
        gate::pass(name);
        OpenFile::regular(openat(&self.0, name, READ, Mode::empty())?)
    }

    /// Opens a regular file whose kind is not known yet. It asks for the kind first, because
    /// opening a device can have an effect.
    pub(crate) fn open_file_of_unknown_kind(&self, name: &CStr) -> io::Result<File> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        expect_regular(FileType::from_raw_mode(stat.st_mode))?;
        Ok(self.open_file(name)?.file)
    }

    /// The status of an entry. For a link, that of the link itself.
    pub(crate) fn stat(&self, name: &CStr) -> io::Result<(FileId, Stat)> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((FileId::from_stat(&stat), stat))
    }

    pub(crate) fn id(&self) -> io::Result<FileId> {
        Ok(FileId::from_stat(&fstat(&self.0)?))
    }

    /// Passes the next entries to `take`: at least `enough` of them, if there are so many.
    /// The kind is `Unknown` where the file system does not tell it. Returns whether more
    /// entries may follow.
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
            // The kernel continues after the last entry it has written to the buffer, so the
            // buffer must be emptied before the listing may pause.
            if entries.is_buffer_empty() && taken >= enough {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Joins as many names as fit into one path, and returns their number.
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

/// Simulates a file system that hangs: in tests, holds a thread that opens a certain name.
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

        /// Holds every thread that opens this name, until the gate is dropped. Each test must
        /// use a name of its own, since tests share a process.
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

            /// Blocks until this many threads wait at the gate.
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
