//! Writes a new file, or replaces the contents of a file that the model has read.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::encoding::Encoding;
use crate::files::{FileError, FileSnapshot, Files, Freshness, line_ends, patch};
use crate::lsp::LanguageServers;
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Permit};
use crate::text::BYTE_ORDER_MARK;
use crate::tools::builtin::READ_FIRST;
use crate::tools::change_preview;
use crate::tools::disk;
use crate::tools::languages::Languages;
use crate::tools::settings_check;
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};
use crate::workspace::{ContentState, Target};

#[derive(Debug)]
pub(crate) struct Write {
    files: Arc<Files>,
    languages: Languages,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct WriteInput {
    /// The file to write; a relative path counts from the working directory. Missing
    /// directories are made.
    file_path: PathBuf,
    /// The whole text of the file.
    content: String,
}

impl Write {
    pub(crate) fn new(files: Arc<Files>) -> Self {
        Self { files, languages: Languages::default() }
    }

    /// Tells what these servers say of a changed file.
    pub(crate) fn with_languages(self, servers: Option<Arc<LanguageServers>>) -> Self {
        Self { languages: Languages::new(servers), ..self }
    }
}

impl Tool for Write {
    type Input = WriteInput;

    const NAME: &'static str = "Write";
    const ALIASES: &'static [&'static str] = &["FileWrite", "write_file"];
    const ACCESS: AccessKind = AccessKind::Edit;
    const ADVICE: Option<&'static str> = Some(READ_FIRST);
    const DESCRIPTION: &'static str = "Writes a whole file. A file that exists already must have \
        been read first, and its encoding and line endings are kept. To change a part of a file, \
        use Edit.";

    fn access_request(&self, input: &WriteInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Write(context.resolve(Some(&input.file_path)))
    }

    fn headline(&self, input: &WriteInput) -> String {
        input.file_path.display().to_string()
    }

    async fn execute(
        &self,
        input: WriteInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let (files, call) = (Arc::clone(&self.files), context.clone());
        let write = move |target: &Target, approved| {
            write(&files, target, approved, &input.content, &context)
        };
        self.languages.told_of(permit, call, |permit| disk::with_file(permit, write)).await
    }

    async fn preview(
        &self,
        input: &WriteInput,
        asked: &AskedAccess,
        context: &CallContext,
    ) -> Option<Preview> {
        let (files, input, call) = (Arc::clone(&self.files), input.clone(), context.clone());
        let preview = move |target: &Target| {
            let state = &call.agent.read_state;
            files
                .preview(target, state, &call.cancelled, |current, freshness| {
                    let new = computed(target, current, freshness, &input.content)?;
                    let (bytes, _) = settings_check::checked(&files, target, current, new)?;
                    let shown = change_preview::shown(target, current, &bytes);
                    Ok((bytes, shown))
                })
                .map_err(ToolError::from)
        };
        Some(disk::preview_of_file(asked, preview).await)
    }
}

fn write(
    files: &Files,
    target: &Target,
    approved: Option<ContentState>,
    content: &str,
    call: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let state = &call.agent.read_state;
    let written = files.change(target, state, &call.cancelled, approved, |current, freshness| {
        let new = computed(target, current, freshness, content)?;
        settings_check::checked(files, target, current, new)
    });
    written.map_err(ToolError::from)
}

fn computed(
    target: &Target,
    current: Option<&FileSnapshot>,
    freshness: Freshness,
    content: &str,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    if freshness == Freshness::Changed {
        return Err(FileError::Modified(target.path().to_owned()));
    }
    new_bytes(target, current, content)
}

