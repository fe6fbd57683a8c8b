//! Runs real programs as hooks, well-behaved ones and others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::memory_budget::MemoryBudget;
use crate::processes::confinement::Level;
use crate::processes::sandbox::{Sandbox, SandboxSettings};
use crate::processes::test_support::{marker, processes_with, runner};

struct Ground {
    directory: TempDir,
    workspace: Workspace,
    settings: Vec<HookSetting>,
    is_sandbox_required: bool,
    memory_budget: MemoryBudget,
}

impl Ground {
    /// Each hook is a line of TOML members besides the event.
    fn new(event: HookEvent, hooks: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let workspace = Workspace::open(vec![directory.path().to_owned()]).unwrap();
        let read = |hook: &&str| toml::from_str(&format!("event = \"{event}\"\n{hook}")).unwrap();
        let settings = hooks.iter().map(read).collect();
        let memory_budget = MemoryBudget::new(64 << 20);
        Self { directory, workspace, settings, is_sandbox_required: false, memory_budget }
    }

    async fn run_with(&self, members: Value) -> HookOutcome {
        self.run_in(Sandbox::new(runner(), SandboxSettings::default()), members).await
    }

    async fn run_in(&self, sandbox: Sandbox, members: Value) -> HookOutcome {
        let is_sandbox_required = self.is_sandbox_required;
        let memory_budget = self.memory_budget.clone();
        let programs =
            HookPrograms { sandbox, is_sandbox_required, memory_budget, ..HookPrograms::samples() };
        let Value::Object(members) = members else { panic!("an object") };
        let scene = HookScene {
            session: Some("session-1"),
            workspace: &self.workspace,
            working_dir: Path::new("/somewhere"),
            mode: "default",
            cancelled: &CancellationToken::new(),
        };
        let event = self.settings[0].event;
        let hooks = Hooks::new(self.settings.clone(), programs);
        hooks.run(event, &["Bash"], scene, members).await
    }

    async fn run(&self) -> HookOutcome {
        self.run_with(json!({})).await
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap()
    }
}

async fn before_call(hooks: &[&str]) -> HookOutcome {
    Ground::new(HookEvent::PreToolUse, hooks).run().await
}

#[tokio::test]
async fn a_hook_reads_what_happens_and_where() {
    let line = r#"command = 'cat >input; pwd >directory; env >environment; echo "$0" >program'"#;
    let ground = Ground::new(HookEvent::PreToolUse, &[line]);

    let outcome = ground.run_with(json!({"tool_name": "Bash", "text": "ä\u{0}\"\n"})).await;

    assert_eq!(outcome, HookOutcome::default());
    let input: Value = serde_json::from_str(&ground.file("input")).unwrap();
    assert_eq!(
        input,
        json!({
            "session_id": "session-1", "cwd": "/somewhere", "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "text": "ä\u{0}\"\n",
        })
    );
    let root = ground.directory.path().to_str().unwrap();
    assert_eq!(ground.file("directory").trim(), root);
    let environment = ground.file("environment");
    assert!(environment.contains(&format!("CLAUDE_PROJECT_DIR={root}\n")), "{environment}");
    assert!(!environment.contains("CARGO"), "{environment}");
}

#[tokio::test]
async fn a_hook_with_arguments_is_a_program_without_a_shell() {
    let line = r#"command = "/usr/bin/printf"
        args = ["%s", "{\"decision\":\"block\",\"reason\":\"$HOME; echo\"}"]"#;
    let outcome = before_call(&[line]).await;
    assert_eq!(outcome.decision, HookDecision::Deny("$HOME; echo".to_owned()));
}

#[tokio::test]
async fn all_hooks_of_an_event_run_at_the_same_time() {
    let ground = Ground::new(
        HookEvent::PreToolUse,
        &[
            "command = 'echo >first; read <second; echo ran >>done'",
            "command = 'read <first; echo >second; echo ran >>done'",
        ],
    );
    for name in ["first", "second"] {
        let path = std::ffi::CString::new(ground.directory.path().join(name).to_str().unwrap());
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, path.unwrap(), kind, mode, 0).unwrap();
    }

    let outcome = ground.run().await;

    assert_eq!(outcome, HookOutcome::default());
    assert_eq!(ground.file("done"), "ran\nran\n");
}

