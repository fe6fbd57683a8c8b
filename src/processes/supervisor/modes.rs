//! Changes the modes of files on a command's behalf. Landlock has no rule for it, so the filter
//! hands these calls over, and what lies beneath the roots is changed here.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process;

use crate::processes::confinement::{Confinement, FCHMODAT2};
use crate::processes::kernel::notifications::{Listener, Notification};

/// The longest path that the kernel takes.
const MAX_PATH: usize = 4096;

/// Set-user-id and set-group-id.
const SETS_ID: u32 = 0o6000;

/// Where a command may change modes.
#[derive(Debug)]
pub(super) struct Roots(Vec<Root>);

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// What it was when the command started: another directory may come into its place.
    id: (u64, u64),
}

/// A change that a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    named: Named,
    mode: u32,
}

/// How the file is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Descriptor(i32),
    Path {
        /// What a relative path counts from.
        base: i32,
        /// Where in the command's memory the path is.
        address: u64,
        flags: AtFlags,
    },
}

/// A file as it was found.
#[derive(Clone, Debug)]
struct Found {
    path: PathBuf,
    kind: FileType,
    owner: u32,
}

impl Roots {
    pub(super) fn of(confinement: &Confinement) -> Self {
        if confinement.reads_only {
            return Self(Vec::new());
        }
        let writable = confinement.writable.iter().map(|shown| shown.from.path());
        let roots = writable.chain([confinement.temporary.path()]);
        let opened = roots.filter_map(|path| Some(Root { path: path.to_owned(), id: id(path)? }));
        Self(opened.collect())
    }

    /// Answers every call that is handed over, until nobody is left who could make one.
    pub(super) fn serve(&self, listener: &Listener) {
        while let Ok(notification) = listener.next() {
            let changed = self.change(listener, &notification);
            listener.answer(&notification, changed);
        }
    }

    fn change(&self, listener: &Listener, notification: &Notification) -> Result<(), Errno> {
        let asked = asked(notification.call, notification.arguments)?;
        let file = open(notification.thread, asked.named)?;
        // Else it was another process whose files were looked at.
        if !listener.waits(notification) {
            return Err(Errno::SRCH);
        }
        let metadata = fs::fstat(&file)?;
        let reopened = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let path = fs::readlink(&reopened, Vec::new())?;
        let found = Found {
            path: Path::new(OsStr::from_bytes(path.as_bytes())).to_owned(),
            kind: FileType::from_raw_mode(metadata.st_mode),
            owner: metadata.st_uid,
        };
        let holds = self.0.iter().filter(|root| id(&root.path) == Some(root.id));
        let roots: Vec<&Path> = holds.map(|root| root.path.as_path()).collect();
        may_change(&found, asked.mode, &roots, process::geteuid().as_raw())?;
        fs::chmod(&reopened, Mode::from_raw_mode(asked.mode))
    }
}

/// Device and inode, of no link.
fn id(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((metadata.st_dev, metadata.st_ino))
}

/// Reads the arguments of a call.
fn asked(call: i32, arguments: [u64; 6]) -> Result<Asked, Errno> {
    let [first, second, third, fourth, ..] = arguments;
    let at = |base, address, flags| {
        let flags = AtFlags::from_bits_retain(low_bits(flags));
        let known = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let named = Named::Path { base: low_bits(base).cast_signed(), address, flags };
        if known.contains(flags) { Ok(named) } else { Err(Errno::INVAL) }
    };
    let (named, mode) = match libc::c_long::from(call) {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => {
            let flags = AtFlags::empty();
            (Named::Path { base: libc::AT_FDCWD, address: first, flags }, second)
        }
        libc::SYS_fchmod => (Named::Descriptor(low_bits(first).cast_signed()), second),
        libc::SYS_fchmodat => (at(first, second, 0)?, third),
        FCHMODAT2 => (at(first, second, fourth)?, third),
        _ => return Err(Errno::PERM),
    };
    Ok(Asked { named, mode: low_bits(mode) & 0o7777 })
}

/// The kernel reads 32 bits of such an argument.
fn low_bits(argument: u64) -> u32 {
    u32::try_from(argument & u64::from(u32::MAX)).unwrap_or_default()
}

