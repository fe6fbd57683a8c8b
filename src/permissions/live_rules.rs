//! Joins the operator's rules with those of the settings files, as they are now.
//!
//! One snapshot holds for a whole judgement. It is made anew when a settings file or the trust
//! of the workspace has changed. That is found out by asking for the files' versions before each
//! judgement.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::owned_tools::OwnedTools;
use super::rule_files::{self, FileRules};
use super::rules::{KnownTool, Rules};
use crate::settings_files::{SettingsFile, SettingsFiles, SettingsScope, SettingsSnapshot};
use crate::sync;
use crate::workspace::{self, Workspace};

/// The rules of the operator and of all settings files.
#[derive(Debug)]
pub(super) struct LiveRules {
    files: Arc<SettingsFiles>,
    known: OwnedTools,
    operator: Arc<Rules>,
    home: PathBuf,
    /// Those of the user's file when it could be read last.
    last_of_user: Mutex<Arc<FileRules>>,
    in_force: Mutex<HashMap<PathBuf, Arc<RulesInForce>>>,
}

/// What holds for the calls of a workspace now.
#[derive(Debug)]
pub(crate) struct RulesInForce {
    pub(crate) snapshot: SettingsSnapshot,
    pub(super) rules: Arc<Rules>,
    /// Of each file, with the reason why it cannot be read as rules.
    files: [(Arc<FileRules>, Option<String>); 3],
    /// The workspace with the additional directories of settings files, if they name any.
    pub(super) workspace: Option<Arc<Workspace>>,
    /// The tools that a rule denies whatever they are called for.
    /// Additional directories that are none.
    pub(crate) unusable_directories: Vec<String>,
    /// A workspace's file that cannot be read as rules. Then every call asks.
    pub(super) unreadable: Option<Arc<str>>,
}

impl LiveRules {
    /// Fails if the user's file cannot be read: at the start somebody reads why.
    pub(super) fn start(
        files: Arc<SettingsFiles>,
        known: &[KnownTool<'_>],
        operator: Arc<Rules>,
        (workspace, home): (&Workspace, &Path),
    ) -> Result<Self, String> {
        let live = Self {
            files,
            known: OwnedTools::new(known),
            operator,
            home: home.to_owned(),
            last_of_user: Mutex::default(),
            in_force: Mutex::default(),
        };
        let in_force = live.in_force(workspace);
        let user = &in_force.snapshot.files[0];
        match in_force.fault(0) {
            Some(fault) => Err(format!("{}: {fault}", user.path.display())),
            None => Ok(live),
        }
    }

    /// What holds now for calls in this workspace. Blocks.
    pub(super) fn in_force(&self, workspace: &Workspace) -> Arc<RulesInForce> {
        let snapshot = self.files.snapshot(workspace);
        let mut all = sync::lock(&self.in_force);
        let before = all.get(workspace.root());
        if let Some(before) = before.filter(|before| before.snapshot.is_same(&snapshot)) {
            return Arc::clone(before);
        }
        let now = Arc::new(self.join(snapshot, before.map(Arc::as_ref), workspace));
        all.insert(workspace.root().to_owned(), Arc::clone(&now));
        now
    }

    /// The rules for this directory alone, whichever directories there are besides. Blocks.
    pub(super) fn rules_in_force(&self, workspace: &Workspace) -> Arc<Rules> {
        let snapshot = self.files.snapshot(workspace);
        let all = sync::lock(&self.in_force);
        let before = all.get(workspace.root());
        match before.filter(|before| before.snapshot.is_same(&snapshot)) {
            Some(before) => Arc::clone(&before.rules),
            // The next call of a file tool keeps it, with the directories that it may use.
            None => self.join(snapshot, before.map(Arc::as_ref), workspace).rules,
        }
    }

    fn join(
        &self,
        snapshot: SettingsSnapshot,
        before: Option<&RulesInForce>,
        workspace: &Workspace,
    ) -> RulesInForce {
        let mut rules = Rules::clone(&self.operator);
        let files = [0, 1, 2].map(|at| {
            let file = &snapshot.files[at];
            let last = before.map(|before| Arc::clone(&before.files[at].0)).unwrap_or_default();
            let (of_file, fault) = self.rules_of(file, last);
            rules.add_from(&of_file.rules, snapshot.counts_whole(file));
            (of_file, fault)
        });
        let (workspace, unusable_directories) = self.with_directories(workspace, &snapshot);
        let unreadable = snapshot.files.iter().zip(&files).find_map(|(file, (_, fault))| {
            let fault = fault.as_ref().filter(|_| file.scope.is_workspaces())?;
            Some(format!("{} cannot be read as rules: {fault}", file.path.display()).into())
        });
        RulesInForce {
            snapshot,
            rules: Arc::new(rules),
            files,
            workspace,
            unusable_directories,
            unreadable,
        }
    }

    /// The rules of a file, or those from before with the reason why it has no others.
    fn rules_of(
        &self,
        file: &SettingsFile,
        last: Arc<FileRules>,
    ) -> (Arc<FileRules>, Option<String>) {
        let is_users = file.scope == SettingsScope::User;
        match self.parse(file) {
            Ok(rules) => {
                let rules = Arc::new(rules);
                if is_users {
                    *sync::lock(&self.last_of_user) = Arc::clone(&rules);
                }
                (rules, None)
            }
            Err(fault) => {
                let path = file.path.display();
                if is_users {
                    tracing::warn!(%path, reason = %fault, "the rules from before stay in force");
                    return (Arc::clone(&sync::lock(&self.last_of_user)), Some(fault));
                }
                tracing::warn!(%path, reason = %fault, "every call in this workspace asks");
                (last, Some(fault))
            }
        }
    }

    fn parse(&self, file: &SettingsFile) -> Result<FileRules, String> {
        self.known.lend(|known| rule_files::parse(file, known))
    }

    /// The workspace with the additional directories of the files that count whole, and those
    /// directories that are none.
    fn with_directories(
        &self,
        workspace: &Workspace,
        snapshot: &SettingsSnapshot,
    ) -> (Option<Arc<Workspace>>, Vec<String>) {
        let (mut directories, mut unusable) = (Vec::new(), Vec::new());
        for file in snapshot.files.iter().filter(|file| snapshot.counts_whole(file)) {
            let written =
                file.contents.iter().flat_map(|contents| &contents.additional_directories);
            for written in written {
                let base = rule_files::base_of(file);
                let path = workspace::absolute_from_home(&base, &self.home, Path::new(written));
                match fs::canonicalize(&path) {
                    Ok(real) if real.is_dir() && real.parent().is_some() => directories.push(real),
                    _ => unusable.push(format!("{}: {written}", file.path.display())),
                }
            }
        }
        let extended = match directories.as_slice() {
            [] => None,
            directories => workspace.with_additional(directories).ok().map(Arc::new),
        };
        (extended, unusable)
    }
}

impl RulesInForce {
    /// Why the file at this place cannot be read as rules.
    pub(crate) fn fault(&self, at: usize) -> Option<&str> {
        self.files[at].1.as_deref()
    }

    /// Allow rules for tools that nobody here knows.
    pub(crate) fn unknown_rules(&self, at: usize) -> impl Iterator<Item = &str> {
        self.files[at].0.unknown.iter().map(|rule| rule.text.as_str())
    }

    /// The rules that hold nothing, because the server does not have their tools, with the place
    /// where they stand.
    pub(crate) fn idle_rules(&self) -> Vec<String> {
        self.rules.idle().map(|rule| format!("{} in {}", rule.text, rule.place())).collect()
    }
}
