//! Tests which rules are offered, and for whom and where they hold once they are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ids::{KeyId, Scope};
use crate::permissions::{
    AccessKind, AccessRequest, AskedAccess, ExcludedPaths, GrantHolder, Grants, HookOpinion,
    Judgement, KeepError, KeptGrants, KnownTool, Mode, PermissionSettings, Permissions, RuleGrant,
    SandboxMode,
};
use crate::workspace::Workspace;

const KNOWN: [KnownTool<'_>; 4] = [
    KnownTool { name: "Read", aliases: &[], access: AccessKind::Read },
    KnownTool { name: "Grep", aliases: &[], access: AccessKind::Read },
    KnownTool { name: "Write", aliases: &[], access: AccessKind::Edit },
    KnownTool { name: "Bash", aliases: &[], access: AccessKind::Command },
];

/// A workspace `ws`, a state directory and a file outside.
struct Ground {
    directory: tempfile::TempDir,
    kept: Arc<KeptGrants>,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["ws/sub", "state"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for name in ["ws/a.txt", "ws/.env", "ws/sub/.env", "outside"] {
            fs::write(directory.path().join(name), "x").unwrap();
        }
        let state = directory.path().canonicalize().unwrap().join("state");
        Self { kept: Arc::new(KeptGrants::new(&state, &KNOWN)), directory }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(relative)
    }

    fn permissions(&self, settings: &PermissionSettings) -> Permissions {
        self.permissions_with(settings, SandboxMode::Off)
    }

    fn permissions_with(&self, settings: &PermissionSettings, sandbox: SandboxMode) -> Permissions {
        let workspace = Arc::new(Workspace::open(vec![self.path("ws")]).unwrap());
        let excluded = ExcludedPaths::below(&self.path("state"));
        Permissions::new(settings, &KNOWN, sandbox, workspace, excluded)
            .unwrap()
            .with_search_path("/usr/bin:/bin".as_ref())
            .with_kept_grants(Arc::clone(&self.kept))
            .held_by(holder("alice", None))
    }

    fn request(&self, (tool, argument): Call) -> (AccessKind, AccessRequest) {
        match tool {
            "Bash" => {
                let (directory, line) = argument.split_once(':').unwrap();
                let (line, directory) = (line.to_owned(), self.path(directory));
                (
                    AccessKind::Command,
                    AccessRequest::Command {
                        line,
                        directory,
                        outside_sandbox: false,
                        lacked: None,
                    },
                )
            }
            "Write" => (AccessKind::Edit, AccessRequest::Write(self.path(argument))),
            "Grep" => (AccessKind::Read, AccessRequest::Search(self.path(argument))),
            _ => (AccessKind::Read, AccessRequest::Read(self.path(argument))),
        }
    }

    async fn asked(&self, permissions: &Permissions, call: Call) -> Option<Box<AskedAccess>> {
        let (kind, request) = self.request(call);
        match permissions.judge(call.0, kind, request, &Grants::default()).await {
            Ok(Judgement::Asks(asked)) => Some(asked),
            Ok(Judgement::Permitted(_)) => None,
            Err(refusal) => panic!("{call:?}: {refusal}"),
        }
    }

    /// The rules that would be kept.
    async fn offered(&self, permissions: &Permissions, call: Call) -> String {
        let asked = self.asked(permissions, call).await.expect("it asks");
        let rules = asked.rule_grant().map(|grant| grant.rules.join(", ")).unwrap_or_default();
        rules.replace(self.path("").to_str().unwrap().trim_end_matches('/'), "…")
    }

    async fn keep(&self, permissions: &Permissions, by: &GrantHolder, call: Call) {
        let asked = self.asked(permissions, call).await.expect("it asks");
        self.kept.keep(by, asked.rule_grant().expect("rules")).unwrap();
    }

    async fn asks(&self, permissions: &Permissions, call: Call) -> bool {
        self.asked(permissions, call).await.is_some()
    }
}

/// A tool, and its path or its command behind a directory.
type Call = (&'static str, &'static str);

fn holder(key: &str, user: Option<&str>) -> GrantHolder {
    let key = KeyId::new(key);
    GrantHolder { scope: Scope::new(&key, user), key }
}

fn listed(list: &str, rule: &str) -> PermissionSettings {
    let mut settings = PermissionSettings::default();
    let rules = if list == "ask" { &mut settings.ask } else { &mut settings.allow };
    rules.push(rule.to_owned());
    settings
}

