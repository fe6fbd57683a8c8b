//! Tells what an agent has planned, next to a summary: whoever writes one may leave it out.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::reminder::Reminder;
use crate::text::{first_chars, without_hidden};

/// The most characters of the todo list, and of the plan.
const MAX_CHARS: usize = 8_000;

/// So many characters of each are told, however little a summary replaces.
const MIN_CHARS: usize = 500;

/// As part of what a summary replaces.
const PART: usize = 8;

/// The least of an entry that says which one it is, in characters.
const MIN_ENTRY: usize = 60;

/// Knows what an agent has planned. `turn` implements it.
pub(crate) trait KnowsPlans: Send + Sync + fmt::Debug {
    /// As it is now. Never waits.
    fn plans(&self) -> Plans;
}

/// What an agent has planned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    /// A line for each entry of the todo list.
    pub(crate) todos: Vec<String>,
    pub(crate) plan: Option<Plan>,
}

/// The plan of a session.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) path: PathBuf,
    /// Whether it is being written, is approved or neither, in sentences.
    pub(crate) state: String,
    pub(crate) text: Option<Arc<str>>,
}

impl Plans {
    /// In words for the model, where a summary replaces so many bytes. `None`: nothing is planned.
    pub(super) fn told(&self, replaced: usize) -> Option<String> {
        let room = (replaced / PART).clamp(MIN_CHARS, MAX_CHARS);
        let parts: Vec<String> =
            [self.todo_list(room), self.plan.as_ref().map(|plan| plan.told(room))]
                .into_iter()
                .flatten()
                .collect();
        (!parts.is_empty()).then(|| Reminder::new(parts.join("\n\n")).to_string())
    }

    /// With every entry, of which long ones are cut.
    fn todo_list(&self, room: usize) -> Option<String> {
        let room = (room / self.todos.len().max(1)).max(MIN_ENTRY);
        let line = |line: &String| match first_chars(line, room) {
            whole if whole.len() == line.len() => line.clone(),
            cut => format!("{cut}…"),
        };
        let lines: Vec<String> = self.todos.iter().map(line).collect();
        (!lines.is_empty()).then(|| format!("Your todo list is:\n{}", lines.join("\n")))
    }
}

impl Plan {
    fn told(&self, room: usize) -> String {
        let (path, state) = (self.path.display(), &self.state);
        let Some(text) = self.text.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
            return state.clone();
        };
        let cut = first_chars(text, room);
        let note = if cut.len() == text.len() {
            String::new()
        } else {
            format!("\n(cut here: Read {path} for the rest)")
        };
        let cut = without_hidden(cut);
        format!("{state}\nThe plan in {path}:\n\n{cut}{note}")
    }
}
