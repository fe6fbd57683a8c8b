//! What becomes of commands, judged against real files.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::Arc;

use insta::assert_snapshot;

use crate::permissions::judge::Confined;
use crate::permissions::secret_files::MAX_DIRECTORIES;
use crate::permissions::{
    AccessKind, AccessRequest, ExcludedPaths, Grants, Judgement, KnownTool, Mode,
    PermissionSettings, Permissions, Refusal, SandboxMode,
};
use crate::processes::confinement::Level;
use crate::workspace::Workspace;

mod everyday;

const KNOWN: [KnownTool<'_>; 4] = [
    KnownTool { name: "Read", aliases: &[], access: AccessKind::Read },
    KnownTool { name: "Grep", aliases: &[], access: AccessKind::Read },
    KnownTool { name: "Edit", aliases: &[], access: AccessKind::Edit },
    KnownTool { name: "Bash", aliases: &["shell"], access: AccessKind::Command },
];

/// A workspace `ws`, with secrets and control files, and `out` beside it.
struct Ground {
    directory: tempfile::TempDir,
    mode: Mode,
    sandbox: SandboxMode,
    level: Option<Level>,
    auto_allow: bool,
    outside_sandbox: bool,
    settings: PermissionSettings,
}

impl Ground {
    /// In the mode default, without a sandbox because the operator wants none.
    fn new() -> Self {
        let ground = Self {
            directory: tempfile::tempdir().unwrap(),
            mode: Mode::Default,
            sandbox: SandboxMode::Off,
            level: None,
            auto_allow: false,
            outside_sandbox: false,
            settings: PermissionSettings::default(),
        };
        for directory in ["ws/src", "ws/.git/hooks", "ws/plain", "ws/state", "out", "home", "bin"] {
            fs::create_dir_all(ground.path(directory)).unwrap();
        }
        for file in ["ws/a", "ws/src/b", "ws/.env", "ws/plain/c", "ws/state/keys.toml", "out/x"] {
            fs::write(ground.path(file), "x").unwrap();
        }
        symlink(ground.path("out/x"), ground.path("ws/link")).unwrap();
        symlink(ground.path("ws/.env"), ground.path("ws/alias")).unwrap();
        ground
    }

    /// Without a state directory in the workspace.
    fn without_state(self) -> Self {
        fs::remove_dir_all(self.path("ws/state")).unwrap();
        self
    }

    fn in_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    fn at_level(mut self, level: Level, auto_allow: bool) -> Self {
        (self.level, self.auto_allow, self.sandbox) = (Some(level), auto_allow, SandboxMode::Auto);
        self
    }

    /// The command asks to leave the sandbox, which holds.
    fn leaving(mut self) -> Self {
        self.outside_sandbox = true;
        self.at_level(Level::Bwrap, true)
    }

    fn without_sandbox(mut self) -> Self {
        (self.level, self.sandbox) = (None, SandboxMode::Auto);
        self
    }

    fn allow(mut self, rules: &[&str]) -> Self {
        self.settings.allow = rules.iter().map(|rule| (*rule).to_owned()).collect();
        self
    }

    fn ask(mut self, rules: &[&str]) -> Self {
        self.settings.ask = rules.iter().map(|rule| (*rule).to_owned()).collect();
        self
    }

    fn deny(mut self, rules: &[&str]) -> Self {
        self.settings.deny = rules.iter().map(|rule| (*rule).to_owned()).collect();
        self
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(relative)
    }

    fn permissions(&self) -> Permissions {
        let settings = PermissionSettings { mode: self.mode, ..self.settings.clone() };
        let workspace = Arc::new(Workspace::open(vec![self.path("ws")]).unwrap());
        let excluded = ExcludedPaths::below(&self.path("ws/state"));
        let permissions =
            Permissions::new(&settings, &KNOWN, self.sandbox, workspace, excluded).unwrap();
        let search_path = format!("{}:/usr/bin:/bin:tools", self.path("bin").display());
        let mut permissions =
            permissions.at_home(&self.path("home")).with_search_path(search_path.as_ref());
        permissions.policy.auto_allow = self.auto_allow;
        permissions.policy.confined = Confined { level: self.level, why: None };
        permissions
    }

    /// `reads`, `allowed`, `denied: …` or `asks: …`.
    async fn judged(&self, line: &str) -> String {
        let line = line.replace("$OUT", &self.path("out").display().to_string());
        let request = AccessRequest::Command {
            line,
            directory: self.path("ws"),
            outside_sandbox: self.outside_sandbox,
            lacked: None,
        };
        let permissions = self.permissions();
        let grants = Grants::default();
        let judged = permissions.judge("Bash", AccessKind::Command, request, &grants).await;
        let told = match judged {
            Ok(Judgement::Permitted(permit)) if permit.reads_only() => "reads".to_owned(),
            Ok(Judgement::Permitted(_)) => "allowed".to_owned(),
            Ok(Judgement::Asks(asked)) => format!("asks: {}", asked.why().unwrap_or("-")),
            Err(Refusal::Policy(why) | Refusal::Path(why)) => format!("denied: {why}"),
        };
        told.replace(&self.path("").display().to_string(), "/…/")
    }

    #[track_caller]
    fn check(&self, lines: &[&str], expected: &str) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            for line in lines {
                let judged = self.judged(line).await;
                assert!(judged.starts_with(expected), "{caller}: `{line}`: {judged}");
            }
        }
    }

    async fn table(&self, lines: &[&str]) -> String {
        let mut table = String::new();
        for line in lines {
            let judged = self.judged(line).await;
            let _ = writeln!(table, "{line} | {judged}");
        }
        table
    }
}

/// Changes the ground.
type Situation = fn(Ground) -> Ground;

fn corpus(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap()
}

#[tokio::test]
async fn commands_proven_to_read_run_in_every_mode_where_something_confines_them() {
    let reading = ["ls -la", "cat a", "cd src && cat b | head -n 1", "grep x a; pwd", "echo a"];
    for mode in [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits] {
        Ground::new().in_mode(mode).check(&reading, "allowed").await;
        for level in [Level::Landlock, Level::Bwrap] {
            let confined = Ground::new().in_mode(mode).at_level(level, false);
            confined.check(&reading, "reads").await;
        }
    }
    Ground::new().check(&["git status"], "asks: -").await;
    Ground::new().without_sandbox().check(&reading, "asks: there is no sandbox").await;
    let plan = Ground::new().in_mode(Mode::Plan);
    plan.check(&["touch a", "cat a > b", "make", "git status"], "denied: Bash is not").await;
}

