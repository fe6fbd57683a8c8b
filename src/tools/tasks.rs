//! Keeps the background tasks of a session: commands and subagents that go on when their turn has
//! ended.
//!
//! The session owns them. They end with it, with its client key, with the server, or when the
//! model stops them.

mod agent_task;
mod all_tasks;
mod ending;
mod known;
mod output_file;
mod unread;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::agent_task::{AgentOutput, NewAgentTask};
pub(crate) use self::all_tasks::AllTasks;
pub(crate) use self::ending::{TaskEnd, TaskStatus};
pub(crate) use self::known::{KnownTask, KnownTasks, SavedTasks};
pub(crate) use self::output_file::OutputFile;
pub(crate) use self::unread::NewOutput;
use super::running_agents::RunningAgents;
use crate::clock;
use crate::ids::{Scope, SessionId};
use crate::processes::{CommandControl, Finished, RunError, Running, StopReason};
use crate::sync;
use crate::text;

/// Tasks that have ended and are still known: more than a model looks back on.
const MAX_ENDED: usize = 64;

/// Bytes of a command that a list or a notice shows.
const MAX_LABEL: usize = 200;

/// The tasks of one session. All its turns share them.
#[derive(Debug)]
pub(crate) struct SessionTasks {
    session: SessionId,
    scope: Scope,
    /// `tools.bash.background_tasks`.
    max_running: usize,
    /// Whether the newest turn plans (`permissions::SessionMode`).
    pub(crate) newest_turn_plans: Arc<AtomicBool>,
    /// The subagents that run now.
    pub(crate) agents: Arc<RunningAgents>,
    /// Cancelled when the session ends.
    over: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// In the order in which they were started.
    tasks: Vec<Arc<BackgroundTask>>,
    /// The places of tasks that are about to start.
    reserved: usize,
    /// Cancelled when the client key of the newest turn is revoked.
    revoked: CancellationToken,
    watching: JoinSet<()>,
}

/// How many may run at once in a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskLimits {
    /// `tools.bash.background_tasks`.
    pub(crate) tasks: usize,
    /// `subagents.max_running`.
    pub(crate) agents: usize,
}

/// One task.
#[derive(Debug)]
pub(crate) struct BackgroundTask {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) description: Option<String>,
    pub(crate) started_ms: i64,
    started: Instant,
    work: TaskWork,
    /// Where its output is, if a file could be made.
    pub(crate) path: Option<PathBuf>,
    ended: watch::Receiver<Option<TaskEnd>>,
}

/// What a task is.
#[derive(Debug)]
enum TaskWork {
    Command(CommandControl),
    Agent { output: Arc<AgentOutput>, stop: CancellationToken },
}

/// Makes of the end of a command what is told of it.
pub(crate) type Conclude =
    Box<dyn FnOnce(Result<Finished, RunError>) -> BoxFuture<'static, TaskEnd> + Send>;

/// A command that becomes a task.
pub(crate) struct NewTask {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) description: Option<String>,
    pub(crate) running: Running,
    pub(crate) path: Option<PathBuf>,
    pub(crate) conclude: Conclude,
}

/// A place for a further task. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct TaskPlace {
    tasks: Arc<SessionTasks>,
}

/// Why no further task can start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPlace {
    #[error(
        "a session has at most {max_running} background tasks at once; running: {}. Wait for one to \
         end, or end one with TaskStop",
        .running.join(", ")
    )]
    Taken { max_running: usize, running: Vec<String> },
    #[error("the session has ended, or its client key was revoked")]
    Over,
}

