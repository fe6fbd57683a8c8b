//! Tests what hooks may say of a call, with real programs as hooks: never more than a rule may.

use std::fs;

use serde_json::json;

use super::*;
use crate::execution::ask::{About, GrantScope};
use crate::hooks::{HookPrograms, HookSetting};

const ALLOWS: &str = r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'"#;
const ASKS: &str = r#"echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}'"#;

#[derive(Default)]
struct Rules {
    mode: Mode,
    allow: &'static [&'static str],
    ask: &'static [&'static str],
    deny: &'static [&'static str],
    sandbox: SandboxMode,
}

fn off() -> Rules {
    Rules { sandbox: SandboxMode::Off, ..Rules::default() }
}

/// A hook's line that changes the input.
fn changes(input: &Value) -> String {
    let said = json!({"hookSpecificOutput": {"updatedInput": input}});
    format!("echo '{said}'")
}

impl Ground {
    /// Each hook is an event, a matcher and a line for bash.
    fn hooked(rules: &Rules, hooks: &[(&str, &str, &str)]) -> Self {
        let mut ground = Self::new();
        let owned = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect();
        let settings = permissions::PermissionSettings {
            mode: rules.mode,
            allow: owned(rules.allow),
            ask: owned(rules.ask),
            deny: owned(rules.deny),
            ..permissions::PermissionSettings::default()
        };
        let tools = &ground.pipeline.tools;
        let known: Vec<_> = tools.tools().iter().map(|tool| tool.known()).collect();
        let workspace = Arc::clone(ground.pipeline.permissions.workspace());
        let hidden = ExcludedPaths::below(&ground.directory.path().join("state"));
        let permissions = Permissions::new(&settings, &known, rules.sandbox, workspace, hidden);
        ground.pipeline.permissions = permissions.unwrap();
        ground.pipeline.hooks = hooks_of(hooks);
        ground
    }

    async fn judged(&self, name: &str, input: Value, decision: Option<&Decision>) -> Judged {
        let call = ToolCall { id: "call_1".to_owned(), name: name.to_owned(), input };
        let admitted = self.pipeline.admit(call).unwrap();
        self.pipeline.judge(admitted, &self.context, decision).await
    }

    /// `permitted`, `asked: why`, or the error.
    async fn verdict(&self, name: &str, input: Value) -> String {
        let root = self.directory.path().canonicalize().unwrap();
        let verdict = match self.judged(name, input, None).await {
            Judged::Permitted(_) => "permitted".to_owned(),
            Judged::Asked(ask) => match ask.about {
                About::Effect(effect) => format!("asked: {}", effect.why.unwrap_or_default()),
                About::Questions { .. } => "questions".to_owned(),
            },
            Judged::Answered(result) => result.wire_text(),
        };
        verdict.replace(root.to_str().unwrap(), "$WORKSPACE")
    }

