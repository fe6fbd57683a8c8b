//! Puts the masks of a command in place inside of bubblewrap, and makes sure that every mount
//! beneath a root is of what the server has opened.
//!
//! Bubblewrap mounts by name, and another command may change what a name means at any time. So
//! it gets no mask. Here each path is opened once, compared with what the server has opened, and
//! from then on only the descriptor counts: it is what is mounted, and what is mounted on.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, ResolveFlags, StatxAttributes, StatxFlags, fstat, mkdirat,
    mknodat, readlink, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::process::{self, Pid};

use crate::processes::confinement::{Confinement, Level, Mask, MaskKind, Shown};
use crate::processes::{bwrap, handles, kernel, mounts};

/// Where the closed file and directory are for a moment, in memory that is the command's own.
const CLOSED: [&str; 2] = ["/run/.closed-file", "/run/.closed-directory"];

/// The file of git's settings, below home.
pub(super) const GIT_SETTINGS: &str = ".gitconfig";

/// Something is not what the server has opened.
fn differs() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

/// Puts a confinement's masks in place and compares all mounts. Needs what the arguments of
/// bubblewrap give for it. An error says that nothing may run.
pub(super) fn enter(confinement: &Confinement) -> io::Result<()> {
    if confinement.level != Level::Bwrap {
        return Ok(());
    }
    // What is mounted here must not be mounted on the machine.
    if process::getpid() != Pid::INIT {
        return Err(io::Error::other("bubblewrap has made no namespaces"));
    }
    let roots = compare_shown(confinement)?;
    write_git_settings(confinement)?;
    if !confinement.masks.is_empty() {
        // Mounts can only be added to what belongs to this user namespace.
        kernel::unshare_mounts()?;
        let closed = closed_objects(confinement)?;
        for mask in &confinement.masks {
            put(mask, closed.as_ref())?;
        }
        if closed.is_some() {
            remove_names()?;
        }
    }
    compare_mounts(confinement, &roots)
}

/// Compares what bubblewrap has mounted by name. Returns where the roots really are.
fn compare_shown(confinement: &Confinement) -> io::Result<Vec<PathBuf>> {
    let mut roots = Vec::new();
    for shown in &confinement.writable {
        roots.push(real_path(&compared(shown)?)?);
    }
    let own = bwrap::own_places(confinement);
    for shown in &confinement.readable {
        // One that nobody has opened may be missing.
        if shown.id.is_some() && !own.contains(&shown.at.path()) {
            compared(shown)?;
        }
    }
    Ok(roots)
}

/// Writes the settings of git into home, where that is an empty directory in memory.
fn write_git_settings(confinement: &Confinement) -> io::Result<()> {
    let home = confinement.home.path();
    match &confinement.git_settings {
        Some(settings) if bwrap::own_places(confinement).contains(&home) => {
            fs::write(home.join(GIT_SETTINGS), settings)
        }
        _ => Ok(()),
    }
}

fn compared(shown: &Shown) -> io::Result<OwnedFd> {
    let handle = open(shown.at.path(), ResolveFlags::empty())?;
    match shown.id {
        Some(id) if handles::id(&handle)? != id => Err(differs()),
        _ => Ok(handle),
    }
}

fn open(path: &Path, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    handles::open_as(path, resolve).map_err(|error| match Errno::from_io_error(&error) {
        // A name is gone, or has become a link.
        Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => differs(),
        _ => error,
    })
}

fn real_path(handle: &OwnedFd) -> io::Result<PathBuf> {
    let path = readlink(format!("/proc/self/fd/{}", handle.as_raw_fd()), Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}

/// A file and a directory that nobody can read.
fn closed_objects(confinement: &Confinement) -> io::Result<Option<[OwnedFd; 2]>> {
    if confinement.masks.iter().all(|mask| mask.kind != MaskKind::Closed) {
        return Ok(None);
    }
    let [file, directory] = CLOSED;
    mknodat(CWD, file, FileType::RegularFile, Mode::empty(), 0)?;
    mkdirat(CWD, directory, Mode::empty())?;
    let [file, directory] = CLOSED.map(|path| open(Path::new(path), ResolveFlags::NO_SYMLINKS));
    Ok(Some([file?, directory?]))
}

/// Takes their names away. What is mounted needs none, but what is about to be does.
fn remove_names() -> io::Result<()> {
    let [file, directory] = CLOSED;
    unlinkat(CWD, file, AtFlags::empty())?;
    Ok(unlinkat(CWD, directory, AtFlags::REMOVEDIR)?)
}

/// Mounts what one mask says on what it is about.
fn put(mask: &Mask, closed: Option<&[OwnedFd; 2]>) -> io::Result<()> {
    let target = open(mask.place.path(), ResolveFlags::NO_SYMLINKS)?;
    if handles::id(&target)? != mask.id {
        return Err(differs());
    }
    let source = match (mask.kind, closed) {
        (MaskKind::Closed, Some([file, directory])) => {
            let mode = fstat(&target)?.st_mode;
            let is_directory = FileType::from_raw_mode(mode) == FileType::Directory;
            if is_directory { directory.as_fd() } else { file.as_fd() }
        }
        _ => target.as_fd(),
    };
    let mount = copied(source)?;
    if mask.kind != MaskKind::Keep {
        kernel::make_read_only(mount.as_fd())?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&mount, "", &target, "", flags)?)
}

/// A mount of its own of what a descriptor leads to, with what is mounted below.
fn copied(source: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(source, "", flags)?)
}

/// Refuses any mount beneath a root but the masks, the command's own directories, and what the
/// machine has mounted there.
fn compare_mounts(confinement: &Confinement, roots: &[PathBuf]) -> io::Result<()> {
    for root in roots {
        if !is_mount(root)? {
            return Err(differs());
        }
    }
    let own = bwrap::own_places(confinement);
    let is_own = |path: &Path, root: &Path| {
        own.iter().any(|place| place.starts_with(root) && path.starts_with(place))
    };
    let table = mounts::read()?;
    let strange = table.iter().find(|mounted| {
        let path = mounted.at.path();
        let mut above = roots.iter().filter(|root| path.starts_with(root));
        let is_mask = || confinement.masks.iter().any(|mask| mask.place.path() == path);
        !roots.iter().any(|root| root == path)
            && above.any(|root| !is_own(path, root))
            && !confinement.mounted.contains(mounted)
            && !is_mask()
    });
    if strange.is_some() { Err(differs()) } else { Ok(()) }
}

/// Whether a mount begins at this path.
fn is_mount(path: &Path) -> io::Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let attributes = statx(CWD, path, flags, StatxFlags::TYPE)?.stx_attributes;
    Ok(attributes.contains(StatxAttributes::MOUNT_ROOT))
}
