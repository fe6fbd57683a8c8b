//! Finds the existing files that rules deny, so that the sandbox can keep commands from them too.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Permissions;
use super::kind::AccessKind;
use super::path_lists::SENSITIVE;
use super::path_pattern::PatternRoots;
use super::reached::ReachedPath;
use super::rules::{RuledCall, Rules};
use super::secret_files::SecretFiles;
use crate::processes::sandbox::{DeniedPaths, Secrets};
use crate::workspace::Workspace;

/// How many entries of the roots are compared with rules that have wildcards, nearest to the
/// root first. Ten thousand take some ten milliseconds, and every command waits for them.
const MAX_ENTRIES: usize = 20_000;

impl Permissions {
    /// What rules deny below the roots of a command, those of settings files as they are then, and
    /// what may hold secrets if that is denied too.
    pub(crate) fn denied_to_commands(&self) -> impl Fn(&[PathBuf], Secrets) -> DeniedPaths + use<> {
        let permissions = self.clone();
        let known = permissions.secret_files.clone();
        move |roots, secrets| {
            let workspace = Workspace::open(roots.iter().take(1).cloned().collect());
            let rules = match (&permissions.live, &workspace) {
                (Some(live), Ok(workspace)) => live.rules_in_force(workspace),
                // A root that is gone. The operator's rules hold all the same.
                _ => Arc::clone(&permissions.policy.rules),
            };
            let home = permissions.policy.roots.home.clone();
            let roots = PatternRoots { home, roots: roots.to_vec() };
            let search = Search { rules: &rules, roots: &roots };
            let mut denied = search.find();
            if secrets == Secrets::Denied {
                search.add_secrets(&known, &mut denied);
            }
            denied
        }
    }
}

/// A way to touch a file, with the tool by which rules know it.
#[derive(Clone, Copy, Debug)]
struct Touch(&'static str, AccessKind);

const READING: Touch = Touch("Read", AccessKind::Read);
const EDITING: Touch = Touch("Edit", AccessKind::Edit);

struct Search<'a> {
    rules: &'a Rules,
    roots: &'a PatternRoots,
}

impl Search<'_> {
    fn find(&self) -> DeniedPaths {
        let mut denied = DeniedPaths::default();
        denied.reading.extend(self.literal(READING));
        denied.editing.extend(self.literal(EDITING));
        let (whole, _) = self.rules.whole_denied_paths(self.roots);
        let existing = whole.into_iter().map(|(path, _)| path).filter(|path| may_exist(path));
        denied.editing.extend(existing);
        if self.has_patterns(READING) || self.has_patterns(EDITING) {
            self.walk(&mut denied);
        }
        denied
    }

    /// Adds what may hold secrets and no rule allows by name.
    fn add_secrets(&self, known: &SecretFiles, denied: &mut DeniedPaths) {
        let found = known.below(self.roots);
        denied.is_cut |= found.is_cut;
        denied.reading.extend(found.paths.into_iter().filter(|path| !self.allows_by_name(path)));
    }

    fn allows_by_name(&self, path: &Path) -> bool {
        let Touch(tool, kind) = READING;
        let reached = Some(ReachedPath::met(path, false, self.roots));
        let call = RuledCall { reached, ..RuledCall::new(tool, kind, self.roots) };
        self.rules.allows_by_name(call, &SENSITIVE)
    }

    /// Of a rule that denies reading what is in a directory, the directory is still seen.
    fn literal(&self, Touch(tool, kind): Touch) -> impl Iterator<Item = PathBuf> {
        let paths = self.rules.denied_paths(tool, kind, self.roots);
        paths.map(|(path, _)| path).filter(|path| may_exist(path))
    }

    /// A rule without a path is about the tool, and says nothing of commands.
    fn has_patterns(&self, Touch(tool, kind): Touch) -> bool {
        self.rules.deny_paths(tool, kind) && !self.rules.deny_all_calls(tool, kind)
    }

    fn walk(&self, denied: &mut DeniedPaths) {
        let touches = [READING, EDITING].map(|touch| (touch, self.has_patterns(touch)));
        let mut waiting: VecDeque<PathBuf> = self.roots.roots.iter().cloned().collect();
        let mut count = 0;
        while let Some(directory) = waiting.pop_front() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    // A command that runs as its owner could open it.
                    denied.reading.push(directory);
                    continue;
                }
                Err(_) => continue,
            };
            for entry in entries.flatten() {
                count += 1;
                if MAX_ENTRIES < count {
                    denied.is_cut = true;
                    return;
                }
                let path = entry.path();
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                match touches
                    .iter()
                    .find(|(touch, has)| *has && self.denies(*touch, &path, is_directory))
                {
                    Some((Touch(_, AccessKind::Read), _)) => denied.reading.push(path),
                    // What lies below may be denied to reading.
                    Some(_) => {
                        denied.editing.push(path.clone());
                        waiting.extend(is_directory.then_some(path));
                    }
                    None => waiting.extend(is_directory.then_some(path)),
                }
            }
        }
    }

    fn denies(&self, Touch(tool, kind): Touch, path: &Path, is_directory: bool) -> bool {
        let reached = Some(ReachedPath::met(path, is_directory, self.roots));
        let call = RuledCall { reached, ..RuledCall::new(tool, kind, self.roots) };
        self.rules.denying(call).is_some()
    }
}