#[tokio::test]
async fn s1_the_corpora_hold_in_the_mode_default() {
    let ground = Ground::new().at_level(Level::Bwrap, false);
    for line in corpus(include_str!("../../../tests/corpus/shell-must-ask.json")) {
        let judged = ground.judged(&line).await;
        assert!(!judged.starts_with("allowed"), "`{line}`: {judged}");
        // A list that is wrong about one of them costs nothing; that it is right is better.
        let is_harmless = line == "[[ 'a[$(touch VICTIM)]' -eq 1 ]]";
        assert!(is_harmless || judged.starts_with("asks"), "`{line}`: {judged}");
    }
    for line in corpus(include_str!("../../../tests/corpus/shell-may-run.json")) {
        let judged = ground.judged(&line).await;
        assert_eq!(judged, "reads", "`{line}`");
    }
}

#[tokio::test]
async fn g7_readers_run_unasked_only_where_something_confines_them_to_reading() {
    let readers = [
        "ls *.md",
        "rg -l x src 2>/dev/null",
        "git status",
        "cat $X",
        "for f in s*; do wc -l \"$f\"; done",
    ];
    for mode in [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits] {
        let bwrap = Ground::new().in_mode(mode).at_level(Level::Bwrap, false);
        bwrap.check(&readers, "reads").await;
        // Landlock has no masks, and there is a file to mask.
        let refused = match mode {
            Mode::Plan => "denied: Bash is not",
            Mode::DontAsk => "denied: ",
            _ => "asks: it may show /…/ws/.env",
        };
        let landlock = Ground::new().without_state().in_mode(mode).at_level(Level::Landlock, false);
        landlock.check(&["ls src/*", "git status"], refused).await;
        landlock.check(&["cat a", "ls src"], "reads").await;
        fs::remove_file(landlock.path("ws/.env")).unwrap();
        landlock.check(&readers, "reads").await;
        let denying = landlock.deny(&["Read(src/b)"]);
        assert!(!denying.judged("ls *.md").await.starts_with("reads"));
    }
    for ground in [Ground::new(), Ground::new().without_sandbox(), Ground::new().leaving()] {
        ground.check(&["ls *.md", "git status"], "asks: ").await;
    }
    let ground = Ground::new().at_level(Level::Bwrap, false);
    ground.check(&["cat .env*", "jq . .env", "find ~ -name x", "git -C ~ log"], "asks: ").await;
    ground.check(&["git show :0:.env", "git diff ':(icase).ENV'", "cat < .env"], "asks: ").await;
    let ruled = Ground::new().at_level(Level::Bwrap, false).ask(&["Bash(rg *)"]);
    ruled.check(&["rg x src"], "asks: the rule").await;
    let ruled = ruled.deny(&["Bash(git log *)"]);
    ruled.check(&["ls; git log -1"], "denied: ").await;
    let named = Ground::new().at_level(Level::Bwrap, false).allow(&["Read(.env)"]);
    named.check(&["cat .env"], "reads").await;
}

#[tokio::test]
async fn g7_in_every_mode_git_that_reads_is_confined_to_it() {
    let bypass = Ground::new().in_mode(Mode::BypassPermissions);
    for level in [Level::Bwrap, Level::Landlock] {
        let ground = Ground::new().without_state().in_mode(Mode::BypassPermissions);
        fs::remove_file(ground.path("ws/.env")).unwrap();
        let ground = ground.at_level(level, false);
        ground.check(&["cd src && git status", "git log"], "reads").await;
        ground.check(&["ls *", "git commit", "git show HEAD:.env"], "allowed").await;
    }
    bypass.check(&["git status"], "allowed").await;
}

#[tokio::test]
async fn auto_allow_asks_about_what_discards_work() {
    let ground = Ground::new().without_state().at_level(Level::Bwrap, true);
    let discarding =
        ["git reset --hard", "rm -rf node_modules", "git clean -fd", "make && rm -r x"];
    ground.check(&discarding, "asks: ").await;
    ground.check(&["git reset a", "rm a", "git commit -m x"], "allowed").await;
}

#[tokio::test]
async fn s2_s3_an_allow_rule_needs_every_part_and_a_deny_rule_one() {
    let allows = Ground::new().allow(&["Bash(npm run *)", "Bash(make)"]);
    allows
        .check(&["npm run build", "make", "make && npm run test", "timeout 5 make"], "allowed")
        .await;
    let others = ["npm publish", "npm run build; npm publish", "make $(id)", "makes", "sudo make"];
    allows.check(&others, "asks: ").await;
    let denies = Ground::new().in_mode(Mode::BypassPermissions).deny(&["Bash(git push *)"]);
    let pushes =
        ["git push", "make; git push -f", "sudo git push", "sh -c 'git push'", "$(git push)"];
    denies.check(&pushes, "denied: the rule `Bash(git push *)`").await;
    denies.check(&["git pull", "make"], "allowed").await;
    // Rules cannot see what these run.
    denies.check(&["$X push", "echo 'unclosed"], "asks: ").await;
    denies.check(&["git push \""], "denied: the rule `Bash(git push *)`").await;
}

#[tokio::test]
async fn an_ask_rule_asks_whatever_allows_the_command() {
    let ground =
        Ground::new().in_mode(Mode::BypassPermissions).ask(&["Bash(git push *)", "Edit(a)"]);
    ground.check(&["git push", "make; git push"], "asks: the rule `Bash(git push *)`").await;
    ground.check(&["echo x > a", "tee a", "cp src/b a"], "asks: the rule `Edit(a)`").await;
    ground.check(&["echo x > src/b"], "allowed").await;
}

