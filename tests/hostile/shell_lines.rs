//! Tests command lines as models write them, through the whole server.

use std::fs;

use serde_json::json;

use super::processes::Shell;

const NO_OUTPUT: &str = "(Bash completed with no output)";

#[tokio::test]
async fn files_29a_exit_code_1_belongs_to_the_command_that_gave_it() {
    let mut shell = Shell::start().await;
    fs::write(shell.server.workspace().join("f"), "text\n").unwrap();
    for line in [
        "false && grep -c zz f",
        "sh -c 'exit 1' && grep zz f",
        "cd nowhere && grep zz f",
        "cd nowhere; false && grep zz f",
        "grep zz < nowhere",
        "grep zz f > nowhere/log",
        "! grep text f",
        "grep zz f; (exit 1)",
        "set -o pipefail; false | grep text f",
        "if grep text f >/dev/null; then false; fi",
        "x=$(false)",
    ] {
        let answer = shell.run(line).await;
        assert!(
            answer.starts_with("Error: ") && answer.ends_with("Exit code 1"),
            "{line}: {answer}"
        );
    }
    for line in [
        "grep zz f",
        "true && grep zz f",
        "cd . && grep -r zz f",
        "cat f | grep zz",
        "grep zz f || grep yy f",
        "grep zz <<'E'\na; false && b\nE",
        "if true; then grep zz f; fi",
        "(grep zz f)",
        "grep zz f 2>/dev/null",
    ] {
        assert_eq!(shell.run(line).await, "Exit code 1", "{line}");
    }
    assert_eq!(shell.run("grep zz f || true").await, NO_OUTPUT);
    assert_eq!(shell.run("grep zz f; echo $?").await, "1");
}

#[tokio::test]
async fn files_29e_nothing_waits_for_an_editor_or_a_pager() {
    let mut shell = Shell::start().await;
    let git = "git init -q . 2>&1; git config user.email a@b; git config user.name n; \
               git config core.editor 'sleep 1000 #'; git config sequence.editor 'sleep 1000 #'; \
               git config core.pager 'sleep 1000 #'; \
               for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done";
    assert!(!shell.run(git).await.starts_with("Error"));
    let commit = shell.run("echo 4 > f; git commit -a").await;
    assert!(
        commit.starts_with("Error: Aborting commit due to empty commit message.\nExit code 1"),
        "{commit}"
    );
    for line in
        ["git rebase -i HEAD~2", "git commit --amend -a", "git -p log --oneline", "git tag -a x"]
    {
        let answer = shell.call(&[json!({ "command": line, "timeout": 60_000 })]).await.remove(0);
        assert!(!answer.contains("timed out"), "{line}: {answer}");
    }
    // What a command says itself counts.
    for line in [
        "EDITOR=\"sed -i '1s/.*/by the command/'\" git commit -q --amend",
        "VISUAL=\"sed -i '1s/.*/by the command/'\" git commit -q --amend",
        "GIT_EDITOR=\"sed -i '1s/.*/by the command/'\" git commit -q --amend",
        "git -c core.editor=\"sed -i '1s/.*/by the command/'\" commit -q --amend",
    ] {
        let line = format!("git commit -q --amend -m before && {line} && git log -1 --format=%s");
        assert_eq!(shell.run(&line).await, "by the command", "{line}");
    }
    for sequence in [
        "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/drop/' git rebase -q -i HEAD~1",
        "git -c sequence.editor='sed -i 1s/pick/drop/' rebase -q -i HEAD~1",
        "GIT_EDITOR='sed -i 1s/pick/drop/' git rebase -q -i HEAD~1",
        "EDITOR='sed -i 1s/pick/drop/' git rebase -q -i HEAD~1",
    ] {
        let line = format!(
            "git commit -q --allow-empty -m dropped && {sequence} >made 2>&1 && git log -1 --format=%s"
        );
        assert_eq!(shell.run(&line).await, "by the command", "{line}");
    }
}

/// The kernel takes no argument over 128 KiB.
#[tokio::test]
async fn files_29f_a_command_over_the_length_of_the_system_runs() {
    let mut shell = Shell::start().await;
    let long = "x".repeat(200 << 10);
    let line = format!(
        "true '{long}'\necho \"$0 $# $LINENO ${{BASH_SOURCE[*]}}\"; readlink /proc/self/fd/0; nowhere\nexit 3"
    );
    let answer = shell.run(&line).await;
    assert!(answer.starts_with("Error: bash 0 2") && answer.ends_with("Exit code 3"), "{answer}");
    assert!(answer.contains("\n/dev/null\nbash: line 2: nowhere: command not found\n"), "{answer}");
    let line = format!(
        "cat > big <<'E'\n{long}\nE\nwc -c < big; ls -l /proc/self/fd | grep -c script; cd /; pwd"
    );
    let answer = shell.run(&line).await;
    assert!(answer.starts_with("204801\n0\n/\n"), "{}", &answer[..answer.len().min(300)]);
    let line = format!(
        "true '{long}'; cat /proc/$$/cmdline | tr '\\0' ' ' | cut -c1-60; exec 9> nine; echo x >&9; cat nine"
    );
    let answer = shell.run(&line).await;
    assert!(answer.ends_with("\nx") && answer.contains("/dev/fd/"), "{answer}");
    let background =
        json!({ "command": format!("true '{long}'; echo done > made"), "run_in_background": true });
    let answer = shell.call(&[background]).await.remove(0);
    assert!(answer.starts_with("Background task started"), "{answer}");
    assert_eq!(
        shell.run("for i in $(seq 100); do [ -s made ] && break; sleep 0.1; done; cat made").await,
        "done"
    );
    let failed = format!("true '{long}'; fi");
    assert!(shell.run(&failed).await.starts_with("Error: bash: eval: line 1: syntax error"));
}
