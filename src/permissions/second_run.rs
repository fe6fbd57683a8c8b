//! Says what becomes of a command that comes again because it did without something that a person,
//! or another mode, can give it.

use super::mode::Mode;
use super::opened_command::Lacked;
use super::{Level, Permissions};

/// What becomes of the same command when it comes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SecondRun {
    #[default]
    AsksAPerson,
    /// Nobody is asked, and it runs with what it lacked.
    RunsUnasked,
    /// It cannot run with it: nobody can be asked, or nothing but reading is allowed.
    IsRefused,
}

/// The same for each thing that a command may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SecondRuns {
    writing: SecondRun,
    /// Files that are closed to what nobody has approved, and those that are kept as they are.
    approval: SecondRun,
}

impl SecondRuns {
    pub(super) fn after(self, lacked: Lacked) -> SecondRun {
        match lacked {
            Lacked::Writing => self.writing,
            Lacked::Secrets | Lacked::Look => self.approval,
        }
    }
}

impl SecondRun {
    /// What the model is told to do if the command has to do more.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::AsksAPerson => "run exactly the same command again: that asks a person",
            Self::RunsUnasked => "run exactly the same command again: it is not held back then",
            Self::IsRefused => "leave it: in this mode nobody is asked who could allow it",
        }
    }
}

impl Permissions {
    /// What would become of a command that has run unasked.
    pub(super) fn second_runs(&self) -> SecondRuns {
        let policy = &self.policy;
        let approval = if policy.only_reads.is_some() || policy.mode == Mode::Plan {
            SecondRun::IsRefused
        } else if policy.mode == Mode::BypassPermissions {
            SecondRun::RunsUnasked
        } else if self.asks_nobody() {
            SecondRun::IsRefused
        } else {
            SecondRun::AsksAPerson
        };
        let may_write = policy.only_reads.is_none() && policy.mode != Mode::Plan;
        let is_contained = policy.auto_allow && policy.confined.level == Some(Level::Bwrap);
        let writing = if may_write && is_contained { SecondRun::RunsUnasked } else { approval };
        SecondRuns { writing, approval }
    }
}