#[tokio::test]
async fn s4_the_files_of_a_command_are_judged_as_reads_and_writes() {
    let ground = Ground::new().allow(&["Bash"]);
    assert_snapshot!(ground.table(&[
        "cat a", "cat .env", "cat .e*", "cat alias", "cat link", "cat /etc/hostname", "cat ~/x",
        "cat src/../.env", "head < .env", "grep -r x .", "grep -r x src", "cp a .git/hooks/x",
        "echo x > .git/hooks/pre-commit", "echo x >> $OUT/x", "cat $X", "cat state/keys.toml",
        "tee /etc/passwd", "echo x > /dev/null", "make 2>&1", "cat 'unclosed",
        "env X=1 cat .env", "sh -c 'cat .env'", "cat /proc/self/environ",
    ]).await, @r"
    cat a | allowed
    cat .env | asks: `.env` may hold secrets
    cat .e* | asks: `.env` may hold secrets
    cat alias | asks: `.env` may hold secrets
    cat link | asks: /…/ws/link is outside the workspace: it leads to /…/out/x
    cat /etc/hostname | asks: /etc/hostname is outside the workspace
    cat ~/x | asks: /…/home/x is outside the workspace
    cat src/../.env | asks: `.env` may hold secrets
    head < .env | asks: `.env` may hold secrets
    grep -r x . | denied: the server's own state directory is in /…/ws
    grep -r x src | allowed
    cp a .git/hooks/x | asks: `.git` decides what other programs run
    echo x > .git/hooks/pre-commit | asks: `.git` decides what other programs run
    echo x >> $OUT/x | asks: /…/out/x is outside the workspace
    cat $X | asks: what `cat` reads by `$X` is known only when it runs
    cat state/keys.toml | denied: /…/ws/state/keys.toml is in the server's own state directory
    tee /etc/passwd | denied: no tool writes to /etc/passwd, in any mode
    echo x > /dev/null | allowed
    make 2>&1 | allowed
    cat 'unclosed | asks: the command line does not parse
    env X=1 cat .env | asks: `.env` may hold secrets
    sh -c 'cat .env' | asks: `.env` may hold secrets
    cat /proc/self/environ | denied: Bash does not run this: it reads the environment of a process, where secrets may be
    ");
}

#[tokio::test]
async fn a_rule_that_names_a_path_waives_the_question_about_it() {
    let ground = Ground::new().allow(&["Bash", "Read(.env)", "Edit(.git/hooks/**)"]);
    ground.check(&["cat .env", "cp a .git/hooks/x"], "allowed").await;
    let ground = Ground::new().allow(&["Bash", "Read", "Read(**)", "Edit(**)"]);
    ground.check(&["cat .env", "cp a .git/hooks/x"], "asks: ").await;
    let ground = Ground::new();
    let named = format!("Read(/{}/**)", ground.path("out").display());
    let ground = ground.allow(&["Bash", &named]);
    ground.check(&["cat link"], "asks: ").await;
    ground.check(&["cat $OUT/x"], "allowed").await;
}

#[tokio::test]
async fn a_denied_path_is_denied_to_commands_too() {
    let ground =
        Ground::new().in_mode(Mode::BypassPermissions).deny(&["Read(plain/**)", "Edit(src/b)"]);
    fs::hard_link(ground.path("ws/src/b"), ground.path("ws/other")).unwrap();
    let denied = ["cat plain/c", "cat < plain/c", "cp plain/c a", "cat p*/c", "grep x plain/c"];
    ground.check(&denied, "denied: the rule `Read(plain/**)`").await;
    ground
        .check(
            &["rm src/b", "echo x > src/b", "sed -i s/x/y/ src/b"],
            "denied: the rule `Edit(src/b)`",
        )
        .await;
    ground.check(&["echo x > other"], "denied: the rule `Edit(src/b)`").await;
    ground.check(&["cat src/b", "cat a"], "allowed").await;
}

#[tokio::test]
async fn redirects_are_judged_as_edits() {
    let ground = Ground::new().allow(&["Bash(echo *)"]);
    ground.check(&["echo x > new"], "asks: it writes new by `>`").await;
    ground.check(&["echo x 2>/dev/null", "echo x 2>&1"], "allowed").await;
    let ground = Ground::new().allow(&["Bash(echo *)", "Edit(new)"]);
    ground.check(&["echo x > new"], "allowed").await;
    ground.check(&["echo x > newer"], "asks: ").await;
    let accepting = Ground::new().in_mode(Mode::AcceptEdits).allow(&["Bash(echo *)"]);
    accepting.check(&["echo x > new"], "allowed").await;
    accepting.check(&["echo x > .envrc", "echo x > .env"], "asks: ").await;
}

#[tokio::test]
async fn the_mode_acceptedits_takes_plain_changes_inside_the_roots() {
    let ground = Ground::new().without_state().in_mode(Mode::AcceptEdits);
    fs::create_dir_all(ground.path("ws/shapes/workflows")).unwrap();
    fs::write(ground.path("ws/shapes/workflows/ci.yml"), "x").unwrap();
    fs::create_dir_all(ground.path("ws/.github")).unwrap();
    let plain = [
        "mkdir -p x/y",
        "touch x",
        "rm -rf plain",
        "mv a c",
        "cp -r src dst",
        "cat a && rm a",
        "sed -i s/x/y/ a",
        "rmdir x",
    ];
    ground.check(&plain, "allowed").await;
    let others = [
        "rm -rf .git",
        "touch .envrc",
        "cp a $OUT/y",
        "mv a .git/hooks/x",
        "rm $X",
        "make",
        "sed -i '1e id' a",
        "sed -i 'w z' a",
        "touch x > y",
        "rm *",
        "cp .env b",
        "cp -r shapes .github",
        "mv shapes .github",
        "cp -r shapes/workflows .github/",
        "cp link b",
        "X=1 rm a",
    ];
    ground.check(&others, "asks: ").await;
    Ground::new().check(&plain, "asks: ").await;
    Ground::new().in_mode(Mode::DontAsk).check(&plain, "denied: ").await;
}

/// A ground with a directory `links`, of which `git` leads to the hooks, and with `locked`.
fn ground_with_links() -> Ground {
    let ground = Ground::new().without_state();
    for directory in ["ws/links", "ws/locked", "ws/workflows", "ws/shapes/workflows", "ws/deep"] {
        fs::create_dir_all(ground.path(directory)).unwrap();
    }
    symlink("../.git/hooks", ground.path("ws/links/git")).unwrap();
    symlink("deep", ground.path("ws/way")).unwrap();
    for file in ["ws/evil", "ws/workflows/ci.yml", "ws/shapes/workflows/ci.yml", "ws/locked/x"] {
        fs::write(ground.path(file), "x").unwrap();
    }
    ground
}

/// Lines of which a part leads elsewhere than the disk says before the line runs.
const REARRANGING: [&str; 27] = [
    "cp -R links l2 && cp evil l2/git/pre-commit",
    "cp -a links l2; cp evil l2/git/pre-commit",
    "cp --recursive links l2 && echo x > l2/git/pre-commit",
    "mv links l2 && cp evil l2/git/pre-commit",
    "mv links/git x && cp evil x/pre-commit",
    "mv -t deep links && touch deep/links/git/x",
    "mv links deep && touch deep/links/git/x",
    "mv links deep && touch way/links/git/x",
    "mv links way && touch deep/links/git/x",
    "rm -r deep && mv links/git deep && touch deep/x",
    "cp -R links l2 && cd l2/git && touch pre-commit",
    "cp -R links l2 && touch l2/git/../x",
    "ln -s locked l && touch l/y",
    "ln -s locked l && echo x > l/y",
    "ln -s locked l && tee l/y",
    "ln -sfn locked way && touch way/y",
    "ln -s locked/x l && echo x > l",
    "ln locked/x l && echo x > l",
    "cp -s evil l && echo x > l",
    "cp -d links/git l && touch l/pre-commit",
    "for i in 1 2; do touch l/y; ln -sfn locked l; done",
    "(sleep 1; touch l/y) & ln -s locked l",
    "touch l/y | ln -s locked l",
    "sh -c 'ln -s locked l; touch l/y'",
    "tar xf a.tar && touch links2/y",
    "unzip -d deep a.zip && touch deep/links/y",
    "git clone ../other l && touch l/git/y",
];

#[tokio::test]
async fn g10_what_is_below_a_name_that_the_line_changes_is_unknown() {
    let bash = ["Bash"];
    let accepting = || ground_with_links().in_mode(Mode::AcceptEdits);
    accepting().check(&REARRANGING, "asks: ").await;
    accepting().allow(&bash).check(&REARRANGING, "asks: ").await;
    accepting().allow(&bash).check(&REARRANGING[..3], "asks: what `").await;
    let contained = ground_with_links().at_level(Level::Bwrap, true);
    contained.check(&REARRANGING, "asks: ").await;
    let strict = ground_with_links().in_mode(Mode::DontAsk).allow(&bash);
    strict.check(&REARRANGING, "denied: ").await;
    // A rule could hold for what they lead to.
    let bypassing = || ground_with_links().in_mode(Mode::BypassPermissions);
    bypassing().check(&REARRANGING, "allowed").await;
    for denying in [bypassing().deny(&["Edit(/locked/**)"]), bypassing().ask(&["Edit(/locked/**)"])]
    {
        denying.check(&REARRANGING, "asks: ").await;
    }
}

#[tokio::test]
async fn g10_what_a_line_makes_is_taken_along_by_its_later_parts() {
    let lines = [
        "mkdir -p .github && mv workflows .github/",
        "mkdir -p .github/x && cp -r workflows .github",
        "mkdir -p gh/workflows && cp evil gh/workflows/ci.yml && mv gh .github",
        "mkdir gh && cp -r workflows gh/ && mv gh .github",
        "mv workflows deep/ && mv deep .github",
        "cp -r shapes .github",
        "mv shapes .github",
        "cp evil deep/config && mv deep .cargo",
    ];
    ground_with_links().in_mode(Mode::AcceptEdits).check(&lines, "asks: ").await;
    ground_with_links().allow(&["Bash"]).check(&lines, "asks: ").await;
    ground_with_links().at_level(Level::Bwrap, true).check(&lines, "asks: ").await;
}

#[tokio::test]
async fn g10_a_denied_directory_is_filled_by_no_copy() {
    let lines = [
        "mv workflows locked",
        "cp -r workflows locked/",
        "rm -r locked && mv workflows locked",
        "mkdir locked/new",
        "cd locked && touch new",
        "touch locked/new",
        "echo x > locked/new",
    ];
    for mode in [Mode::AcceptEdits, Mode::BypassPermissions] {
        let ground = ground_with_links().in_mode(mode).deny(&["Edit(/locked/**)"]);
        ground.check(&lines, "denied: the rule `Edit(/locked/**)`").await;
        let ground = ground_with_links().in_mode(mode).ask(&["Edit(/locked/**)"]);
        ground.check(&["touch locked/new", "mv workflows locked"], "asks: ").await;
    }
    let contained = ground_with_links().at_level(Level::Bwrap, true).deny(&["Edit(/locked/**)"]);
    contained.check(&lines, "denied: ").await;
}

#[tokio::test]
async fn g10_a_directory_that_the_line_makes_asks_in_acceptedits() {
    let lines = ["mkdir -p x && touch x/y", "mkdir x; cp a x/", "mkdir x && cd x && touch y"];
    ground_with_links().in_mode(Mode::AcceptEdits).check(&lines, "asks: ").await;
    // An empty directory leads nowhere else, so rules for such commands hold.
    let rules = ["Bash(mkdir *)", "Bash(touch *)", "Bash(cp *)", "Bash(cd *)"];
    ground_with_links().allow(&rules).check(&lines, "allowed").await;
    ground_with_links().at_level(Level::Bwrap, true).check(&lines, "allowed").await;
}

#[tokio::test]
async fn g10_auto_allow_does_not_count_where_a_program_is_told_a_denied_name() {
    let lines = [
        "cargo new locked/x",
        "gcc -o locked/x a.c",
        "cd locked && make",
        "split a locked/x",
        "sh -c 'gcc -o locked/x a.c'",
        "tar -xf a.tar -C locked",
    ];
    let contained = || ground_with_links().at_level(Level::Bwrap, true);
    contained().check(&lines, "allowed").await;
    contained().deny(&["Edit(/locked/**)"]).check(&lines, "asks: ").await;
    let denying = contained().deny(&["Edit(/locked/**)"]);
    denying.check(&["cargo new src/x", "make"], "allowed").await;
    denying.check(&["cat locked/x", "ls locked", "echo locked"], "reads").await;
}

#[tokio::test]
async fn g10_auto_allow_does_not_count_beside_a_deny_that_no_mount_holds() {
    let contained = || ground_with_links().at_level(Level::Bwrap, true);
    for rule in ["Edit(*.lock)", "Edit(**/*.snap)", "Edit(/locked/*.ts)", "Edit(/missing/**)"] {
        let asked = format!("asks: no mount can hold `{rule}`");
        let denying = contained().deny(&[rule]);
        denying.check(&["make", "python3 build.py"], &asked).await;
        denying.check(&["ls locked", "cat a"], "reads").await;
        denying.allow(&["Bash(make)"]).check(&["make"], "allowed").await;
    }
    contained().deny(&["Edit(/locked)"]).check(&["make"], "allowed").await;
    contained().deny(&["Read(*.lock)"]).check(&["make"], "allowed").await;
}

#[tokio::test]
async fn g11_a_denied_program_is_seen_through_env() {
    let lines = [
        "env - rm x",
        "env -i rm x",
        "env -u X rm x",
        "env -uX rm x",
        "env --unset X rm x",
        "env - X=1 rm x",
        "env -i - rm x",
        "env -S 'rm x'",
        "env -S'rm x'",
        "env -iS 'rm x'",
        "env -S rm x",
        "env --split-string='rm x'",
        "env --split 'rm x'",
        "env -S 'rm\\_x'",
        "env -S 'env - rm' x",
        "env -C src rm x",
        "env -a y rm x",
        "sudo env - rm x",
        "sh -c 'env - rm x'",
    ];
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions, Mode::DontAsk] {
        let ground = Ground::new().in_mode(mode).deny(&["Bash(rm *)"]);
        ground.check(&lines, "denied: the rule `Bash(rm *)`").await;
        let ground = Ground::new().in_mode(mode).deny(&["Bash(git push *)"]);
        ground.check(&["env -S git push", "env -S 'git' push origin"], "denied: the rule").await;
    }
}

