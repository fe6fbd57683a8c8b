//! Replaces text in a file the model has read.

mod apply;
mod folded;
mod hints;
mod indent_steps;
mod indentation;
mod look_alikes;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::apply::{Fallback, Leniency, Replacement, apply};
use crate::encoding::DeclaredEncoding;
use crate::files::notebook;
use crate::files::{
    CodedText, Declaration, FileError, FileSnapshot, Files, Freshness, line_ends, patch,
};
use crate::lsp::LanguageServers;
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Permit};
use crate::tools::builtin::READ_FIRST;
use crate::tools::change_preview;
use crate::tools::disk;
use crate::tools::in_place;
use crate::tools::languages::Languages;
use crate::tools::settings_check;
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};
use crate::workspace::{ContentState, Target};

/// Bytes that all replacements of one call may search together. That is five hundred
/// replacements in a file of one megabyte, and eight in the largest file.
const MAX_WORK_BYTES: usize = 512 << 20;

#[derive(Debug)]
pub(crate) struct Edit {
    files: Arc<Files>,
    languages: Languages,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct EditInput {
    /// The file to change; a relative path counts from the working directory.
    file_path: PathBuf,
    /// The text to replace, exactly as in the file, without Read's line numbers. Empty
    /// to create a file.
    old_string: Option<String>,
    /// The text to put in its place.
    new_string: Option<String>,
    /// Replace every occurrence; without it, `old_string` must occur once.
    #[serde(default)]
    replace_all: bool,
    /// The encoding of a file that does not tell its own, such as `gbk`; only if you know it.
    encoding: Option<String>,
    /// Several replacements instead of `old_string` and `new_string`: made one after
    /// the other, all or none.
    edits: Option<Vec<OneEdit>>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct OneEdit {
    /// The text to replace.
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

impl Edit {
    pub(crate) fn new(files: Arc<Files>) -> Self {
        Self { files, languages: Languages::default() }
    }

    /// Tells what these servers say of a changed file.
    pub(crate) fn with_languages(self, servers: Option<Arc<LanguageServers>>) -> Self {
        Self { languages: Languages::new(servers), ..self }
    }
}

impl Tool for Edit {
    type Input = EditInput;

    const NAME: &'static str = "Edit";
    const ALIASES: &'static [&'static str] = &["FileEdit", "edit_file"];
    const ACCESS: AccessKind = AccessKind::Edit;
    const ADVICE: Option<&'static str> = Some(READ_FIRST);
    const DESCRIPTION: &'static str = "Replaces text in a file that was read before. old_string \
        must match the file exactly, indentation included, and occur once unless replace_all is \
        set.";

    fn access_request(&self, input: &EditInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Write(context.resolve(Some(&input.file_path)))
    }

    fn headline(&self, input: &EditInput) -> String {
        input.file_path.display().to_string()
    }

    async fn execute(
        &self,
        input: EditInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let (files, call) = (Arc::clone(&self.files), context.clone());
        let edit =
            move |target: &Target, approved| edit(&files, target, approved, &input, &context);
        self.languages.told_of(permit, call, |permit| disk::with_file(permit, edit)).await
    }

    async fn preview(
        &self,
        input: &EditInput,
        asked: &AskedAccess,
        context: &CallContext,
    ) -> Option<Preview> {
        let (files, input, call) = (Arc::clone(&self.files), input.clone(), context.clone());
        let preview = move |target: &Target| {
            let wanted = checked(&files, target, &input, &call)?;
            let state = &call.agent.read_state;
            files
                .preview(target, state, &call.cancelled, |current, freshness| {
                    let new = computed(target, current, freshness, &wanted, &call)?;
                    let (bytes, _) = settings_check::checked(&files, target, current, new)?;
                    let shown = change_preview::shown(target, current, &bytes, wanted.declaration);
                    Ok((bytes, shown))
                })
                .map(|(contents, shown)| {
                    (contents, shown.map_err(|error| named_notebook(target, error)))
                })
                .map_err(ToolError::from)
        };
        Some(disk::preview_of_file(asked, preview).await)
    }
}

fn edit(
    files: &Files,
    target: &Target,
    approved: Option<ContentState>,
    input: &EditInput,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let wanted = checked(files, target, input, context)?;
    let state = &context.agent.read_state;
    let edited = files.change(target, state, &context.cancelled, approved, |current, freshness| {
        let new = computed(target, current, freshness, &wanted, context)?;
        settings_check::checked(files, target, current, new)
    });
    if edited.is_ok() {
        state.keep_declaration(target.real_path(), wanted.declaration);
    }
    edited.map(in_place::answer).map_err(|error| named_notebook(target, error).into())
}

/// The error of an edit. Of a notebook that was not read it names the tool to use after reading.
fn named_notebook(target: &Target, error: FileError) -> FileError {
    let FileError::Unread(path) = error else { return error };
    let is_notebook = || {
        let current = FileSnapshot::read(target).ok().flatten();
        current.is_some_and(|current| notebook::has_cells(&current.bytes))
    };
    if !notebook::is_called_one(target.real_path()) || !is_notebook() {
        return FileError::Unread(path);
    }
    let path = path.display();
    FileError::Refused(format!(
        "{path} is a notebook, and Edit could break its cells; read it, then use NotebookEdit"
    ))
}

/// What a call wants of a file.
struct WantedEdit<'a> {
    replacements: Vec<Replacement<'a>>,
    declaration: Option<Declaration>,
}

/// What a call wants, if it could be done to this file.
fn checked<'a>(
    files: &Files,
    target: &Target,
    input: &'a EditInput,
    context: &CallContext,
) -> Result<WantedEdit<'a>, ToolError> {
    let replacements = replacements(input)?;
    let given =
        DeclaredEncoding::given(input.encoding.as_deref()).map_err(ToolError::InvalidInput)?;
    let declaration = files.declaration(target, &context.agent.read_state, given);
    Ok(WantedEdit { replacements, declaration })
}

