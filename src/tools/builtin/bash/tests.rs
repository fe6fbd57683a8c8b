//! Calls Bash as the model does, with the real shell.

mod background;
mod exchanges;
mod left_behind;
mod readers;
mod sandbox_notes;

use std::fs;
use std::sync::Arc;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::processes::confinement::Level;
use crate::processes::sandbox::SandboxSettings;
use crate::processes::test_support::{Gate, runner};
use crate::tools::tool::test_support::Workspace as Fixture;
use crate::tools::tool::{AnyTool, erase};

fn bash() -> Bash {
    in_sandbox(&[])
}

fn in_sandbox(levels: &[Level]) -> Bash {
    let settings = SandboxSettings { levels: levels.to_vec(), ..SandboxSettings::default() };
    Bash::new(runner(), Sandbox::new(runner(), settings), BashSettings::default(), None)
}

async fn output(fixture: &Fixture, arguments: Value) -> ToolOutput {
    let tool: Arc<dyn AnyTool> = erase(bash());
    fixture.run(&tool, arguments).await.unwrap()
}

async fn answer(fixture: &Fixture, command: &str) -> String {
    fixture.call(bash(), json!({ "command": command })).await
}

#[tokio::test]
async fn answers_with_what_was_printed() {
    let fixture = Fixture::new(&[("a.txt", "text\n")]);

    assert_snapshot!(answer(&fixture, "cat a.txt; echo oops >&2").await, @r"
    text
    oops
    ");
    assert_snapshot!(answer(&fixture, "true").await, @"");
}

#[tokio::test]
async fn p15_a_failure_is_an_error_with_its_exit_code() {
    let fixture = Fixture::new(&[]);

    assert_snapshot!(answer(&fixture, "echo half; exit 3").await, @r"
    Error: half
    Exit code 3
    ");
    assert_snapshot!(answer(&fixture, "no-such-program").await, @r"
    Error: bash: line 1: no-such-program: command not found
    Exit code 127
    ");
    assert_snapshot!(answer(&fixture, "kill -9 $$").await, @"Error: Killed by signal 9 (SIGKILL)");
}

#[tokio::test]
async fn nothing_found_is_no_error() {
    let fixture = Fixture::new(&[("a.txt", "text\n")]);

    assert_snapshot!(answer(&fixture, "grep needle a.txt").await, @"Exit code 1");
    assert_snapshot!(answer(&fixture, "grep needle no.txt").await, @r"
    Error: grep: no.txt: No such file or directory
    Exit code 2
    ");
}

#[tokio::test]
async fn the_working_directory_stays_where_the_command_left_it() {
    let fixture = Fixture::new(&[("sub/a.txt", "text\n")]);

    assert_snapshot!(answer(&fixture, "cd sub; exit 3").await, @"Error: Exit code 3");
    assert_snapshot!(answer(&fixture, "pwd; x=1").await, @"$WORKSPACE/sub");
    assert_snapshot!(answer(&fixture, "env -C .. pwd").await, @"$WORKSPACE");
    assert_snapshot!(answer(&fixture, "pwd; echo \"[$x]\"").await, @r"
    $WORKSPACE/sub
    []
    ");
}

#[tokio::test]
async fn the_working_directory_does_not_leave_the_workspace() {
    let fixture = Fixture::new(&[("sub/a.txt", "")]);
    answer(&fixture, "cd sub").await;

    assert_snapshot!(answer(&fixture, "cd /usr && pwd").await, @r"
    /usr
    (the working directory is $WORKSPACE again: /usr is outside the workspace)
    ");
    assert_snapshot!(answer(&fixture, "pwd").await, @"$WORKSPACE");
}

#[tokio::test]
async fn p14_a_working_directory_that_is_gone_is_left() {
    let fixture = Fixture::new(&[("sub/a.txt", "")]);

    answer(&fixture, "cd sub").await;
    fs::remove_dir_all(fixture.path("sub")).unwrap();

    assert_snapshot!(answer(&fixture, "pwd").await, @"Error: the working directory $WORKSPACE/sub cannot be entered: No such file or directory (os error 2); nothing was run (the working directory is $WORKSPACE again: the one before cannot be entered)");
    assert_snapshot!(answer(&fixture, "pwd").await, @"$WORKSPACE");
    assert_snapshot!(answer(&fixture, "mkdir x; cd x; rmdir ../x").await, @"(the working directory is $WORKSPACE again: the directory that the command ended in was removed)");
}

#[tokio::test]
async fn p6_a_time_out_says_so_and_keeps_the_output() {
    let fixture = Fixture::new(&[]);
    let arguments = json!({ "command": "echo begun; sleep 1000", "timeout": 300 });

    assert_snapshot!(fixture.call(bash(), arguments).await, @r"
    Error: begun
    Command timed out after 0.3 s and was ended; if it needs more time, give a larger timeout
    ");
}

#[tokio::test]
async fn a_time_out_beyond_the_limit_is_lowered() {
    let fixture = Fixture::new(&[]);
    let arguments = json!({ "command": "echo a", "timeout": 600_001 });

    assert_snapshot!(fixture.call(bash(), arguments).await, @r"
    a
    (timeout lowered to 600 s, the most that is allowed)
    ");
}

#[tokio::test]
async fn p2_what_is_left_running_is_ended_and_counted() {
    let fixture = Fixture::new(&[]);

    assert_snapshot!(answer(&fixture, "sleep 1000 & setsid sleep 1000 & echo started").await, @r"
    started
    (2 processes that the command left running were ended; use run_in_background for what must keep running)
    ");
}

#[tokio::test]
async fn an_interrupted_command_says_so() {
    let fixture = Fixture::new(&[]);
    let gate = Gate::new();
    let command = format!("echo begun; exec 3>{}; sleep 1000", gate.path().display());
    let cancelled = fixture.context().cancelled;

    let (output, ()) = tokio::join!(output(&fixture, json!({ "command": command })), async {
        let open = gate.opened().await;
        cancelled.cancel();
        open.closed().await;
    });

    assert_eq!(output.text.to_string(), "begun\ninterrupted");
    assert!(output.is_error);
    assert_eq!(output.structured["interrupted"], true);
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let fixture = Fixture::new(&[]);

    let answer = answer(&fixture, "seq 1 100000; exit 2").await;

    assert!(answer.chars().count() <= "Error: ".len() + output_end::MAX_CHARACTERS);
    assert!(answer.starts_with("Error: 1\n2\n3\n"));
    assert!(answer.ends_with("\n99999\n100000\nExit code 2"));
    let cut = answer.lines().find(|line| line.starts_with("[…")).unwrap();
    assert_snapshot!(cut, @"[… 559098 characters left out; ask for less at a time …]");
}

#[tokio::test]
async fn p4_endless_output_is_ended_at_the_limit() {
    let fixture = Fixture::new(&[]);

    let answer = answer(&fixture, "yes").await;

    assert!(answer.starts_with("Error: y\ny\n"));
    assert_snapshot!(answer.lines().last().unwrap(), @"output limit: the command was ended because it wrote more than 16 MiB");
}

#[tokio::test]
async fn p17_output_is_made_readable() {
    let fixture = Fixture::new(&[]);

    assert_snapshot!(answer(&fixture, r"printf '\033[1;31mred\033[0m \377\n'").await, @r"
    red �
    (bytes that are not UTF-8 are shown as �)
    ");
}

#[tokio::test]
async fn programs_get_the_structured_answer() {
    let fixture = Fixture::new(&[]);

    let output = output(&fixture, json!({ "command": "echo a; exit 2" })).await;

    assert_eq!(
        output.structured,
        json!({
            "stdout": "a", "interrupted": false, "exit_code": 2, "task_id": null,
            "raw_output_path": null, "sandbox": "off", "reads_only": false,
        })
    );
    assert!(output.is_error);
}

#[tokio::test]
async fn the_answer_says_what_confined_the_command() {
    for level in [Level::Landlock, Level::Bwrap] {
        let tool = in_sandbox(&[level]);
        if tool.sandbox.level().await.is_none() {
            continue;
        }
        let fixture = Fixture::new(&[("sub/a.txt", "text\n")]);
        let tool: Arc<dyn AnyTool> = erase(tool);
        let output = fixture.run(&tool, json!({ "command": "cd sub; cat a.txt; echo b >b.txt" }));
        let output = output.await.unwrap();
        assert_eq!(output.structured["sandbox"], level.name());
        assert_eq!(output.text.to_string(), "text");
        assert_eq!(fs::read_to_string(fixture.path("sub/b.txt")).unwrap(), "b\n");
        let output = fixture.run(&tool, json!({ "command": "pwd; : </dev/tcp/127.0.0.1/1" })).await;
        let text = output.unwrap().text.to_string();
        assert!(text.starts_with(fixture.path("sub").to_str().unwrap()), "{text}");
        assert!(text.contains("Operation not permitted"), "{text}");
    }
}

#[tokio::test]
async fn what_landlock_cannot_protect_is_named() {
    let tool = in_sandbox(&[Level::Landlock]);
    if tool.sandbox.level().await.is_none() {
        return;
    }
    let fixture = Fixture::new(&[(".git/config", "")]);
    let command = "mkdir .git/hooks; echo x >.git/hooks/pre-commit; echo y >.envrc; echo z >a";
    assert_snapshot!(fixture.call(tool, json!({ "command": command })).await, @"(left behind: control files made or changed: $WORKSPACE/.envrc, $WORKSPACE/.git/hooks/pre-commit (git, editors, shells, package managers or CI run what it says))");
}

#[tokio::test]
async fn p14_what_the_system_refuses_is_explained() {
    let fixture = Fixture::new(&[]);

    assert_snapshot!(answer(&fixture, &format!(": {}; echo ran", "x".repeat(800_000))).await, @"ran");
    assert_snapshot!(answer(&fixture, "echo a\0b").await, @"Error: the command holds a NUL character; a program cannot be given one");
    let no_shell = Bash { shell: "/no/such/bash".into(), ..bash() };
    assert_snapshot!(fixture.call(no_shell, json!({ "command": "true" })).await, @"Error: /no/such/bash cannot be run: No such file or directory (os error 2)");
}

#[tokio::test]
async fn the_text_reaches_the_shell_as_it_is() {
    let fixture = Fixture::new(&[]);

    let quotes = r#"echo "\"; echo $#:$0; echo \""; echo 'a'"'"'b' "#;
    assert_snapshot!(answer(&fixture, quotes).await, @r#"
    "; echo 0:bash; echo "
    a'b
    "#);
    assert_snapshot!(answer(&fixture, "cat <<'E'\n$HOME `x` \\\nE").await, @r"$HOME `x` \");
    assert_snapshot!(answer(&fixture, "echo a # no more").await, @"a");
}

#[tokio::test]
async fn files_29f_a_command_too_long_for_an_argument_runs_in_each_sandbox() {
    let long = "x".repeat(300_000);
    let command = format!("true '{long}'\necho $0 $LINENO >made; cat made; read -r x; echo [$x]");
    for level in [Level::Bwrap, Level::Landlock] {
        let fixture = Fixture::new(&[]);
        let answer = fixture.call(in_sandbox(&[level]), json!({ "command": command })).await;
        assert_eq!(answer, "bash 2\n[]", "{level:?}");
    }
}

#[test]
fn the_headline_is_one_line() {
    let input = |command: &str, description: Option<&str>| BashInput {
        command: command.to_owned(),
        description: description.map(str::to_owned),
        timeout: None,
        run_in_background: None,
        outside_sandbox: None,
    };
    let headline = |input| Bash::headline(&bash(), &input);

    assert_eq!(headline(input("make\nmake test", None)), "make …");
    assert_eq!(headline(input("make", Some("Builds it"))), "make");
    assert_eq!(headline(input("\n # Builds it\n make\n# so\n", Some(" "))), "make");
    assert_eq!(headline(input("# nothing\n", None)), "# nothing");
}