#[tokio::test]
async fn g11_critical_removals_ask_in_every_mode_however_they_are_spelled() {
    let lines = [
        "rm -rf ~root",
        "rm -rf \"${HOME:?}\"",
        "rm -rf $(pwd)",
        "x=/; rm -rf $x",
        "for d in /usr /etc; do rm -rf $d; done",
        "echo / | xargs rm -rf",
        "pushd / && rm -rf usr",
        "find / -delete",
        "env - rm -rf /",
        "rm -rf / '",
    ];
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions] {
        let ground = Ground::new().in_mode(mode).allow(&["Bash"]);
        ground.check(&lines, "asks: `").await;
        let contained = Ground::new().in_mode(mode).at_level(Level::Bwrap, true).allow(&["Bash"]);
        contained.check(&lines, "asks: `").await;
    }
    Ground::new().in_mode(Mode::DontAsk).allow(&["Bash"]).check(&lines, "denied: ").await;
}

#[tokio::test]
async fn g10_sed_is_a_plain_edit_where_it_substitutes_in_named_files() {
    let ground = ground_with_links().in_mode(Mode::AcceptEdits);
    let plain = [
        "sed -i s/x/y/ a",
        "sed -i.bak 's/[]x]/y/g' a",
        "sed -Ei 's/(x)/y/; s/a/b/' a src/b",
        "sed -i -e s/x/y/ -e 's/[[:alpha:]]/z/' a",
        "sed --in-place --expression=s/x/y/ -- a",
        "sed -ni 2,3s/x/y/p a",
    ];
    ground.check(&plain, "allowed").await;
    let others = [
        "sed -is s/x/y/ .gitmodule",
        "sed -i.yml s/x/y/ lefthook",
        "sed -ie s/x/y/ .profil",
        "sed --in-place=s s/x/y/ .gitmodule",
        "sed --in-plac=s s/x/y/ .gitmodule",
        "sed -i'*' s/x/y/ a",
        "sed -i 's/[/]/w z/' a",
        "sed -i 's/[]/]/w z/' a",
        "sed -i 's/x/y/e' a",
        "sed -i 's/x/y/w z' a",
        "sed -i 'r a' a",
        "sed -i -f a a",
        "sed -if a -f a",
        "sed -i --file=a a",
        "sed -n --fil=a a",
        "sed -i 1d a",
        "sed -i -l 5 s/x/y/ a",
        "sed --follow-symlinks -i s/x/y/ a",
        "sed -i",
    ];
    ground.check(&others, "asks: ").await;
}