fn computed(
    target: &Target,
    current: Option<&FileSnapshot>,
    freshness: Freshness,
    wanted: &WantedEdit<'_>,
    context: &CallContext,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    match current {
        Some(current) => change(target, current, freshness, wanted, context),
        None if wanted.replacements[0].old.is_empty() => create(target, wanted, &context.cancelled),
        None => Err(context.agent.read_state.missing(target.path(), target.real_path())),
    }
}

fn replacements(input: &EditInput) -> Result<Vec<Replacement<'_>>, ToolError> {
    match (&input.old_string, &input.new_string, input.edits.as_deref()) {
        (Some(old), Some(new), None | Some([])) => {
            Ok(vec![Replacement { old, new, all: input.replace_all }])
        }
        (None, None, Some(edits @ [_, ..])) => Ok(edits
            .iter()
            .map(|edit| Replacement {
                old: &edit.old_string,
                new: &edit.new_string,
                all: edit.replace_all || input.replace_all,
            })
            .collect()),
        _ => Err(ToolError::InvalidInput(
            "give either old_string and new_string, or edits with at least one of them".to_owned(),
        )),
    }
}

/// The result of applying all replacements of a call.
struct EditOutcome<'a> {
    content: Cow<'a, [u8]>,
    count: usize,
    was_reindented: bool,
    /// Where each old text that holds ASCII in the place of look-alikes differs first.
    look_alikes: Vec<String>,
    /// Whether each old text was found exactly once, as it is.
    was_unique: bool,
}

