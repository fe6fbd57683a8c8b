//! Replaces, inserts or deletes one cell of a Jupyter notebook that the model has read.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::files::notebook::edit::{CellEdit, CellKind, Edited, edit};
use crate::files::{FileError, FileSnapshot, Files, Freshness, patch};
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Permit};
use crate::tools::builtin::READ_FIRST;
use crate::tools::change_preview;
use crate::tools::disk;
use crate::tools::in_place;
use crate::tools::settings_check;
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};
use crate::workspace::{ContentState, Target};

#[derive(Debug)]
pub(crate) struct NotebookEdit {
    files: Arc<Files>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct NotebookEditInput {
    /// The notebook to change; a relative path counts from the working directory.
    notebook_path: PathBuf,
    /// The cell, by the id that Read shows. For `insert`, the cell to insert behind; without
    /// it, the new cell becomes the first.
    cell_id: Option<String>,
    /// The whole source of the cell. Not for `delete`.
    new_source: Option<String>,
    /// The type of the cell. `insert` requires it; `replace` turns the cell into that type.
    cell_type: Option<CellType>,
    /// What to do with the cell; `replace` if left out.
    #[serde(default)]
    edit_mode: EditMode,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CellType {
    Code,
    Markdown,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

impl NotebookEdit {
    pub(crate) fn new(files: Arc<Files>) -> Self {
        Self { files }
    }
}

impl Tool for NotebookEdit {
    type Input = NotebookEditInput;

    const NAME: &'static str = "NotebookEdit";
    const ACCESS: AccessKind = AccessKind::Edit;
    const ADVICE: Option<&'static str> = Some(READ_FIRST);
    const DESCRIPTION: &'static str = "Replaces, inserts or deletes one cell of a Jupyter \
        notebook (.ipynb) that was read before. A code cell that is replaced loses its outputs.";

    fn access_request(&self, input: &NotebookEditInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Write(context.resolve(Some(&input.notebook_path)))
    }

    fn headline(&self, input: &NotebookEditInput) -> String {
        input.notebook_path.display().to_string()
    }

    async fn execute(
        &self,
        input: NotebookEditInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let files = Arc::clone(&self.files);
        let change =
            move |target: &Target, approved| change(&files, target, approved, &input, &context);
        disk::with_file(permit, change).await
    }

    async fn preview(
        &self,
        input: &NotebookEditInput,
        asked: &AskedAccess,
        context: &CallContext,
    ) -> Option<Preview> {
        let (files, input, call) = (Arc::clone(&self.files), input.clone(), context.clone());
        let preview = move |target: &Target| {
            let cell_edit = cell_edit(&input)?;
            let state = &call.agent.read_state;
            files
                .preview(target, state, &call.cancelled, |current, freshness| {
                    let new = computed(target, current, freshness, cell_edit, &input, &call)?;
                    let (bytes, _) = settings_check::checked(&files, target, current, new)?;
                    let shown = change_preview::shown(target, current, &bytes, None);
                    Ok((bytes, shown))
                })
                .map_err(ToolError::from)
        };
        Some(disk::preview_of_file(asked, preview).await)
    }
}

fn change(
    files: &Files,
    target: &Target,
    approved: Option<ContentState>,
    input: &NotebookEditInput,
    call: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let cell_edit = cell_edit(input)?;
    let state = &call.agent.read_state;
    let changed = files.change(target, state, &call.cancelled, approved, |current, freshness| {
        let new = computed(target, current, freshness, cell_edit, input, call)?;
        settings_check::checked(files, target, current, new)
    });
    changed.map(in_place::answer).map_err(ToolError::from)
}

/// What the arguments ask for, if they are complete.
fn cell_edit(input: &NotebookEditInput) -> Result<CellEdit<'_>, ToolError> {
    let missing = |what: &str| ToolError::InvalidInput(format!("{what} is required"));
    let cell = input.cell_id.as_deref().filter(|id| !id.is_empty());
    let source = input.new_source.as_deref();
    let kind = input.cell_type.map(|kind| match kind {
        CellType::Code => CellKind::Code,
        CellType::Markdown => CellKind::Markdown,
    });
    Ok(match input.edit_mode {
        EditMode::Replace => CellEdit::Replace {
            cell: cell.ok_or_else(|| missing("cell_id, the cell to replace,"))?,
            source: source.ok_or_else(|| missing("new_source"))?,
            kind,
        },
        EditMode::Insert => CellEdit::Insert {
            after: cell,
            source: source.ok_or_else(|| missing("new_source"))?,
            kind: kind.ok_or_else(|| missing("cell_type, for a new cell,"))?,
        },
        EditMode::Delete => {
            CellEdit::Delete { cell: cell.ok_or_else(|| missing("cell_id, the cell to delete,"))? }
        }
    })
}

/// The bytes to write, and the answer if writing succeeds.
fn computed(
    target: &Target,
    current: Option<&FileSnapshot>,
    freshness: Freshness,
    cell_edit: CellEdit<'_>,
    input: &NotebookEditInput,
    call: &CallContext,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    let Some(current) = current else {
        return Err(call.agent.read_state.missing(target.path(), target.real_path()));
    };
    if freshness == Freshness::Changed {
        return Err(FileError::Modified(target.path().to_owned()));
    }
    let edited = edit(&current.bytes, cell_edit).map_err(|error| {
        FileError::Refused(format!("{}: {error}. Nothing was changed", target.path().display()))
    })?;
    let output = answer(target, &current.bytes, &edited, input.edit_mode);
    Ok((edited.bytes, output))
}

/// The old contents of the file, which may be long, go to hooks only.
const HOOKS_ONLY: &[&str] = &["original"];

fn answer(target: &Target, old: &[u8], edited: &Edited, mode: EditMode) -> ToolOutput {
    let (path, cell) = (target.path().display(), &edited.cell);
    let mut text = match mode {
        EditMode::Replace => format!("Updated cell {cell} in {path}"),
        EditMode::Insert => format!("Inserted cell {cell} in {path}"),
        EditMode::Delete => format!("Deleted cell {cell} from {path}"),
    };
    if edited.lost_attachments {
        text.push_str("\nIts attachments are gone: a code cell has none.");
    }
    let hunks = patch::between(old, &edited.bytes);
    let structured = json!({
        "type": "update",
        "file_path": target.path().to_string_lossy(),
        "structured_patch": hunks,
        "original": hunks.as_ref().map(|_| String::from_utf8_lossy(old)),
        "cell_id": cell,
        "edit_mode": mode,
    });
    ToolOutput::text(text).with(structured).hooks_only(HOOKS_ONLY)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;

    use super::*;
    use crate::tools::builtin::read::Read;
    use crate::tools::tool::erase;
    use crate::tools::tool::test_support::Workspace;

    const NOTEBOOK: &str = "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \
        \"execution_count\": 1,\n   \"id\": \"a\",\n   \"metadata\": {},\n   \"outputs\": [],\n   \
        \"source\": [\n    \"1\"\n   ]\n  }\n ],\n \"metadata\": {},\n \"nbformat\": 4,\n \
        \"nbformat_minor\": 5\n}\n";

    async fn edit(workspace: &Workspace, arguments: Value) -> String {
        workspace.call(NotebookEdit::new(Arc::default()), arguments).await
    }

    async fn known(content: &str) -> Workspace {
        let workspace = Workspace::new(&[("a.ipynb", content)]);
        workspace.call(Read::default(), json!({ "file_path": "a.ipynb" })).await;
        workspace
    }

    fn with(mut arguments: Value) -> Value {
        arguments["notebook_path"] = json!("a.ipynb");
        arguments
    }

    #[tokio::test]
    async fn replaces_inserts_and_deletes_cells() {
        let workspace = known(NOTEBOOK).await;
        let replaced = edit(&workspace, with(json!({ "cell_id": "a", "new_source": "2" }))).await;
        assert_eq!(replaced, "Updated cell a in $WORKSPACE/a.ipynb");
        let expected = NOTEBOOK.replace("\"1\"", "\"2\"");
        let expected = expected.replace("_count\": 1", "_count\": null");
        assert_eq!(String::from_utf8(workspace.read("a.ipynb")).unwrap(), expected);
        let insert = with(json!({
            "cell_id": "cell-0", "new_source": "# x", "cell_type": "markdown",
            "edit_mode": "insert",
        }));
        let inserted = edit(&workspace, insert).await;
        let id = inserted.strip_prefix("Inserted cell ").unwrap().split(' ').next().unwrap();
        let delete = with(json!({ "cell_id": id, "edit_mode": "delete" }));
        assert_eq!(
            edit(&workspace, delete).await,
            format!("Deleted cell {id} from $WORKSPACE/a.ipynb")
        );
        assert_eq!(String::from_utf8(workspace.read("a.ipynb")).unwrap(), expected);
    }

    #[tokio::test]
    async fn says_what_is_missing_and_which_cells_there_are() {
        let workspace = known(NOTEBOOK).await;
        let mut answers = Vec::new();
        for more in [
            json!({ "new_source": "x" }),
            json!({ "cell_id": "a" }),
            json!({ "cell_id": "", "edit_mode": "delete" }),
            json!({ "edit_mode": "insert", "new_source": "x" }),
            json!({ "edit_mode": "insert", "cell_type": "code" }),
            json!({ "cell_id": "b", "new_source": "x" }),
            json!({ "cell_id": "cell-1", "edit_mode": "delete" }),
            json!({ "cell_id": "a", "new_source": "x", "cell_type": "raw" }),
        ] {
            answers.push(edit(&workspace, with(more)).await);
        }
        let missing = json!({ "notebook_path": "b.ipynb", "cell_id": "a", "new_source": "x" });
        answers.push(edit(&workspace, missing).await);
        assert_snapshot!(answers.join("\n"), @r#"
        Error: invalid input: cell_id, the cell to replace, is required
        Error: invalid input: new_source is required
        Error: invalid input: cell_id, the cell to delete, is required
        Error: invalid input: cell_type, for a new cell, is required
        Error: invalid input: new_source is required
        Error: $WORKSPACE/a.ipynb: no cell is called "b"; the cells are a. Nothing was changed
        Error: $WORKSPACE/a.ipynb: no cell is called "cell-1"; the cells are a. Nothing was changed
        Error: invalid input: `cell_type`: expected one of "code", "markdown", got string "raw"
        Error: File does not exist: $WORKSPACE/b.ipynb
        "#);
        assert_eq!(workspace.read("a.ipynb"), NOTEBOOK.as_bytes());
    }

    #[tokio::test]
    async fn needs_the_notebook_to_be_read_and_unchanged() {
        let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
        let replace = with(json!({ "cell_id": "a", "new_source": "2" }));
        assert_snapshot!(edit(&workspace, replace.clone()).await, @"Error: Must read file before editing: $WORKSPACE/a.ipynb");
        workspace.call(Read::default(), json!({ "file_path": "a.ipynb" })).await;
        workspace.write("a.ipynb", format!("{NOTEBOOK}\n").as_bytes());
        assert_snapshot!(edit(&workspace, replace.clone()).await, @"Error: File was modified externally since last read: $WORKSPACE/a.ipynb");
        std::fs::remove_file(workspace.path("a.ipynb")).unwrap();
        assert_snapshot!(edit(&workspace, replace).await, @"Error: File no longer exists: $WORKSPACE/a.ipynb");
    }

    #[tokio::test]
    async fn tells_programs_what_changed() {
        let workspace = known(NOTEBOOK).await;
        let arguments = with(json!({ "cell_id": "a", "edit_mode": "delete" }));
        let tool = erase(NotebookEdit::new(Arc::default()));
        let output = workspace.run(&tool, arguments).await.unwrap();
        assert_eq!(output.structured["type"], "update");
        assert_eq!(output.structured["cell_id"], "a");
        assert_eq!(output.structured["edit_mode"], "delete");
        assert_eq!(output.structured["original"], NOTEBOOK);
        assert_eq!(output.structured["structured_patch"][0]["new_lines"], 5);
        assert_eq!(output.hooks_only, ["original"]);
    }
}