#[tokio::test]
async fn a_rule_for_a_directory_holds_for_nothing_below_it() {
    let ground = Ground::new();
    for directory in ["ws/.ssh", "ws/sub/secrets"] {
        std::fs::create_dir_all(ground.path(directory)).unwrap();
    }
    for file in ["ws/.ssh/id_rsa", "ws/sub/secrets/prod"] {
        std::fs::write(ground.path(file), "x").unwrap();
    }
    let permissions = ground.permissions(&PermissionSettings::default());
    let by = holder("alice", None);
    for (kept, below) in [
        (("Bash", "ws:ls .ssh"), [("Bash", "ws:cat .ssh/id_rsa"), ("Read", "ws/.ssh/id_rsa")]),
        (
            ("Bash", "ws/sub:stat secrets"),
            [("Bash", "ws/sub:cat secrets/prod"), ("Bash", "ws/sub:grep -r x secrets")],
        ),
        (("Bash", "ws:ls /etc"), [("Bash", "ws:cat /etc/hostname"), ("Read", "/etc/hostname")]),
    ] {
        ground.keep(&permissions, &by, kept).await;
        assert!(!ground.asks(&permissions, kept).await, "{kept:?}");
        for call in below {
            assert!(ground.asks(&permissions, call).await, "{kept:?} allows {call:?}");
        }
    }
}

#[tokio::test]
async fn no_rule_is_offered_that_allows_more_than_was_approved() {
    let ground = Ground::new();
    std::fs::create_dir_all(ground.path("ws/.git/hooks")).unwrap();
    let permissions = ground.permissions(&PermissionSettings::default());
    let calls =
        ["ws:cd sub && make", "ws:pushd sub; make", "ws:rm .git/hooks/x", "ws:touch .git/hooks"];
    for call in calls {
        assert_eq!(ground.offered(&permissions, ("Bash", call)).await, "", "{call}");
    }
}

#[tokio::test]
async fn exactly_what_is_approved_is_offered_as_rules() {
    let ground = Ground::new();
    let permissions = ground.permissions(&PermissionSettings::default());
    for (call, expected) in [
        (("Bash", "ws:npm test"), "Bash(npm test)"),
        (("Bash", "ws:npm 'a *'"), r"Bash(npm 'a \*')"),
        (("Bash", "ws:make && npm test | tail -3"), "Bash(make), Bash(npm test), Bash(tail -3)"),
        (("Bash", "ws:make > out.txt"), "Bash(make), Edit(/…/ws/out.txt)"),
        (("Bash", "ws:cat .env"), "Read(/…/ws/.env)"),
        (("Bash", "ws:make; cat .env"), "Bash(cat .env), Bash(make), Read(/…/ws/.env)"),
        (("Bash", "ws:python3 run.py"), "Bash(python3 run.py)"),
        (("Write", "ws/new.txt"), "Edit(/…/ws/new.txt)"),
        (("Write", "ws/a [b]*{c}.txt"), r"Edit(/…/ws/a\ \[b\]\*\{c\}.txt)"),
        (("Read", "ws/sub/.env"), "Read(/…/ws/sub/.env)"),
        (("Grep", "ws/sub/.env"), "Grep(/…/ws/sub/.env)"),
        (("Read", "outside"), "Read(/…/outside)"),
        // No rule allows these, or more than was approved.
        (("Bash", "ws:a; b; c; d; e; f"), ""),
        (("Bash", "ws:rm -rf /"), ""),
        (("Bash", "ws:make 'a"), ""),
        (("Bash", "ws:make $X"), ""),
        (("Bash", "ws:CI=1 make"), ""),
        (("Bash", "ws:psql db < a.txt"), ""),
        (("Bash", "ws:psql db <<< drop"), ""),
        (("Bash", "ws:make | sh"), ""),
        (("Bash", "ws:make | sh -s a"), ""),
        (("Bash", "ws:make | env python3 -"), ""),
        (("Bash", "ws:make | xargs touch"), ""),
    ] {
        assert_eq!(ground.offered(&permissions, call).await, expected, "{call:?}");
    }
}