fn apply_all<'a>(
    content: &'a [u8],
    replacements: &[Replacement<'_>],
    leniency: Leniency,
    max_work: usize,
    cancelled: &CancellationToken,
) -> Result<EditOutcome<'a>, String> {
    let start = EditOutcome {
        content: Cow::Borrowed(content),
        count: 0,
        was_reindented: false,
        look_alikes: Vec::new(),
        was_unique: true,
    };
    let mut work = 0;
    replacements.iter().enumerate().try_fold(start, |mut so_far, (index, replacement)| {
        work += so_far.content.len();
        if work > max_work {
            let all = replacements.len();
            return Err(format!("{all} edits of a file this long are too much work for one call"));
        }
        if cancelled.is_cancelled() {
            return Err("interrupted".to_owned());
        }
        let applied =
            apply(&so_far.content, *replacement, leniency).map_err(
                |reason| match replacements {
                    [_] => reason,
                    _ => format!("edit {} of {}: {reason}", index + 1, replacements.len()),
                },
            )?;
        so_far.content = Cow::Owned(applied.content);
        so_far.count += applied.count;
        so_far.was_unique &= applied.count == 1 && applied.fallback.is_none();
        match applied.fallback {
            Some(Fallback::Indentation) => so_far.was_reindented = true,
            Some(Fallback::LookAlikes(difference)) => so_far.look_alikes.push(difference),
            None => {}
        }
        Ok(so_far)
    })
}

/// The text of a file, by lines that end at `\n`.
struct Lines<'a> {
    text: Cow<'a, [u8]>,
    /// Whether they end at `\r` alone in the file.
    are_returns: bool,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        let are_returns = line_ends::are_returns(text);
        let text = if are_returns {
            Cow::Owned(line_ends::feeds_for_returns(text))
        } else {
            Cow::Borrowed(text)
        };
        Self { text, are_returns }
    }

    /// Makes the replacements, with the line ends of the file.
    fn changed(
        &self,
        replacements: &[Replacement<'_>],
        leniency: Leniency,
        cancelled: &CancellationToken,
    ) -> Result<EditOutcome<'_>, String> {
        if !self.are_returns {
            return apply_all(&self.text, replacements, leniency, MAX_WORK_BYTES, cancelled);
        }
        let fed = |text: &str| line_ends::without_returns(text).replace('\r', "\n");
        let texts: Vec<_> = replacements.iter().map(|it| (fed(it.old), fed(it.new))).collect();
        let replacements: Vec<_> = texts
            .iter()
            .zip(replacements)
            .map(|((old, new), given)| Replacement { old, new, all: given.all })
            .collect();
        let outcome = apply_all(&self.text, &replacements, leniency, MAX_WORK_BYTES, cancelled)?;
        let content = Cow::Owned(line_ends::returns_for_feeds(&outcome.content));
        Ok(EditOutcome { content, ..outcome })
    }
}

/// Old texts that held ASCII in the place of look-alikes, and are told.
const MAX_DIFFERENCES_TOLD: usize = 3;

/// The old contents of the file, which may be long, go to hooks only.
const HOOKS_ONLY: &[&str] = &["original"];

fn create(
    target: &Target,
    wanted: &WantedEdit<'_>,
    cancelled: &CancellationToken,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    let leniency = Leniency::IndentationAndLookAlikes;
    let outcome = apply_all(b"", &wanted.replacements, leniency, MAX_WORK_BYTES, cancelled);
    let content = outcome.map_err(|error| refused(target, &error))?.content;
    let bytes = CodedText::of_new_file(content.clone(), wanted.declaration)
        .map_err(|error| refused(target, &error))?;
    let lines = String::from_utf8_lossy(&content).lines().count();
    let text = format!("Created {} ({lines} lines)", target.path().display());
    let structured = json!({
        "type": "create",
        "file_path": target.path().to_string_lossy(),
        "structured_patch": [],
        "original": null,
    });
    let output = ToolOutput::text(text).with(structured).hooks_only(HOOKS_ONLY);
    Ok((bytes, output))
}