#[tokio::test]
async fn lines_whose_parts_do_not_meet_are_judged_as_before() {
    let ground = ground_with_links().in_mode(Mode::AcceptEdits);
    let lines = [
        "touch x && rm x",
        "touch deep/x && cat a",
        "mv a c && touch src/d",
        "mv a src && touch src/d",
        "cp -r src dst && touch src/d",
        "rm -r src && mkdir src",
        "mkdir x; mkdir y",
        "cp a b && cat b",
        "touch src/d && grep -r x src",
        "mkdir dst && rm -rf dst",
    ];
    ground.check(&lines, "allowed").await;
}

#[tokio::test]
async fn s5_critical_removals_ask_even_in_the_mode_bypasspermissions() {
    let ground = Ground::new().without_state().in_mode(Mode::BypassPermissions);
    symlink(ground.path("home"), ground.path("ws/nest")).unwrap();
    let critical = [
        "rm -rf /",
        "rm -rf ~",
        "rm -rf .",
        "rm -rf ..",
        "sudo rm -rf /usr",
        "rm -rf nest/",
        "sh -c 'rm -rf ~/'",
        "make && rm -r $HOME",
    ];
    ground.check(&critical, "asks: `").await;
    ground.check(&["rm -rf plain", "cat .env", "cat /etc/hostname"], "allowed").await;
    let strict = Ground::new().in_mode(Mode::DontAsk).allow(&["Bash"]);
    strict.check(&["rm -rf ~"], "denied: ").await;
}

#[tokio::test]
async fn auto_allow_holds_in_bwrap_alone_and_leaves_the_questions_about_paths() {
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::DontAsk] {
        let ground = Ground::new().in_mode(mode).at_level(Level::Bwrap, true);
        ground.check(&["make", "npm test && touch x", "echo x > new"], "allowed").await;
        let refused = if mode == Mode::DontAsk { "denied: " } else { "asks: " };
        ground
            .check(&["cat .env", "cp a .git/hooks/x", "cat 'x", "rm $X", "rm -rf ~"], refused)
            .await;
        let landlock = Ground::new().in_mode(mode).at_level(Level::Landlock, true);
        landlock.check(&["make"], refused).await;
    }
    let denying = Ground::new().at_level(Level::Bwrap, true).deny(&["Bash(npm publish *)"]);
    denying.check(&["npm publish", "a; npm publish"], "denied: ").await;
    denying.check(&["$X", "cat $(echo a"], "asks: ").await;
}

#[tokio::test]
async fn who_leaves_the_sandbox_is_asked_whatever_allows_the_command() {
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions] {
        let ground = Ground::new().in_mode(mode).leaving().allow(&["Bash", "Bash(make)"]);
        ground.check(&["make", "ls", "touch a"], "asks: it would run outside").await;
        let ground = ground.deny(&["Bash(git push *)"]);
        ground.check(&["git push", "make; git push"], "denied: ").await;
    }
    let strict = Ground::new().in_mode(Mode::DontAsk).leaving().allow(&["Bash"]);
    strict.check(&["make", "ls"], "denied: ").await;
    let plan = Ground::new().in_mode(Mode::Plan).leaving().allow(&["Bash"]);
    plan.check(&["make", "git status"], "denied: ").await;
    plan.check(&["ls"], "asks: it would run outside").await;
    // There is nothing to leave.
    let mut off = Ground::new().leaving().allow(&["Bash"]);
    (off.level, off.sandbox) = (None, SandboxMode::Off);
    off.check(&["make"], "allowed").await;
}

