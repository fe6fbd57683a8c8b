//! Says how a supervisor is started, so that one which was started ahead is only given a command
//! for which it would have been started in the same way. Pure.

use std::sync::Arc;

use super::bwrap;
use super::confinement::{Confinement, Level, Mounted};
use super::protocol::{Input, Job};
use crate::file_id::FileId;

/// Where a supervisor runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SupervisorKind {
    /// As a child of the server.
    Plain,
    /// As the first process of bubblewrap's namespaces.
    InsideBwrap(Arc<MountedView>),
}

/// What bubblewrap mounts before the supervisor inside has its job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountedView {
    arguments: Vec<u8>,
    /// What lies at the paths that the arguments name.
    opened: Vec<Option<FileId>>,
    /// What the machine has mounted below.
    mounted: Vec<Mounted>,
}

impl SupervisorKind {
    /// The kind of the spare that a job is given, if there is one, and that is started for the next
    /// job like it. `None`: it always has a supervisor of its own.
    pub(super) fn of_spare_for(job: &Job) -> Option<Self> {
        // A spare has one pipe for all output, and no other command is shown what a trial is.
        if !matches!(job.input, Input::Nothing) || job.probes.is_some() {
            return None;
        }
        Some(match &job.confinement {
            Some(confinement) if confinement.level == Level::Bwrap => {
                Self::InsideBwrap(Arc::new(MountedView::of(confinement)))
            }
            _ => Self::Plain,
        })
    }
}

impl MountedView {
    /// The arguments of bubblewrap, as it reads them from a file.
    pub(super) fn arguments(&self) -> &[u8] {
        &self.arguments
    }

    fn of(confinement: &Confinement) -> Self {
        let shown = confinement.writable.iter().chain(&confinement.readable);
        Self {
            arguments: bwrap::argument_bytes(confinement),
            opened: shown.map(|shown| shown.id).collect(),
            mounted: confinement.mounted.clone(),
        }
    }
}
