//! Replaces the todo list of the agent that calls.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::todos::{Todo, TodoStatus};
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct TodoWrite;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TodoWriteInput {
    /// The whole new list; it takes the place of the one before. Empty clears it.
    #[schemars(length(max = 100))]
    todos: Vec<Todo>,
}

impl Tool for TodoWrite {
    type Input = TodoWriteInput;

    const NAME: &'static str = "TodoWrite";
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Writes your todo list. Use it for work of several steps: list them first, mark one in_progress before you begin it, and \
        completed as soon as it is done.";

    fn access_request(&self, _: &TodoWriteInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &TodoWriteInput) -> String {
        let done = with(TodoStatus::Completed, &input.todos).count();
        let progress = format!("{done} of {} done", input.todos.len());
        match with(TodoStatus::InProgress, &input.todos).next() {
            Some(active) => format!("{progress}: {}", active.activity()),
            None => progress,
        }
    }

    async fn execute(
        &self,
        input: TodoWriteInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let TodoWriteInput { todos } = input;
        if todos.iter().any(|todo| todo.content.trim().is_empty()) {
            return Err(ToolError::InvalidInput("todos: the content of an entry is empty".into()));
        }
        let text = answer(&todos);
        let old = context.agent.todos.replace(todos.clone());
        let structured = json!({ "old_todos": old, "new_todos": todos });
        Ok(ToolOutput { todos: Some(todos), ..ToolOutput::text(text).with(structured) })
    }
}

fn with(status: TodoStatus, todos: &[Todo]) -> impl Iterator<Item = &Todo> {
    todos.iter().filter(move |todo| todo.status == status)
}

/// What the model is told, with what it works on now.
fn answer(todos: &[Todo]) -> String {
    let mut active = with(TodoStatus::InProgress, todos);
    let Some(first) = active.next() else { return "Todo list updated.".to_owned() };
    let text = format!("Todo list updated. Active: {}", first.activity());
    match active.count() {
        0 => text,
        others => format!(
            "{text}\n({} entries are in_progress: mark only the one that you work on)",
            others + 1
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::tools::tool::test_support::Workspace;

    #[track_caller]
    fn todo(content: &str, status: &str) -> Value {
        json!({ "content": content, "status": status })
    }

    async fn write(workspace: &Workspace, todos: Value) -> String {
        workspace.call(TodoWrite, json!({ "todos": todos })).await
    }

    #[tokio::test]
    async fn the_answer_names_what_is_in_progress() {
        let workspace = Workspace::new(&[]);
        let both = json!([todo("Look", "completed"), todo("Write\nit", "in_progress")]);
        assert_eq!(write(&workspace, both).await, "Todo list updated. Active: Write it");
        let form = json!([{ "content": "Test", "status": "in_progress", "activeForm": "Testing" }]);
        assert_eq!(write(&workspace, form).await, "Todo list updated. Active: Testing");
        assert_eq!(write(&workspace, json!([todo("Look", "pending")])).await, "Todo list updated.");
        assert_eq!(write(&workspace, json!([])).await, "Todo list updated.");
        let two = json!([todo("A", "in_progress"), todo("B", "in_progress")]);
        assert_eq!(
            write(&workspace, two).await,
            "Todo list updated. Active: A\n(2 entries are in_progress: mark only the one that \
             you work on)"
        );
    }

    #[tokio::test]
    async fn what_is_refused_changes_nothing() {
        let workspace = Workspace::new(&[]);
        write(&workspace, json!([todo("Look", "pending")])).await;
        let entry = todo("Look", "pending");
        for wrong in [
            json!([entry, todo("", "pending")]),
            json!([entry, todo(" \n", "pending")]),
            json!([entry, todo(&"é".repeat(1001), "pending")]),
            json!([entry, todo("Look", "done")]),
            json!([{ "content": "Look" }]),
            json!(vec![&entry; 101]),
            json!("Look"),
        ] {
            let answer = write(&workspace, wrong.clone()).await;
            assert!(answer.starts_with("Error: invalid input"), "{wrong}: {answer}");
        }
        assert_eq!(workspace.context().agent.todos.save().unwrap().todos.len(), 1);
        let most = vec![todo(&"é".repeat(1000), "pending"); 100];
        assert_eq!(write(&workspace, json!(most)).await, "Todo list updated.");
    }

    #[tokio::test]
    async fn programs_get_both_lists() {
        let workspace = Workspace::new(&[]);
        let todos = json!([todo("Look", "pending")]);
        let tool = crate::tools::tool::erase(TodoWrite);
        let run = |todos: &Value| workspace.run(&tool, json!({ "todos": todos }));
        run(&todos).await.unwrap();
        let output = run(&json!([])).await.unwrap();
        assert_eq!(output.structured, json!({ "old_todos": todos, "new_todos": [] }));
        assert_eq!(output.todos, Some(Vec::new()));
    }
}
