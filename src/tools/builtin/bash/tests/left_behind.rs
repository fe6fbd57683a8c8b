//! What commands leave in the workspace that other programs obey, with the real git.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command as Process;

use super::*;
use crate::ids::SessionId;
use crate::processes::test_support::again_unprivileged;
use crate::session_files::SessionDirectories;

/// A line of bash in front of those that run git.
const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null; ";

const OBJECT: &str = "1111111111111111111111111111111111111111";

/// A workspace, and the tool at one level. `None`: without a sandbox.
struct Ground {
    fixture: Fixture,
    tool: Arc<dyn AnyTool>,
    level: Option<Level>,
}

impl Ground {
    async fn new(level: Option<Level>, files: &[(&str, &str)]) -> Option<Self> {
        let tool = in_sandbox(level.as_slice());
        if level.is_some() && tool.sandbox.level().await.is_none() {
            return None;
        }
        Some(Self { fixture: Fixture::new(files), tool: erase(tool), level })
    }

    /// One ground for each level that holds here, and one without a sandbox.
    async fn each(files: &[(&str, &str)]) -> Vec<Self> {
        let mut grounds = Vec::new();
        for level in [Some(Level::Bwrap), Some(Level::Landlock), None] {
            grounds.extend(Self::new(level, files).await);
        }
        assert!(grounds.len() > 1, "this machine offers no level");
        grounds
    }

    /// Git as a person uses it.
    fn git(&self, arguments: &[&str]) {
        let mut git = Process::new("/usr/bin/git");
        git.args(["-c", "user.name=n", "-c", "user.email=e"]).args(arguments);
        let git = git.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(self.fixture.root());
        let done = git.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A repository with one commit in the root, and one in `x`.
    fn repositories(&self) {
        for directory in [".", "x"] {
            self.git(&["init", "-q", "-b", "main", directory]);
            fs::write(self.fixture.path(directory).join("a"), "a\n").unwrap();
            self.git(&["-C", directory, "add", "a"]);
            self.git(&["-C", directory, "commit", "-qm", "first"]);
        }
    }

    /// What the command has left, by the event.
    async fn left(&self, line: &str) -> Vec<String> {
        let command = format!("{GIT}{line}");
        let output = self.fixture.run(&self.tool, json!({ "command": command })).await.unwrap();
        self.fixture.context().agent.set_working_dir(self.fixture.root());
        let text = output.text.to_string();
        for told in &output.left_behind {
            let note = format!("(left behind: {told})");
            assert!(text.contains(&note), "{:?} {line}: {text}", self.level);
        }
        let is_quiet = output.left_behind.is_empty();
        assert_eq!(text.contains("left behind"), !is_quiet, "{:?} {line}: {text}", self.level);
        let root = self.fixture.root();
        let root = format!("{}/", root.display());
        output.left_behind.iter().map(|line| line.replace(&root, "")).collect()
    }

    /// Fails unless the command leaves this, and the next one nothing more.
    #[track_caller]
    fn check<'a>(
        &'a self,
        line: &'a str,
        expected: &'a [&'a str],
    ) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let left = self.left(line).await;
            let words = |told: &String| told.split(" (").next().unwrap_or_default().to_owned();
            let left: Vec<String> = left.iter().map(words).collect();
            assert_eq!(left, expected, "{caller}: {:?}: {line}", self.level);
            assert_eq!(self.left("touch another").await.len(), 0, "{caller}: {line}: told twice");
        }
    }
}

#[tokio::test]
async fn g9_gitlinks_are_told() {
    for ground in Ground::each(&[]).await {
        ground.repositories();
        let link = format!("git update-index --add --cacheinfo 160000,{OBJECT},sub/link");
        ground.check(&link, &["a gitlink in a git index: sub/link"]).await;
        ground.check("git add x 2>/dev/null", &["a gitlink in a git index: x"]).await;
        ground.check("git add a another && git rm -q --cached sub/link", &[]).await;
        let other = format!("git -C x update-index --add --cacheinfo 160000,{OBJECT},y");
        ground.check(&other, &["a gitlink in a git index: x/y"]).await;
        let many = "for i in 1 2 3 4 5 6; do echo \"160000 $(printf '1%.0s' {1..40})\tl$i\"; done \
                    | git update-index --index-info";
        let told = ["gitlinks in a git index: l1, l2, l3, l4, l5 and 1 more"];
        ground.check(many, &told).await;
    }
}

