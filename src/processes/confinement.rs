//! Says what a command may reach. A job carries this value to its supervisor, which applies it
//! before the command starts. Pure: whoever builds the value decides, and nobody after.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::file_id::FileId;

pub(super) use self::apply::Prepared;
pub(super) use self::capabilities::drop_all as drop_capabilities;
pub(super) use self::landlock::scope_signals;
pub(super) use self::seccomp::FCHMODAT2;
pub(super) use super::mounts::Mounted;
pub(crate) use super::place::Place;

mod apply;
mod capabilities;
mod landlock;
mod seccomp;

/// What holds a command back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// The distribution's bubblewrap: namespaces of its own, and the filter of system calls.
    Bwrap,
    /// Landlock's rules for files, and the filter of system calls.
    Landlock,
}

/// Whether a command may use the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Network {
    #[default]
    None,
    /// IPv4 and IPv6, and no other sockets.
    Full,
}

/// Confines one command. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) level: Level,
    pub(crate) network: Network,
    /// What `writable` names can be read alone, and there is no directory for temporary files but
    /// an empty one in memory, where the level can make it.
    pub(crate) reads_only: bool,
    /// The roots of the workspace, and what the operator adds. None lies in another one: a
    /// command could have put a link to anywhere in its place.
    pub(crate) writable: Vec<Shown>,
    /// None lies in what is writable, for the same reason.
    pub(crate) readable: Vec<Shown>,
    /// The command's own directory for temporary files. One that only reads does not have it.
    pub(crate) temporary: Place,
    /// What `~` means. Only what `readable` names of it can be seen.
    pub(crate) home: Place,
    /// Settings of git for a home that is empty in bubblewrap.
    pub(crate) git_settings: Option<String>,
    /// Outer ones first. Landlock has no masks.
    pub(crate) masks: Vec<Mask>,
    /// Directories above masks that have no mask of their own. One that the command cannot enter
    /// is masked in the place of what lies in it.
    pub(crate) above: Vec<DirectoryAbove>,
    /// The machine's own mounts below what is writable, which come with it.
    pub(crate) mounted: Vec<Mounted>,
}

/// A file or directory, and the path at which a command finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) at: Place,
    /// Without links.
    pub(crate) from: Place,
    /// What the server has opened there. `None`: nobody has looked.
    pub(crate) id: Option<FileId>,
}

/// Protects one path that the command sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mask {
    pub(crate) place: Place,
    pub(crate) kind: MaskKind,
    /// What the server has opened there.
    pub(crate) id: FileId,
}

/// A directory in which something is masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectoryAbove {
    pub(crate) place: Place,
    /// What the server has opened there.
    pub(crate) id: FileId,
}

/// How a path is protected, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum MaskKind {
    /// Writable, but it cannot be moved away.
    Keep,
    ReadOnly,
    /// Cannot be read or written, and is seen to be there.
    Closed,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Shown {
    /// Under its own path.
    pub(crate) fn as_it_is(path: &Path) -> Self {
        Self { at: path.into(), from: path.into(), id: None }
    }
}

impl Confinement {
    /// One in which nothing can be reached.
    pub(super) fn nothing(level: Level) -> Self {
        let nowhere = Path::new("/nonexistent");
        Self {
            level,
            network: Network::None,
            reads_only: false,
            writable: Vec::new(),
            readable: Vec::new(),
            temporary: nowhere.into(),
            home: nowhere.into(),
            git_settings: None,
            masks: Vec::new(),
            above: Vec::new(),
            mounted: Vec::new(),
        }
    }

    /// Whether what lies in home is there and cannot be read. In bubblewrap it is not there.
    pub(super) fn closes_home(&self) -> bool {
        let mut shown = self.writable.iter().chain(&self.readable);
        self.level == Level::Landlock
            && !shown.any(|shown| self.home.path().starts_with(shown.at.path()))
    }

    /// The directory for temporary files as the command names it.
    pub(super) fn temporary_inside(&self) -> &Path {
        match self.level {
            Level::Bwrap => Path::new("/tmp"),
            Level::Landlock => self.temporary.path(),
        }
    }
}
