//! Decides what a search leaves out by the policy: what a rule denies, and files that may hold
//! secrets.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::denied_files;
use super::judge::Policy;
use super::kind::AccessKind;
use super::mode::Mode;
use super::path_lists::SENSITIVE;
use super::reached::ReachedPath;
use crate::workspace::FileId;

/// The limits of one search. The default has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchLimits(Option<Arc<Limits>>);

#[derive(Debug)]
struct Limits {
    tool: String,
    policy: Policy,
    /// Whether a rule denies the tool some paths.
    hides: bool,
    /// The files that rules without a wildcard deny.
    denied: HashSet<FileId>,
    /// Whether files that may hold secrets are passed over. Where the searched directory itself
    /// may hold them, a person has allowed the search.
    skips: bool,
}

impl SearchLimits {
    /// Reads the disk: which files rules deny.
    pub(super) fn new(tool: &str, policy: &Policy, top: &Path) -> Self {
        let denied = denied_files(policy, tool, AccessKind::Read).map(|(id, _)| id).collect();
        let top = ReachedPath::met(top, true, &policy.roots);
        Self(Some(Arc::new(Limits {
            tool: tool.to_owned(),
            policy: policy.clone(),
            denied,
            hides: policy.rules.deny_paths(tool, AccessKind::Read),
            skips: policy.mode != Mode::BypassPermissions && top.on(&SENSITIVE).is_none(),
        })))
    }

    /// The files that rules deny, whatever their names are.
    pub(super) fn denied(&self) -> impl Iterator<Item = FileId> {
        self.0.iter().flat_map(|limits| limits.denied.iter().copied())
    }

    /// Whether a rule denies this path. The search does not show that it is there.
    pub(super) fn hide(&self, path: &Path, is_directory: bool) -> bool {
        let Some(limits) = self.0.as_deref().filter(|limits| limits.hides) else { return false };
        limits.policy.hides(&limits.tool, path, is_directory)
    }

    /// Whether the contents of this file are not searched.
    pub(super) fn skip(&self, file: &Path) -> bool {
        let Some(limits) = self.0.as_deref().filter(|limits| limits.skips) else { return false };
        limits.policy.keeps_secret(&limits.tool, file)
    }
}