#[tokio::test]
async fn g9_an_index_that_cannot_be_read_is_told() {
    for ground in Ground::each(&[]).await {
        ground.repositories();
        let unread = ["a git index that changed and cannot be read: .git/index"];
        ground.check("git update-index --split-index", &unread).await;
        ground.check("echo x >.git/index", &unread).await;
        // All that is in the next one may be new.
        let index =
            format!("rm .git/index; git update-index --add --cacheinfo 160000,{OBJECT},link");
        ground.check(&index, &["a gitlink in a git index: link"]).await;
    }
}

/// The setting of the submodule cannot be written in bubblewrap, its gitlink can.
#[tokio::test]
async fn g9_a_submodule_is_told() {
    for ground in Ground::each(&[]).await {
        ground.repositories();
        let line = "git -c protocol.file.allow=always submodule add -q ./x 2>/dev/null";
        let left = ground.left(line).await.join("\n");
        if ground.level == Some(Level::Bwrap) {
            continue;
        }
        assert!(left.contains("a gitlink in a git index: x ("), "{:?}: {left}", ground.level);
        assert!(left.contains(".gitmodules"), "{:?}: {left}", ground.level);
    }
}

#[tokio::test]
async fn g9_repositories_that_a_command_makes_are_told_in_one_line() {
    for ground in Ground::each(&[("sub/b", "")]).await {
        // Where the root has no `.git`.
        let top = ["a repository where there was none: .git"];
        ground.check("git init -q", &top).await;
        let nested = ["nested repositories: one, sub/two"];
        ground.check("git init -q one && git init -q sub/two", &nested).await;
        let clone = "git clone -q one three 2>/dev/null && echo x >three/.envrc";
        ground.check(clone, &["a nested repository: three"]).await;
        let bare = "mkdir -p sub/bare/objects sub/bare/refs && \
                    echo 'ref: refs/heads/main' >sub/bare/HEAD && \
                    printf '[core]\\nfsmonitor = evil\\n' >sub/bare/config";
        let told = ["a directory that git takes for a repository: sub/bare"];
        ground.check(bare, &told).await;
        ground
            .check(
                "git init -q --bare other.git",
                &["a directory that git takes for a repository: other.git"],
            )
            .await;
        let split = "mkdir -p five sub/common/objects sub/common/refs && echo ../sub/common >five/commondir \
                     && echo 'ref: refs/heads/main' >five/HEAD";
        ground.check(split, &["a directory that git takes for a repository: five"]).await;
        let link = "mkdir four && echo 'gitdir: ../sub/bare' >four/.git";
        ground.check(link, &["a nested repository: four"]).await;
        ground
            .check(
                "mkdir HEAD objects refs",
                &[&format!("a directory that git takes for a repository: {}", ground.root())],
            )
            .await;
    }
}

impl Ground {
    fn root(&self) -> String {
        self.fixture.root().display().to_string()
    }
}

