//! Keeps the task list of the model (`TaskCreate` and its kin), and what blocks what.
//! Nothing of them runs by itself: those in the background are in [`super::tasks`].

use std::sync::Mutex;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sync;

/// More than anybody reads.
const MAX_TASKS: usize = 200;

/// The tasks of a session.
#[derive(Debug, Default)]
pub(crate) struct PlannedTasks(Mutex<SavedPlannedTasks>);

/// The form in which a turn keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedPlannedTasks {
    tasks: Vec<Kept>,
    /// The id given last. None is given twice.
    last_id: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    id: u64,
    task: NewTask,
    status: PlannedStatus,
    blocked_by: Vec<u64>,
}

/// What a task is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewTask {
    pub(crate) subject: String,
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) active_form: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PlannedStatus {
    Pending,
    InProgress,
    Completed,
    /// Takes the task out of the list.
    Deleted,
}

/// A task as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedTask {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) task: NewTask,
    pub(crate) status: PlannedStatus,
    pub(crate) blocks: Vec<String>,
    pub(crate) blocked_by: Vec<String>,
}

/// What changes of a task; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskChange {
    pub(crate) status: Option<PlannedStatus>,
    pub(crate) subject: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) active_form: Option<String>,
    pub(crate) add_blocks: Vec<String>,
    pub(crate) add_blocked_by: Vec<String>,
}

/// Why a task is not made, found or changed. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("no task has the id {0:?}; TaskList shows them")]
    Unknown(String),
    #[error("task {blocked} cannot be blocked by task {by}: they would wait for each other")]
    Circle { blocked: u64, by: u64 },
    #[error("there are {MAX_TASKS} tasks already; delete some that are of no use any more")]
    TooMany,
}

impl PlannedTasks {
    pub(crate) fn load(saved: SavedPlannedTasks) -> Self {
        Self(Mutex::new(saved))
    }

    /// For the turns that go on from this one; `None` if there never was a task.
    pub(crate) fn save(&self) -> Option<SavedPlannedTasks> {
        let saved = sync::lock(&self.0);
        (saved.last_id > 0).then(|| saved.clone())
    }

    pub(crate) fn create(&self, task: NewTask) -> Result<PlannedTask, PlanError> {
        let mut saved = sync::lock(&self.0);
        if saved.tasks.len() >= MAX_TASKS {
            return Err(PlanError::TooMany);
        }
        saved.last_id += 1;
        let (id, status) = (saved.last_id, PlannedStatus::Pending);
        saved.tasks.push(Kept { id, task, status, blocked_by: Vec::new() });
        Ok(saved.shown(id))
    }

    pub(crate) fn get(&self, id: &str) -> Result<PlannedTask, PlanError> {
        let saved = sync::lock(&self.0);
        Ok(saved.shown(saved.known(id)?))
    }

    pub(crate) fn all(&self) -> Vec<PlannedTask> {
        let saved = sync::lock(&self.0);
        saved.tasks.iter().map(|kept| saved.shown(kept.id)).collect()
    }

    /// Changes all or nothing. A task that is deleted blocks nothing any more.
    pub(crate) fn update(&self, id: &str, change: TaskChange) -> Result<PlannedTask, PlanError> {
        let mut saved = sync::lock(&self.0);
        let mut changed = saved.clone();
        let id = changed.change(id, change)?;
        let mut task = changed.shown(id);
        if task.status == PlannedStatus::Deleted {
            changed.remove(id);
            task.blocks.clear();
        }
        *saved = changed;
        Ok(task)
    }
}

impl SavedPlannedTasks {
    fn known(&self, id: &str) -> Result<u64, PlanError> {
        let wanted = id.trim().trim_start_matches('#').parse().ok();
        let known = self.tasks.iter().find(|kept| Some(kept.id) == wanted);
        known
            .map(|kept| kept.id)
            .ok_or_else(|| PlanError::Unknown(crate::text::prefix(id, 80).to_owned()))
    }

    fn shown(&self, id: u64) -> PlannedTask {
        let ids = |ids: &mut dyn Iterator<Item = u64>| ids.map(|id| id.to_string()).collect();
        let kept = self.tasks.iter().find(|kept| kept.id == id).expect("it is known");
        let blocked = self.tasks.iter().filter(|kept| kept.blocked_by.contains(&id));
        PlannedTask {
            id: id.to_string(),
            task: kept.task.clone(),
            status: kept.status,
            blocks: ids(&mut blocked.map(|kept| kept.id)),
            blocked_by: ids(&mut kept.blocked_by.iter().copied()),
        }
    }