/// What goes wrong, what the person is told of it, and whether the hook might have decided else.
const BROKEN: [(&str, &str, bool); 13] = [
    (
        "command = 'echo too slow >&2; sleep 1000'\ntimeout = '100ms'",
        "took longer than 100ms and was ended: too slow",
        true,
    ),
    (
        "command = 'trap \"\" TERM; echo {; while :; do :; done'\ntimeout = '100ms'",
        "took longer",
        true,
    ),
    (
        "command = 'printf %s \"{\\\"decision\\\": \\\"blo\"'",
        "printed JSON that cannot be read",
        false,
    ),
    ("command = '''printf \"{\\xff\\xfe\\x00\"'''", "printed JSON that cannot be read", false),
    ("command = 'head -c 300 /dev/urandom | tr -d {; exit 7'", "ended with code 7", false),
    ("command = 'echo no key >&2; kill -KILL $$'", "was ended by signal 9: no key", true),
    ("command = '/nonexistent/hook'", "ended with code 127: ", true),
    ("command = '/nonexistent/hook'\nargs = []", "could not be started", true),
    ("command = ['/nonexistent/hook', 'x']", "could not be started", true),
    ("command = '/etc/passwd'", "ended with code 126: ", true),
    ("command = '/etc'\nargs = []", "could not be started", true),
    ("command = 'yes'", "printed without end and was ended", true),
    ("command = 'yes >&2'", "printed without end and was ended", true),
];

#[tokio::test]
async fn k1_a_broken_hook_asks_where_it_might_have_denied_and_is_told_of() {
    for (hook, expected, is_unanswered) in BROKEN {
        let outcome = before_call(&[hook]).await;
        let told = outcome.notices.join("\n");
        assert!(
            told.starts_with("the hook hooks[0] ") && told.contains(expected),
            "{hook}: {told}"
        );
        let decision = if is_unanswered { HookDecision::Ask(told) } else { HookDecision::None };
        let notices = outcome.notices.clone();
        assert_eq!(outcome, HookOutcome { decision, notices, ..HookOutcome::default() }, "{hook}");
    }
}

#[tokio::test]
async fn k1_a_hook_that_cannot_start_asks_only_where_it_decides_on_a_call() {
    let missing = "command = ['/nonexistent/hook']";
    for event in HookEvent::ALL {
        let outcome = Ground::new(event, &[missing]).run().await;
        let asks = matches!(outcome.decision, HookDecision::Ask(_));
        let decides = matches!(event, HookEvent::PreToolUse | HookEvent::PermissionRequest);
        assert_eq!(asks, decides, "{event}");
        assert_eq!(outcome.notices.len(), 1, "{event}");
    }
    let passes = before_call(&[&format!("{missing}\non_error = 'pass'")]).await;
    assert_eq!((passes.decision, passes.notices.len()), (HookDecision::None, 1));
    let with_others = ["command = 'echo no >&2; exit 2'", missing];
    assert!(matches!(before_call(&with_others).await.decision, HookDecision::Deny(_)));
}

#[tokio::test]
async fn k6_a_program_is_found_by_the_placeholder_of_the_workspace() {
    for hook in [
        "command = '${CLAUDE_PROJECT_DIR}/my hooks/deny.sh'\nargs = ['${CLAUDE_PROJECT_DIR}/x', 'a b', '$HOME']",
        "command = ['${CLAUDE_PROJECT_DIR}/my hooks/deny.sh', '${CLAUDE_PROJECT_DIR}/x', 'a b', '$HOME']",
    ] {
        let ground = Ground::new(HookEvent::PreToolUse, &[hook]);
        let root = ground.directory.path();
        fs::create_dir(root.join("my hooks")).unwrap();
        let script = root.join("my hooks/deny.sh");
        fs::write(&script, "#!/bin/sh\nprintf '%s|' \"$@\" >&2\nexit 2\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let expected = format!("{}/x|a b|$HOME|", root.display());
        assert_eq!(ground.run().await.decision, HookDecision::Deny(expected));
        // One whose interpreter is not there cannot start.
        fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
        assert!(matches!(ground.run().await.decision, HookDecision::Ask(_)));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(ground.run().await.decision, HookDecision::Ask(_)));
    }
}

