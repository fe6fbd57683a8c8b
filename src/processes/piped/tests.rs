//! Runs real programs that stay. The end of a process is proven by looking for it.

use std::path::Path;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;
use crate::processes::runner::Command;
use crate::processes::test_support::{Gate, marker, processes_with, runner};

fn bash(text: &str) -> Command {
    Command {
        program: "/bin/bash".into(),
        arguments: ["--noprofile", "--norc", "-c", text].map(str::to_owned).to_vec(),
        directory: "/".into(),
        confinement: None,
        kept_alive: None,
    }
}

fn start(text: &str) -> PipedProcess {
    runner().spawn_piped(&bash(text), Vec::new()).unwrap()
}

async fn rest(mut pipe: pipe::Receiver) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn answers_each_line_while_it_stays_and_ends_with_its_input() {
    let PipedProcess { mut stdin, stdout, stderr, mut tree } =
        start("while read -r line; do echo \"got $line\"; echo noise >&2; done; exit 3");
    let mut lines = BufReader::new(stdout).lines();

    for line in ["one", "two"] {
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        assert_eq!(lines.next_line().await.unwrap(), Some(format!("got {line}")));
    }
    drop(stdin);

    assert_eq!(lines.next_line().await.unwrap(), None);
    assert_eq!(rest(stderr).await, "noise\nnoise\n");
    let expected = PipedEnd { cause: EndCause::ItsOwn, exit: Some(Exit::Code(3)), stuck: 0 };
    assert_eq!(tree.ended().await.unwrap(), expected);
}

#[tokio::test]
async fn has_the_listed_environment_and_its_own_variables_and_directory() {
    let variables = [("API_TOKEN", "x y"), ("PATH", "/bin:/usr/bin")];
    let variables = variables.map(|(name, value)| (name.into(), value.into())).to_vec();
    let command = Command { directory: "/tmp".into(), ..bash("pwd; echo $PATH; env") };
    let process = runner().spawn_piped(&command, variables).unwrap();

    let said = rest(process.stdout).await;

    assert!(said.starts_with("/tmp\n/bin:/usr/bin\n"), "{said}");
    assert!(said.contains("\nAPI_TOKEN=x y\n"), "{said}");
    assert!(!said.contains("CARGO"), "{said}");
}

#[tokio::test]
async fn a_tree_ends_with_its_handle_whatever_it_made_of_itself() {
    let gate = Gate::new();
    let marker = marker();
    let text = format!(
        "trap '' TERM; exec 3>{}; setsid bash -c 'trap \"\" TERM; sleep 1000; sleep 1000' {marker} &
         wait",
        gate.path().display()
    );
    let process = start(&text);
    let gate = gate.opened().await;

    drop(process.tree);

    assert_eq!(gate.closed().await, "");
    assert_eq!(processes_with(&marker), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_program_leaves_ends_with_it() {
    let marker = marker();
    let text = format!("setsid bash -c 'sleep 1000; : {marker}' & echo done; exit 0");
    let mut process = start(&text);

    let ended = process.tree.ended().await.unwrap();

    assert_eq!((ended.exit, ended.stuck), (Some(Exit::Code(0)), 0));
    assert_eq!(processes_with(&marker), Vec::<String>::new());
    assert_eq!(rest(process.stdout).await, "done\n");
}

#[tokio::test]
async fn says_why_a_program_cannot_run_and_which_signal_ended_it() {
    let missing = Command { program: "/nowhere/program".into(), ..bash("") };
    let mut process = runner().spawn_piped(&missing, Vec::new()).unwrap();
    assert!(matches!(process.tree.ended().await, Err(RunError::Program { .. })));

    let lost = Command { directory: "/nowhere".into(), ..bash("") };
    let mut process = runner().spawn_piped(&lost, Vec::new()).unwrap();
    assert!(matches!(process.tree.ended().await, Err(RunError::Directory { .. })));

    let nul = vec![("NAME".into(), "a\0b".into())];
    assert!(matches!(runner().spawn_piped(&bash(""), nul), Err(RunError::Nul)));

    let mut process = start("kill -SEGV $$");
    assert_eq!(process.tree.ended().await.unwrap().exit, Some(Exit::Signal(11)));
}

/// A program that does not read must not block who writes for good once it has ended: no process
/// of ours may hold the other end.
#[tokio::test]
async fn a_pipe_breaks_when_the_program_closes_it() {
    let mut process = start("exec 0<&-; echo closed; sleep 1000");
    let mut lines = BufReader::new(process.stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("closed"));

    let flood = vec![b'x'; 1 << 20];
    let error = process.stdin.write_all(&flood).await.unwrap_err();

    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    drop(process.tree);
}

#[tokio::test]
async fn a_program_finds_only_its_three_pipes_open() {
    let process = start("exec /bin/ls /proc/self/fd");
    // The fourth is the directory that is listed.
    assert_eq!(rest(process.stdout).await, "0\n1\n2\n3\n");
    assert!(Path::new("/proc/self/fd").exists());
}
