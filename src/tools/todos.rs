//! Keeps the todo list of an agent, and says when the agent is to be reminded of it.

use std::sync::Mutex;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sync;
use crate::text::{one_line, shown_line};

/// Rounds with open entries and without a new list, after which the agent is reminded once.
const MAX_SILENT_ROUNDS: u32 = 10;

// An entry of the list: as the model writes it, and as it is shown and kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Todo {
    /// The step, as what to do: "Run the tests".
    #[schemars(length(min = 1, max = 1000))]
    pub(crate) content: String,
    pub(crate) status: TodoStatus,
    /// The same while it is being done: "Running the tests".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub(crate) active_form: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

/// A line for each entry, with a box that tells how far it is. For people.
pub(crate) fn checklist(todos: &[Todo]) -> String {
    let lines = todos.iter().map(|todo| {
        let (mark, text) = match todo.status {
            TodoStatus::Pending => (' ', one_line(&todo.content)),
            TodoStatus::InProgress => ('>', todo.activity()),
            TodoStatus::Completed => ('x', one_line(&todo.content)),
        };
        format!("[{mark}] {text}\n")
    });
    lines.collect()
}

/// The todo list of one agent.
#[derive(Debug, Default)]
pub(crate) struct TodoList(Mutex<SavedTodos>);

/// The form in which a turn keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedTodos {
    pub(crate) todos: Vec<Todo>,
    /// Rounds since the list was written, with the one in which it was.
    silent_rounds: u32,
    /// Whether the agent was reminded since then.
    is_reminded: bool,
}

impl TodoList {
    pub(crate) fn load(saved: SavedTodos) -> Self {
        Self(Mutex::new(saved))
    }

    /// For the turns that go on from this one; `None` if there is no list.
    pub(crate) fn save(&self) -> Option<SavedTodos> {
        let saved = sync::lock(&self.0);
        (!saved.todos.is_empty()).then(|| saved.clone())
    }

    /// Puts this list in the place of the one before, and returns that one.
    pub(crate) fn replace(&self, todos: Vec<Todo>) -> Vec<Todo> {
        let new = SavedTodos { todos, ..SavedTodos::default() };
        std::mem::replace(&mut *sync::lock(&self.0), new).todos
    }

    /// Counts a round that is about to be closed.
    pub(crate) fn count_round(&self) {
        let mut list = sync::lock(&self.0);
        if !list.todos.is_empty() {
            // Once the agent was reminded, or nothing is open, the number does not matter.
            list.silent_rounds = (list.silent_rounds + 1).min(MAX_SILENT_ROUNDS + 1);
        }
    }

    /// The open entries, if the agent has not written the list for long, and was not reminded.
    pub(crate) fn reminder(&self) -> Option<String> {
        let list = sync::lock(&self.0);
        let open: Vec<&Todo> =
            list.todos.iter().filter(|todo| todo.status != TodoStatus::Completed).collect();
        if list.is_reminded || list.silent_rounds <= MAX_SILENT_ROUNDS || open.is_empty() {
            return None;
        }
        let lines: Vec<String> = open.iter().map(|todo| todo.line()).collect();
        Some(format!(
            "Your todo list has open entries and has not changed for {MAX_SILENT_ROUNDS} rounds. \
             Bring it up to date with TodoWrite, or clear it if it is of no use any more. It holds:\n{}",
            lines.join("\n")
        ))
    }

    /// Notes that the agent has the reminder.
    pub(crate) fn mark_reminded(&self) {
        sync::lock(&self.0).is_reminded = true;
    }
}

impl Todo {
    /// What the agent works on while the entry is in progress, on one line.
    pub(crate) fn activity(&self) -> String {
        let form = self.active_form.as_deref().filter(|form| !form.trim().is_empty());
        one_line(form.unwrap_or(&self.content))
    }

    /// The entry and its status, on one line.
    pub(crate) fn line(&self) -> String {
        format!("- {}: {}", self.status.as_str(), shown_line(&self.content))
    }
}

impl TodoStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn todo(content: &str, status: TodoStatus) -> Todo {
        Todo { content: content.to_owned(), status, active_form: None }
    }

    fn silent(list: &TodoList, rounds: usize) {
        (0..rounds).for_each(|_| list.count_round());
    }

    #[test]
    fn an_agent_is_reminded_once_of_what_it_has_not_written_for_ten_rounds() {
        let list = TodoList::default();
        silent(&list, 20);
        assert_eq!(list.reminder(), None, "there is no list");
        let before = list.replace(vec![
            todo("look", TodoStatus::Completed),
            todo("write\n</reminder>", TodoStatus::InProgress),
        ]);
        assert_eq!(before, []);
        silent(&list, 10);
        assert_eq!(list.reminder(), None);
        silent(&list, 1);
        insta::assert_snapshot!(list.reminder().unwrap(), @r"
        Your todo list has open entries and has not changed for 10 rounds. Bring it up to date with TodoWrite, or clear it if it is of no use any more. It holds:
        - in_progress: write </reminder>
        ");
        let list = TodoList::load(list.save().unwrap());
        assert!(list.reminder().is_some(), "it is not told yet");
        list.mark_reminded();
        silent(&list, 20);
        assert_eq!(list.reminder(), None);
        list.replace(vec![todo("write", TodoStatus::Pending)]);
        silent(&list, 11);
        assert!(list.reminder().is_some(), "a new list, a new reminder");
        list.replace(vec![todo("write", TodoStatus::Completed)]);
        silent(&list, 11);
        assert_eq!(list.reminder(), None, "nothing is open");
    }

    #[test]
    fn an_empty_list_leaves_nothing_behind() {
        let list = TodoList::default();
        assert_eq!(list.save(), None);
        list.replace(vec![todo("a", TodoStatus::Pending)]);
        assert!(list.save().is_some());
        assert_eq!(list.replace(Vec::new()).len(), 1);
        assert_eq!(list.save(), None);
    }
}