#[tokio::test]
async fn consent_to_leave_the_sandbox_is_for_one_call() {
    let asked = |ground: Ground| async move {
        let directory = ground.path("ws");
        let outside_sandbox = ground.outside_sandbox;
        let line = "make".to_owned();
        let request = AccessRequest::Command { line, directory, outside_sandbox, lacked: None };
        let (permissions, grants) = (ground.permissions(), Grants::default());
        let judged = permissions.judge("Bash", AccessKind::Command, request, &grants).await;
        match judged.unwrap() {
            Judgement::Asks(asked) => asked,
            Judgement::Permitted(_) => panic!("it is permitted"),
        }
    };
    let inside = asked(Ground::new().at_level(Level::Bwrap, false)).await;
    assert!(inside.grant().is_some() && inside.risks().is_empty());
    let outside = asked(Ground::new().leaving()).await;
    assert!(outside.grant().is_none() && outside.rule_grant().is_none());
    assert_eq!(outside.risks()[0].severity.as_str(), "critical");
    let arguments = serde_json::json!({});
    assert_ne!(inside.effect(&arguments, None), outside.effect(&arguments, None));
}

#[tokio::test]
async fn s2_an_argument_that_may_be_what_a_rule_denies_asks_in_every_mode() {
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions] {
        let ground = Ground::new().in_mode(mode).allow(&["Bash(git *)", "Bash(echo *)"]);
        let ground = ground.deny(&["Bash(git push *)", "Bash(rm sec*)"]);
        let hiding = ["git $X", "git pus?", "git $(echo push) origin", "/usr/bin/git ${x:-push}"];
        ground.check(&hiding, "asks: an argument is known only").await;
        ground.check(&["echo $X", "git status", "git add $X"], "allowed").await;
        ground.check(&["git push $X", "setpriv --reuid 1 git push"], "denied: ").await;
    }
}

#[tokio::test]
async fn s4_files_that_git_shows_are_judged_like_those_of_cat() {
    let ground = Ground::new().at_level(Level::Bwrap, false);
    ground
        .check(&["git diff HEAD", "git show HEAD:a", "git log -p -- src", "git status"], "reads")
        .await;
    let secrets = [
        "git diff /dev/null .env",
        "git show HEAD:.env",
        "git --no-pager diff --cached -- .env",
        "git diff $OUT/x a",
        "git log -p link",
        "git show :0:.env",
        "git show :.env",
        "git show HEAD:./.env",
        "git show $x:.env",
        "git show 'stash@{0}:.env'",
        "git diff -- ':(icase).ENV'",
        "git diff -- ':(top,icase).ENV'",
        "git diff -- ':/.env'",
        "git diff -- ':!.env'",
        "git grep x -- '*.env'",
        "git grep x -- ':(glob)**/.env'",
        "git log -L1,5:.env",
        "git log -L:x:.env",
        "git blame .env",
        "git blame --contents=.env a",
        "git cat-file -p HEAD:.env",
        "git archive HEAD .env",
        "git diff-tree -p HEAD -- .env",
    ];
    ground.check(&secrets, "asks: ").await;
    let contained = Ground::new().at_level(Level::Bwrap, true);
    contained.check(&secrets, "asks: ").await;
    contained.check(&["git show HEAD:.env.example", "git diff -- ':(icase)A'"], "reads").await;
    let denying = Ground::new().at_level(Level::Bwrap, false).deny(&["Read(private/**)"]);
    denying.check(&["git show HEAD:private/p", "git diff a private/p"], "denied: ").await;
    denying.check(&["git log -p", "git show HEAD", "git diff"], "asks: ").await;
    denying.check(&["git status", "git branch"], "reads").await;
}

#[tokio::test]
async fn s6_a_program_that_the_workspace_brings_is_not_taken_for_one_that_reads() {
    let ground = Ground::new();
    fs::remove_dir(ground.path("bin")).unwrap();
    symlink(ground.path("ws/plain"), ground.path("bin")).unwrap();
    ground.check(&["ls"], "allowed").await;
    fs::write(ground.path("ws/plain/ls"), "#!/bin/sh\n").unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(ground.path("ws/plain/ls"), mode).unwrap();
    ground.check(&["ls", "cat a | ls"], "asks: ").await;
    // Nor is it the one that a rule means.
    fs::copy(ground.path("ws/plain/ls"), ground.path("ws/plain/npm")).unwrap();
    let allowing = ground.allow(&["Bash(npm *)", "Bash(make)", "Bash(./plain/npm *)"]);
    let lines = ["npm test", "timeout 5 npm test", "make && npm test", "PATH=./bin:$PATH make"];
    allowing.check(&lines, "asks: ").await;
    allowing.check(&["make", "./plain/npm test"], "allowed").await;
}

/// PATH may name a directory below that in which the command runs, such as `node_modules/.bin`.
#[tokio::test]
async fn files_29d_a_rule_for_one_command_is_not_for_what_is_printed_into_it() {
    let allows = Ground::new().allow(&["Bash(ssh host)", "Bash(npm *)"]);
    let harmless = ["ssh host | head -n 3", "ssh host; echo done", "cat src/b | npm run x"];
    allows.check(&harmless, "allowed").await;
    let feeding = [
        "echo 'rm -rf x' | ssh host",
        "cat src/b | ssh host | head -n 3",
        "{ echo a; echo b; } | ssh host",
        "echo a | { ssh host; }",
        "ssh host < <(echo a)",
    ];
    allows.check(&feeding, "asks: ").await;
}

