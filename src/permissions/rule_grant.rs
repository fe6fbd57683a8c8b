//! Finds the rules that would allow what a person is asked about, and nothing else.

use std::path::Path;
use std::sync::Arc;

use super::judge::{HookOpinion, Policy, PolicyVerdict};
use super::kept_grants::RuleGrant;
use super::opened_command::{CommandAnalysis, CommandFile};
use super::path_pattern::PathPattern;
use super::{Access, Permissions};
use crate::workspace::{BoundDirectory, DirectoryId, Target};

impl Permissions {
    /// The rules that a person can keep for this holder and workspace. `None` where no rule
    /// would do: a deny or an ask rule, a hook, a critical removal or a missing sandbox asks all
    /// the same.
    pub(super) fn rule_grant(&self, tool: &str, access: &Access) -> Option<RuleGrant> {
        self.first_grant(tool, access, candidates(&self.policy, tool, access))
    }

    /// The same with a rule `PROGRAM SUBCOMMAND *` for each part of a command.
    pub(super) fn subcommand_grant(&self, tool: &str, access: &Access) -> Option<RuleGrant> {
        let Access::Command(command) = access else { return None };
        let analysis = command.analysis();
        // As for other rules: a part would be allowed in the directory that the line begins in.
        if analysis.changes_directory() {
            return None;
        }
        let rules = analysis.subcommand_rules(tool)?;
        self.first_grant(tool, access, vec![rules])
    }

    /// The first of these lists of rules by which the policy, asked again, allows the access.
    fn first_grant(
        &self,
        tool: &str,
        access: &Access,
        candidates: Vec<Vec<String>>,
    ) -> Option<RuleGrant> {
        self.holder.as_ref()?;
        let kept = self.kept.as_ref()?;
        let allow = |rules: &Vec<String>| {
            let is_short = !rules.is_empty() && rules.len() <= RuleGrant::MAX_RULES;
            let parsed = kept.parsed(rules).filter(|_| is_short);
            parsed.is_some_and(|parsed| {
                let mut policy = self.policy.clone();
                Arc::make_mut(&mut policy.rules).add_from(&parsed, true);
                // What a hook allows is for this one call.
                if policy.hooks == HookOpinion::Allows {
                    policy.hooks = HookOpinion::None;
                }
                matches!(policy.judge(tool, self.effect_of(access)), PolicyVerdict::Allow(_))
            })
        };
        let rules = candidates.into_iter().find(allow)?;
        let path = self.workspace.root().to_owned();
        let metadata = self.workspace.root_metadata().ok()?;
        let workspace = BoundDirectory { path, id: DirectoryId::from_metadata(&metadata) };
        let directory = match access {
            Access::Command(command) => Some(command.command_line.real_directory.clone()),
            _ => None,
        };
        let is_text = |path: &Path| path.to_str().is_some();
        let are_texts = is_text(&workspace.path) && directory.as_deref().is_none_or(is_text);
        let server_identity = match access {
            Access::Mcp(call) => Some(call.server_identity.to_string()),
            _ => None,
        };
        are_texts.then_some(RuleGrant { rules, workspace, directory, server_identity })
    }
}

/// Lists of rules that may do, the narrowest first.
fn candidates(policy: &Policy, tool: &str, access: &Access) -> Vec<Vec<String>> {
    match access {
        Access::Read(target) => vec![for_target(tool, target)],
        Access::Search(scope) => vec![for_target(tool, scope.target())],
        // Whatever tool edits the file, as for a session.
        Access::Write(target) => vec![for_target("Edit", target)],
        Access::Command(command) => for_command(policy, tool, command.analysis()),
        Access::Fetch(page) => vec![vec![format!("{tool}(domain:{})", page.host())]],
        Access::WebSearch(_) => vec![vec![tool.to_owned()]],
        // A tool of ours that reads resources would be allowed them of every server.
        Access::Mcp(_) if tool.starts_with("mcp__") => vec![vec![tool.to_owned()]],
        Access::Mcp(_) | Access::Named(_) | Access::Consent | Access::Nothing => Vec::new(),
    }
}

fn for_target(word: &str, target: &Target) -> Vec<String> {
    exact(word, target.real_path()).into_iter().collect()
}

fn for_command(policy: &Policy, tool: &str, command: &CommandAnalysis) -> Vec<Vec<String>> {
    let [asked, outputs] = policy.files_for_rules(tool, command);
    let writes_asked = asked.iter().any(|file| file.is_written());
    let of_files = |files: &[&CommandFile]| files.iter().map(|file| for_file(file)).collect();
    let (asked, outputs): (Option<Vec<String>>, Option<Vec<String>>) =
        (of_files(&asked), of_files(&outputs));
    // A part would be allowed in the directory that the line begins in. And a rule for a file that
    // every tool asks about would let every tool write it.
    let is_wider = command.changes_directory() || writes_asked;
    let Some(asked) = asked.filter(|_| !is_wider) else { return Vec::new() };
    let exact = command.exact_rules(tool).unwrap_or_default();
    let with_files = [exact, asked.clone()].concat();
    let with_outputs = outputs.map(|outputs| [with_files.clone(), outputs].concat());
    [asked, with_files].into_iter().chain(with_outputs).collect()
}

fn for_file(file: &CommandFile) -> Option<String> {
    exact(if file.is_written() { "Edit" } else { "Read" }, file.leads_to())
}

fn exact(word: &str, path: &Path) -> Option<String> {
    Some(format!("{word}({})", PathPattern::exact(path)?))
}

#[cfg(test)]
mod tests;
