//! Gathers what the model is told before the next request: files that other programs have
//! changed, background tasks that have ended, a todo list that was forgotten, and plan mode.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::blocking::FILES;
use crate::files::outside_changes::{Current, OutsideChanges};
use crate::files::{Found, Observation, Suspect};
use crate::permissions::{AccessKind, AccessRequest, Grants, Judgement, Permissions};
use crate::reminder::Reminder;
use crate::tools::agent_context::AgentContext;
use crate::tools::plan_mode::phase;
use crate::tools::session_context::SessionContext;
use crate::tools::tasks::KnownTask;
use crate::tools::toolset::Toolset;

/// The tool whose rules decide whether the model may see what a file holds.
const READ: &str = "Read";

/// The tool that writes the todo list.
const TODO_WRITE: &str = "TodoWrite";

/// The tool that ends plan mode.
const EXIT_PLAN_MODE: &str = "ExitPlanMode";

/// The look at changed files holds up a request no longer, and a file that cannot be read in this
/// time is passed over. What is left is looked at before the next request.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// A text for the model, and what it knows when it has it.
#[derive(Debug)]
pub(crate) struct GatheredReminder {
    text: String,
    learned: Learned,
}

/// What the model knows of the session once it was told.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    files: Vec<Observation>,
    ended: Vec<Arc<KnownTask>>,
    is_reminded_of_todos: bool,
}

impl GatheredReminder {
    /// Gives up the text: it stands in the transcript now.
    pub(crate) fn told(self, agent: &AgentContext) -> String {
        self.learned.by(agent);
        self.text
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Learned {
    fn by(self, agent: &AgentContext) {
        agent.read_state.observed(self.files);
        self.ended.iter().for_each(|task| task.mark_end_told());
        if self.is_reminded_of_todos {
            agent.todos.mark_reminded();
        }
    }
}

/// When the model is reminded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    TurnBegins,
    RoundEnds,
}

/// The reminder for the model, which may use these tools; `None` if there is nothing to tell.
/// Called once a round.
pub(crate) async fn gather(
    moment: Moment,
    permissions: &Permissions,
    tools: &Toolset,
    (session, agent): (&SessionContext, &Arc<AgentContext>),
) -> Option<GatheredReminder> {
    agent.todos.count_round();
    let mut learned = Learned::default();
    let mut texts = Vec::new();
    if moment == Moment::TurnBegins
        && let Some(phase) = plan_phase(session, tools)
    {
        texts.push(Reminder::new(phase).to_string());
    }
    if !agent.read_state.is_empty()
        && let Some(changes) = changed_files(permissions, &session.grants, agent).await
    {
        let (text, observed) = changes.into_reminder();
        texts.extend(text);
        learned.files = observed;
    }
    if let Some(tasks) = &session.tasks {
        let (notices, ended) = agent.known_tasks.untold_ends(tasks).into_iter().unzip();
        let notices: Vec<String> = notices;
        if !notices.is_empty() {
            texts.push(Reminder::new(notices.join("\n")).to_string());
        }
        learned.ended = ended;
    }
    if tools.get(TODO_WRITE).is_some()
        && let Some(text) = agent.todos.reminder()
    {
        texts.push(Reminder::new(text).to_string());
        learned.is_reminded_of_todos = true;
    }
    if texts.is_empty() {
        // Nothing stands in the transcript, so this holds at once.
        learned.by(agent);
        return None;
    }
    Some(GatheredReminder { text: texts.join("\n\n"), learned })
}

/// What plan mode is for, if the model that may use these tools plans.
pub(crate) fn plan_phase(session: &SessionContext, tools: &Toolset) -> Option<String> {
    let files = session.files.as_ref().filter(|_| session.mode.is_planning())?;
    tools.get(EXIT_PLAN_MODE)?;
    Some(phase(&files.plan_path(), session.mode.can_leave_plan()))
}

async fn changed_files(
    permissions: &Permissions,
    grants: &Grants,
    agent: &Arc<AgentContext>,
) -> Option<OutsideChanges> {
    let deadline = Instant::now() + MAX_WAIT;
    let knowing = Arc::clone(agent);
    let finding = FILES.run(move || knowing.read_state.suspects());
    let suspects = timeout_at(deadline, finding).await.ok()?.ok()?;
    let mut changes = OutsideChanges::default();
    for suspect in suspects {
        if deadline <= Instant::now() {
            break;
        }
        changes = look(permissions, grants, suspect, (changes, deadline)).await;
    }
    Some(changes)
}

/// Compares one file with what the model knows, as far as it may see it.
async fn look(
    permissions: &Permissions,
    grants: &Grants,
    suspect: Suspect,
    (mut changes, deadline): (OutsideChanges, Instant),
) -> OutsideChanges {
    if suspect.found == Found::Gone {
        changes.gone(&suspect);
        return changes;
    }
    let read = AccessRequest::Read(suspect.path.clone());
    let judging = permissions.judge(READ, AccessKind::Read, read, grants);
    let target = match timeout_at(deadline, judging).await {
        Ok(Ok(Judgement::Permitted(permit))) => permit.into_target(),
        Ok(_) => None,
        Err(_) => return changes,
    };
    let Some((target, _)) = target else {
        changes.hidden(&suspect);
        return changes;
    };
    let (suspect, has_room) = (Arc::new(suspect), changes.has_room());
    let known_as = Arc::clone(&suspect);
    let read = move || {
        let current = Current::read(&target)?;
        // Comparing long texts takes time, so not where there is no room for the outcome.
        Ok::<_, io::Error>(if has_room { current.with_diff(&known_as) } else { current })
    };
    match timeout_at(deadline, FILES.run(read)).await {
        Ok(Ok(Ok(current))) => changes.compared(&suspect, current),
        // It is a file no longer.
        Ok(Ok(Err(error))) if is_no_file(&error) => changes.hidden(&suspect),
        // If it changes right now, or is gone, the next look will tell.
        _ => {}
    }
    changes
}

/// Whether a directory, a named pipe or the like has taken the place of the file.
fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput)
}
