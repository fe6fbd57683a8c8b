//! Opens files that the server itself reads for the model, about which nobody is asked.

use std::path::Path;

use super::path_lists::SENSITIVE;
use super::{Access, AccessRequest, Permissions};
use crate::blocking::{FILES, Overloaded};
use crate::workspace::{Target, Workspace};

/// The tool whose rules decide.
const READ: &str = "Read";

/// The rules as they were at one moment.
#[derive(Debug)]
pub(crate) struct UnaskedFiles(Permissions);

/// Whether a file may lie outside the roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayLeadOut {
    Yes,
    No,
}

impl Permissions {
    /// Reads files in a thread that may block, under the rules as they are now.
    pub(crate) async fn read_unasked<T: Send + 'static>(
        &self,
        read: impl FnOnce(&UnaskedFiles) -> T + Send + 'static,
    ) -> Result<T, Overloaded> {
        let permissions = self.clone();
        FILES.run(move || read(&UnaskedFiles(permissions.current()))).await
    }
}

impl UnaskedFiles {
    pub(crate) fn workspace(&self) -> &Workspace {
        &self.0.workspace
    }

    /// The file at an absolute path. `None`: it is not there, is ours, may hold secrets, or a
    /// rule denies it or asks about it. In no mode does more count.
    pub(crate) fn open(&self, path: &Path, may_lead_out: MayLeadOut) -> Option<Target> {
        let Self(permissions) = self;
        let access = permissions.open(READ, AccessRequest::Read(path.to_owned())).ok()?;
        let effect = permissions.effect_of(&access);
        let reached = effect.reached()?;
        let is_far = reached.is_outside && may_lead_out == MayLeadOut::No;
        let is_secret = reached.on(&SENSITIVE).is_some();
        if is_far || is_secret || permissions.policy.restricts(READ, effect) {
            return None;
        }
        match access {
            Access::Read(target) => {
                std::sync::Arc::into_inner(target).filter(|it| !it.is_missing())
            }
            _ => None,
        }
    }
}