#[tokio::test]
async fn g9_a_rebase_that_runs_commands_is_told() {
    for ground in Ground::each(&[]).await {
        ground.repositories();
        ground.git(&["worktree", "add", "-q", "tree"]);
        let plain = "mkdir .git/rebase-merge && \
                     echo 'pick 1234 exec' >.git/rebase-merge/git-rebase-todo";
        ground.check(plain, &[]).await;
        let told = ["a rebase that runs commands: .git/rebase-merge/git-rebase-todo"];
        ground.check("echo 'exec evil' >>.git/rebase-merge/git-rebase-todo", &told).await;
        ground.check("printf 'x evil' >.git/rebase-merge/git-rebase-todo", &told).await;
        let told = ["a rebase that runs commands: .git/rebase-merge/git-rebase-todo"];
        let link = "cd .git/rebase-merge && echo 'pick 1234' >t && ln -sf t git-rebase-todo";
        ground.check(link, &told).await;
        ground.check("rm -r .git/rebase-merge", &[]).await;
        let link = "mkdir kept && echo 'exec evil' >kept/git-rebase-todo && \
                    ln -s ../kept .git/rebase-merge";
        ground.check(link, &told).await;
        ground.check("rm -r kept .git/rebase-merge", &[]).await;
        let in_tree = "mkdir .git/worktrees/tree/rebase-merge && \
                       echo ' x evil' >.git/worktrees/tree/rebase-merge/git-rebase-todo";
        let told = "a rebase that runs commands: .git/worktrees/tree/rebase-merge/git-rebase-todo";
        ground.check(in_tree, &[told]).await;
    }
}

#[tokio::test]
async fn g9_remotes_beside_the_settings_are_told() {
    for ground in Ground::each(&[]).await {
        ground.repositories();
        let told = "remotes outside of git's settings: .git/branches/other, .git/remotes/origin";
        let line = "mkdir -p .git/remotes .git/branches && echo 'URL: ext::evil' \
                    | tee .git/remotes/origin >.git/branches/other";
        ground.check(line, &[told]).await;
        let told = ["a remote outside of git's settings: .git/remotes/origin"];
        ground.check("echo 'URL: ext::other' >.git/remotes/origin", &told).await;
        ground.check("rm .git/remotes/origin", &[]).await;
        let by_link = "echo 'URL: ext::evil' >r && ln -s ../../r .git/remotes/origin";
        ground.check(by_link, &told).await;
        ground.check("rm -r .git/remotes", &[]).await;
        let by_link = "mkdir rr && cp r rr/origin && ln -s ../rr .git/remotes";
        let told = "remotes outside of git's settings: .git/remotes, .git/remotes/origin";
        ground.check(by_link, &[told]).await;
        let told = ["a remote outside of git's settings: .git/remotes/other"];
        ground.check("cp r rr/other", &told).await;
    }
}

#[tokio::test]
async fn g9_what_settings_name_and_was_missing_is_told() {
    for ground in Ground::each(&[]).await {
        ground.repositories();
        ground.git(&["config", "core.hooksPath", "deep/hooks"]);
        ground.git(&["config", "include.path", "../more.config"]);
        ground.git(&["config", "includeIf.onbranch:main.path", "if.config"]);
        ground.check("echo x >ordinary", &[]).await;
        let line = "mkdir -p deep/hooks && echo evil >deep/hooks/pre-commit; \
                    echo x >more.config; echo x >.git/if.config";
        let told = "files that git's settings name and that were missing: .git/if.config, \
                    deep/hooks, more.config";
        let left = ground.left(line).await;
        assert!(left.iter().any(|line| line.starts_with(told)), "{:?}: {left:?}", ground.level);
        assert_eq!(ground.left("touch another").await.len(), 0);
    }
}

#[tokio::test]
async fn g9_git_finds_the_files_that_core_worktree_names_and_a_commondir_is_told() {
    for ground in Ground::each(&[("src/f", "")]).await {
        ground.git(&["init", "-q"]);
        ground.git(&["config", "core.worktree", "../src"]);
        let line = "test $(git rev-parse --show-toplevel) = $PWD/src && git add -A && \
                    test $(git ls-files) = f || git init -q not-found";
        ground.check(line, &[]).await;
        let told = ["a control file made or changed: .git/commondir"];
        ground.check("echo ../other >.git/commondir", &told).await;
    }
}