    fn change(&mut self, id: &str, change: TaskChange) -> Result<u64, PlanError> {
        let id = self.known(id)?;
        for other in &change.add_blocks {
            self.block(self.known(other)?, id)?;
        }
        for other in &change.add_blocked_by {
            self.block(id, self.known(other)?)?;
        }
        let kept = self.tasks.iter_mut().find(|kept| kept.id == id).expect("it is known");
        let NewTask { subject, description, active_form } = &mut kept.task;
        if let Some(new) = change.subject {
            *subject = new;
        }
        if let Some(new) = change.description {
            *description = new;
        }
        if change.active_form.is_some() {
            *active_form = change.active_form;
        }
        kept.status = change.status.unwrap_or(kept.status);
        Ok(id)
    }

    /// Notes that `blocked` waits for `by`.
    fn block(&mut self, blocked: u64, by: u64) -> Result<(), PlanError> {
        if self.waits_for(by, blocked) {
            return Err(PlanError::Circle { blocked, by });
        }
        let kept = self.tasks.iter_mut().find(|kept| kept.id == blocked).expect("it is known");
        if !kept.blocked_by.contains(&by) {
            kept.blocked_by.push(by);
        }
        Ok(())
    }

    /// Whether `one` is `other`, or waits for it by whatever way.
    fn waits_for(&self, one: u64, other: u64) -> bool {
        let (mut open, mut seen) = (vec![one], Vec::new());
        while let Some(id) = open.pop() {
            if id == other {
                return true;
            }
            if !seen.contains(&id) {
                seen.push(id);
                let kept = self.tasks.iter().find(|kept| kept.id == id);
                open.extend(kept.iter().flat_map(|kept| &kept.blocked_by));
            }
        }
        false
    }

    fn remove(&mut self, id: u64) {
        self.tasks.retain(|kept| kept.id != id);
        self.tasks.iter_mut().for_each(|kept| kept.blocked_by.retain(|by| *by != id));
    }
}

impl PlannedStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Deleted => "deleted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(count: usize) -> PlannedTasks {
        let tasks = PlannedTasks::default();
        for number in 1..=count {
            let (subject, description) = (format!("Task {number}"), String::new());
            tasks.create(NewTask { subject, description, active_form: None }).unwrap();
        }
        tasks
    }

    fn blocked_by(ids: &[&str]) -> TaskChange {
        let add_blocked_by = ids.iter().map(|&id| id.to_owned()).collect();
        TaskChange { add_blocked_by, ..TaskChange::default() }
    }

    #[test]
    fn blocks_go_both_ways_and_never_in_a_circle() {
        let tasks = with(3);
        assert_eq!(tasks.update("2", blocked_by(&["1", "1"])).unwrap().blocked_by, ["1"]);
        let blocks = TaskChange { add_blocks: vec!["3".to_owned()], ..TaskChange::default() };
        assert_eq!(tasks.update("#2", blocks).unwrap().blocks, ["3"]);
        assert_eq!(tasks.get("3").unwrap().blocked_by, ["2"]);
        for (id, by) in [("1", "3"), ("1", "2"), ("1", "1")] {
            let circle = tasks.update(id, blocked_by(&[by])).unwrap_err();
            assert!(matches!(circle, PlanError::Circle { .. }), "{circle}");
        }
        let before = tasks.save();
        let half = TaskChange { subject: Some("new".to_owned()), ..blocked_by(&["9"]) };
        assert_eq!(tasks.update("3", half), Err(PlanError::Unknown("9".to_owned())));
        assert_eq!(tasks.save(), before, "all or nothing");
    }

    #[test]
    fn a_deleted_task_blocks_nothing_and_its_id_is_not_given_again() {
        let tasks = with(2);
        tasks.update("2", blocked_by(&["1"])).unwrap();
        let delete = TaskChange { status: Some(PlannedStatus::Deleted), ..TaskChange::default() };
        assert_eq!(tasks.update("1", delete.clone()).unwrap().status, PlannedStatus::Deleted);
        assert_eq!(tasks.get("2").unwrap().blocked_by, Vec::<String>::new());
        for gone in ["1", "0", "-1", "x", "", "1.0", "99999999999999999999999"] {
            assert_eq!(tasks.get(gone), Err(PlanError::Unknown(gone.to_owned())));
        }
        tasks.update("2", delete).unwrap();
        let tasks = PlannedTasks::load(tasks.save().unwrap());
        let task = NewTask { subject: "3".into(), description: String::new(), active_form: None };
        assert_eq!(tasks.create(task).unwrap().id, "3");
    }

    #[test]
    fn there_is_a_limit() {
        let tasks = with(MAX_TASKS);
        let task = NewTask { subject: "x".into(), description: String::new(), active_form: None };
        assert_eq!(tasks.create(task), Err(PlanError::TooMany));
        assert_eq!(tasks.all().len(), MAX_TASKS);
    }
}
