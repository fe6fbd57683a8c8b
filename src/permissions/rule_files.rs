//! Makes rules of what a settings file says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::rules::{KnownTool, RuleError, Rules};
use crate::settings_files::{SettingsContents, SettingsFile, WrittenRule};

/// The rules of a settings file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileRules {
    pub(super) rules: Rules,
    /// Allow rules for tools that nobody here knows: other programs read the file as well.
    pub(super) unknown: Vec<WrittenRule>,
}

/// The directory that holds the file's `.claude`: what `/` in its rules means.
pub(super) fn base_of(file: &SettingsFile) -> PathBuf {
    let directory = file.path.parent().and_then(Path::parent);
    directory.unwrap_or(Path::new("/")).to_owned()
}

/// The rules of the file. The error follows the name of the file, and names the line.
pub(super) fn parse(file: &SettingsFile, known: &[KnownTool<'_>]) -> Result<FileRules, String> {
    if let Some(fault) = &file.fault {
        return Err(fault.clone());
    }
    let Some(contents) = &file.contents else { return Ok(FileRules::default()) };
    let mut parsed = FileRules::default();
    for (list, rules) in lists(contents) {
        for rule in rules {
            if rule.text.chars().any(char::is_control) {
                return Err(format!("permissions.{list}: a rule has a control character"));
            }
            match parsed.rules.add(list, &rule.text, known) {
                Ok(()) => {}
                Err(RuleError::UnknownTool { .. }) if list == "allow" => {
                    parsed.unknown.push(rule.clone());
                }
                Err(error) => return Err(located(rule, &error)),
            }
        }
    }
    // In a workspace's file it is the workspace, as in the operator's configuration.
    let base = (!file.scope.is_workspaces()).then(|| base_of(file));
    parsed.rules.come_from(&Arc::from(file.path.as_path()), base.as_deref());
    Ok(parsed)
}

fn lists(contents: &SettingsContents) -> [(&'static str, &[WrittenRule]); 3] {
    [("allow", &contents.allow), ("ask", &contents.ask), ("deny", &contents.deny)]
}

fn located(rule: &WrittenRule, error: &RuleError) -> String {
    rule.line.map_or_else(|| error.to_string(), |line| format!("line {line}: {error}"))
}
