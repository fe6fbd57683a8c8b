//! Puts the masks of a command in place inside of bubblewrap, and makes sure that every mount
//! beneath a root is of what the server has opened.
//!
//! Bubblewrap mounts by name, and another command may change what a name means at any time. So
//! it gets no mask. Here each path is opened once, compared with what the server has opened, and
//! from then on only the descriptor counts: it is what is mounted, and what is mounted on.

use std::collections::HashSet;
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

use crate::file_id::FileId;
use crate::processes::confinement::{Confinement, Level, Mask, MaskKind, Place, Shown};
use crate::processes::{bwrap, handles, kernel, mounts};

/// Where the closed file and directory are for a moment, in memory that is the command's own.
const CLOSED: [&str; 2] = ["/run/.closed-file", "/run/.closed-directory"];

/// The file of git's settings, below home.
pub(super) const GIT_SETTINGS: &str = ".gitconfig";

/// Something is not what the server has opened.
fn differs() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

/// Why the view of a command is not in force, and the file that it is about.
#[derive(Debug)]
pub(super) struct ViewError {
    pub(super) error: io::Error,
    pub(super) place: Option<Place>,
}

impl ViewError {
    fn at(path: &Path, error: io::Error) -> Self {
        Self { error, place: Some(path.into()) }
    }
}

impl From<io::Error> for ViewError {
    fn from(error: io::Error) -> Self {
        Self { error, place: None }
    }
}

impl From<Errno> for ViewError {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// Puts a confinement's masks in place and compares all mounts. Needs what the arguments of
/// bubblewrap give for it. An error says that nothing may run.
pub(super) fn enter(confinement: &Confinement) -> Result<(), ViewError> {
    if confinement.level != Level::Bwrap {
        return Ok(());
    }
    // What is mounted here must not be mounted on the machine.
    if process::getpid() != Pid::INIT {
        return Err(io::Error::other("bubblewrap has made no namespaces").into());
    }
    let roots = compare_shown(confinement)?;
    write_git_settings(confinement)?;
    if !confinement.masks.is_empty() {
        // Mounts can only be added to what belongs to this user namespace.
        kernel::unshare_mounts()?;
        let closed = closed_objects(confinement)?;
        let mut masking = Masking { confinement, closed: closed.as_ref(), covered: Vec::new() };
        for mask in &confinement.masks {
            let path = mask.place.path();
            masking.put(mask).map_err(|error| ViewError::at(path, error))?;
        }
        if closed.is_some() {
            remove_names()?;
        }
    }
    Ok(compare_mounts(confinement, &roots)?)
}

/// Compares what bubblewrap has mounted by name. Returns where the roots really are.
fn compare_shown(confinement: &Confinement) -> Result<Vec<PathBuf>, ViewError> {
    let path = |shown: &Shown| shown.at.path().to_owned();
    let mut roots = Vec::new();
    for shown in &confinement.writable {
        let real = compared(shown).and_then(|handle| real_path(&handle));
        roots.push(real.map_err(|error| ViewError::at(&path(shown), error))?);
    }
    let own = bwrap::own_places(confinement);
    for shown in &confinement.readable {
        // One that nobody has opened may be missing.
        if shown.id.is_some() && !own.contains(&shown.at.path()) {
            compared(shown).map_err(|error| ViewError::at(&path(shown), error))?;
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

/// Puts masks in place, one after the other.
struct Masking<'a> {
    confinement: &'a Confinement,
    /// A file and a directory that nobody can read.
    closed: Option<&'a [OwnedFd; 2]>,
    /// The directories that were masked in the place of what lies in them.
    covered: Vec<(&'a Path, MaskKind)>,
}

impl<'a> Masking<'a> {
    fn put(&mut self, mask: &'a Mask) -> io::Result<()> {
        let path = mask.place.path();
        let holds = |(above, kind): &(&Path, MaskKind)| {
            path.starts_with(above) && mask.kind.max(MaskKind::ReadOnly) <= *kind
        };
        if self.covered.iter().any(holds) {
            return Ok(());
        }
        match open(path, ResolveFlags::NO_SYMLINKS) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.cover(path, mask.kind, error)
            }
            target => self.mount(&target?, mask.id, mask.kind),
        }
    }

    /// Masks the directory above a path that this process cannot enter. The command cannot either,
    /// unless it changes the directory's mode, or another command does.
    fn cover(&mut self, path: &'a Path, kind: MaskKind, denied: io::Error) -> io::Result<()> {
        let opened = |above| Some((above, open(above, ResolveFlags::NO_SYMLINKS).ok()?));
        let nearest = path.ancestors().skip(1).find_map(opened);
        let Some((above, target)) = nearest else { return Err(denied) };
        let Some(id) = self.id_of(above) else { return Err(denied) };
        let kind = kind.max(MaskKind::ReadOnly);
        self.mount(&target, id, kind)?;
        self.covered.push((above, kind));
        Ok(())
    }

    /// What the server has opened at a path that is beneath a root.
    fn id_of(&self, path: &Path) -> Option<FileId> {
        let Confinement { masks, above, .. } = self.confinement;
        let masks = masks.iter().map(|mask| (&mask.place, mask.id));
        let mut known = masks.chain(above.iter().map(|above| (&above.place, above.id)));
        known.find_map(|(place, id)| (place.path() == path).then_some(id))
    }

    /// Mounts on what was opened, if that is what the server has opened.
    fn mount(&self, target: &OwnedFd, id: FileId, kind: MaskKind) -> io::Result<()> {
        if handles::id(target)? != id {
            return Err(differs());
        }
        let source = match (kind, self.closed) {
            (MaskKind::Closed, Some([file, directory])) => {
                let mode = fstat(target)?.st_mode;
                let is_directory = FileType::from_raw_mode(mode) == FileType::Directory;
                if is_directory { directory.as_fd() } else { file.as_fd() }
            }
            _ => target.as_fd(),
        };
        let mount = copied(source)?;
        if kind != MaskKind::Keep {
            kernel::make_read_only(mount.as_fd())?;
        }
        let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        let flags = empty | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(&mount, "", target, "", flags)?)
    }
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
    let masks = confinement.masks.iter().map(|mask| mask.place.path());
    let above = confinement.above.iter().map(|above| above.place.path());
    let masked: HashSet<&Path> = masks.chain(above).collect();
    let table = mounts::read()?;
    let strange = table.iter().find(|mounted| {
        let path = mounted.at.path();
        let mut above = roots.iter().filter(|root| path.starts_with(root));
        !roots.iter().any(|root| root == path)
            && above.any(|root| !is_own(path, root))
            && !confinement.mounted.contains(mounted)
            && !masked.contains(path)
    });
    if strange.is_some() { Err(differs()) } else { Ok(()) }
}

/// Whether a mount begins at this path.
fn is_mount(path: &Path) -> io::Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let attributes = statx(CWD, path, flags, StatxFlags::TYPE)?.stx_attributes;
    Ok(attributes.contains(StatxAttributes::MOUNT_ROOT))
}