    fn seen(&self, file: &str) -> Vec<Value> {
        let path = self.directory.path().join(file);
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn hooks_of(hooks: &[(&str, &str, &str)]) -> Hooks {
    let setting = |(event, matcher, command): &(&str, &str, &str)| {
        let setting = json!({"event": event, "matcher": matcher, "command": command});
        serde_json::from_value::<HookSetting>(setting).unwrap()
    };
    Hooks::new(hooks.iter().map(setting).collect(), HookPrograms::samples())
}

fn write(path: &str) -> Value {
    json!({ "file_path": path, "content": "x\n" })
}

async fn verdict(rules: &Rules, hooks: &[&str], name: &str, input: Value) -> String {
    let hooks: Vec<_> = hooks.iter().map(|line| ("PreToolUse", "", *line)).collect();
    Ground::hooked(rules, &hooks).verdict(name, input).await
}

#[tokio::test]
async fn exit_2_denies_with_what_the_hook_says() {
    let line = "echo not today >&2; exit 2";
    let denied = verdict(&off(), &[line], "Glob", json!({"pattern": "*"})).await;
    assert_eq!(denied, "Error: not permitted: not today");
}

#[tokio::test]
async fn files_15a_a_hook_is_told_the_name_that_is_reached() {
    let guards = r#"grep -q "$(printf 'a\302\240b')" && { echo guarded >&2; exit 2; }; true"#;
    let ground = Ground::hooked(&off(), &[("PreToolUse", "Read", guards)]);
    fs::write(ground.directory.path().join("a\u{a0}b.txt"), "x").unwrap();
    let verdict = ground.verdict("Read", json!({ "file_path": "a b.txt" })).await;
    assert_eq!(verdict, "Error: not permitted: guarded");
    assert_eq!(ground.verdict("Read", json!({ "file_path": "a.txt" })).await, "permitted");
}

#[tokio::test]
async fn a_hooks_allow_is_worth_an_allow_rule() {
    assert_eq!(verdict(&off(), &[ALLOWS], "Write", write("new.txt")).await, "permitted");
    assert_eq!(verdict(&off(), &["true"], "Write", write("new.txt")).await, "asked: ");
    let locked = Rules { mode: Mode::DontAsk, ..off() };
    assert_eq!(verdict(&locked, &[ALLOWS], "Write", write("new.txt")).await, "permitted");
}

#[tokio::test]
async fn k2_a_hooks_allow_beats_no_deny_rule_no_ask_rule_and_no_list() {
    let deny = Rules { deny: &["Write(*.md)"], ..off() };
    let denied = verdict(&deny, &[ALLOWS], "Write", write("a.md")).await;
    assert!(denied.starts_with("Error: not permitted: the rule `Write(*.md)`"), "{denied}");
    let ask = Rules { ask: &["Write"], ..off() };
    let asked = verdict(&ask, &[ALLOWS], "Write", write("a")).await;
    assert_eq!(asked, "asked: the rule `Write` says to ask");
    let secret = verdict(&off(), &[ALLOWS], "Read", json!({"file_path": ".env"})).await;
    assert_eq!(secret, "asked: `.env` may hold secrets");
    let protected = verdict(&off(), &[ALLOWS], "Write", write(".git/hooks/pre-commit")).await;
    assert!(protected.starts_with("asked: ") && protected.contains("decides what"), "{protected}");
    let outside = verdict(&off(), &[ALLOWS], "Write", write("/tmp/elsewhere.txt")).await;
    assert!(outside.starts_with("asked: "), "{outside}");
    let state = verdict(&off(), &[ALLOWS], "Read", json!({"file_path": "state/api-key"})).await;
    assert!(state.starts_with("Error: not permitted: "), "{state}");
    let plan = Rules { mode: Mode::Plan, ..off() };
    let planned = verdict(&plan, &[ALLOWS], "Write", write("a.txt")).await;
    assert!(planned.starts_with("Error: not permitted: Write is not available"), "{planned}");
}

#[tokio::test]
async fn k2_a_hooks_allow_does_not_replace_a_missing_sandbox() {
    let bash = || json!({"command": "touch x"});
    let auto = verdict(&Rules::default(), &[ALLOWS], "Bash", bash()).await;
    assert!(auto.starts_with("asked: there is no sandbox"), "{auto}");
    let required = Rules { sandbox: SandboxMode::Required, ..Rules::default() };
    let refused = verdict(&required, &[ALLOWS], "Bash", bash()).await;
    assert!(refused.starts_with("Error: not permitted: Bash runs only in a sandbox"), "{refused}");
    assert_eq!(verdict(&off(), &[ALLOWS], "Bash", bash()).await, "permitted");
}

#[tokio::test]
async fn a_hook_that_asks_asks_in_every_mode() {
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions] {
        let rules = Rules { mode, allow: &["Write"], ..off() };
        assert_eq!(verdict(&rules, &[ASKS], "Write", write("a")).await, "asked: sure?", "{mode}");
        assert_eq!(verdict(&rules, &["true"], "Write", write("a")).await, "permitted", "{mode}");
    }
    let locked = Rules { mode: Mode::DontAsk, ..off() };
    let read = || json!({"file_path": "a.txt"});
    let denied = verdict(&locked, &[ASKS], "Read", read()).await;
    assert!(denied.contains("sure?") && denied.contains("dontAsk"), "{denied}");
    let plan = Rules { mode: Mode::Plan, ..off() };
    assert_eq!(verdict(&plan, &[ASKS], "Read", read()).await, "asked: sure?");
}

#[tokio::test]
async fn a_grant_does_not_answer_a_hook_that_asks() {
    let ground = Ground::hooked(&off(), &[]);
    let Judged::Asked(ask) = ground.judged("Write", write("a"), None).await else { panic!() };
    let About::Effect(effect) = ask.about else { panic!() };
    let (digest, scope) = (effect.digest, GrantScope::Session);
    let allow = Decision::allow(digest, scope);
    assert!(matches!(ground.judged("Write", write("a"), Some(&allow)).await, Judged::Permitted(_)));
    assert_eq!(ground.verdict("Write", write("a")).await, "permitted");

    let asking = Ground {
        pipeline: Pipeline { hooks: hooks_of(&[("PreToolUse", "", ASKS)]), ..ground.pipeline },
        ..ground
    };

    assert_eq!(asking.verdict("Write", write("a")).await, "asked: sure?");
}

#[tokio::test]
async fn deny_beats_ask_and_ask_beats_allow() {
    let denies = "echo no >&2; exit 2";
    let all = verdict(&off(), &[ALLOWS, denies, ASKS], "Write", write("a")).await;
    assert_eq!(all, "Error: not permitted: no");
    assert_eq!(verdict(&off(), &[ASKS, ALLOWS], "Write", write("a")).await, "asked: sure?");
}

#[tokio::test]
async fn a_changed_input_is_validated_and_judged_again() {
    let line = changes(&json!({"pattern": "*.txt"}));
    let ground = Ground::hooked(&off(), &[("PreToolUse", "Glob", &line)]);
    assert_eq!(ground.call("Glob", r#"{"pattern":"*.rs"}"#).await, "$WORKSPACE/a.txt");
    let number = changes(&json!({"pattern": 5}));
    let wrong = verdict(&off(), &[&number], "Glob", json!({"pattern": "x"})).await;
    assert!(wrong.starts_with("Error: invalid input"), "{wrong}");
    let secret = changes(&json!({"file_path": ".env"}));
    let read = json!({"file_path": "a.txt"});
    assert_eq!(
        verdict(&off(), &[&secret], "Read", read.clone()).await,
        "asked: `.env` may hold secrets"
    );
    let (first, last) =
        (changes(&json!({"file_path": ".env"})), changes(&json!({"file_path": "b"})));
    assert_eq!(verdict(&off(), &[&first, &last], "Read", read).await, "permitted");
}

#[tokio::test]
async fn k3_deny_rules_see_the_input_before_and_after_a_hook() {
    let rules = Rules { deny: &["Read(a.txt)"], mode: Mode::BypassPermissions, ..off() };
    let away = changes(&json!({"file_path": "b.txt"}));
    let before = verdict(&rules, &[&away], "Read", json!({"file_path": "a.txt"})).await;
    assert!(before.contains("the rule `Read(a.txt)`"), "{before}");
    let there = changes(&json!({"file_path": "a.txt"}));
    let after = verdict(&rules, &[&there], "Read", json!({"file_path": "b.txt"})).await;
    assert!(after.contains("the rule `Read(a.txt)`"), "{after}");
}

#[tokio::test]
async fn what_a_person_changes_is_put_to_the_hooks_as_well() {
    let line = "grep -q evil && { echo evil >&2; exit 2; }; true";
    let ground = Ground::hooked(&off(), &[("PreToolUse", "Write", line)]);
    let Judged::Asked(ask) = ground.judged("Write", write("a"), None).await else { panic!() };
    let About::Effect(effect) = ask.about else { panic!() };
    let updated_input = Some(write("evil"));
    let (digest, scope) = (effect.digest, GrantScope::Once);
    let decision = Decision::Allow { digest, scope, rules: Vec::new(), updated_input };

    let Judged::Answered(result) = ground.judged("Write", write("a"), Some(&decision)).await else {
        panic!("the hook denies it")
    };

    assert_eq!(result.wire_text(), "Error: not permitted: evil");
}

#[tokio::test]
async fn what_hooks_say_of_a_persons_input_counts_as_of_the_models() {
    let says = r#"{"continue":false,"stopReason":"enough","systemMessage":"seen"}"#;
    let line = format!("grep -q evil && echo '{says}'; true");
    let ground = Ground::hooked(&off(), &[("PreToolUse", "Write", &line)]);
    let call = ToolCall { id: "c".into(), name: "Write".into(), input: write("a") };
    let admitted = ground.pipeline.admit(call).unwrap();
    let judged = ground.pipeline.judge(admitted.again().unwrap(), &ground.context, None).await;
    let Judged::Asked(ask) = judged else { panic!() };
    let About::Effect(effect) = ask.about else { panic!() };
    let updated_input = Some(write("evil"));
    let (digest, scope) = (effect.digest, GrantScope::Once);
    let decision = Decision::Allow { digest, scope, rules: Vec::new(), updated_input };

    let again = admitted.again().unwrap();
    let judged = ground.pipeline.judge(again, &ground.context, Some(&decision)).await;

    let Judged::Answered(result) = judged else { panic!("the hook ends the turn") };
    assert_eq!(result.ends_turn.as_deref(), Some("enough"));
    assert_eq!(result.notices, ["seen"]);
    assert!(admitted.take_notices().is_empty(), "they are told once");
}

#[tokio::test]
async fn hooks_are_told_of_a_call_once_and_by_its_alias_too() {
    let ground = Ground::hooked(
        &off(),
        &[("PreToolUse", "shell", "cat >>seen"), ("PreToolUse", "Read", "cat >>other")],
    );
    let call =
        ToolCall { id: "c".into(), name: "Bash".into(), input: json!({"command": "touch x"}) };
    let first = ground.pipeline.admit(call).unwrap();
    let second = first.again().unwrap();
    for call in [first, second] {
        let judged = ground.pipeline.judge(call, &ground.context, None).await;
        assert!(matches!(judged, Judged::Asked(_)), "{judged:?}");
    }

    let root = ground.directory.path().canonicalize().unwrap();
    assert_eq!(
        ground.seen("seen"),
        [json!({
            "session_id": "", "cwd": root, "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": {"command": "touch x"}, "tool_use_id": "c",
        })]
    );
    assert!(ground.seen("other").is_empty());
}

#[tokio::test]
async fn hooks_see_absolute_paths_under_the_advertised_names() {
    let ground = Ground::hooked(&off(), &[("PreToolUse", "", "cat >>seen")]);
    ground.verdict("Read", json!({"file_path": "./sub/../a.txt", "offset": "1"})).await;
    ground.verdict("Grep", json!({"pattern": "x", "path": "sub", "after_context": 1})).await;

    let root = ground.directory.path().canonicalize().unwrap();
    let told = ground.seen("seen");
    assert_eq!(told[0]["tool_input"], json!({"file_path": root.join("a.txt"), "offset": 1}));
    let path = root.join("sub");
    assert_eq!(told[1]["tool_input"], json!({"pattern": "x", "path": path, "-A": 1}));
}

#[tokio::test]
async fn an_answer_in_a_persons_place_is_worth_no_more_than_a_rule() {
    let allow = r#"echo '{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}'"#;
    let deny = r#"echo '{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"no"}}}'"#;
    let asked = |rules: Rules, line: &'static str, path: &'static str| async move {
        Ground::hooked(&rules, &[("PermissionRequest", "Write", line)])
            .verdict("Write", write(path))
            .await
    };
    assert_eq!(asked(off(), allow, "a").await, "permitted");
    assert_eq!(asked(off(), "true", "a").await, "asked: ");
    assert_eq!(asked(off(), deny, "a").await, "Error: not permitted: no");
    assert_eq!(asked(off(), "echo no >&2; exit 2", "a").await, "Error: not permitted: no");
    assert_eq!(asked(off(), allow, ".env").await, "asked: `.env` may hold secrets");
    let rule = Rules { ask: &["Write"], ..off() };
    assert_eq!(asked(rule, allow, "a").await, "asked: the rule `Write` says to ask");
    let both =
        Ground::hooked(&off(), &[("PreToolUse", "", ASKS), ("PermissionRequest", "", allow)]);
    assert_eq!(both.verdict("Write", write("a")).await, "asked: sure?");
}

#[tokio::test]
async fn k3_an_input_that_is_changed_in_a_persons_place_is_judged_as_well() {
    let changed_to = |path: &str| {
        let said = json!({"behavior": "allow", "updatedInput": write(path)});
        format!("echo '{}'", json!({"hookSpecificOutput": {"decision": said}}))
    };
    let rules = Rules { deny: &["Write(denied)"], ..off() };
    for (path, expected) in [
        ("b", "permitted"),
        ("denied", "Error: not permitted: the rule `Write(denied)`"),
        // The person is asked about the model's own input.
        (".env", "asked: "),
    ] {
        let hooks = [("PermissionRequest", "Write", &*changed_to(path))];
        let verdict = Ground::hooked(&rules, &hooks).verdict("Write", write("a")).await;
        assert!(verdict.starts_with(expected), "{path}: {verdict}");
    }
}

#[tokio::test]
async fn a_call_that_needs_nobody_is_no_request() {
    let ground = Ground::hooked(
        &off(),
        &[
            ("PermissionRequest", "", "cat >>seen"),
            ("Notification", "permission_prompt", "cat >>told"),
        ],
    );
    assert_eq!(ground.verdict("Read", json!({"file_path": "a.txt"})).await, "permitted");
    assert!(ground.seen("seen").is_empty());
    assert_eq!(ground.verdict("Write", write("a")).await, "asked: ");
    assert_eq!(ground.seen("seen")[0]["hook_event_name"], "PermissionRequest");
    assert_eq!(ground.seen("told")[0]["message"], "Write needs an approval");
}

#[tokio::test]
async fn hooks_after_a_call_are_told_what_it_came_to_and_add_to_its_answer() {
    let remark = r#"cat >>seen; echo '{"decision":"block","reason":"run the formatter","hookSpecificOutput":{"additionalContext":"tabs"}}'"#;
    let rules = Rules { allow: &["Write"], ..off() };
    let ground = Ground::hooked(
        &rules,
        &[
            ("PostToolUse", "Write", remark),
            ("PostToolUseFailure", "Read", "cat >>failed; echo look elsewhere >&2; exit 2"),
        ],
    );

    let written = ground.call("Write", r#"{"file_path":"b.txt","content":"x\n"}"#).await;
    let missing = ground.call("Read", r#"{"file_path":"gone.txt"}"#).await;

    assert!(
        written.ends_with(
            "\n<reminder>\nA hook of this server says:\nrun the formatter\n</reminder>\n<reminder>\nA hook of this server says:\ntabs\n</reminder>"
        ),
        "{written}"
    );
    let told = &ground.seen("seen")[0];
    assert_eq!(told["hook_event_name"], "PostToolUse");
    assert!(told["duration_ms"].is_u64() && told["tool_response"].is_object(), "{told}");
    assert!(
        missing.ends_with("\n<reminder>\nA hook of this server says:\nlook elsewhere\n</reminder>"),
        "{missing}"
    );
    let told = &ground.seen("failed")[0];
    assert!(told["error"].as_str().unwrap().contains("gone.txt"), "{told}");
    assert!(told.get("tool_response").is_none());
}

#[tokio::test]
async fn hooks_see_what_the_client_is_not_told() {
    let rules = Rules { allow: &["Write"], ..off() };
    let ground = Ground::hooked(&rules, &[("PostToolUse", "", "cat >>seen")]);
    ground.call("Read", r#"{"file_path":"a.txt"}"#).await;
    let call = ToolCall { id: "c".into(), name: "Write".into(), input: write("a.txt") };
    let admitted = ground.pipeline.admit(call).unwrap();
    let result = ground.pipeline.run(admitted, ground.context.clone()).await;

    assert!(result.structured.get("original").is_none(), "{}", result.structured);
    let told = ground.seen("seen").pop().unwrap();
    assert!(told["tool_response"].get("original").is_some(), "{told}");
}

#[tokio::test]
async fn a_hook_may_end_the_turn_before_and_after_a_call() {
    let ends = r#"echo '{"continue":false,"stopReason":"enough"}'"#;
    for (event, is_error) in [("PreToolUse", true), ("PostToolUse", false)] {
        let ground = Ground::hooked(&off(), &[(event, "", ends)]);
        let call = ToolCall { id: "c".into(), name: "Glob".into(), input: json!({"pattern": "*"}) };
        let admitted = ground.pipeline.admit(call).unwrap();
        let result = ground.pipeline.run(admitted, ground.context.clone()).await;
        assert_eq!(result.ends_turn.as_deref(), Some("enough"), "{event}");
        assert_eq!(result.is_error, is_error, "{event}: {result:?}");
    }
}

#[tokio::test]
async fn what_a_hook_knows_of_a_call_stands_in_its_answer() {
    let says = r#"echo '{"systemMessage":"watching","hookSpecificOutput":{"additionalContext":"generated file"}}'"#;
    let ground = Ground::hooked(&off(), &[("PreToolUse", "", says)]);
    let call = ToolCall { id: "c".into(), name: "Glob".into(), input: json!({"pattern": "*.txt"}) };
    let admitted = ground.pipeline.admit(call).unwrap();
    let result = ground.pipeline.run(admitted, ground.context.clone()).await;

    assert!(
        result
            .wire_text()
            .ends_with("<reminder>\nA hook of this server says:\ngenerated file\n</reminder>"),
        "{result:?}"
    );
    assert_eq!(result.notices, ["watching"]);
}