fn change(
    target: &Target,
    current: &FileSnapshot,
    freshness: Freshness,
    wanted: &WantedEdit<'_>,
    context: &CallContext,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    if notebook::is_called_one(target.real_path()) && notebook::has_cells(&current.bytes) {
        let path = target.path().display();
        return Err(FileError::Refused(format!(
            "{path} is a notebook, and Edit could break its cells; use NotebookEdit"
        )));
    }
    let coded = CodedText::decode(&current.bytes, wanted.declaration)
        .map_err(|error| refused(target, &error))?;
    // What was decoded by a guess may look like what the file does not hold.
    let leniency =
        if coded.is_guess() { Leniency::Indentation } else { Leniency::IndentationAndLookAlikes };
    context.agent.read_state.keep_declaration(target.real_path(), wanted.declaration);
    let modified = || FileError::Modified(target.path().to_owned());
    let lines = Lines::of(coded.text());
    let outcome = lines.changed(&wanted.replacements, leniency, &context.cancelled);
    let outcome = match outcome {
        // Someone else has changed the file. The old text may be gone, or a match may be one
        // that the model never saw. Only a unique match is safe.
        Err(_) if freshness == Freshness::Changed => return Err(modified()),
        Ok(outcome) if freshness == Freshness::Changed && !outcome.was_unique => {
            return Err(modified());
        }
        outcome => outcome.map_err(|error| refused(target, &error))?,
    };
    let answer = answer(target, &coded, &outcome, freshness);
    let bytes = coded.encode(outcome.content).map_err(|error| refused(target, &error))?;
    Ok((bytes, answer))
}

fn answer(
    target: &Target,
    coded: &CodedText<'_>,
    outcome: &EditOutcome<'_>,
    freshness: Freshness,
) -> ToolOutput {
    let hunks = patch::between(coded.text(), &outcome.content);
    let plural = if outcome.count == 1 { "" } else { "s" };
    let mut text =
        format!("Edited {} ({} replacement{plural})", target.path().display(), outcome.count);
    if freshness == Freshness::Changed {
        text.push_str("\nThe file had other changes since it was last read.");
    }
    if outcome.was_reindented {
        text.push_str(
            "\nold_string matched but for its indentation; new_string was indented like the file.",
        );
    }
    for difference in outcome.look_alikes.iter().take(MAX_DIFFERENCES_TOLD) {
        text.push_str("\nold_string matched but for characters that look the same: ");
        text.push_str(difference);
    }
    if !outcome.look_alikes.is_empty() {
        text.push_str(
            ".\nWhat new_string repeats of old_string keeps the file's characters; the rest is \
             as given.",
        );
    }
    text.push_str(&patch::snippet(hunks.as_deref()));
    let structured = json!({
        "type": "update",
        "file_path": target.path().to_string_lossy(),
        "structured_patch": hunks,
        "original": hunks.as_ref().map(|_| String::from_utf8_lossy(coded.text())),
    });
    ToolOutput::text(text).with(structured).hooks_only(HOOKS_ONLY)
}

