//! Keeps what the model knows of the background tasks: which there are, what it has seen of
//! their output, and of which it was told that they have ended.
//!
//! The tasks belong to the session, but each branch of the conversation has heard of them in its
//! own messages. So this is kept with a turn, for the turns that go on from it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::{BackgroundTask, SessionTasks};
use crate::ids::AgentId;
use crate::sync;

/// The tasks that one branch knows, in the order in which it came to know them.
#[derive(Debug, Default)]
pub(crate) struct KnownTasks {
    tasks: Mutex<Vec<Arc<KnownTask>>>,
}

/// What is known of one task.
#[derive(Debug)]
pub(crate) struct KnownTask {
    id: String,
    label: String,
    path: Option<PathBuf>,
    looked: Mutex<Looked>,
    /// Held while the output is read, which may take as long as the disk does.
    looking: Mutex<()>,
    is_end_told: AtomicBool,
}

/// What the model has seen of a task's output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Looked {
    /// Bytes of the clean text.
    pub(super) at: u64,
    /// The line behind them that had not ended.
    pub(super) unfinished: String,
}

/// The form in which a turn keeps it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedTasks {
    /// The session that the tasks belong to. A fork of it has others.
    session: String,
    tasks: Vec<SavedTask>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedTask {
    id: String,
    label: String,
    path: Option<PathBuf>,
    looked: Looked,
    is_end_told: bool,
}

impl KnownTasks {
    /// What an earlier turn of this session knew.
    pub(crate) fn load(saved: SavedTasks, session: &str) -> Self {
        let tasks = saved.tasks.into_iter().filter(|_| saved.session == session);
        let tasks = tasks.map(|task| {
            Arc::new(KnownTask {
                id: task.id,
                label: task.label,
                path: task.path,
                looked: Mutex::new(task.looked),
                looking: Mutex::default(),
                is_end_told: AtomicBool::new(task.is_end_told),
            })
        });
        Self { tasks: Mutex::new(tasks.collect()) }
    }

    /// Without those of which nothing more can be told. `None` if there are no others.
    pub(crate) fn save(&self, session: &str, tasks: Option<&SessionTasks>) -> Option<SavedTasks> {
        let is_there = |id: &str| tasks.is_some_and(|tasks| tasks.find(id).is_some());
        let known = sync::lock(&self.tasks);
        let tasks: Vec<_> = known.iter().map(|task| task.save()).collect();
        let tasks: Vec<_> =
            tasks.into_iter().filter(|task| !task.is_end_told || is_there(&task.id)).collect();
        (!tasks.is_empty()).then(|| SavedTasks { session: session.to_owned(), tasks })
    }

    /// Notes that an answer tells of a task, and of the first `seen` bytes of its output.
    pub(crate) fn started(&self, task: &BackgroundTask, seen: u64) {
        let known = KnownTask::new(task, Looked { at: seen, ..Looked::default() });
        let mut tasks = sync::lock(&self.tasks);
        // An agent may go on as a task.
        tasks.retain(|before| before.id != known.id);
        tasks.push(Arc::new(known));
    }

    /// What is known of a task; nothing yet if another branch has started it.
    pub(crate) fn of(&self, task: &BackgroundTask) -> Arc<KnownTask> {
        let mut tasks = sync::lock(&self.tasks);
        if let Some(known) = tasks.iter().find(|known| known.id == task.id) {
            return Arc::clone(known);
        }
        let known = Arc::new(KnownTask::new(task, Looked::default()));
        tasks.push(Arc::clone(&known));
        known
    }

    /// A line for each task that has ended and of which the model does not know it.
    pub(crate) fn untold_ends(&self, tasks: &SessionTasks) -> Vec<(String, Arc<KnownTask>)> {
        let known = sync::lock(&self.tasks).clone();
        known.into_iter().filter_map(|known| Some((known.notice(tasks)?, known))).collect()
    }
}

impl KnownTask {
    fn new(task: &BackgroundTask, looked: Looked) -> Self {
        Self {
            id: task.id.clone(),
            label: task.label(),
            path: task.path.clone(),
            looked: Mutex::new(looked),
            looking: Mutex::default(),
            is_end_told: AtomicBool::new(false),
        }
    }

    fn save(&self) -> SavedTask {
        SavedTask {
            id: self.id.clone(),
            label: self.label.clone(),
            path: self.path.clone(),
            looked: sync::lock(&self.looked).clone(),
            is_end_told: self.is_end_told.load(Ordering::Relaxed),
        }
    }

    /// Looks at the output, one look after the other. `look` returns what it has seen beyond what
    /// was seen before.
    pub(super) fn look<T>(&self, look: impl FnOnce(Looked) -> (T, Looked)) -> T {
        let _looking = sync::lock(&self.looking);
        let before = sync::lock(&self.looked).clone();
        let (seen, looked) = look(before);
        *sync::lock(&self.looked) = looked;
        seen
    }

    /// Notes that the model is told of the end.
    pub(crate) fn mark_end_told(&self) {
        self.is_end_told.store(true, Ordering::Relaxed);
    }

    /// `None` if it has not ended, or the model was told.
    fn notice(&self, tasks: &SessionTasks) -> Option<String> {
        if self.is_end_told.load(Ordering::Relaxed) {
            return None;
        }
        let how = match tasks.find(&self.id) {
            Some(task) => task.end()?.in_words(),
            None => "killed (the server restarted, or the session had been idle too long)".into(),
        };
        let is_agent = AgentId::parse(&self.id).is_some();
        let output = match &self.path {
            Some(path) => format!("; output: {}", path.display()),
            None if is_agent && tasks.find(&self.id).is_some() => {
                "; TaskOutput has its answer".to_owned()
            }
            None if is_agent => "; Task can resume it".to_owned(),
            None => String::new(),
        };
        let Self { id, label, .. } = self;
        Some(format!("Background task {id} ({label}) {how}{output}"))
    }
}
