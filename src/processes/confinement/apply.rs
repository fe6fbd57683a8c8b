//! Puts a confinement in force: prepared before the fork, applied by the child.

use std::io;

use landlock::{RulesetCreated, RulesetStatus};
use seccompiler::{BpfProgram, apply_filter};

use super::{Confinement, Level, capabilities, landlock as landlock_rules, seccomp};

/// What the child applies. Made by its parent, where an error is reported.
#[derive(Debug)]
pub(in crate::processes) struct Prepared {
    rules: Option<RulesetCreated>,
    filters: Vec<BpfProgram>,
}

impl Prepared {
    pub(in crate::processes) fn new(confinement: &Confinement) -> io::Result<Self> {
        let rules = match confinement.level {
            // The namespaces that the supervisor itself is in hold the files.
            Level::Bwrap => None,
            Level::Landlock => Some(landlock_rules::rules(confinement).map_err(io::Error::other)?),
        };
        let filters = seccomp::filters(confinement.level, confinement.network);
        Ok(Self { rules, filters: filters.map_err(io::Error::other)? })
    }

    /// Confines this process and all that it starts, for good. `no_new_privs` must be set.
    pub(in crate::processes) fn apply(self) -> io::Result<()> {
        capabilities::drop_all()?;
        if let Some(rules) = self.rules {
            let status = rules.restrict_self().map_err(io::Error::other)?;
            if status.ruleset == RulesetStatus::NotEnforced {
                return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
            }
        }
        // The order counts: the last filter may forbid what a further one needs.
        for filter in &self.filters {
            apply_filter(filter).map_err(io::Error::other)?;
        }
        Ok(())
    }
}
