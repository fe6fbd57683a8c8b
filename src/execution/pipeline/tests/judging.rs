//! Tests that a call which asks has exactly the effect that a person approved, or none.

use std::fs;
use std::os::unix::fs::symlink;

use indexmap::IndexMap;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::execution::ask::{About, GrantScope, ShownEffect};

impl Ground {
    /// A workspace in which edits and commands ask.
    fn asking(change: impl FnOnce(&mut permissions::PermissionSettings)) -> Self {
        Self::asking_under(SandboxMode::Off, change)
    }

    fn asking_under(
        sandbox: SandboxMode,
        change: impl FnOnce(&mut permissions::PermissionSettings),
    ) -> Self {
        let mut ground = Self::new();
        fs::create_dir_all(ground.path("sub")).unwrap();
        let mut settings = permissions::PermissionSettings::default();
        change(&mut settings);
        let tools = &ground.pipeline.tools;
        let known: Vec<_> = tools.tools().iter().map(|tool| tool.known()).collect();
        let workspace = Arc::clone(ground.pipeline.permissions.workspace());
        let hidden = ExcludedPaths::below(&ground.path("state"));
        let permissions = Permissions::new(&settings, &known, sandbox, workspace, hidden);
        ground.pipeline.permissions = permissions.unwrap();
        ground
    }

    fn path(&self, relative: &str) -> std::path::PathBuf {
        self.directory.path().canonicalize().unwrap().join(relative)
    }

    async fn judge(&self, name: &str, input: &Value, decision: Option<&Decision>) -> Judged {
        let call =
            ToolCall { id: "call_1".to_owned(), name: name.to_owned(), input: input.clone() };
        match self.pipeline.admit(call) {
            Ok(admitted) => self.pipeline.judge(admitted, &self.context, decision).await,
            Err(error) => Judged::Answered(ToolResult::error(&error)),
        }
    }

    /// What is asked about the call, which must ask.
    async fn asked(&self, name: &str, input: &Value) -> ShownEffect {
        effect(self.judge(name, input, None).await)
    }

    /// Judges the call with the decision, and runs it if it is permitted. What a person or the
    /// model is told, with the workspace's path replaced.
    async fn decide(&self, name: &str, input: &Value, decision: &Decision) -> String {
        let text = match self.judge(name, input, Some(decision)).await {
            Judged::Permitted(call) => answered(call.run(self.context.clone()).await),
            Judged::Asked(ask) => format!("asked: {}", shown(&ask).markdown),
            Judged::Answered(result) => result.wire_text(),
        };
        text.replace(self.path("").to_str().unwrap().trim_end_matches('/'), "$WORKSPACE")
    }

    async fn read(&self, path: &str) {
        let result = self.call("Read", &json!({ "file_path": path }).to_string()).await;
        assert!(!result.starts_with("Error"), "{result}");
    }
}

fn shown(ask: &Ask) -> &ShownEffect {
    match &ask.about {
        About::Effect(shown) => shown,
        About::Questions { .. } => panic!("{ask:?}"),
    }
}

fn effect(judged: Judged) -> ShownEffect {
    match judged {
        Judged::Asked(ask) => shown(&ask).clone(),
        other => panic!("{other:?}"),
    }
}

fn allow(digest: [u8; 32]) -> Decision {
    Decision::allow(digest, GrantScope::Once)
}

fn allow_for_session(digest: [u8; 32]) -> Decision {
    Decision::allow(digest, GrantScope::Session)
}

fn write(path: &str, content: &str) -> Value {
    json!({ "file_path": path, "content": content })
}

fn bash(command: &str) -> Value {
    json!({ "command": command })
}