/// In a sandbox only the bit for the group can be set, and only in bubblewrap: there it is told, as
/// everything is without a sandbox.
#[tokio::test]
async fn g9_set_user_id_files_are_told() {
    for ground in Ground::each(&[]).await {
        fs::write(ground.fixture.path("before"), "").unwrap();
        let before = ground.fixture.path("before");
        fs::set_permissions(before, fs::Permissions::from_mode(0o4755)).unwrap();
        let lines = [
            "cp /bin/true sub/tool && chmod u+s sub/tool",
            "/usr/bin/python3 -c 'import os; os.open(\"sub/made\", os.O_CREAT, 0o2755)'",
            // What `openat2` gets is in memory, where no filter can look.
            "/usr/bin/python3 -c 'import ctypes, struct; how = struct.pack(\"QQQ\", 0o101, 0o4755, 0); \
             ctypes.CDLL(None).syscall(437, -100, b\"sub/opened\", how, len(how))'",
            "cp /bin/true sub/group && chmod 02755 sub/group",
        ];
        fs::create_dir(ground.fixture.path("sub")).unwrap();
        for line in lines {
            let left = ground.left(line).await;
            let is_set = |name: &str| {
                let metadata = fs::metadata(ground.fixture.path(name));
                metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o6000 != 0)
            };
            let set: Vec<&str> = ["sub/tool", "sub/made", "sub/opened", "sub/group"]
                .into_iter()
                .filter(|name| line.contains(name) && is_set(name))
                .collect();
            let told = set.first().map(|name| {
                format!(
                    "a set-user-id or set-group-id file: {name} (whoever runs it has the rights \
                     of its owner or its group)"
                )
            });
            assert_eq!(left, Vec::from_iter(told), "{:?}: {line}", ground.level);
            let can_set = match ground.level {
                Some(Level::Bwrap) => line.contains("sub/group"),
                Some(Level::Landlock) => false,
                None => true,
            };
            assert_eq!(can_set, !set.is_empty(), "{:?}: {line}", ground.level);
        }
        assert_eq!(ground.left("touch sub/another").await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn g9_dependencies_are_not_looked_at_and_what_a_gitlink_names_is() {
    for ground in Ground::each(&[("vendor/a", ""), ("node_modules/a", "")]).await {
        ground.repositories();
        let line = "for d in node_modules .venv venv vendor target; do \
                    mkdir -p $d/x; git init -q $d/x; echo x >$d/.envrc; done";
        ground.check(line, &[]).await;
        let gitlink = format!("git update-index --add --cacheinfo 160000,{OBJECT},vendor/sub");
        ground.check(&gitlink, &["a gitlink in a git index: vendor/sub"]).await;
        ground.check("git init -q vendor/sub", &["a nested repository: vendor/sub"]).await;
    }
}

#[tokio::test]
async fn g9_what_was_there_is_not_told_and_a_reader_leaves_nothing() {
    for ground in Ground::each(&[(".envrc", "x"), ("sub/.vscode/a", "")]).await {
        ground.repositories();
        let link = format!("160000,{OBJECT},link");
        ground.git(&["update-index", "--add", "--cacheinfo", &link]);
        ground.git(&["init", "-q", "--bare", "bare"]);
        fs::create_dir_all(ground.fixture.path(".git/remotes")).unwrap();
        fs::write(ground.fixture.path(".git/remotes/a"), "URL: x").unwrap();
        ground.check("echo x >b; git add b; mkdir c; touch x/new", &[]).await;
        ground.check("git -c user.name=n -c user.email=e commit -qm second", &[]).await;
        ground.check("cat .envrc", &[]).await;
    }
}

#[tokio::test]
async fn g9_control_files_are_told_where_nothing_protects_them() {
    for ground in Ground::each(&[(".git/config", "")]).await {
        let line = "mkdir .git/hooks; echo x >.git/hooks/pre-commit; echo y >.envrc; echo z >a";
        let told: &[&str] = if ground.level == Some(Level::Bwrap) {
            &["a control file made or changed: .envrc"]
        } else {
            &["control files made or changed: .envrc, .git/hooks/pre-commit"]
        };
        ground.check(&format!("({line}) 2>/dev/null"), told).await;
    }
}

/// A task is looked at when it ends. No turn need run then, so the next one tells the person.
#[tokio::test]
async fn g9_a_background_task_is_looked_at_when_it_ends() {
    for level in [Some(Level::Bwrap), Some(Level::Landlock), None] {
        let Some(mut ground) = Ground::new(level, &[]).await else { continue };
        let state = tempfile::tempdir().unwrap();
        let session = SessionId::random();
        let files = SessionDirectories::new(state.path(), 1 << 30).files_of(&session);
        let tasks = background::tasks_of(&session);
        ground.fixture.begin_session(
            |session| session.with_files(Arc::clone(&files)).with_tasks(Arc::clone(&tasks)),
            |agent, _| agent,
        );
        let command = format!("{GIT}git init -q sub");
        let input = json!({ "command": command, "run_in_background": true });
        let output = ground.fixture.run(&ground.tool, input).await.unwrap();
        assert!(output.left_behind.is_empty(), "nobody has looked yet");
        let id = output.structured["task_id"].as_str().unwrap();
        let task = tasks.find(id).unwrap();
        task.wait_for_end().await;

        let told = format!("a nested repository: {}/sub (", ground.root());
        let looked = ground
            .fixture
            .call(crate::tools::builtin::task_output::TaskOutput, json!({ "task_id": id }));
        let looked = looked.await;
        assert!(looked.contains("left behind: a nested repository"), "{level:?}: {looked}");
        for lines in [files.unanswered_finds(), files.take_untold_finds()] {
            assert!(lines.len() == 1 && lines[0].starts_with(&told), "{level:?}: {lines:?}");
        }
    }
}

/// Runs these tests once more as somebody who is nobody.
#[test]
fn an_unprivileged_user_is_told_the_same() {
    let Some(said) = again_unprivileged(&["bash::tests::left_behind::g9_"]) else { return };
    assert!(said.contains("g9_gitlinks_are_told ... ok"), "{said}");
}

/// Nobody waits for the end of the command any more, and its last process still runs.
#[tokio::test]
async fn g9_an_interrupted_command_is_looked_at_when_its_last_process_has_ended() {
    let state_dir = tempfile::tempdir().unwrap();
    let directories = SessionDirectories::new(state_dir.path(), 1 << 20);
    for leaves in [true, false] {
        let fixture = Fixture::new(&[]);
        let files = directories.files_of(&SessionId::random());
        let sandbox = in_sandbox(&[]).sandbox;
        let watch = sandbox.watch(vec![fixture.root()]).await.unwrap();
        let look =
            PendingLook::begin(Some(watch), Some(Arc::clone(&files)), "make all").await.unwrap();
        let kept_alive = look.keeping(None);
        look.started();
        assert_eq!(files.interrupted_commands(), None, "it runs");
        drop(look);
        assert!(files.interrupted_commands().unwrap().ends_with("(`make all`)"));
        if leaves {
            fs::create_dir_all(fixture.path("sub/.git")).unwrap();
        }
        drop(kept_alive);
        while files.interrupted_commands().is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(files.unanswered_finds().len(), usize::from(leaves));
        assert_eq!(files.take_untold_finds().len(), usize::from(leaves));
    }
}

#[tokio::test]
async fn g9_a_command_of_which_nothing_ran_is_not_interrupted() {
    let state_dir = tempfile::tempdir().unwrap();
    let files = SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&SessionId::random());
    let fixture = Fixture::new(&[]);
    let watch = in_sandbox(&[]).sandbox.watch(vec![fixture.root()]).await.unwrap();
    let look = PendingLook::begin(Some(watch), Some(Arc::clone(&files)), "make all").await.unwrap();
    let under_way = files.plan_path().with_file_name("under-way");
    assert_eq!(fs::read_dir(&under_way).unwrap().count(), 1);
    drop(look);
    assert_eq!(files.interrupted_commands(), None);
    while fs::read_dir(&under_way).unwrap().count() > 0 {
        tokio::task::yield_now().await;
    }
}