/// Opens the file as the thread would, but for links to a process's own files. An error says no
/// more than the thread may know.
fn open(thread: u32, named: Named) -> Result<OwnedFd, Errno> {
    let of_thread = |name: &str| {
        let path = format!("/proc/{thread}/{name}");
        fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    };
    let descriptor = |number: i32| {
        let number = u32::try_from(number).map_err(|_| Errno::BADF)?;
        of_thread(&format!("fd/{number}")).map_err(|_| Errno::BADF)
    };
    let (base, address, flags) = match named {
        Named::Descriptor(number) => return descriptor(number),
        Named::Path { base, address, flags } => (base, address, flags),
    };
    let path = path_of(thread, address)?;
    let base = match base {
        libc::AT_FDCWD => of_thread("cwd").map_err(|_| Errno::PERM)?,
        _ if path.starts_with(b"/") => of_thread("cwd").map_err(|_| Errno::PERM)?,
        number => descriptor(number)?,
    };
    if path.is_empty() {
        return if flags.contains(AtFlags::EMPTY_PATH) { Ok(base) } else { Err(Errno::NOENT) };
    }
    let mut how = OFlags::PATH | OFlags::CLOEXEC;
    how.set(OFlags::NOFOLLOW, flags.contains(AtFlags::SYMLINK_NOFOLLOW));
    let path = OsStr::from_bytes(&path);
    let opened = fs::openat2(&base, path, how, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    opened.map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP => error,
        _ => Errno::PERM,
    })
}

/// The path at this address of the thread's memory. It is read once, so the thread cannot change
/// it afterwards.
fn path_of(thread: u32, address: u64) -> Result<Vec<u8>, Errno> {
    let memory = File::open(format!("/proc/{thread}/mem")).map_err(|_| Errno::PERM)?;
    let mut path = vec![0; MAX_PATH];
    let read = memory.read_at(&mut path, address).map_err(|_| Errno::FAULT)?;
    path.truncate(read);
    match path.iter().position(|byte| *byte == 0) {
        Some(end) => path.truncate(end),
        None if read == MAX_PATH => return Err(Errno::NAMETOOLONG),
        None => return Err(Errno::FAULT),
    }
    Ok(path)
}

/// Whether a command of this user may give a file this mode.
fn may_change(found: &Found, mode: u32, roots: &[&Path], user: u32) -> Result<(), Errno> {
    match found.kind {
        FileType::Symlink => return Err(Errno::OPNOTSUPP),
        FileType::Directory => {}
        FileType::RegularFile if mode & SETS_ID == 0 => {}
        _ => return Err(Errno::PERM),
    }
    let is_beneath = roots.iter().any(|root| found.path.starts_with(root));
    if is_beneath && found.owner == user { Ok(()) } else { Err(Errno::PERM) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 1000;

    fn change(path: &str, kind: FileType, owner: u32, mode: u32) -> Result<(), Errno> {
        let found = Found { path: path.into(), kind, owner };
        may_change(&found, mode, &[Path::new("/ws"), Path::new("/tmp/mine")], ME)
    }

    #[test]
    fn modes_change_only_of_the_users_own_files_beneath_the_roots() {
        let file = FileType::RegularFile;
        for path in ["/ws/a", "/ws/a/b", "/tmp/mine/x"] {
            assert_eq!(change(path, file, ME, 0o755), Ok(()), "{path}");
        }
        for path in ["/ws-evil/a", "/etc/passwd", "/tmp/x", "/", "pipe:[1]"] {
            assert_eq!(change(path, file, ME, 0o755), Err(Errno::PERM), "{path}");
        }
        assert_eq!(change("/ws/a", file, 0, 0o755), Err(Errno::PERM));
        assert_eq!(change("/ws", FileType::Directory, ME, 0o2755), Ok(()));
        assert_eq!(change("/ws/a", file, ME, 0o4755), Err(Errno::PERM));
        assert_eq!(change("/ws/a", file, ME, 0o2755), Err(Errno::PERM));
        assert_eq!(change("/ws/a", FileType::Symlink, ME, 0o755), Err(Errno::OPNOTSUPP));
        assert_eq!(change("/ws/a", FileType::CharacterDevice, ME, 0o755), Err(Errno::PERM));
    }

    #[test]
    fn the_arguments_are_those_of_each_call() {
        let of = |call: libc::c_long, arguments: [u64; 4]| {
            let [a, b, c, d] = arguments;
            asked(i32::try_from(call).unwrap(), [a, b, c, d, 9, 9])
        };
        let cwd = u64::MAX - 99;
        let path = |base, flags| Named::Path { base, address: 77, flags };
        let named = |asked: Result<Asked, Errno>| asked.map(|asked| (asked.named, asked.mode));
        let none = AtFlags::empty();
        let mode = 0o644;
        assert_eq!(
            named(of(libc::SYS_fchmodat, [cwd, 77, mode, 1 << 20])),
            Ok((path(libc::AT_FDCWD, none), 0o644))
        );
        assert_eq!(
            named(of(FCHMODAT2, [3, 77, mode, 0x100])),
            Ok((path(3, AtFlags::SYMLINK_NOFOLLOW), 0o644))
        );
        assert_eq!(named(of(FCHMODAT2, [3, 77, mode, 1 << 20])), Err(Errno::INVAL));
        assert_eq!(
            named(of(libc::SYS_fchmod, [5, 0o177_644, 0, 0])),
            Ok((Named::Descriptor(5), 0o7644))
        );
        assert_eq!(named(of(libc::SYS_read, [0; 4])), Err(Errno::PERM));
    }
}
