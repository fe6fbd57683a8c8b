//! Defines what belongs to a whole session: its directories, grants, files and tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::planned_tasks::{PlannedTasks, SavedPlannedTasks};
use super::session_plan::SessionPlan;
use super::session_preferences::{SavedPreferences, SessionPreferences};
use super::tasks::SessionTasks;
use crate::ids::KeyId;
use crate::permissions::{Grants, Mode, SessionMode};
use crate::session_files::SessionFiles;
use crate::workspace::{ReadableRoots, Workspace};

/// The state that the calls of all agents of one session share.
#[derive(Debug)]
pub(crate) struct SessionContext {
    /// The directories that the file tools may use.
    pub(crate) workspace: Arc<Workspace>,
    /// The directory that `~` means.
    home: PathBuf,
    /// What a person allowed for the session. All its turns share them.
    pub(crate) grants: Arc<Grants>,
    /// The session's directory is called by it; `None` for a turn without a session.
    name: Option<String>,
    /// What the server writes for the session; `None` for a turn without one.
    pub(crate) files: Option<Arc<SessionFiles>>,
    /// The commands and agents that go on in the background; `None` for a turn without a session.
    pub(crate) tasks: Option<Arc<SessionTasks>>,
    /// The directories of the skills that were used.
    pub(crate) readable: Arc<ReadableRoots>,
    /// What the model has planned with `TaskCreate`.
    pub(crate) planned_tasks: PlannedTasks,
    /// The permission mode, which a person may change.
    pub(crate) mode: Arc<SessionMode>,
    /// What the model has written while it planned.
    pub(crate) plan: SessionPlan,
    /// What a person has let the model set for it.
    pub(crate) preferences: SessionPreferences,
    /// The model of the conversation, as the request names it.
    pub(crate) model: String,
    /// The client's key: what is kept for one client must not reach another.
    pub(crate) key: KeyId,
}

impl SessionContext {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        Self {
            workspace,
            home: PathBuf::from("/"),
            grants: Arc::default(),
            name: None,
            files: None,
            tasks: None,
            readable: Arc::default(),
            planned_tasks: PlannedTasks::default(),
            mode: Arc::new(SessionMode::of_server(Mode::default())),
            plan: SessionPlan::default(),
            preferences: SessionPreferences::default(),
            model: String::new(),
            key: KeyId::nobody(),
        }
    }

    pub(crate) fn with_key(self, key: KeyId) -> Self {
        Self { key, ..self }
    }

    pub(crate) fn named(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn with_grants(self, grants: Arc<Grants>) -> Self {
        Self { grants, ..self }
    }

    pub(crate) fn with_files(self, files: Arc<SessionFiles>) -> Self {
        Self { files: Some(files), ..self }
    }

    pub(crate) fn with_tasks(self, tasks: Arc<SessionTasks>) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    pub(crate) fn with_readable(self, readable: Arc<ReadableRoots>) -> Self {
        Self { readable, ..self }
    }

    pub(crate) fn with_mode(self, mode: Arc<SessionMode>) -> Self {
        Self { mode, ..self }
    }

    pub(crate) fn with_plan(self, plan: SessionPlan) -> Self {
        Self { plan, ..self }
    }

    pub(crate) fn with_preferences(self, saved: SavedPreferences) -> Self {
        Self { preferences: SessionPreferences::load(saved), ..self }
    }

    /// In a conversation with this model.
    pub(crate) fn with_model(self, model: String) -> Self {
        Self { model, ..self }
    }

    /// With the tasks that an earlier turn has planned.
    pub(crate) fn with_planned_tasks(self, saved: SavedPlannedTasks) -> Self {
        Self { planned_tasks: PlannedTasks::load(saved), ..self }
    }

    pub(crate) fn at_home(self, home: PathBuf) -> Self {
        Self { home, ..self }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }
}