#[tokio::test]
async fn none_is_offered_where_something_asks_that_no_rule_answers() {
    let ground = Ground::new();
    let make = ("Bash", "ws:make");
    let asking = ground.permissions(&listed("ask", "Bash(make)"));
    assert_eq!(ground.offered(&asking, make).await, "");
    let unconfined = ground.permissions_with(&PermissionSettings::default(), SandboxMode::Auto);
    assert_eq!(ground.offered(&unconfined, make).await, "");
    let permissions = ground.permissions(&PermissionSettings::default());
    let hooked = permissions.with_hooks(HookOpinion::Asks("why".to_owned()));
    assert_eq!(ground.offered(&hooked, make).await, "");
    let secret = ("Read", "ws/.env");
    let hooked = permissions.with_hooks(HookOpinion::Allows);
    assert_eq!(ground.offered(&hooked, secret).await, "Read(/…/ws/.env)");
    let removal = ground.asked(&permissions, ("Bash", "ws:rm -rf /")).await.unwrap();
    assert_eq!(removal.grant(), None, "nor for a session");
    fs::hard_link(ground.path("ws/a.txt"), ground.path("ws/b.txt")).unwrap();
    assert_eq!(ground.offered(&permissions, ("Write", "ws/a.txt")).await, "");
    std::os::unix::fs::symlink("../outside", ground.path("ws/link")).unwrap();
    assert_eq!(ground.offered(&permissions, ("Read", "ws/link")).await, "");
}

#[tokio::test]
async fn a_rule_is_kept_for_a_key_a_person_and_a_directory() {
    let ground = Ground::new();
    let settings = PermissionSettings::default();
    let permissions = ground.permissions(&settings);
    let (alice, make) = (holder("alice", None), ("Bash", "ws:make > out.txt"));
    ground.keep(&permissions, &alice, make).await;
    assert!(!ground.asks(&permissions, make).await);
    assert!(ground.asks(&permissions, ("Bash", "ws/sub:make")).await, "another directory");
    assert!(ground.asks(&permissions, ("Write", "ws/out.txt")).await, "another tool");
    for line in ["ws:makes", "ws:make all", "ws:timeout 9 make", "ws:make < a.txt", "ws:make <<< x"]
    {
        assert!(ground.asks(&permissions, ("Bash", line)).await, "{line}");
    }
    for other in [holder("bob", None), holder("alice", Some("ann"))] {
        assert!(ground.asks(&permissions.clone().held_by(other), make).await);
    }
    let (ann, bea) = (holder("web", Some("ann")), holder("web", Some("bea")));
    ground.keep(&permissions, &ann, ("Write", "ws/new.txt")).await;
    for (person, asks) in [(ann, false), (bea, true), (holder("web", None), true)] {
        let permissions = permissions.clone().held_by(person);
        assert_eq!(ground.asks(&permissions, ("Write", "ws/new.txt")).await, asks);
    }
}

#[tokio::test]
async fn plan_denies_and_dont_ask_allows_what_a_kept_rule_allows() {
    let ground = Ground::new();
    let permissions = ground.permissions(&PermissionSettings::default());
    let make = ("Bash", "ws:make");
    ground.keep(&permissions, &holder("alice", None), make).await;
    for (mode, expected) in [(Mode::Plan, "mode plan"), (Mode::DontAsk, "")] {
        let permissions = permissions.tightened(Some(mode)).unwrap();
        let (kind, request) = ground.request(make);
        let judged = permissions.judge("Bash", kind, request, &Grants::default()).await;
        let refused = judged.err().map(|refusal| refusal.to_string()).unwrap_or_default();
        assert!(refused.contains(expected) && refused.is_empty() == expected.is_empty());
    }
    let other = permissions.tightened(Some(Mode::DontAsk)).unwrap();
    let (kind, request) = ground.request(("Bash", "ws:makes"));
    assert!(other.judge("Bash", kind, request, &Grants::default()).await.is_err());
}

#[tokio::test]
async fn a_rule_is_kept_once_and_a_foreign_file_is_never_written_over() {
    let ground = Ground::new();
    let permissions = ground.permissions(&PermissionSettings::default());
    let (alice, make) = (holder("alice", None), ("Bash", "ws:make"));
    let asked = ground.asked(&permissions, make).await.unwrap();
    let grant: RuleGrant = asked.rule_grant().unwrap().clone();
    ground.kept.keep(&alice, &grant).unwrap();
    ground.kept.keep(&alice, &grant).unwrap();
    assert_eq!(ground.kept.list().unwrap().len(), 1);

    let path = ground.path("state/grants.toml");
    let elsewhere = ground.path("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let refused = ground.kept.keep(&alice, &grant);
    assert!(matches!(refused, Err(KeepError::Unreadable { .. })), "{refused:?}");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert!(ground.asks(&permissions, make).await);
    assert!(ground.kept.list().is_err());
    assert!(Path::new(ground.kept.path()).is_absolute());
}
