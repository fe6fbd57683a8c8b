//! Puts a confinement in force: prepared before the fork, applied by the child.

use std::io;

use landlock::{RulesetCreated, RulesetStatus};
use seccompiler::{BpfProgram, apply_filter};

use super::seccomp::{self, ModeFilters};
use super::{Confinement, Level, capabilities, landlock as landlock_rules};
use crate::processes::kernel::notifications::Listener;

/// What the child applies. Made by its parent, where an error is reported.
#[derive(Debug)]
pub(in crate::processes) struct Prepared {
    rules: Option<RulesetCreated>,
    filters: Vec<BpfProgram>,
    modes: Option<ModeFilters>,
}

impl Prepared {
    pub(in crate::processes) fn new(confinement: &Confinement) -> io::Result<Self> {
        let (rules, modes) = match confinement.level {
            // The namespaces that the supervisor itself is in hold the files.
            Level::Bwrap => (None, None),
            Level::Landlock => {
                let rules = landlock_rules::rules(confinement).map_err(io::Error::other)?;
                (Some(rules), Some(seccomp::mode_filters().map_err(io::Error::other)?))
            }
        };
        let filters = seccomp::filters(confinement);
        Ok(Self { rules, filters: filters.map_err(io::Error::other)?, modes })
    }

    /// Whether changes of mode are handed over.
    pub(in crate::processes) fn hands_over(&self) -> bool {
        self.modes.is_some()
    }

    /// Confines this process and all that it starts, for good. `no_new_privs` must be set. What
    /// is handed over arrives at the listener that `hand_over` gets.
    pub(in crate::processes) fn apply(
        self,
        hand_over: impl FnOnce(Listener) -> io::Result<()>,
    ) -> io::Result<()> {
        capabilities::drop_all()?;
        if let Some(rules) = self.rules {
            let status = rules.restrict_self().map_err(io::Error::other)?;
            if status.ruleset == RulesetStatus::NotEnforced {
                return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
            }
        }
        if let Some(modes) = &self.modes {
            match Listener::install(&modes.handed_over) {
                Ok(listener) => hand_over(listener)?,
                Err(_) => apply_filter(&modes.refused).map_err(io::Error::other)?,
            }
        }
        // The order counts: the last filter may forbid what a further one needs.
        for filter in &self.filters {
            apply_filter(filter).map_err(io::Error::other)?;
        }
        Ok(())
    }
}