/// The bytes to write, and the answer if writing succeeds.
fn new_bytes(
    target: &Target,
    current: Option<&FileSnapshot>,
    content: &str,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    let path = target.path().display();
    let lines = content.lines().count();
    let Some(current) = current else {
        let answer = ToolOutput::text(format!("Created {path} ({lines} lines)"));
        let structured = structured(target, "create", &json!([]), None);
        return Ok((content.as_bytes().to_vec(), answer.with(structured).hooks_only(HOOKS_ONLY)));
    };

    let encoding = Encoding::to_keep(&current.bytes).map_err(|binary| {
        FileError::Refused(format!("{path} is {}; nothing was written", binary.0))
    })?;
    let (old, _) = encoding.decode(&current.bytes);
    let new = line_ends::like(&old, content);
    // `encode` writes the byte order mark, so drop one that the model wrote itself.
    let bytes = encoding.encode(new.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&new));
    let bytes = bytes.map_err(|error| {
        FileError::Refused(format!(
            "{path} is in {}, which has no {:?}; nothing was written",
            encoding.name(),
            error.0
        ))
    })?;
    let hunks = patch::between(old.as_bytes(), new.as_bytes());
    let mut text = format!("Updated {path} ({lines} lines)");
    match &hunks {
        Some(hunks) if hunks.is_empty() => text.push_str("\nThe content is the same as before."),
        hunks => text.push_str(&patch::snippet(hunks.as_deref())),
    }
    let structured = structured(target, "update", &json!(hunks), hunks.as_ref().map(|_| &*old));
    Ok((bytes, ToolOutput::text(text).with(structured).hooks_only(HOOKS_ONLY)))
}

/// The old contents of the file, which may be long, go to hooks only.
const HOOKS_ONLY: &[&str] = &["original"];

fn structured(target: &Target, kind: &str, patch: &Value, original: Option<&str>) -> Value {
    json!({
        "type": kind,
        "file_path": target.path().to_string_lossy(),
        "structured_patch": patch,
        "original": original,
    })
}

impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Cancelled => Self::Cancelled,
            FileError::Missing(_) => Self::Missing(error.to_string()),
            error => Self::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use insta::assert_snapshot;

    use super::*;
    use crate::tools::builtin::read::Read;
    use crate::tools::tool::erase;
    use crate::tools::tool::test_support::Workspace;

    async fn write(workspace: &Workspace, path: &str, content: &str) -> String {
        let write = Write::new(Arc::default());
        workspace.call(write, json!({ "file_path": path, "content": content })).await
    }

    async fn read(workspace: &Workspace, path: &str) {
        workspace.call(Read::default(), json!({ "file_path": path })).await;
    }

    #[tokio::test]
    async fn creates_a_file_and_its_directories() {
        let workspace = Workspace::new(&[]);
        assert_snapshot!(write(&workspace, "new/er/a.txt", "one\ntwo\n").await, @"Created $WORKSPACE/new/er/a.txt (2 lines)");
        assert_eq!(workspace.read("new/er/a.txt"), b"one\ntwo\n");
        assert_snapshot!(write(&workspace, "empty", "").await, @"Created $WORKSPACE/empty (0 lines)");
    }

    #[tokio::test]
    async fn writes_over_what_was_read_only() {
        let workspace = Workspace::new(&[("a.txt", "one\ntwo\n")]);
        assert_snapshot!(write(&workspace, "a.txt", "x").await, @"Error: Must read file before editing: $WORKSPACE/a.txt");
        read(&workspace, "a.txt").await;
        assert_snapshot!(write(&workspace, "a.txt", "one\n2\n").await, @r"
        Updated $WORKSPACE/a.txt (2 lines)
        @@ -1,2 +1,2 @@
         one
        -two
        +2
        ");
        assert_snapshot!(write(&workspace, "a.txt", "again\n").await, @r"
        Updated $WORKSPACE/a.txt (1 lines)
        @@ -1,2 +1,1 @@
        -one
        -2
        +again
        ");
        workspace.write("a.txt", b"from elsewhere");
        assert_snapshot!(write(&workspace, "a.txt", "x").await, @"Error: File was modified externally since last read: $WORKSPACE/a.txt");
        assert_eq!(workspace.read("a.txt"), b"from elsewhere");
    }

    #[tokio::test]
    async fn keeps_encoding_mark_and_line_ends() {
        let workspace = Workspace::new(&[]);
        for (before, content, after) in [
            (&b"\xef\xbb\xbfa\r\nb\r\n"[..], "x\ny\n", &b"\xef\xbb\xbfx\r\ny\r\n"[..]),
            (b"\xff\xfea\0\n\0", "x\n", b"\xff\xfex\0\n\0"),
            (b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n", "f\u{fc}r\n", b"f\xfcr\n"),
            (b"a\nb\n", "x\r\ny", b"x\ny"),
        ] {
            workspace.write("a.txt", before);
            read(&workspace, "a.txt").await;
            write(&workspace, "a.txt", content).await;
            assert_eq!(workspace.read("a.txt"), after);
        }
    }

    #[tokio::test]
    async fn names_the_character_that_does_not_fit() {
        let workspace = Workspace::new(&[]);
        workspace.write("a.txt", b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n");
        read(&workspace, "a.txt").await;
        assert_snapshot!(write(&workspace, "a.txt", "gr\u{fc}n 字").await, @"Error: $WORKSPACE/a.txt is in windows-1252, which has no '字'; nothing was written");
    }

    #[tokio::test]
    async fn a_link_stays_and_none_leads_out() {
        let workspace = Workspace::new(&[("real.txt", "x")]);
        let outside = tempfile::tempdir().unwrap();
        symlink("real.txt", workspace.path("link")).unwrap();
        symlink(outside.path().join("new"), workspace.path("out")).unwrap();
        read(&workspace, "link").await;
        write(&workspace, "link", "y").await;
        assert!(fs::symlink_metadata(workspace.path("link")).unwrap().is_symlink());
        assert_eq!(workspace.read("real.txt"), b"y");
        assert!(write(&workspace, "out", "y").await.contains("outside the workspace"));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn t24_a_failed_write_leaves_no_new_directories() {
        let workspace = Workspace::new(&[("kept/a", "")]);
        let long = "n".repeat(256);
        for path in [format!("new/er/{long}"), format!("kept/new/{long}/x"), format!("{long}/x")] {
            let answer = write(&workspace, &path, "x").await;
            assert!(answer.starts_with("Error: "), "{answer}");
        }
        let names: Vec<_> = fs::read_dir(workspace.root()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(fs::read_dir(workspace.path("kept")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn t25_a_failed_write_takes_no_directory_away_from_another() {
        let workspace = Workspace::new(&[]);
        let tool = Write::new(Arc::default());
        for round in 0..50 {
            // Both calls resolve their paths before either creates the directory.
            let calls = ["n".repeat(256), "a".to_owned()].map(|name| {
                let path = workspace.path(&format!("new{round}/er/{name}"));
                let permit = workspace.permit(AccessRequest::Write(path.clone())).unwrap();
                let input = WriteInput { file_path: path, content: "x".to_owned() };
                tool.execute(input, permit, workspace.context())
            });
            let [failed, written] = calls;
            let (failed, written) = tokio::join!(failed, written);
            assert!(failed.is_err(), "{failed:?}");
            assert!(written.is_ok(), "{written:?}");
        }
    }

    #[tokio::test]
    async fn t18_the_longest_name_there_can_be_is_written() {
        let workspace = Workspace::new(&[]);
        let name = "n".repeat(255);
        assert!(write(&workspace, &name, "one\n").await.starts_with("Created"));
        assert!(write(&workspace, &name, "two\n").await.starts_with("Updated"));
        assert_eq!(workspace.read(&name), b"two\n");
        assert_eq!(fs::read_dir(workspace.root()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_directory_is_no_file() {
        let workspace = Workspace::new(&[("sub/a", "")]);
        assert_snapshot!(write(&workspace, "sub", "x").await, @"Error: could not read $WORKSPACE/sub: not a regular file but a directory");
    }

    #[tokio::test]
    async fn tells_programs_what_changed() {
        let workspace = Workspace::new(&[("a.txt", "one\n")]);
        read(&workspace, "a.txt").await;
        let arguments = json!({ "file_path": "a.txt", "content": "two\n" });
        let output = workspace.run(&erase(Write::new(Arc::default())), arguments).await.unwrap();
        assert_eq!(
            output.structured,
            json!({
                "type": "update",
                "file_path": workspace.path("a.txt"),
                "structured_patch": [{
                    "old_start": 1, "old_lines": 1, "new_start": 1, "new_lines": 1,
                    "lines": ["-one", "+two"],
                }],
                "original": "one\n",
            })
        );
    }
}