#[tokio::test]
async fn k1_a_broken_hook_denies_where_the_operator_says_so() {
    for (hook, expected, _) in BROKEN {
        let outcome = before_call(&[&format!("{hook}\non_error = 'deny'")]).await;
        let HookDecision::Deny(reason) = &outcome.decision else { panic!("{hook}: {outcome:?}") };
        assert!(reason.contains(expected), "{reason}");
    }
}

#[tokio::test]
async fn a_broken_hook_takes_nothing_from_the_others() {
    let outcome = before_call(&[BROKEN[4].0, "command = 'echo no >&2; exit 2'", BROKEN[5].0]).await;
    assert_eq!(outcome.decision, HookDecision::Deny("no".to_owned()));
    assert_eq!(outcome.notices.len(), 2);
}

#[tokio::test]
async fn k1_a_hook_that_forks_without_end_is_ended() {
    let marker = marker();
    let line = format!(
        "command = 'for i in $(seq 700); do bash -c \"exec -a {marker} sleep 1000\" & done; wait'"
    );
    let outcome = before_call(&[&line]).await;
    assert!(outcome.notices[0].contains("started too many processes"), "{outcome:?}");
    assert!(processes_with(&marker).is_empty());
}

#[tokio::test]
async fn garbage_without_json_decides_nothing() {
    let garbage = "command = 'head -c 100000 /dev/urandom | tr -d {'";
    assert_eq!(before_call(&[garbage]).await, HookOutcome::default());
}

#[tokio::test]
async fn a_hook_that_prints_30_mb_can_still_say_no() {
    let outcome =
        before_call(&["command = 'head -c 30000000 /dev/zero; echo no >&2; exit 2'"]).await;
    assert_eq!(outcome.decision, HookDecision::Deny("no".to_owned()));
    let outcome = before_call(&["command = 'yes | head -c 30000000 >&2; exit 2'"]).await;
    let HookDecision::Deny(reason) = outcome.decision else { panic!("it denies") };
    assert!(reason.len() < 11_000, "{}", reason.len());
}

#[tokio::test]
async fn a_lone_surrogate_in_a_reason_denies_all_the_same() {
    let line = r#"command = '''echo '{"decision":"block","reason":"no \ud83d"}' '''"#;
    assert_eq!(before_call(&[line]).await.decision, HookDecision::Deny("no \u{fffd}".to_owned()));
}

#[tokio::test]
async fn p2_what_a_hook_leaves_running_is_ended() {
    let marker = marker();
    let line = format!(
        "command = '(setsid bash -c \"exec -a {marker} sleep 1000\" &) ; echo no >&2; exit 2'"
    );
    let outcome = before_call(&[&line]).await;
    assert_eq!(outcome.decision, HookDecision::Deny("no".to_owned()));
    assert!(processes_with(&marker).is_empty());
}

#[tokio::test]
async fn a_hook_need_not_read_what_it_is_told() {
    let ground = Ground::new(HookEvent::PreToolUse, &["command = 'exit 2'"]);
    let outcome = ground.run_with(json!({"text": "x".repeat(8 << 20)})).await;
    assert!(matches!(outcome.decision, HookDecision::Deny(_)), "{outcome:?}");
    let ground = Ground::new(HookEvent::PreToolUse, &["command = 'wc -c >size'"]);
    ground.run_with(json!({"text": "x".repeat(8 << 20)})).await;
    assert!(8 << 20 < ground.file("size").trim().parse::<usize>().unwrap());
}

#[tokio::test]
async fn what_a_hook_is_told_counts_in_the_memory_budget_while_it_runs() {
    let line = "command = 'echo no >&2; exit 2'";
    let mut ground = Ground::new(HookEvent::PreToolUse, &[line]);
    ground.memory_budget = MemoryBudget::new(5 << 20);
    let told = |size: usize| json!({ "text": "x".repeat(size) });
    // One after the other, both have room.
    for _ in 0..2 {
        let outcome = ground.run_with(told(1 << 20)).await;
        assert_eq!(outcome.decision, HookDecision::Deny("no".to_owned()));
    }
    let outcome = ground.run_with(told(2 << 20)).await;
    assert!(matches!(outcome.decision, HookDecision::Ask(_)), "{outcome:?}");
    let why = "could not be started: the server's memory for running requests is used up";
    assert!(outcome.notices[0].contains(why), "{outcome:?}");
    ground.settings[0].on_error = super::settings::OnError::Deny;
    let outcome = ground.run_with(told(2 << 20)).await;
    assert!(matches!(outcome.decision, HookDecision::Deny(_)), "{outcome:?}");
    // Two beside each other have none for both.
    let mut ground = Ground::new(HookEvent::PreToolUse, &[line, line]);
    ground.memory_budget = MemoryBudget::new(5 << 20);
    assert_eq!(ground.run_with(told(1 << 20)).await.notices.len(), 1);
}