#[tokio::test]
async fn files_29d_a_relative_directory_in_path_is_below_that_of_the_command() {
    let ground = Ground::new().allow(&["Bash(own-tool *)"]);
    let lines = ["cd src && own-tool a", "cd src; own-tool a | head -n 1"];
    ground.check(&lines, "allowed").await;
    let tools = ground.path("ws/src/tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("own-tool"), "#!/bin/sh\n").unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(tools.join("own-tool"), mode).unwrap();
    ground.check(&["own-tool a", "cd plain && own-tool a"], "allowed").await;
    ground.check(&lines, "asks: PATH leads to ").await;
}

#[tokio::test]
async fn s7_a_search_of_a_whole_directory_asks_about_what_it_would_show() {
    let ground = Ground::new().allow(&["Bash(grep *)"]);
    ground.check(&["grep -r x src", "grep -rn x src plain"], "allowed").await;
    ground.check(&["grep -r x", "grep -r x ."], "denied: ").await;
    let ground = ground.without_state();
    ground.check(&["grep -r x", "grep -r x ."], "asks: `grep` would read").await;
    let denying = Ground::new().allow(&["Bash(grep *)"]).deny(&["Read(src/b)"]);
    denying.check(&["grep -r x src"], "asks: `grep` would read").await;
    denying.check(&["grep -r x plain"], "allowed").await;
    symlink(ground.path("ws"), ground.path("ws/plain/up")).unwrap();
    ground.check(&["grep -R x plain"], "asks: `grep` would read").await;
}

/// Masks close the secrets to it, as far as there are masks.
#[tokio::test]
async fn s7_a_search_that_is_confined_to_reading_asks_about_no_masked_file() {
    let ground = || Ground::new().without_state().at_level(Level::Bwrap, false);
    let lines = ["grep -rn x .", "grep -r x", "rg x", "cat a && rg x ."];
    ground().check(&lines, "reads").await;
    ground().check(&["cat .env", "rg x .env", "rg x src .env"], "asks: ").await;
    ground().deny(&["Read(src/b)"]).check(&lines, "asks: ").await;
    let unmasked = ground();
    fs::create_dir_all(unmasked.path("ws/node_modules/x")).unwrap();
    fs::write(unmasked.path("ws/node_modules/x/.env"), "").unwrap();
    unmasked.check(&lines, "reads").await;
    fs::create_dir(unmasked.path("ws/__pycache__")).unwrap();
    fs::write(unmasked.path("ws/__pycache__/.env"), "").unwrap();
    unmasked.check(&["grep -rn x ."], "asks: `grep` would read").await;
    let landlock = Ground::new().without_state().at_level(Level::Landlock, false);
    landlock.check(&["rg x"], "asks: ").await;
}

/// In so large a workspace the sandbox does not know all secrets.
#[tokio::test]
async fn g7_a_reader_that_may_reach_what_nobody_has_looked_through_asks() {
    let ground = Ground::new().without_state().at_level(Level::Bwrap, false);
    let lines = [
        "cat \"$x\"",
        "find . -name '*.txt' | xargs cat",
        "while read -r f; do head -1 \"$f\"; done <a",
        "git grep x",
        "git diff",
        "diff src plain",
        "wc --files0-from=a",
    ];
    ground.check(&lines, "reads").await;
    for number in 0..MAX_DIRECTORIES {
        fs::create_dir(ground.path(&format!("ws/d{number}"))).unwrap();
    }
    ground.check(&lines, "asks: ").await;
    ground.check(&lines[..1], "asks: `cat` reads by `\"$x\"` files that it does not name").await;
    // What these read is named, looked at, or no content of a file.
    let harmless =
        ["sort a", "git log --oneline", "find . -name x", "ls -R", "tree", "sed -n 1p a"];
    ground.check(&harmless, "reads").await;
    ground.check(&["cat a", "head -3 src/b | wc -l", "rg x", "grep -rn x ."], "reads").await;
}

#[tokio::test]
async fn the_rows_on_commands_in_the_documentation_are_what_the_policy_says() {
    const TEXT: &str = include_str!("../../../docs/permissions.md");
    const MODES: [Mode; 5] =
        [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];
    let off = |ground: Ground| ground;
    let none = Ground::without_sandbox;
    let auto_allow = |ground: Ground| ground.at_level(Level::Bwrap, true);
    let required = |ground: Ground| Ground { sandbox: SandboxMode::Required, ..ground };
    let rows: [(&str, Situation, &str); 14] = [
        ("run a command that only reads", off, "cat a"),
        ("run mkdir, touch, rm, rmdir, mv, cp, sed on files of the workspace", off, "rm a"),
        ("run another command", off, "make"),
        ("run another command in bwrap, with `sandbox.auto_allow`", auto_allow, "make"),
        ("run a command that reads a file that may hold secrets", off, "cat .env"),
        ("run a command that writes a protected file", off, "cp a .envrc"),
        ("run a command that names a file outside the workspace", off, "cat $OUT/x"),
        ("run a command that does not parse", off, "echo 'a"),
        ("remove `/`, home or the working directory", off, "rm -rf ~"),
        (
            "run a command that only reads outside of the sandbox (`sandbox.escape`)",
            Ground::leaving,
            "ls",
        ),
        ("run another command outside of the sandbox (`sandbox.escape`)", Ground::leaving, "make"),
        ("run a command that only reads, no sandbox there", none, "cat a"),
        ("run another command, no sandbox there", none, "make"),
        ("run a command, sandbox required and not there", required, "make"),
    ];
    for (what, situation, line) in rows {
        let mut verdicts = Vec::new();
        for mode in MODES {
            let judged = situation(Ground::new().in_mode(mode)).judged(line).await;
            verdicts.push(
                match judged.split_once(':').map_or(judged.as_str(), |(verdict, _)| verdict) {
                    "allowed" => "allow",
                    "asks" => "ask",
                    _ => "deny",
                },
            );
        }
        let row = format!("| {what} | {} |\n", verdicts.join(" | "));
        assert!(TEXT.contains(&row), "{row}");
    }
}

#[tokio::test]
async fn s7_a_command_with_very_many_files_is_asked_about_after_a_bounded_look() {
    let ground = Ground::new().without_state().allow(&["Bash"]);
    for number in 0..4500 {
        fs::create_dir(ground.path(&format!("ws/plain/{number}"))).unwrap();
    }
    let many = format!("cat {}", "a ".repeat(300));
    assert!(ground.judged(&many).await.starts_with("allowed"), "one file is looked at once");
    let names: Vec<String> = (0..300).map(|number| format!("plain/{number}")).collect();
    let different = format!("cat {}", names.join(" "));
    assert!(ground.judged(&different).await.starts_with("asks: what `cat` reads by"));
    // The walks of all operands together are bounded.
    let one = ground.judged("grep -r x plain").await;
    assert_eq!(one, "allowed");
    let walks =
        "grep -r x plain plain/../plain src/../plain src/../src/../plain plain/../src/../plain";
    assert!(ground.judged(walks).await.starts_with("asks: `grep` would read more of"));
    let hidden = Ground::new().in_mode(Mode::BypassPermissions).deny(&["Read(private)"]);
    assert!(hidden.judged(&different).await.starts_with("asks: a part of the line"));
}

#[tokio::test]
async fn files_29d_a_part_that_only_reads_needs_no_rule_of_its_own() {
    let allows =
        Ground::new().allow(&["Bash(npm *)", "Bash(python3 *)", "Bash(bash *)", "Bash(hash *)"]);
    fs::create_dir_all(allows.path("ws/sub")).unwrap();
    symlink(allows.path("out"), allows.path("ws/out")).unwrap();
    allows
        .check(
            &[
                "npm test | head -20",
                "cd sub && npm test",
                "npm test; echo done",
                "npm test; echo \"exit code: $?\"",
                "npm test 2>&1 | tail -5",
                "npm test 2>&1 | grep -E 'pass|fail' | wc -l",
                "npm test || echo failed",
                "(cd sub && npm test)",
                "npm test\nls src",
                "npm test && cat src/b",
                "ls 2>/dev/null; npm test > /dev/null 2>&1",
                "for i in 1 2; do npm test; echo again; done",
                "if npm test; then echo yes; fi",
                "cat <<'E' | npm run x\n$(rm y)\nE",
                "python3 - <<'E' | tail -5\nprint(1)\nE",
                "cd src && python3 <<E\nprint(1)\nE",
            ],
            "allowed",
        )
        .await;
    allows
        .check(
            &[
                "npm test | tee file",
                "npm test > /etc/x",
                "npm test > log",
                "npm test && cat ~/.ssh/id_rsa",
                "npm test && cat .env",
                "npm test && cat /usr/include/stdio.h",
                "cd $OUT && npm test",
                "cd .. && npm test",
                "cd out && npm test",
                "cd src; cd ../.. && npm test",
                "cd $X && npm test",
                "cd /etc && npm test",
                "npm test | sort -o f",
                "npm test | sort",
                "npm test | xargs rm",
                "npm test; tail -f a",
                "npm test; ls $x",
                "npm test; ls src/*",
                "npm test; echo $(id)",
                "npm test; echo x > a",
                "npm test; X=1 ls",
                "head() { rm x; }; npm test | head",
                "hash -p ./evil head; npm test | head",
                "PATH=.; npm test | head",
                "echo 'rm x' | bash",
                "echo 'print(1)' | python3",
                "echo 'rm x' | bash 3<<'E'\nx\nE",
                "npm test <<E\n$(rm x)\nE",
                "npm test && git status",
                "ls | grep x &",
                "npm test | \\head",
            ],
            "asks: ",
        )
        .await;
    let inside = format!("cd {} && npm test", allows.path("ws/sub").display());
    allows.check(&[&inside, "cd sub; npm test", "cd src/../sub && npm test"], "allowed").await;
    // A rule for something else proves nothing.
    allows.check(&["ls 2>/dev/null; date", "ls & ls"], "asks: ").await;
    let denies = Ground::new().allow(&["Bash(npm *)"]).deny(&["Bash(head *)", "Read(src/**)"]);
    denies.check(&["npm test | head -5", "npm test; cat src/b"], "denied: ").await;
    let edits = Ground::new().allow(&["Bash(npm *)"]).in_mode(Mode::AcceptEdits);
    edits.check(&["npm test >&'$(touch x)'"], "asks: the command line does not parse").await;
}

#[tokio::test]
async fn files_29c_the_commit_command_of_models_is_judged_as_a_commit() {
    let commit = "git commit -m \"$(cat <<'EOF'\nfix: it's $(rm x) `y`\n\nBody\nEOF\n)\"";
    let both = format!("git add -A && {commit}");
    let pull = "gh pr create --title t --body \"$(cat <<'EOF'\n## Summary\n- x\nEOF\n)\"";
    let allows =
        Ground::new().allow(&["Bash(git commit *)", "Bash(git add *)", "Bash(gh pr create *)"]);
    allows.check(&[commit, &both, pull], "allowed").await;
    allows
        .check(&["git commit -F - <<'EOF'\nOne\nEOF", "git commit -F - <<EOF\nOne\nEOF"], "allowed")
        .await;
    let expands = commit.replace("'EOF'", "EOF");
    let piped = commit.replace("'EOF'", "'EOF' | sh");
    allows.check(&[&expands, &piped, "git commit -m \"$(date)\""], "asks: ").await;
    // In every mode it is what a commit is.
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::DontAsk, Mode::Plan] {
        for level in [Level::Bwrap, Level::Landlock] {
            let ground = Ground::new().without_state().in_mode(mode).at_level(level, true);
            // The rules that would allow it name it.
            let verdict = |told: String| told.split("permissions.allow").next().map(str::to_owned);
            let plain = verdict(ground.judged("git commit -m x").await);
            assert_eq!(verdict(ground.judged(commit).await), plain, "{mode} {level:?}");
        }
    }
    let planted = Ground::new().allow(&["Bash(git commit *)"]);
    let cat = planted.path("ws/cat");
    fs::write(&cat, "").unwrap();
    fs::set_permissions(&cat, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&cat, planted.path("bin/cat")).unwrap();
    planted.check(&[commit], "asks: PATH leads to ").await;
}