fn refused(target: &Target, reason: &str) -> FileError {
    FileError::Refused(format!("{}: {reason}. Nothing was changed", target.path().display()))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;

    use super::*;
    use crate::tools::agent_context::AgentContext;
    use crate::tools::builtin::read::Read;
    use crate::tools::builtin::write::Write;
    use crate::tools::tool::test_support::Workspace;

    async fn edit(workspace: &Workspace, arguments: Value) -> String {
        workspace.call(Edit::new(Arc::default()), arguments).await
    }

    async fn replace(workspace: &Workspace, old: &str, new: &str) -> String {
        let arguments = json!({ "file_path": "a.txt", "old_string": old, "new_string": new });
        edit(workspace, arguments).await
    }

    /// A workspace with `a.txt`, which the model has read.
    async fn known(content: &[u8]) -> Workspace {
        let workspace = Workspace::new(&[]);
        workspace.write("a.txt", content);
        workspace.call(Read::default(), json!({ "file_path": "a.txt" })).await;
        workspace
    }

    #[tokio::test]
    async fn replaces_text_and_shows_the_difference() {
        let workspace = known(b"one\ntwo\nthree\n").await;
        assert_snapshot!(replace(&workspace, "two", "2").await, @r"
        Edited $WORKSPACE/a.txt (1 replacement)
        @@ -1,3 +1,3 @@
         one
        -two
        +2
         three
        ");
        assert_eq!(workspace.read("a.txt"), b"one\n2\nthree\n");
        assert_snapshot!(replace(&workspace, "2", "zwei").await, @r"
        Edited $WORKSPACE/a.txt (1 replacement)
        @@ -1,3 +1,3 @@
         one
        -2
        +zwei
         three
        ");
    }

    #[tokio::test]
    async fn needs_the_file_to_be_read() {
        let workspace = Workspace::new(&[("a.txt", "x")]);
        assert_snapshot!(replace(&workspace, "x", "y").await, @"Error: Must read file before editing: $WORKSPACE/a.txt");
        let write = Write::new(Arc::default());
        workspace.call(write, json!({ "file_path": "b.txt", "content": "x" })).await;
        let arguments = json!({ "file_path": "b.txt", "old_string": "x", "new_string": "y" });
        assert!(edit(&workspace, arguments).await.starts_with("Edited $WORKSPACE/b.txt"));
    }

    #[tokio::test]
    async fn after_other_changes_only_a_unique_match_is_replaced() {
        let workspace = known(b"one\ntwo\n").await;
        workspace.write("a.txt", b"zero\none\ntwo\n");
        assert_snapshot!(replace(&workspace, "two", "2").await, @r"
        Edited $WORKSPACE/a.txt (1 replacement)
        The file had other changes since it was last read.
        @@ -1,3 +1,3 @@
         zero
         one
        -two
        +2
        ");
        workspace.write("a.txt", b"one\none\n");
        assert_snapshot!(replace(&workspace, "one", "1").await, @"Error: File was modified externally since last read: $WORKSPACE/a.txt");
        let all = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "1", "replace_all": true });
        assert!(edit(&workspace, all).await.starts_with("Error: File was modified externally"));
        std::fs::remove_file(workspace.path("a.txt")).unwrap();
        assert_snapshot!(replace(&workspace, "one", "1").await, @"Error: File no longer exists: $WORKSPACE/a.txt");
    }

    #[tokio::test]
    async fn says_why_it_did_nothing() {
        let workspace = known(b"alpha\nbeta\nalpha\n").await;
        let missing = replace(&workspace, "alpha betta", "x").await;
        let several = replace(&workspace, "alpha", "x").await;
        let same = replace(&workspace, "alpha", "alpha").await;
        let empty = replace(&workspace, "", "x").await;
        let nothing = edit(&workspace, json!({ "file_path": "a.txt", "old_string": "x" })).await;
        let cells = r#"{"cells": [], "nbformat": 4, "nbformat_minor": 5}"#;
        workspace.write("a.ipynb", cells.as_bytes());
        let notebook = json!({ "file_path": "a.ipynb", "old_string": "4", "new_string": "x" });
        let notebook = edit(&workspace, notebook).await;
        let absent = json!({ "file_path": "b.txt", "old_string": "a", "new_string": "x" });
        let absent = edit(&workspace, absent).await;
        let answers = [missing, several, same, empty, nothing, notebook, absent];
        assert_snapshot!(answers.join("\n"), @r"
        Error: $WORKSPACE/a.txt: old_string was not found. The nearest line is 1: `alpha`. The first difference: line 1, column 6: the file has a line end where old_string has U+0020 (space). Nothing was changed
        Error: $WORKSPACE/a.txt: old_string was found 2 times, at lines 1, 3; add text around it to make it unique, or set replace_all. Nothing was changed
        Error: $WORKSPACE/a.txt: old_string and new_string are the same, so there is nothing to change. Nothing was changed
        Error: $WORKSPACE/a.txt: old_string is empty, which only creates a file or fills an empty one; give the text to replace. Nothing was changed
        Error: invalid input: give either old_string and new_string, or edits with at least one of them
        Error: $WORKSPACE/a.ipynb is a notebook, and Edit could break its cells; read it, then use NotebookEdit
        Error: File does not exist: $WORKSPACE/b.txt
        ");
        assert_eq!(workspace.read("a.txt"), b"alpha\nbeta\nalpha\n");
    }

    #[tokio::test]
    async fn creates_a_file_from_an_empty_old_text() {
        let workspace = Workspace::new(&[]);
        assert_snapshot!(replace(&workspace, "", "one\ntwo").await, @"Created $WORKSPACE/a.txt (2 lines)");
        assert_eq!(workspace.read("a.txt"), b"one\ntwo");
    }

    #[tokio::test]
    async fn makes_several_edits_or_none() {
        let workspace = known(b"one\ntwo\n").await;
        let edits = |third: &str| {
            json!({ "file_path": "a.txt", "edits": [
                { "old_string": "one", "new_string": "two" },
                { "old_string": "two", "new_string": "three", "replace_all": true },
                { "old_string": third, "new_string": "four" },
            ]})
        };
        assert_snapshot!(edit(&workspace, edits("one")).await, @"Error: $WORKSPACE/a.txt: edit 3 of 3: old_string was not found. Nothing was changed");
        assert_eq!(workspace.read("a.txt"), b"one\ntwo\n");
        assert_snapshot!(edit(&workspace, edits("three\nthree")).await, @r"
        Edited $WORKSPACE/a.txt (4 replacements)
        @@ -1,2 +1,1 @@
        -one
        -two
        +four
        ");
        assert_eq!(workspace.read("a.txt"), b"four\n");
    }

    #[tokio::test]
    async fn says_when_only_the_indentation_differed() {
        let workspace = known(b"if a {\n\tb();\n}\n").await;
        assert_snapshot!(replace(&workspace, "    b();", "    c();\n    d();").await, @r"
        Edited $WORKSPACE/a.txt (1 replacement)
        old_string matched but for its indentation; new_string was indented like the file.
        @@ -1,3 +1,4 @@
         if a {
        -	b();
        +	c();
        +	d();
         }
        ");
        assert_eq!(workspace.read("a.txt"), b"if a {\n\tc();\n\td();\n}\n");
    }

    #[tokio::test]
    async fn a_diff_that_is_left_out_is_said_to_be() {
        let workspace = known("a line\n".repeat(200_000).as_bytes()).await;
        workspace.write("a.txt", format!("first\n{}", "a line\n".repeat(200_000)).as_bytes());
        assert_snapshot!(replace(&workspace, "first", "FIRST").await, @r"
        Edited $WORKSPACE/a.txt (1 replacement)
        The file had other changes since it was last read.
        (no diff: texts over 1 MiB are not compared)
        ");
        let arguments = json!({ "file_path": "a.txt", "content": "x\n" });
        assert_snapshot!(workspace.call(Write::new(Arc::default()), arguments).await, @r"
        Updated $WORKSPACE/a.txt (1 lines)
        (no diff: texts over 1 MiB are not compared)
        ");
    }

    #[tokio::test]
    async fn a_file_that_would_grow_past_the_limit_is_left_alone() {
        let content = "a".repeat(1 << 20);
        let workspace = known(content.as_bytes()).await;
        let all = json!({
            "file_path": "a.txt", "old_string": "a", "new_string": "b".repeat(1 << 18),
            "replace_all": true,
        });
        assert_snapshot!(edit(&workspace, all).await, @"Error: $WORKSPACE/a.txt: the file would grow past 67108864 bytes, the most that can be edited. Nothing was changed");
        assert_eq!(workspace.read("a.txt"), content.as_bytes());
    }

    #[test]
    fn t34_edits_without_number_end_when_they_are_too_much_work() {
        let edits = [("a", "b"), ("b", "a")].repeat(10_000);
        let edits: Vec<_> =
            edits.iter().map(|(old, new)| Replacement { old, new, all: false }).collect();
        let running = CancellationToken::new();
        let outcome = |work| {
            apply_all(b"text a", &edits, Leniency::Indentation, work, &running)
                .map(|done| done.count)
        };
        assert_eq!(outcome(20_000 * 6), Ok(20_000));
        assert!(outcome(20_000 * 6 - 1).unwrap_err().contains("too much work for one call"));
        running.cancel();
        assert_eq!(outcome(20_000 * 6), Err("interrupted".to_owned()));
    }

    #[tokio::test]
    async fn t17_what_only_looks_like_text_is_edited_byte_for_byte_or_not_at_all() {
        let workspace = known(b"one\n").await;
        for (content, is_edited) in [
            (&b"\xff\xfe\0\0o\0\0\0n\0\0\0e\0\0\0"[..], false),
            (b"\0\0\xfe\xff\0\0\0o\0\0\0n\0\0\0e", false),
            (b"\xff\xfeo\0n\0e\0\n\0\0\0", true),
            (b"\xff\xfeo\0n\0e\0\n\0\0\xd8", false),
            (b"\xef\xbb\xbfone\0\xff", true),
            (b"one\0\xff", true),
        ] {
            workspace.write("a.txt", content);
            let answer = replace(&workspace, "one", "two").await;
            assert_eq!(answer.starts_with("Edited"), is_edited, "{content:?}: {answer}");
            let swapped = |byte: &u8| match byte {
                b'o' if is_edited => b't',
                b'n' if is_edited => b'w',
                b'e' if is_edited => b'o',
                byte => *byte,
            };
            let expected: Vec<u8> = content.iter().map(swapped).collect();
            assert_eq!(workspace.read("a.txt"), expected);
        }
    }

    #[tokio::test]
    async fn keeps_every_other_byte() {
        for (before, after) in [
            (&b"\xef\xbb\xbfx\r\ny\n"[..], &b"\xef\xbb\xbfX\r\ny\n"[..]),
            (b"\xff\xfex\0\r\0\n\0", b"\xff\xfeX\0\r\0\n\0"),
            ("äöü äöü x \u{e4}".as_bytes(), "äöü äöü X \u{e4}".as_bytes()),
            (
                b"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 x \xff",
                b"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 X \xff",
            ),
        ] {
            let workspace = known(before).await;
            replace(&workspace, "x", "X").await;
            assert_eq!(workspace.read("a.txt"), after);
        }
    }

    #[tokio::test]
    async fn sessions_that_edit_one_file_lose_no_update() {
        let lines: Vec<_> = (0..20).map(|number| format!("line {number}.")).collect();
        let lines = lines.join("\n");
        let workspace = Workspace::new(&[("a.txt", &lines)]);
        let files = Arc::new(Files::default());
        let mut edits = tokio::task::JoinSet::new();
        for number in 0..20 {
            let session = Arc::clone(&workspace.context().session);
            let context = CallContext {
                agent: Arc::new(AgentContext::main(&session)),
                ..workspace.context()
            };
            let read = workspace.permit(AccessRequest::Read(workspace.path("a.txt"))).unwrap();
            Read::default()
                .execute(
                    serde_json::from_value(json!({ "file_path": "a.txt" })).unwrap(),
                    read,
                    context.clone(),
                )
                .await
                .unwrap();
            let write = workspace.permit(AccessRequest::Write(workspace.path("a.txt"))).unwrap();
            let (edit, input) = (
                Edit::new(Arc::clone(&files)),
                json!({
                    "file_path": "a.txt",
                    "old_string": format!("line {number}."),
                    "new_string": format!("row {number}."),
                }),
            );
            let input = serde_json::from_value(input).unwrap();
            edits.spawn(async move { edit.execute(input, write, context).await.unwrap() });
        }
        edits.join_all().await;
        let edited = String::from_utf8(workspace.read("a.txt")).unwrap();
        assert_eq!(edited, lines.replace("line", "row"));
    }
}