/// Whether a file is there, or lies where this user cannot look and a command might.
fn may_exist(path: &Path) -> bool {
    match path.try_exists() {
        Ok(exists) => exists,
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::PermissionSettings;
    use super::*;

    fn denied(root: &Path, deny: &[&str]) -> DeniedPaths {
        let deny = deny.iter().map(|rule| (*rule).to_owned()).collect();
        let settings = PermissionSettings { deny, ..PermissionSettings::default() };
        let rules = Rules::parse(&settings, &[]).unwrap();
        let roots = PatternRoots { home: "/nowhere".into(), roots: vec![root.to_owned()] };
        Search { rules: &rules, roots: &roots }.find()
    }

    fn names(root: &Path, paths: &[PathBuf]) -> Vec<String> {
        let below = paths.iter().map(|path| path.strip_prefix(root).unwrap_or(path));
        let mut names: Vec<_> = below.map(|path| path.display().to_string()).collect();
        names.sort();
        names.dedup();
        names
    }

    #[test]
    fn rules_with_and_without_wildcards_are_found_where_files_exist() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path();
        for name in ["a/b/key.pem", "secret/x", "docs/plan", "docs/key.pem"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        let found =
            denied(root, &["Read(**/*.pem)", "Read(secret)", "Edit(docs/**)", "Read(missing)"]);
        assert_eq!(names(root, &found.reading), ["a/b/key.pem", "docs/key.pem", "secret"]);
        // Nothing new may come into a directory that is denied as a whole.
        assert_eq!(names(root, &found.editing), ["docs", "docs/plan", "secret"]);
        assert!(!found.is_cut);
    }

    #[test]
    fn secrets_are_denied_but_for_those_that_a_rule_allows_by_name() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path();
        for name in [".env", "a/.env", "key.pem"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        let settings =
            PermissionSettings { allow: vec!["Read(a/.env)".to_owned()], ..Default::default() };
        let rules = Rules::parse(&settings, &[]).unwrap();
        let roots = PatternRoots { home: "/nowhere".into(), roots: vec![root.to_owned()] };
        let mut found = DeniedPaths::default();
        let search = Search { rules: &rules, roots: &roots };
        search.add_secrets(&SecretFiles::default(), &mut found);
        assert_eq!(names(root, &found.reading), [".env", "key.pem"]);
    }

    #[test]
    fn a_rule_about_a_tool_denies_commands_no_file() {
        let ground = tempfile::tempdir().unwrap();
        fs::write(ground.path().join("a"), "").unwrap();
        let found = denied(ground.path(), &["Read", "Edit"]);
        assert!(found.reading.is_empty() && found.editing.is_empty());
    }
}
