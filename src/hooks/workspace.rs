//! Adds the hooks of settings files: the user's, and those of a workspace that the operator
//! trusts. They are read anew for each turn.

use std::sync::Arc;

use super::{HookSource, Hooks, LabelledHook, ReadHooks};
use crate::blocking::RESOLVING;
use crate::settings_files::{SettingsFile, SettingsFiles, SettingsScope, SettingsSnapshot};
use crate::workspace::Workspace;

impl Hooks {
    /// With further hooks from these files, for turns.
    pub(crate) fn with_settings_files(self, files: Arc<SettingsFiles>) -> Self {
        Self { files: Some(files), ..self }
    }

    /// The hooks of a turn in this workspace.
    pub(crate) async fn in_workspace(&self, workspace: &Arc<Workspace>) -> Self {
        let Some(files) = self.files.clone() else { return self.clone() };
        let workspace = Arc::clone(workspace);
        match RESOLVING.run(move || files.snapshot(&workspace)).await {
            Ok(snapshot) => self.joined(&snapshot),
            Err(overloaded) => {
                let fault = format!("the hooks of settings files cannot be read: {overloaded}");
                Self { faults: [fault].into(), ..self.clone() }
            }
        }
    }

    /// With the hooks that the files set up now.
    pub(crate) fn joined(&self, snapshot: &SettingsSnapshot) -> Self {
        let mut hooks = self.all.to_vec();
        let mut faults = Vec::new();
        for file in snapshot.files.iter().filter(|file| snapshot.counts_whole(file)) {
            match read(file) {
                Ok(read) => hooks.extend(read),
                Err(fault) => {
                    let path = file.path.display();
                    faults.push(format!("the hooks of {path} cannot be read: {fault}"));
                }
            }
        }
        let programs = self.programs.as_ref();
        let programs = programs.map(|programs| Arc::new(programs.with_variables(snapshot)));
        Self { all: hooks.into(), faults: faults.into(), programs, ..self.clone() }
    }
}

fn read(file: &SettingsFile) -> Result<Vec<LabelledHook>, String> {
    let value = file.contents.as_ref().and_then(|contents| contents.hooks.as_ref());
    let Some(value) = value else { return Ok(Vec::new()) };
    let path = file.path.clone();
    let source = match file.scope {
        SettingsScope::User => HookSource::User(path),
        SettingsScope::Workspace | SettingsScope::WorkspaceLocal => HookSource::Workspace(path),
    };
    let read = ReadHooks::from_json(value, &source)?;
    let path = file.path.display();
    let label =
        |(index, setting)| LabelledHook { label: format!("{path}: hooks[{index}]"), setting };
    Ok(read.settings.into_iter().enumerate().map(label).collect())
}

/// Why the hooks of the user's settings file cannot be read: at the start somebody reads why.
pub(crate) fn users_fault(snapshot: &SettingsSnapshot) -> Option<String> {
    let file = snapshot.files.iter().find(|file| file.scope == SettingsScope::User)?;
    let fault = read(file).err()?;
    Some(format!("{}: {fault}", file.path.display()))
}

/// What of the hooks in a settings file has no effect, or why they cannot be read.
pub(crate) fn faults_of(file: &SettingsFile) -> Vec<String> {
    let value = file.contents.as_ref().and_then(|contents| contents.hooks.as_ref());
    let Some(value) = value else { return Vec::new() };
    match ReadHooks::from_json(value, &HookSource::Operator) {
        Ok(read) => read.without_effect,
        Err(fault) => vec![format!("{fault}; every call asks")],
    }
}