#[tokio::test]
async fn files_29b_here_documents_are_judged_by_what_they_are() {
    let allows = Ground::new().allow(&["Bash(python3 *)", "Bash(kubectl apply *)", "Bash(cat *)"]);
    allows
        .check(
            &[
                "python3 - <<'EOF'\nprint('a; rm x')\nEOF",
                "python3 - <<'EOF' | tail\nprint(1)\nEOF",
                "kubectl apply -f - <<EOF\nkind: $KIND\nEOF",
                "cat <<-EOF\n\tx\n\tEOF",
            ],
            "allowed",
        )
        .await;
    allows
        .check(
            &[
                "python3 - <<EOF\n$(rm x)\nEOF",
                "python3 - <<'EOF'\nprint(1)\nEOF\nrm x",
                "cat <<'EOF' > notes\nx\nEOF",
                "cat <<'EOF' >> .git/hooks/pre-commit\nx\nEOF",
                "cat > /etc/x <<'EOF'\nx\nEOF",
                "python3 - <<'EOF'\nprint(1)",
                "bash <<'EOF'\nls\nEOF",
            ],
            "asks: ",
        )
        .await;
    let edits = Ground::new().in_mode(Mode::AcceptEdits).allow(&["Bash(cat *)"]);
    edits
        .check(&["cat > notes <<'EOF'\nx\nEOF", "cat <<'EOF' > notes\n$(rm x)\nEOF"], "allowed")
        .await;
    let critical = Ground::new().in_mode(Mode::BypassPermissions);
    critical.check(&["bash <<'EOF'\nrm -rf /\nEOF"], "asks: ").await;
    let asked = Ground::new().allow(&["Bash(git *)"]).ask(&["Bash(git commit *)"]);
    let commit = "git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"";
    asked.check(&[commit, "git commit -F - <<'EOF'\nx\nEOF"], "asks: the rule").await;
}
