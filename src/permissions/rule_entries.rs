//! Reads `[[permissions.rules]]`: rules with a reason and with examples, which are checked.

use std::path::Path;

use serde::Deserialize;

use super::path_pattern::PatternRoots;
use crate::workspace;

/// A rule with what is told about it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleEntry {
    pub(crate) verdict: RuleVerdict,
    pub(crate) rule: String,
    /// Told with the verdict.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// Commands or paths that the rule must cover, or the server does not start.
    #[serde(default, rename = "match")]
    pub(crate) matches: Vec<String>,
    /// Those that it must not cover.
    #[serde(default)]
    pub(crate) not_match: Vec<String>,
}

/// The list that the rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RuleVerdict {
    Allow,
    Ask,
    Deny,
}

impl RuleVerdict {
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl RuleEntry {
    /// The first example that shows that the rule does not mean what its author thinks.
    /// `covers` is `None` for a rule that covers every call of its tool.
    pub(super) fn wrong_example(&self, covers: Option<&dyn Fn(&str) -> bool>) -> Option<String> {
        let rule = &self.rule;
        let has_examples = !self.matches.is_empty() || !self.not_match.is_empty();
        let Some(covers) = covers else {
            let needless =
                format!("{rule:?} covers every call: examples are for rules of commands and paths");
            return has_examples.then_some(needless);
        };
        let missed = self.matches.iter().find(|example| !covers(example));
        let covered = || self.not_match.iter().find(|example| covers(example));
        missed
            .map(|example| format!("{rule:?} does not match {example:?}, its own example"))
            .or_else(|| {
                Some(format!("{rule:?} matches {:?}, which its not_match names", covered()?))
            })
    }
}

/// The places of examples: the workspace is not known when rules are read. A relative path counts
/// from it.
pub(super) fn example_roots() -> PatternRoots {
    PatternRoots { home: "/home/user".into(), roots: vec!["/workspace".into()] }
}

/// The path of an example.
pub(super) fn example_path(example: &str, roots: &PatternRoots) -> std::path::PathBuf {
    workspace::absolute_from_home(&roots.roots[0], &roots.home, Path::new(example))
}
