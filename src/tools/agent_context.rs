//! Defines what belongs to one agent of a session: the main one, or a subagent.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(crate) use self::failed_commands::FailedCommands;
use super::session_context::SessionContext;
use super::tasks::{KnownTasks, SavedTasks};
use super::todos::{SavedTodos, TodoList};
use crate::file_encodings::FileEncodings;
use crate::files::ReadState;
use crate::files::watcher::Marks;
use crate::ids::AgentId;
use crate::sync;

mod failed_commands;

/// What the calls of one agent share. A session has one for its main agent, and one for each
/// subagent while it runs.
#[derive(Debug)]
pub(crate) struct AgentContext {
    /// `None`: the main agent, which talks with the person.
    pub(crate) subagent: Option<SubagentIdentity>,
    /// The directory of relative paths. Bash changes it.
    working_dir: Mutex<PathBuf>,
    /// The files that the model has seen.
    pub(crate) read_state: ReadState,
    /// What the model knows of the session's background tasks.
    pub(crate) known_tasks: KnownTasks,
    /// What it has planned to do.
    pub(crate) todos: TodoList,
    /// The commands that failed for want of an approval.
    pub(crate) failed_commands: FailedCommands,
}

/// Which subagent it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubagentIdentity {
    pub(crate) id: AgentId,
    pub(crate) agent_type: String,
}

impl AgentContext {
    /// The main agent of a session that begins.
    pub(crate) fn main(session: &SessionContext) -> Self {
        let read_state = match &session.files {
            Some(files) => ReadState::default()
                .passing_over(files.of_all_sessions())
                .kept_in(Arc::clone(files)),
            None => ReadState::default(),
        };
        Self {
            subagent: None,
            working_dir: Mutex::new(session.workspace.root().to_owned()),
            read_state,
            known_tasks: KnownTasks::default(),
            todos: TodoList::default(),
            failed_commands: FailedCommands::default(),
        }
    }

    /// The agent with what an earlier turn left: the files and the tasks that it knows, and its
    /// directory if that still lies in the workspace. Else it begins in the root. Reads the disk.
    pub(crate) fn restored(
        self,
        session: &SessionContext,
        working_dir: Option<PathBuf>,
        read_state: ReadState,
        known_tasks: SavedTasks,
    ) -> Self {
        let workspace = &session.workspace;
        let is_there = |directory: &PathBuf| {
            let target = workspace.resolve(directory);
            target.is_ok_and(|target| target.metadata().is_ok_and(|metadata| metadata.is_dir()))
        };
        let working_dir = working_dir.filter(is_there);
        let working_dir = working_dir.unwrap_or_else(|| workspace.root().to_owned());
        let read_state = read_state.like(&self.read_state);
        let known_tasks = KnownTasks::load(known_tasks, session.name().unwrap_or_default());
        Self { working_dir: Mutex::new(working_dir), read_state, known_tasks, ..self }
    }

    /// A subagent that begins where this agent is. Nothing of it flows back.
    pub(crate) fn subagent(&self, identity: SubagentIdentity) -> Self {
        Self {
            subagent: Some(identity),
            working_dir: Mutex::new(self.working_dir()),
            read_state: self.read_state.copied(),
            known_tasks: KnownTasks::default(),
            todos: TodoList::default(),
            failed_commands: FailedCommands::default(),
        }
    }

    pub(crate) fn is_main(&self) -> bool {
        self.subagent.is_none()
    }

    /// With the todo list that an earlier turn left.
    pub(crate) fn with_todos(self, saved: SavedTodos) -> Self {
        Self { todos: TodoList::load(saved), ..self }
    }

    /// Finds changes of the files that the agent knows by these marks.
    pub(crate) fn watched_by(self, marks: Arc<dyn Marks>) -> Self {
        Self { read_state: self.read_state.watched_by(marks), ..self }
    }

    /// Is shown what changes in these encodings.
    pub(crate) fn reading_in(self, encodings: Arc<FileEncodings>) -> Self {
        Self { read_state: self.read_state.reading_in(encodings), ..self }
    }

    /// What the model knows of the tasks, for the turns that go on from this one.
    pub(crate) fn saved_tasks(&self, session: &SessionContext) -> Option<SavedTasks> {
        self.known_tasks.save(session.name().unwrap_or_default(), session.tasks.as_deref())
    }

    pub(crate) fn working_dir(&self) -> PathBuf {
        sync::lock(&self.working_dir).clone()
    }

    pub(crate) fn set_working_dir(&self, directory: PathBuf) {
        *sync::lock(&self.working_dir) = directory;
    }
}
