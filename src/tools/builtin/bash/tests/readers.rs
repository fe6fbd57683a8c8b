//! Runs what only reads as the server does: judged first, then confined to reading.

mod git;
mod random_lines;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::permissions::{
    ExcludedPaths, Grants, Judgement, KnownTool, Mode, PermissionSettings, Permissions, SandboxMode,
};

const KNOWN: [KnownTool<'_>; 3] = [
    KnownTool { name: "Read", aliases: &[], access: AccessKind::Read },
    KnownTool { name: "Edit", aliases: &[], access: AccessKind::Edit },
    KnownTool { name: "Bash", aliases: &[], access: AccessKind::Command },
];

/// A workspace with the policy and the sandbox of a server.
struct Ground {
    fixture: Fixture,
    sandbox: Sandbox,
    permissions: Permissions,
    tool: Arc<dyn AnyTool>,
}

/// What a file or directory is.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: u32,
    /// Of a directory it changes when an entry comes or goes, so it says more than the names.
    changed: (i64, i64),
    bytes: Vec<u8>,
}

/// Everything in a directory.
type Contents = BTreeMap<PathBuf, Entry>;

impl Ground {
    /// `level`: `None` where the operator wants no sandbox.
    fn new(level: Option<Level>, mode: Mode, deny: &[&str], files: &[(&str, &str)]) -> Self {
        let fixture = Fixture::new(files);
        let levels = level.into_iter().collect();
        let settings = SandboxSettings { levels, ..SandboxSettings::default() };
        let sandbox = Sandbox::new(runner(), settings);
        let deny = deny.iter().map(|rule| (*rule).to_owned()).collect();
        let settings = PermissionSettings { mode, deny, ..PermissionSettings::default() };
        let sandbox_mode = if level.is_some() { SandboxMode::Auto } else { SandboxMode::Off };
        let workspace = Arc::clone(&fixture.context().session.workspace);
        let excluded = ExcludedPaths::none();
        let permissions =
            Permissions::new(&settings, &KNOWN, sandbox_mode, workspace, excluded).unwrap();
        let permissions = permissions
            .with_search_path("/usr/local/bin:/usr/bin:/bin".as_ref())
            .with_sandbox(sandbox.clone(), false);
        sandbox.deny(Box::new(permissions.denied_to_commands()));
        let bash = Bash::new(runner(), sandbox.clone(), BashSettings::default(), None);
        Self { fixture, sandbox, permissions, tool: erase(bash) }
    }

    /// One ground for each level that holds here.
    async fn each(mode: Mode, files: &[(&str, &str)]) -> Vec<Self> {
        let mut grounds = Vec::new();
        for level in [Level::Bwrap, Level::Landlock] {
            let ground = Self::new(Some(level), mode, &[], files);
            if ground.sandbox.level().await.is_some() {
                grounds.push(ground);
            }
        }
        assert!(!grounds.is_empty(), "this machine offers no level");
        grounds
    }

    /// The answer, if the command runs unasked.
    async fn run(&self, line: &str) -> Option<ToolOutput> {
        let call = Arc::clone(&self.tool).parse(json!({ "command": line })).unwrap();
        let request = call.access_request(&self.fixture.context());
        let grants = Grants::default();
        let judged = self.permissions.judge("Bash", AccessKind::Command, request, &grants);
        let Ok(Judgement::Permitted(permit)) = judged.await else { return None };
        Some(call.execute(permit, self.fixture.context()).await.unwrap())
    }

    /// The answer to a command that runs unasked.
    #[track_caller]
    fn answer(&self, line: &str) -> impl Future<Output = ToolOutput> {
        let caller = std::panic::Location::caller();
        async move {
            match self.run(line).await {
                Some(output) => output,
                None => panic!("{caller}: `{line}` does not run unasked"),
            }
        }
    }

    /// Fails if anything has changed in the workspace.
    #[track_caller]
    fn check_unchanged(&self, before: &Contents, line: &str) {
        let after = self.contents();
        let different = differences(before, &after);
        assert!(different.is_empty(), "{line}\nchanged {different:?}");
    }

    fn contents(&self) -> Contents {
        let mut contents = Contents::new();
        collect(&self.fixture.root(), &mut contents);
        contents
    }
}

fn collect(directory: &Path, contents: &mut Contents) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let (mode, owner) = (metadata.mode(), metadata.uid());
        if metadata.is_dir() {
            collect(&path, contents);
        }
        contents.insert(path, Entry { mode, owner, changed, bytes });
    }
}

/// The paths that differ.
fn differences<'c>(before: &'c Contents, after: &'c Contents) -> Vec<&'c Path> {
    let paths = before.keys().chain(after.keys()).map(PathBuf::as_path);
    let mut different: Vec<_> =
        paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    different.sort();
    different.dedup();
    different
}

#[tokio::test]
async fn the_answer_says_that_a_reader_was_confined_to_reading() {
    for ground in Ground::each(Mode::Default, &[("a.txt", "text\n"), ("b.txt", "more\n")]).await {
        let output = ground.answer("cat *.txt 2>/dev/null | sort").await;
        assert_eq!(output.text.to_string(), "more\ntext");
        assert_eq!(output.structured["reads_only"], true);
        let level = ground.sandbox.level().await.unwrap();
        assert_eq!(output.structured["sandbox"], level.name());
        // The directory stays where a reader left it, too.
        ground.fixture.write("sub/c.txt", b"");
        ground.answer("cd sub && ls").await;
        assert_eq!(ground.answer("ls c*").await.text.to_string(), "c.txt");
    }
}

#[tokio::test]
async fn a_reader_that_failed_to_write_is_told_so_and_asks_when_it_comes_again() {
    // The list does not see that a second word comes from the input, and is written.
    let line = "echo a out | xargs uniq";
    for ground in Ground::each(Mode::Default, &[("a", "text\n")]).await {
        let before = ground.contents();
        let output = ground.answer(line).await;
        let text = output.text.to_string();
        let refused = ["uniq: out: Read-only file system", "uniq: out: Permission denied"];
        assert!(refused.iter().any(|said| text.contains(said)), "{text}");
        assert!(
            text.ends_with("run exactly the same command again: that asks a person)"),
            "{text}"
        );
        ground.check_unchanged(&before, line);
        assert!(ground.run(line).await.is_none(), "it asks now");
        // Another one is still a reader, and so is one that fails for another reason.
        ground.answer("ls *").await;
        for _ in 0..2 {
            let text = ground.answer("cat *.none").await.text.to_string();
            assert!(text.contains("No such file") && !text.contains("confined"), "{text}");
        }
    }
}

#[tokio::test]
async fn what_a_person_approved_may_write() {
    let fixture = Fixture::new(&[("a", "text\n")]);
    let line = "echo a b | xargs uniq";
    fixture.call(in_sandbox(&[Level::Bwrap]), json!({ "command": line })).await;
    assert_eq!(fixture.read("b"), b"text\n");
}