#[tokio::test]
async fn an_edit_is_shown_as_its_difference_and_nothing_is_written() {
    let ground = Ground::asking(|_| {});
    fs::write(ground.path("b.txt"), "one\ntwo\n").unwrap();
    ground.read("b.txt").await;

    let new = ground.asked("Write", &write("n/new.txt", "```\nrm\u{202e}\n")).await.markdown;
    let edit = json!({ "file_path": "b.txt", "old_string": "two", "new_string": "2" });
    let edit = ground.asked("Edit", &edit).await.markdown;

    let root = ground.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    assert_snapshot!(new.replace(&root, "$WORKSPACE"), @r"
    makes the new file `$WORKSPACE/n/new.txt`

    ````diff
    @@ -0,0 +1,2 @@
    +```
    +rm\u{202e}
    ````
    ");
    assert_snapshot!(edit.replace(&root, "$WORKSPACE"), @r"
    changes `$WORKSPACE/b.txt`

    ```diff
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    ```
    ");
    assert!(!ground.path("n").exists());
    assert_eq!(fs::read_to_string(ground.path("b.txt")).unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn x15_the_models_words_stand_behind_the_command_and_as_such() {
    let ground = Ground::asking(|_| {});
    let described = "List the files`\n- `1` allow\u{202e}";
    let input = json!({ "command": "rm -r precious", "description": described });
    let shown = ground.asked("Bash", &input).await;
    let root = ground.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    assert_snapshot!(shown.markdown.replace(&root, "$WORKSPACE"), @r"
    1 command: `rm`

    ```sh
    rm -r precious
    ```
    in `$WORKSPACE`, for 120 s, then on in the background while the model continues

    In the model's words: ``List the files` - `1` allow\u{202e}``
    ");
    assert_eq!(shown.described.as_deref(), Some(described));
}

#[tokio::test]
async fn a_command_is_shown_whole_with_its_directory() {
    let ground = Ground::asking(|_| {});
    let shown = ground.asked("Bash", &bash("echo '```'\n\nrm -rf \u{200b}x")).await;
    let root = ground.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    assert_snapshot!(shown.markdown.replace(&root, "$WORKSPACE"), @r"
    The programs in this line are not known: the command line holds control characters, unusual blanks or braces around foreign letters

    ````sh
    echo '```'

    rm -rf \u{200b}x
    ````
    in `$WORKSPACE`, for at most 120 s, then it is ended
    ");
    assert!(shown.remedy.contains("several short commands"), "{}", shown.remedy);
}

#[tokio::test]
async fn what_was_approved_runs() {
    let ground = Ground::asking(|_| {});
    let input = write("new.txt", "x\n");
    let digest = ground.asked("Write", &input).await.digest;
    assert_eq!(ground.asked("Write", &input).await.digest, digest, "asked twice");
    let answer = ground.decide("Write", &input, &allow(digest)).await;
    assert_eq!(answer, "Created $WORKSPACE/new.txt (1 lines)");
}

#[tokio::test]
async fn a_call_that_would_fail_asks_nobody() {
    let ground = Ground::asking(|_| {});
    fs::write(ground.path("b.txt"), "one\n").unwrap();
    for (tool, input) in [
        ("Write", write("b.txt", "x")),
        ("Edit", json!({ "file_path": "b.txt", "old_string": "one", "new_string": "2" })),
        ("Edit", json!({ "file_path": "none.txt", "old_string": "one", "new_string": "2" })),
        ("Write", write("sub", "x")),
    ] {
        let judged = ground.judge(tool, &input, None).await;
        assert!(matches!(judged, Judged::Answered(result) if result.is_error), "{input}");
    }
}

#[tokio::test]
async fn x5_an_approval_is_for_no_other_effect() {
    let ground = Ground::asking(|_| {});
    fs::write(ground.path("target-a"), "one\n").unwrap();
    fs::write(ground.path("target-b"), "one\n").unwrap();
    symlink("target-a", ground.path("link")).unwrap();
    for file in ["target-a", "target-b", "link"] {
        ground.read(file).await;
    }
    let linked = json!({ "file_path": "link", "old_string": "one", "new_string": "two" });
    let approved = ground.asked("Edit", &linked).await;
    let decision = allow(approved.digest);

    let other = json!({ "file_path": "link", "old_string": "one", "new_string": "three" });
    assert!(ground.decide("Edit", &other, &decision).await.starts_with("asked: "), "arguments");
    let by_name = json!({ "file_path": "target-a", "old_string": "one", "new_string": "two" });
    assert!(ground.decide("Edit", &by_name, &decision).await.starts_with("asked: "), "name");
    assert!(ground.decide("Write", &write("link", "two\n"), &decision).await.starts_with("asked"));
    assert!(
        ground.decide("Bash", &bash("env true"), &decision).await.starts_with("asked: "),
        "tool"
    );

    fs::remove_file(ground.path("link")).unwrap();
    symlink("target-b", ground.path("link")).unwrap();
    let retargeted = ground.decide("Edit", &linked, &decision).await;
    assert!(retargeted.starts_with("asked: What it would touch has changed"), "{retargeted}");
    assert!(retargeted.contains("`$WORKSPACE/target-b`"), "{retargeted}");
    fs::remove_file(ground.path("link")).unwrap();
    symlink("target-a", ground.path("link")).unwrap();

    fs::write(ground.path("target-a"), "one\nmore\n").unwrap();
    let changed = ground.decide("Edit", &linked, &decision).await;
    assert!(changed.starts_with("asked: ") && changed.contains(" more"), "{changed}");
    assert_eq!(fs::read_to_string(ground.path("target-a")).unwrap(), "one\nmore\n");
    assert_eq!(fs::read_to_string(ground.path("target-b")).unwrap(), "one\n");

    fs::write(ground.path("target-a"), "one\n").unwrap();
    let answer = ground.decide("Edit", &linked, &decision).await;
    assert!(answer.starts_with("Edited $WORKSPACE/link"), "{answer}");
    assert_eq!(fs::read_to_string(ground.path("target-a")).unwrap(), "two\n");
}

#[tokio::test]
async fn x5_a_file_that_appeared_or_went_is_asked_about_anew() {
    let ground = Ground::asking(|_| {});
    let input = write("new.txt", "mine\n");
    let decision = allow(ground.asked("Write", &input).await.digest);
    fs::write(ground.path("new.txt"), "theirs\n").unwrap();

    let Judged::Asked(again) = ground.judge("Write", &input, Some(&decision)).await else {
        panic!("not asked anew");
    };
    assert!(shown(&again).markdown.contains("it would fail: Must read file"), "{again:?}");
    let answer = ground.decide("Write", &input, &allow(shown(&again).digest)).await;

    assert!(answer.starts_with("Error: Must read file before editing"), "{answer}");
    assert_eq!(fs::read_to_string(ground.path("new.txt")).unwrap(), "theirs\n");
    fs::remove_file(ground.path("new.txt")).unwrap();
    assert!(ground.decide("Write", &input, &decision).await.starts_with("Created"));
}

#[tokio::test]
async fn a_command_is_approved_for_its_directory() {
    let ground = Ground::asking(|_| {});
    let decision = allow(ground.asked("Bash", &bash("env pwd")).await.digest);
    ground.context.agent.set_working_dir(ground.path("sub"));
    let answer = ground.decide("Bash", &bash("env pwd"), &decision).await;
    assert!(answer.starts_with("asked: ") && answer.contains("$WORKSPACE/sub"), "{answer}");

    let decision = allow(ground.asked("Bash", &bash("env pwd")).await.digest);
    fs::remove_dir(ground.path("sub")).unwrap();
    symlink(".", ground.path("sub")).unwrap();
    assert!(
        ground.decide("Bash", &bash("env pwd"), &decision).await.starts_with("asked: "),
        "link"
    );
    let slower = json!({ "command": "env pwd", "timeout": 1 });
    assert!(ground.decide("Bash", &slower, &decision).await.starts_with("asked: "), "arguments");
}

#[tokio::test]
async fn the_file_that_is_written_is_the_one_that_was_judged() {
    let ground = Ground::asking(|_| {});
    fs::write(ground.path("b.txt"), "one\n").unwrap();
    ground.read("b.txt").await;
    let edit = json!({ "file_path": "b.txt", "old_string": "one", "new_string": "two" });
    let decision = allow(ground.asked("Edit", &edit).await.digest);
    let Judged::Permitted(call) = ground.judge("Edit", &edit, Some(&decision)).await else {
        panic!("not permitted");
    };
    assert!(call.has_effect() && call.tool() == "Edit");

    fs::write(ground.path("b.txt"), "one\nsecret\n").unwrap();
    let answer = answered(call.run(ground.context.clone()).await);

    assert!(answer.contains("has changed since a person approved its edit"), "{answer}");
    assert_eq!(fs::read_to_string(ground.path("b.txt")).unwrap(), "one\nsecret\n");
}

#[tokio::test]
async fn a_grant_covers_edits_of_the_file_and_nothing_else() {
    let ground = Ground::asking(|_| {});
    let decision = allow_for_session(ground.asked("Write", &write("a", "1\n")).await.digest);
    assert!(ground.decide("Write", &write("a", "1\n"), &decision).await.starts_with("Created"));

    let edit = json!({ "file_path": "a", "old_string": "1", "new_string": "2" });
    assert!(matches!(ground.judge("Edit", &edit, None).await, Judged::Permitted(_)));
    assert!(matches!(ground.judge("Write", &write("a", "3"), None).await, Judged::Permitted(_)));
    assert!(matches!(ground.judge("Write", &write("b", "3"), None).await, Judged::Asked(_)));
    fs::remove_file(ground.path("a")).unwrap();
    fs::write(ground.path("c"), "1\n").unwrap();
    symlink("c", ground.path("a")).unwrap();
    ground.read("a").await;
    assert!(matches!(ground.judge("Edit", &edit, None).await, Judged::Asked(_)), "retargeted");
}

#[tokio::test]
async fn a_grant_covers_the_same_command_in_the_same_directory() {
    let ground = Ground::asking(|_| {});
    let digest = ground.asked("Bash", &bash("env true")).await.digest;
    let judged = ground.judge("Bash", &bash("env true"), Some(&allow_for_session(digest))).await;
    assert!(matches!(judged, Judged::Permitted(_)));

    let saved = ground.context.session.grants.save();
    assert_eq!(saved.len(), 1);
    let again = json!({ "command": "env true", "description": "again", "timeout": 5000 });
    assert!(matches!(ground.judge("Bash", &again, None).await, Judged::Permitted(_)));
    assert!(matches!(ground.judge("Bash", &bash("env true "), None).await, Judged::Asked(_)));
    ground.context.agent.set_working_dir(ground.path("sub"));
    assert!(matches!(ground.judge("Bash", &bash("env true"), None).await, Judged::Asked(_)));
}

type Change = fn(&mut permissions::PermissionSettings);

#[tokio::test]
async fn denial_wins_over_approvals_and_grants() {
    let ground = Ground::asking(|_| {});
    let digest = ground.asked("Bash", &bash("env true")).await.digest;
    let decision = allow_for_session(digest);
    ground.judge("Bash", &bash("env true"), Some(&decision)).await;
    let grants = Arc::clone(&ground.context.session.grants);

    let denials: [(SandboxMode, Change); 3] = [
        (SandboxMode::Off, |settings| settings.deny = vec!["Bash".to_owned()]),
        (SandboxMode::Off, |settings| settings.mode = Mode::Plan),
        (SandboxMode::Required, |_| {}),
    ];
    for (sandbox, change) in denials {
        let mut denying = Ground::asking_under(sandbox, change);
        denying.context = ground.context.clone();
        assert_eq!(denying.context.session.grants.save(), grants.save());
        for decision in [None, Some(&decision)] {
            let judged = denying.judge("Bash", &bash("env true"), decision).await;
            let Judged::Answered(result) = judged else { panic!("{judged:?}") };
            assert!(result.wire_text().starts_with("Error: not permitted: "), "{result:?}");
        }
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_call_is_refused_as_ever() {
    let ground = Ground::asking(|_| {});
    let refused = ground.call("Bash", r#"{"command":"env true"}"#).await;
    assert_snapshot!(refused, @r#"Error: not permitted: Bash needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Bash(env true)"]`"#);
    let ground = Ground::asking(|settings| settings.mode = Mode::DontAsk);
    let judged = ground.judge("Bash", &bash("env true"), None).await;
    let Judged::Answered(result) = judged else { panic!("{judged:?}") };
    assert_snapshot!(result.wire_text(), @r#"Error: not permitted: Bash needs an approval, and the mode dontAsk denies what would ask. The operator can allow it with `permissions.allow = ["Bash(env true)"]`"#);
}

#[tokio::test]
async fn a_refusal_is_told_with_the_persons_words() {
    let ground = Ground::asking(|_| {});
    let input = write("new.txt", "x");
    let deny = |feedback: Option<&str>| Decision::Deny { feedback: feedback.map(str::to_owned) };
    assert_snapshot!(ground.decide("Write", &input, &deny(None)).await, @"Error: the user declined this call; nothing was done");
    assert_snapshot!(ground.decide("Write", &input, &deny(Some("use b.txt"))).await, @"Error: the user declined this call; nothing was done. The user says: use b.txt");
    assert_snapshot!(ground.decide("Write", &input, &Decision::Expired).await, @"Error: the approval came too late and counts as declined; nothing was done. Call again if it is still needed");
    assert!(!ground.path("new.txt").exists());
}

#[tokio::test]
async fn the_persons_own_input_is_judged_and_runs_instead() {
    let ground = Ground::asking(|settings| settings.deny = vec!["Bash".to_owned()]);
    let input = write("new.txt", "x\n");
    let digest = ground.asked("Write", &input).await.digest;
    let updated = |digest, input: Value| Decision::Allow {
        digest,
        scope: GrantScope::Once,
        rules: Vec::new(),
        updated_input: Some(input),
    };

    let wrong = ground.decide("Write", &input, &updated(digest, json!({ "content": "y" }))).await;
    assert!(wrong.starts_with("Error: invalid input"), "{wrong}");
    let ours = ground.decide("Write", &input, &updated(digest, write("state/x", "y"))).await;
    assert!(ours.starts_with("Error: not permitted"), "{ours}");
    let stale = ground.decide("Write", &input, &updated([0; 32], write("b.txt", "y"))).await;
    assert!(stale.starts_with("asked: "), "{stale}");
    let made = ground.decide("Write", &input, &updated(digest, write("b.txt", "y\n"))).await;
    assert_eq!(made, "Created $WORKSPACE/b.txt (1 lines)");
    assert!(!ground.path("new.txt").exists());
}

fn question() -> Value {
    json!({ "questions": [{
        "question": "Which colour?", "header": "Colour",
        "options": [{ "label": "Red", "description": "" }, { "label": "Green" }],
    }], "answers": { "Which colour?": "Blue" } })
}

#[tokio::test]
async fn a_question_always_asks_and_only_an_answer_answers_it() {
    let ground = Ground::new();
    let Judged::Asked(ask) = ground.judge("AskUserQuestion", &question(), None).await else {
        panic!("not asked");
    };
    assert_eq!(ask.headline, "Which colour?");
    let answers = IndexMap::from([("Which colour?".to_owned(), "Red".to_owned())]);
    let answered = Decision::Answers { answers };
    let judged = ground.judge("AskUserQuestion", &question(), Some(&answered)).await;
    let Judged::Answered(result) = judged else { panic!("{judged:?}") };
    assert_eq!(result.wire_text(), r#"{"answers":{"Which colour?":"Red"}}"#);
    assert_eq!(result.structured, json!({ "answers": { "Which colour?": "Red" } }));

    let approved = ground.judge("AskUserQuestion", &question(), Some(&allow([0; 32]))).await;
    assert!(matches!(approved, Judged::Asked(_)), "{approved:?}");
    let none = Decision::Answers { answers: IndexMap::new() };
    let answer = ground.decide("AskUserQuestion", &question(), &none).await;
    assert_eq!(answer, r#"{"answers":{"Which colour?":"(no answer)"}}"#);
    let asking = Ground::asking(|_| {});
    let effect = asking.judge("Bash", &bash("env true"), Some(&answered)).await;
    assert!(matches!(effect, Judged::Asked(_)), "answers approve nothing: {effect:?}");
}

#[tokio::test]
async fn a_question_that_reaches_nobody_is_an_error() {
    let ground = Ground::asking(|settings| settings.mode = Mode::DontAsk);
    let dont_ask = ground.call("AskUserQuestion", &question().to_string()).await;
    assert_snapshot!(dont_ask, @"Error: AskUserQuestion needs a person, and the mode dontAsk asks nobody. Go on with what you know, and say what you assumed");
    let nobody = Ground::new().call("AskUserQuestion", &question().to_string()).await;
    assert_snapshot!(nobody, @"Error: AskUserQuestion needs a person, and nobody can be asked here. Go on with what you know, and say what you assumed");
    let denied = Ground::asking(|settings| settings.deny = vec!["AskUserQuestion".to_owned()]);
    let denied = denied.call("AskUserQuestion", &question().to_string()).await;
    assert!(denied.starts_with("Error: not permitted: the rule"), "{denied}");
}

#[tokio::test]
async fn questions_out_of_bounds_are_refused() {
    let ground = Ground::new();
    let one = |question: &str, header: &str, labels: &[&str]| {
        let options: Vec<_> = labels.iter().map(|label| json!({ "label": label })).collect();
        json!({ "question": question, "header": header, "options": options })
    };
    let fine = || one("?", "h", &["1", "2"]);
    let long = "é".repeat(1001);
    for questions in [
        json!([]),
        json!([
            fine(),
            one("b", "h", &["1", "2"]),
            one("c", "h", &["1", "2"]),
            one("d", "h", &["1", "2"]),
            one("e", "h", &["1", "2"])
        ]),
        json!([one(&long, "h", &["1", "2"])]),
        json!([one("", "h", &["1", "2"])]),
        json!([one(" ", "h", &["1", "2"])]),
        json!([one("?", "h123456789012", &["1", "2"])]),
        json!([one("?", "h", &["1"])]),
        json!([one("?", "h", &["1", "2", "3", "4", "5"])]),
        json!([one("?", "h", &["Yes", " yes"])]),
        json!([one("?", "h", &["Yes", ""])]),
        json!([fine(), fine()]),
    ] {
        let judged =
            ground.judge("AskUserQuestion", &json!({ "questions": questions }), None).await;
        let Judged::Answered(result) = judged else { panic!("{questions}") };
        assert!(result.wire_text().starts_with("Error: invalid input"), "{result:?}");
    }
    let largest = json!({ "questions": [
        one(&long[..2000], "h12345678901", &["1", "2", "3", "4"]),
        one("b", "", &["1", "2"]), one("c", "h", &["1", "2"]), one("d", "h", &["1", "2"]),
    ] });
    assert!(matches!(ground.judge("AskUserQuestion", &largest, None).await, Judged::Asked(_)));
}

#[tokio::test]
async fn every_tool_that_edits_shows_the_contents_that_it_would_change() {
    let ground = Ground::asking(|_| {});
    let notebook = r#"{"cells": [{"id": "one", "source": "one"}], "nbformat": 4}"#;
    for (name, contents) in [("b.txt", "one\n"), ("b.ipynb", notebook)] {
        fs::write(ground.path(name), contents).unwrap();
        ground.read(name).await;
    }
    for tool in ground.pipeline.tools.tools() {
        let (name, input) = match tool.name() {
            _ if tool.access() != AccessKind::Edit => continue,
            "Write" => ("b.txt", write("b.txt", "two\n")),
            "NotebookEdit" => (
                "b.ipynb",
                json!({ "notebook_path": "b.ipynb", "cell_id": "one", "new_source": "two" }),
            ),
            _ => {
                ("b.txt", json!({ "file_path": "b.txt", "old_string": "one", "new_string": "two" }))
            }
        };
        let before = fs::read_to_string(ground.path(name)).unwrap();
        let digest = ground.asked(tool.name(), &input).await.digest;
        fs::write(ground.path(name), format!("{before}\n")).unwrap();
        let answer = ground.decide(tool.name(), &input, &allow(digest)).await;
        assert!(answer.starts_with("asked: "), "{answer}");
        fs::write(ground.path(name), before).unwrap();
    }
}

/// What happens between asks and decisions.
#[derive(Clone, Debug)]
enum Step {
    /// Asks about a write of this content by this name, and keeps the digest.
    Ask(usize, usize),
    /// Tries a write with the digest that was kept at this place.
    Try(usize, usize, usize),
    /// Someone else writes the file.
    Change(usize, u8),
    /// Someone else makes the link lead to this file.
    Retarget(usize),
}

const NAMES: [&str; 3] = ["one.txt", "two.txt", "link"];
const CONTENTS: [&str; 2] = ["mine\n", "mine too\n"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is asked, approved and changed in whatever order: a write is done only if its
    /// exact effect on exactly these contents was shown under the digest that it is tried with.
    #[test]
    fn no_order_of_asks_decisions_and_changes_has_an_effect_that_was_not_shown(
        steps in prop::collection::vec(prop_oneof![
            (0..3_usize, 0..2_usize).prop_map(|(name, content)| Step::Ask(name, content)),
            (0..3_usize, 0..2_usize, any::<usize>())
                .prop_map(|(name, content, kept)| Step::Try(name, content, kept)),
            (0..2_usize, any::<u8>()).prop_map(|(name, content)| Step::Change(name, content % 3)),
            (0..2_usize).prop_map(Step::Retarget),
        ], 1..25),
    ) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let ground = Ground::asking(|_| {});
            symlink("one.txt", ground.path("link")).unwrap();
            let mut link = 0;
            // The state that each digest was shown for: name, content, real file, old contents.
            let mut kept = Vec::new();
            for step in steps {
                let files = || NAMES[..2].iter().map(|name| fs::read(ground.path(name)).ok());
                let before: Vec<_> = files().collect();
                let real = |name: usize| if name == 2 { link } else { name };
                match step {
                    Step::Change(name, content) => {
                        fs::write(ground.path(NAMES[name]), format!("theirs {content}\n")).unwrap();
                        ground.read(NAMES[name]).await;
                    }
                    Step::Retarget(to) => {
                        fs::remove_file(ground.path("link")).unwrap();
                        symlink(NAMES[to], ground.path("link")).unwrap();
                        link = to;
                    }
                    Step::Ask(name, content) => {
                        let input = write(NAMES[name], CONTENTS[content]);
                        if let Judged::Asked(ask) = ground.judge("Write", &input, None).await {
                            let state = (name, content, real(name), before[real(name)].clone());
                            kept.push((shown(&ask).digest, state));
                        }
                        assert_eq!(files().collect::<Vec<_>>(), before, "asking writes nothing");
                    }
                    Step::Try(name, content, which) => {
                        if kept.is_empty() {
                            continue;
                        }
                        let (digest, state) = &kept[which % kept.len()];
                        let input = write(NAMES[name], CONTENTS[content]);
                        let now = (name, content, real(name), before[real(name)].clone());
                        let answer = ground.decide("Write", &input, &allow(*digest)).await;
                        let was_done =
                            answer.starts_with("Created") || answer.starts_with("Updated");
                        assert_eq!(was_done, *state == now, "{answer}");
                        let mut expected = before.clone();
                        if was_done {
                            expected[now.2] = Some(CONTENTS[content].as_bytes().to_vec());
                        }
                        assert_eq!(files().collect::<Vec<_>>(), expected, "{answer}");
                    }
                }
            }
        });
    }
}

/// The answer of a call that ran, as the model reads it.
fn answered(executed: Executed) -> String {
    match executed {
        Executed::Answered(result) => result.wire_text(),
        Executed::Suspended => panic!("no call of these tests starts an agent"),
    }
}
