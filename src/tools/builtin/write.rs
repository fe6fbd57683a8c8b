//! Writes a new file, or replaces the contents of a file that the model has read.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::encoding::DeclaredEncoding;
use crate::files::{
    CodedText, Declaration, FileError, FileSnapshot, Files, Freshness, line_ends, patch,
};
use crate::lsp::LanguageServers;
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Permit};
use crate::text::BYTE_ORDER_MARK;
use crate::tools::builtin::READ_FIRST;
use crate::tools::change_preview;
use crate::tools::disk;
use crate::tools::in_place;
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
    /// The encoding of a file that does not tell its own, or of a new one, such as `gbk`; only
    /// if you know it.
    encoding: Option<String>,
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
        let write =
            move |target: &Target, approved| write(&files, target, approved, &input, &context);
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
            let wanted = WantedText::of(&files, target, &input, &call)?;
            files
                .preview(target, state, &call.cancelled, |current, freshness| {
                    let new = computed(target, current, freshness, &wanted, &call)?;
                    let (bytes, _) = settings_check::checked(&files, target, current, new)?;
                    let shown = change_preview::shown(target, current, &bytes, wanted.declaration);
                    Ok((bytes, shown))
                })
                .map_err(ToolError::from)
        };
        Some(disk::preview_of_file(asked, preview).await)
    }
}

/// The text that a call wants a file to have.
struct WantedText<'a> {
    content: &'a str,
    declaration: Option<Declaration>,
}

impl<'a> WantedText<'a> {
    fn of(
        files: &Files,
        target: &Target,
        input: &'a WriteInput,
        call: &CallContext,
    ) -> Result<Self, ToolError> {
        let given = DeclaredEncoding::given(input.encoding.as_deref());
        let given = given.map_err(ToolError::InvalidInput)?;
        let declaration = files.declaration(target, &call.agent.read_state, given);
        Ok(Self { content: &input.content, declaration })
    }
}

fn write(
    files: &Files,
    target: &Target,
    approved: Option<ContentState>,
    input: &WriteInput,
    call: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let state = &call.agent.read_state;
    let wanted = WantedText::of(files, target, input, call)?;
    let written = files.change(target, state, &call.cancelled, approved, |current, freshness| {
        let new = computed(target, current, freshness, &wanted, call)?;
        settings_check::checked(files, target, current, new)
    });
    if written.is_ok() {
        state.keep_declaration(target.real_path(), wanted.declaration);
    }
    written.map(in_place::answer).map_err(ToolError::from)
}

fn computed(
    target: &Target,
    current: Option<&FileSnapshot>,
    freshness: Freshness,
    wanted: &WantedText<'_>,
    call: &CallContext,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    match current {
        _ if freshness == Freshness::Changed => Err(FileError::Modified(target.path().to_owned())),
        None => created(target, wanted),
        Some(current) => updated(target, current, wanted, call),
    }
}

/// The bytes of a new file, and the answer if writing succeeds.
fn created(target: &Target, wanted: &WantedText<'_>) -> Result<(Vec<u8>, ToolOutput), FileError> {
    let content = Cow::Borrowed(wanted.content.as_bytes());
    let bytes = CodedText::of_new_file(content, wanted.declaration)
        .map_err(|error| refused(target, &error))?;
    let (path, lines) = (target.path().display(), wanted.content.lines().count());
    let answer = ToolOutput::text(format!("Created {path} ({lines} lines)"));
    let structured = structured(target, "create", &json!([]), None);
    Ok((bytes, answer.with(structured).hooks_only(HOOKS_ONLY)))
}

fn refused(target: &Target, reason: &str) -> FileError {
    FileError::Refused(format!("{}: {reason}. Nothing was written", target.path().display()))
}

/// The new bytes of a file, and the answer if writing succeeds.
fn updated(
    target: &Target,
    current: &FileSnapshot,
    wanted: &WantedText<'_>,
    call: &CallContext,
) -> Result<(Vec<u8>, ToolOutput), FileError> {
    let coded = CodedText::decode(&current.bytes, wanted.declaration)
        .map_err(|error| refused(target, &error))?;
    call.agent.read_state.keep_declaration(target.real_path(), wanted.declaration);
    let old = String::from_utf8_lossy(coded.text());
    let new = line_ends::like(&old, wanted.content);
    // A byte order mark is written where the file has one, so one that the model wrote is dropped.
    let new = new.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&new);
    let bytes =
        coded.encode(Cow::Borrowed(new.as_bytes())).map_err(|error| refused(target, &error))?;
    let hunks = patch::between(old.as_bytes(), new.as_bytes());
    let (path, lines) = (target.path().display(), wanted.content.lines().count());
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
            (b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n", "Gr\u{fc}\u{df}e!\n", b"Gr\xfc\xdfe!\n"),
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
        let write = |content: &'static str, encoding: &'static str| {
            let input = json!({ "file_path": "a.txt", "content": content, "encoding": encoding });
            workspace.call(Write::new(Arc::default()), input)
        };
        assert_snapshot!(write("gr\u{fc}n 字", "").await, @r#"Error: $WORKSPACE/a.txt: '字' is not ASCII, and the encoding of the file is not certain. windows-1252 (üße aus Köln) was guessed; it may be gbk (e aus K鰈n, ), big5 (晧e aus K闤n, ), shift_jis (�e aus Kn, ) or iso-8859-2 (üße aus Köln): in parentheses is how its first words read in each. Only ASCII is written on a guess. If you know the encoding, call again with its name as `encoding`; `charset` in an `.editorconfig` or the setting tools.files.encoding names it for all files of a kind. Nothing was written"#);
        assert_snapshot!(write("gr\u{fc}n 字", "latin1").await, @"Error: $WORKSPACE/a.txt: windows-1252, which `encoding` names, has no '字'. Nothing was written");
        assert_snapshot!(write("x", "latin9000").await, @r#"Error: invalid input: encoding "latin9000" is not known; give a name such as "gbk", "shift_jis" or "windows-1252"; a file in another one can be changed by a program"#);
        assert!(write("für\n", "latin1").await.starts_with("Updated "));
        assert_eq!(workspace.read("a.txt"), b"f\xfcr\n");
        // It is certain from now on.
        assert!(write("grün\n", "").await.starts_with("Updated "));
        assert_eq!(workspace.read("a.txt"), b"gr\xfcn\n");
    }

    #[tokio::test]
    async fn f1_a_new_file_is_written_in_the_encoding_that_its_call_names() {
        let workspace = Workspace::new(&[]);
        for (name, encoding, expected) in [
            ("a", "gbk", &b"\xb1\xe4\n"[..]),
            ("b", "utf-8-bom", b"\xef\xbb\xbf\xe5\x8f\x98\n"),
            ("c", "utf-16le", b"\xff\xfe\xd8S\n\0"),
        ] {
            let input = json!({ "file_path": name, "content": "变\n", "encoding": encoding });
            let answer = workspace.call(Write::new(Arc::default()), input).await;
            assert!(answer.starts_with("Created "), "{answer}");
            assert_eq!(workspace.read(name), expected, "{encoding}");
        }
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
                let input = WriteInput { file_path: path, content: "x".to_owned(), encoding: None };
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
