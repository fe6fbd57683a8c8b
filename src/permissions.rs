//! Decides what a call may do.

use std::path::PathBuf;

use crate::workspace::Target;

/// What a call asks for, as the tool reads its input. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Read(PathBuf),
    /// A directory (or file) that is searched or listed.
    Search(PathBuf),
    Write(PathBuf),
    Command(String),
    /// Touches nothing outside the session.
    Nothing,
}

/// What was judged, resolved: opened handles, not names.
#[derive(Debug)]
pub(crate) enum Access {
    Read(Target),
    Search(Target),
    Write(Target),
    Command(String),
    Nothing,
}

/// Proof that a call was allowed, and what it was allowed. Only this module can
/// make one, a call cannot be executed without one, and a tool reaches for what
/// the permit holds, not for what its input says: so what was judged is what is
/// used.
#[derive(Debug)]
pub(crate) struct Permit(Access);

impl Permit {
    /// The file or directory that was permitted.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.0 {
            Access::Read(target) | Access::Search(target) | Access::Write(target) => Some(target),
            Access::Command(_) | Access::Nothing => None,
        }
    }

    pub(crate) fn command(&self) -> Option<&str> {
        match &self.0 {
            Access::Command(command) => Some(command),
            _ => None,
        }
    }
}

#[cfg(test)]
impl Permit {
    pub(crate) fn for_test(access: Access) -> Self {
        Self(access)
    }
}
