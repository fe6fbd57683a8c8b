//! Tells what the settings files under `.claude` change, what they do not, and why.

use std::path::Path;

use crate::app::services::Services;
use crate::hooks::faults_of;
use crate::permissions::RulesInForce;
use crate::processes::is_forbidden;
use crate::settings_files::{SettingsContents, SettingsFile, WrittenRule};
use crate::text::printable;
use crate::trust::TrustState;

/// A repository could list thousands of things.
const MAX_LISTED: usize = 20;

/// What counts in a trusted workspace alone, beside its settings files.
const NEEDS_TRUST: [&str; 4] =
    [".claude/agents", ".claude/commands", ".claude/skills", ".mcp.json"];

/// The files of the user and of each workspace. Nothing where there are none.
pub(super) fn report(services: &Services) -> String {
    let first = (services.permissions.workspace(), services.permissions.rules_in_force());
    let named = services.workspaces.values().map(|workspace| {
        let permissions = services.permissions.with_workspace(workspace.clone());
        (workspace, permissions.rules_in_force())
    });
    let trust_path = services.settings_files.trust_path();
    let mut lines = Vec::new();
    for (workspace, in_force) in [first].into_iter().chain(named) {
        let Some(in_force) = in_force else { continue };
        lines.extend(of_workspace(&in_force, workspace.root(), &trust_path));
    }
    // The user's file concerns each of them.
    let mut told = Vec::new();
    lines.retain(|line| {
        let is_new = !told.contains(line);
        told.push(line.clone());
        is_new
    });
    lines.push(String::new());
    lines.join("\n")
}

fn of_workspace(in_force: &RulesInForce, root: &Path, trust_path: &Path) -> Vec<String> {
    let files = in_force.snapshot.files.iter().enumerate();
    let mut lines: Vec<String> =
        files.filter_map(|(at, file)| of_file(in_force, at, file)).collect();
    let trust = trust(&in_force.snapshot.trust, root, trust_path);
    let has_files = in_force.snapshot.files[1..]
        .iter()
        .any(|file| file.contents.is_some() || file.fault.is_some());
    let is_there = |name: &str| root.join(name).symlink_metadata().is_ok();
    let has_files = has_files || NEEDS_TRUST.iter().any(|name| is_there(name));
    if has_files || in_force.snapshot.trust != TrustState::Untrusted {
        lines.push(trust);
    }
    let unusable = in_force.unusable_directories.iter();
    lines.extend(unusable.map(|it| format!("no additional directory: {}", shown(it))));
    let idle = in_force.idle_rules();
    let more = idle.len().saturating_sub(MAX_LISTED);
    let idle = idle.iter().take(MAX_LISTED);
    lines.extend(idle.map(|rule| format!("no effect yet: {}: there is no such tool", shown(rule))));
    if more > 0 {
        lines.push(format!("no effect yet: {more} more rules of tools that are not there"));
    }
    lines
}

fn trust(state: &TrustState, root: &Path, trust_path: &Path) -> String {
    let root = root.display();
    match state {
        TrustState::Trusted => format!("trust: {root} is trusted"),
        TrustState::Untrusted => format!(
            "trust: {root} is not trusted; `toolhand trust {root}` lets all of its settings files, \
             agents, skills, commands, MCP servers and imports from outside count"
        ),
        TrustState::Replaced => format!(
            "trust: another directory than the one that was trusted is at {root}; \
             `toolhand trust {root}` trusts this one"
        ),
        TrustState::Unreadable(reason) => format!("trust: {}: {reason}", trust_path.display()),
    }
}

/// The file in a few words, and below it what of it has no effect.
fn of_file(in_force: &RulesInForce, at: usize, file: &SettingsFile) -> Option<String> {
    let path = file.path.display();
    if let Some(fault) = in_force.fault(at) {
        return Some(format!(
            "settings file: {path} cannot be read as rules: {}; every call in its workspace asks",
            shown(fault)
        ));
    }
    let contents = file.contents.as_deref()?;
    let SettingsContents { allow, ask, deny, .. } = contents;
    let [allow, ask, deny] = [allow, ask, deny].map(Vec::len);
    let mut lines =
        vec![format!("settings file: {path}: {allow} allow, {ask} ask, {deny} deny rules")];
    let is_whole = in_force.snapshot.counts_whole(file);
    if !is_whole {
        push(&mut lines, "ignored (untrusted)", &needs_trust(contents));
    }
    let no_effect = contents.without_effect.iter().map(|it| format!("{}: {}", it.key, it.why));
    let unknown = in_force.unknown_rules(at);
    let unknown = unknown.map(|rule| format!("the allow rule {rule}: nobody here knows the tool"));
    let forbidden = contents.env.iter().filter(|(name, _)| is_forbidden(name));
    let forbidden =
        forbidden.map(|(name, _)| format!("env.{name}: no command is given such a variable"));
    let idle: Vec<_> = no_effect.chain(unknown).chain(forbidden).collect();
    push(&mut lines, "no effect", &idle);
    if is_whole {
        push(&mut lines, "hooks", &faults_of(file));
    }
    Some(lines.join("\n"))
}

/// What counts only in a trusted workspace.
fn needs_trust(contents: &SettingsContents) -> Vec<String> {
    let rules =
        contents.allow.iter().map(|WrittenRule { text, .. }| format!("the allow rule {text}"));
    let directories = contents.additional_directories.iter();
    let directories = directories.map(|it| format!("the additional directory {it}"));
    let hooks = contents.hooks.iter().map(|_| "hooks".to_owned());
    let variables = contents.env.iter().map(|(name, _)| format!("env.{name}"));
    rules.chain(directories).chain(hooks).chain(variables).collect()
}

fn push(lines: &mut Vec<String>, what: &str, items: &[String]) {
    lines.extend(items.iter().take(MAX_LISTED).map(|item| format!("  {what}: {}", shown(item))));
    let more = items.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        lines.push(format!("  {what}: {more} more"));
    }
}

/// What a repository wrote must not steer the terminal.
fn shown(text: &str) -> String {
    printable(text.as_bytes())
}