#[tokio::test]
async fn a_cancelled_turn_ends_its_hooks() {
    let marker = marker();
    let gate = crate::processes::test_support::Gate::new();
    let line = format!("command = 'exec -a {marker} sleep 1000 >{}'", gate.path().display());
    let ground = Ground::new(HookEvent::PreToolUse, &[&line]);
    let opened = gate.opened();
    tokio::select! {
        outcome = ground.run() => panic!("it hangs: {outcome:?}"),
        held = opened => drop(held),
    }
    // The future is dropped: its tree ends.
    gate_closes(&marker).await;
}

/// Waits until no process has the marker.
async fn gate_closes(marker: &str) {
    while !processes_with(marker).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn k4_a_hook_that_belongs_in_a_sandbox_does_not_run_without_one() {
    let line = "command = 'touch ran'\nsandbox = true";
    let mut ground = Ground::new(HookEvent::PreToolUse, &[line]);
    let why = "the hook hooks[0] runs only in a sandbox, and there is none".to_owned();
    assert_eq!(ground.run().await.decision, HookDecision::Ask(why.clone()));
    ground.is_sandbox_required = true;
    assert_eq!(ground.run().await.decision, HookDecision::Deny(why.clone()));
    ground.settings[0].event = HookEvent::PostToolUse;
    let after = ground.run().await;
    assert_eq!((after.decision, after.notices), (HookDecision::None, vec![why]));
    assert!(!ground.directory.path().join("ran").exists());
}

#[tokio::test]
async fn k4_a_hook_in_the_sandbox_reads_its_input_and_writes_only_the_workspace() {
    for level in [Level::Bwrap, Level::Landlock] {
        let settings = SandboxSettings { levels: vec![level], ..SandboxSettings::default() };
        let sandbox = Sandbox::new(runner(), settings);
        if sandbox.level().await.is_none() {
            continue;
        }
        let outside = TempDir::new_in("/var/tmp").unwrap();
        let line = format!(
            "command = 'cat >input; touch {}/x && touch outside; echo no >&2; exit 2'\nsandbox = true",
            outside.path().display()
        );
        let ground = Ground::new(HookEvent::PreToolUse, &[&line]);
        let outcome = ground.run_in(sandbox, json!({"text": "x".repeat(1 << 20)})).await;

        let HookDecision::Deny(reason) = outcome.decision else { panic!("{level}: {outcome:?}") };
        assert!(reason.ends_with("no"), "{level}: {reason}");
        assert!(1 << 20 < ground.file("input").len(), "{level}");
        assert!(!outside.path().join("x").exists(), "{level}");
        assert!(!ground.directory.path().join("outside").exists(), "{level}");
    }
}

#[tokio::test]
async fn k4_the_hooks_of_a_workspace_belong_in_a_sandbox() {
    let mut ground = Ground::new(HookEvent::PreToolUse, &["command = 'touch ran'"]);
    ground.settings[0].source = HookSource::Workspace("settings.json".into());
    let outcome = ground.run().await;
    assert!(matches!(outcome.decision, HookDecision::Ask(_)), "{outcome:?}");
    assert!(!ground.directory.path().join("ran").exists());
}

#[tokio::test]
async fn only_hooks_that_match_run() {
    let ground = Ground::new(
        HookEvent::PreToolUse,
        &["command = 'touch no'\nmatcher = 'Read'", "command = 'touch yes'\nmatcher = 'B.sh'"],
    );
    ground.run().await;
    assert!(ground.directory.path().join("yes").exists());
    assert!(!ground.directory.path().join("no").exists());
    assert_eq!(ground.settings[0].timeout, Duration::from_secs(60));
}