impl SessionTasks {
    fn new(session: SessionId, scope: Scope, limits: TaskLimits) -> Self {
        let TaskLimits { tasks: max_running, agents } = limits;
        let state = State {
            tasks: Vec::new(),
            reserved: 0,
            revoked: CancellationToken::new(),
            watching: JoinSet::new(),
        };
        let over = CancellationToken::new();
        let agents = Arc::new(RunningAgents::new(agents));
        Self {
            session,
            scope,
            max_running,
            newest_turn_plans: Arc::default(),
            agents,
            over,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn reserve(self: &Arc<Self>) -> Result<TaskPlace, NoPlace> {
        let mut state = sync::lock(&self.state);
        if self.over.is_cancelled() || state.revoked.is_cancelled() {
            return Err(NoPlace::Over);
        }
        let running: Vec<_> = state.tasks.iter().filter(|task| task.is_running()).collect();
        if self.max_running <= running.len() + state.reserved {
            let named = |task: &&Arc<BackgroundTask>| format!("{} ({})", task.id, task.label());
            let (max_running, running) = (self.max_running, running.iter().map(named).collect());
            return Err(NoPlace::Taken { max_running, running });
        }
        state.reserved += 1;
        Ok(TaskPlace { tasks: Arc::clone(self) })
    }

    /// The task with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<BackgroundTask>> {
        let state = sync::lock(&self.state);
        state.tasks.iter().find(|task| task.id == id).cloned()
    }

    /// All that are known, in the order in which they were started.
    pub(crate) fn all(&self) -> Vec<Arc<BackgroundTask>> {
        sync::lock(&self.state).tasks.clone()
    }

    /// Ends all tasks, and waits until they have ended. No further one can start.
    async fn end(&self) {
        self.over.cancel();
        for task in self.all() {
            task.wait_for_end().await;
        }
    }

    fn has_tasks(&self) -> bool {
        let state = sync::lock(&self.state);
        !state.tasks.is_empty() || state.reserved > 0
    }

    /// Whether a task runs, or is about to.
    pub(crate) fn has_running(&self) -> bool {
        let state = sync::lock(&self.state);
        state.reserved > 0 || state.tasks.iter().any(|task| task.is_running())
    }

    fn owned_by(&self, revoked: CancellationToken) {
        sync::lock(&self.state).revoked = revoked;
    }
}

impl TaskPlace {
    /// Takes a running command over from the turn.
    pub(crate) fn take_over(self, new: NewTask) -> Arc<BackgroundTask> {
        let NewTask { id, command, description, running, path, conclude } = new;
        let (end, ended) = watch::channel(None);
        let control = running.control().clone();
        let task = Arc::new(BackgroundTask {
            id,
            command,
            description,
            started_ms: clock::now_ms(),
            started: Instant::now(),
            work: TaskWork::Command(control),
            path,
            ended,
        });
        let mut state = sync::lock(&self.tasks.state);
        while state.watching.try_join_next().is_some() {}
        forget_old(&mut state.tasks);
        state.tasks.push(Arc::clone(&task));
        let stops = [self.tasks.over.clone(), state.revoked.clone()];
        state.watching.spawn(watch_task(running, stops, conclude, end));
        drop(state);
        task
    }
}

impl Drop for TaskPlace {
    fn drop(&mut self) {
        sync::lock(&self.tasks.state).reserved -= 1;
    }
}

/// Drops the oldest tasks of those that have ended, if there are very many.
fn forget_old(tasks: &mut Vec<Arc<BackgroundTask>>) {
    let ended = tasks.iter().filter(|task| !task.is_running()).count();
    let mut surplus = ended.saturating_sub(MAX_ENDED - 1);
    tasks.retain(|task| {
        let is_kept = surplus == 0 || task.is_running();
        surplus -= usize::from(!is_kept);
        is_kept
    });
}

/// Holds the command until it has ended.
async fn watch_task(
    mut running: Running,
    [over, revoked]: [CancellationToken; 2],
    conclude: Conclude,
    end: watch::Sender<Option<TaskEnd>>,
) {
    let finished = tokio::select! {
        finished = running.ended() => finished,
        () = over.cancelled() => stopped(&mut running).await,
        () = revoked.cancelled() => stopped(&mut running).await,
    };
    let told = conclude(finished).await;
    running.control().output().release();
    end.send_replace(Some(told));
}

async fn stopped(running: &mut Running) -> Result<Finished, RunError> {
    running.control().stop(StopReason::Cancelled);
    running.ended().await
}

impl BackgroundTask {
    pub(crate) fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<TaskEnd> {
        self.ended.borrow().clone()
    }

    pub(crate) async fn wait_for_end(&self) {
        // An error means that the server ends.
        _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(&self) {
        match &self.work {
            TaskWork::Command(control) => control.stop(StopReason::Asked),
            TaskWork::Agent { stop, .. } => stop.cancel(),
        }
        self.wait_for_end().await;
    }

    /// `shell` or `agent`.
    pub(crate) fn kind(&self) -> &'static str {
        match self.work {
            TaskWork::Command(_) => "shell",
            TaskWork::Agent { .. } => "agent",
        }
    }

    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// What the task is, in one line.
    pub(crate) fn label(&self) -> String {
        let described = self.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        short_line(described.unwrap_or(&self.command))
    }

    /// The command in one line.
    pub(crate) fn command_line(&self) -> String {
        short_line(&self.command)
    }

    /// `running`, or how it ended.
    pub(crate) fn state(&self) -> String {
        self.end().map_or_else(|| "running".to_owned(), |end| end.in_words())
    }
}

fn short_line(text: &str) -> String {
    // It stands in a reminder, whose end it must not forge.
    let line = text::one_line(text).replace("</", "< /");
    text::shortened(&line, MAX_LABEL).into_owned()
}
