//! Runs real commands under real supervisors. Gates hold the order; the end of a process
//! is proven by looking for it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::test_support::{Gate, marker, processes_with, runner};
use super::*;

const LIMITS: Limits =
    Limits { time: Some(Duration::from_secs(120)), output: 16 << 20, shown: 30_000 };

fn bash_in(directory: &Path, text: &str) -> Command {
    Command {
        program: "/bin/bash".into(),
        arguments: ["--noprofile", "--norc", "-c", text].map(str::to_owned).to_vec(),
        directory: directory.to_owned(),
        confinement: None,
        kept_alive: None,
    }
}

fn bash(text: &str) -> Command {
    bash_in(Path::new("/"), text)
}

async fn run(command: &Command) -> Finished {
    run_within(LIMITS, command).await
}

async fn run_within(limits: Limits, command: &Command) -> Finished {
    runner().run(command, limits, &CancellationToken::new()).await.unwrap()
}

async fn output(text: &str) -> String {
    run(&bash(text)).await.output.render(30_000, "")
}

#[tokio::test]
async fn tells_what_was_printed_and_how_it_ended() {
    let finished = run(&bash("echo out; echo err >&2; echo out again; exit 3")).await;

    assert_eq!(finished.output.render(1000, ""), "out\nerr\nout again\n");
    assert_eq!(finished.exit, Some(Exit::Code(3)));
    assert_eq!((finished.cause, finished.leftovers), (EndCause::ItsOwn, 0));
}

#[tokio::test]
async fn p15_an_exit_code_is_what_the_kernel_says() {
    for (text, exit) in [
        ("exit 256", Exit::Code(0)),
        ("exit 255", Exit::Code(255)),
        ("kill -SEGV $$", Exit::Signal(11)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("sh -c 'kill -9 $$'; exit $?", Exit::Code(137)),
    ] {
        assert_eq!(run(&bash(text)).await.exit, Some(exit), "{text}");
    }
}

#[tokio::test]
async fn p2_ends_all_that_a_command_has_left_running() {
    let marker = marker();
    let text = format!(
        r#"
        sleeper() {{ exec -a {marker}-$1 sleep 1000; }}
        sleeper plain &
        nohup bash -c 'exec -a {marker}-nohup sleep 1000' >/dev/null 2>&1 &
        setsid bash -c 'exec -a {marker}-session sleep 1000' &
        (setsid bash -c 'exec -a {marker}-orphan sleep 1000' &) &
        bash -c 'trap "" TERM INT HUP; echo ready; while :; do read -t 1000 <> <(:); done' {marker}-deaf &
        bash -c 'kill -STOP $$; sleep 1000' {marker}-stopped &
        named() {{ cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'; }}
        until [ "$(named | grep -cE '^{marker}-[a-z]+$')" -ge 6 ]; do :; done
        echo done
        "#
    );

    let finished = run(&bash(&text)).await;

    assert_eq!(finished.exit, Some(Exit::Code(0)));
    assert!(finished.output.render(1000, "").contains("done"));
    assert!(6 <= finished.leftovers, "{}", finished.leftovers);
    assert_eq!(processes_with(&marker), Vec::<String>::new());
    assert_eq!(finished.stuck, 0);
}

#[tokio::test]
async fn p3_does_not_wait_for_who_holds_the_output_open() {
    let finished = run(&bash("(trap '' TERM; sleep 1000) & echo done")).await;

    assert_eq!(finished.output.render(1000, ""), "done\n");
    assert!(0 < finished.leftovers);
}

#[tokio::test]
async fn hears_what_a_short_lived_child_still_says() {
    assert_eq!(output("(sleep 0.05; echo late) & echo early").await, "early\nlate\n");
}

#[tokio::test]
async fn p6_a_time_out_ends_the_tree_and_keeps_what_was_said() {
    for text in [
        "echo started; exec -a MARKER sleep 1000",
        "trap '' TERM INT HUP; echo started; bash -c 'while :; do sleep 1000; done' MARKER",
        "echo started; kill -STOP $$; : MARKER",
    ] {
        let marker = marker();
        let limits = Limits { time: Some(Duration::from_millis(300)), ..LIMITS };

        let finished = run_within(limits, &bash(&text.replace("MARKER", &marker))).await;

        assert_eq!(finished.cause, EndCause::TimedOut, "{text}");
        assert_eq!(finished.output.render(1000, ""), "started\n", "{text}");
        assert_eq!(processes_with(&marker), Vec::<String>::new(), "{text}");
    }
}

#[tokio::test]
async fn cancelling_ends_the_tree() {
    let gate = Gate::new();
    let marker = marker();
    let text = format!(
        "trap '' TERM; setsid bash -c 'trap \"\" TERM; sleep 1000; sleep 1000' {marker} &
         exec 3>{}; wait",
        gate.path().display()
    );
    let cancelled = CancellationToken::new();
    let (runner, command) = (runner(), bash(&text));

    let (finished, _gate) = tokio::join!(runner.run(&command, LIMITS, &cancelled), async {
        let gate = gate.opened().await;
        cancelled.cancel();
        gate
    });

    assert_eq!(finished.unwrap().cause, EndCause::Cancelled);
    assert_eq!(processes_with(&marker), Vec::<String>::new());
}

#[tokio::test]
async fn dropping_the_run_ends_the_tree() {
    let gate = Gate::new();
    let text = format!(
        "trap '' TERM; exec 3>{}; setsid bash -c 'trap \"\" TERM; sleep 1000; sleep 1000' & wait",
        gate.path().display()
    );
    let mut runs = JoinSet::new();
    runs.spawn(async move { run(&bash(&text)).await });
    let gate = gate.opened().await;

    runs.abort_all();

    // Each process of the tree holds the gate: it closes when the last one has ended.
    assert_eq!(gate.closed().await, "");
}

#[tokio::test]
async fn a_command_that_kills_its_supervisor_ends_itself() {
    let gate = Gate::new();
    let text = format!(
        "exec 3>{}; setsid bash -c 'trap \"\" TERM; sleep 1000; sleep 1000' & kill -9 $PPID; \
         sleep 1000",
        gate.path().display()
    );

    let (finished, closed) = tokio::join!(async { run(&bash(&text)).await }, async {
        gate.opened().await.closed().await
    });

    assert_eq!((finished.exit, finished.cause), (None, EndCause::ItsOwn));
    assert_eq!(closed, "");
}

#[tokio::test]
async fn a_command_that_stops_its_supervisor_is_ended_all_the_same() {
    // The monitor is stopped when it has resumed the reaper. Looked at twice: the signal may be
    // taken between the two lines of one look.
    let text = "
        monitor=$(cut -d' ' -f4 /proc/$PPID/stat)
        kill -STOP $PPID
        runs=0
        while [ $runs -lt 2 ]; do
            if grep -qE '^State:.T|^ShdPnd:.*[4-7c-f].{4}$' /proc/$PPID/status
            then runs=0
            else runs=$((runs + 1))
            fi
        done
        kill -STOP $monitor
        sleep 1000 &
        echo done";

    let finished = run(&bash(text)).await;

    assert_eq!(finished.output.render(100, ""), "done\n");
    assert_eq!((finished.leftovers, finished.stuck), (1, 0));
}

#[tokio::test]
async fn a_command_ends_only_its_own_processes() {
    let (first, second) = (Gate::new(), Gate::new());
    let text = format!(
        "exec 3>{}; setsid sleep 1000 & read line <{}; echo $line; kill $!",
        first.path().display(),
        second.path().display()
    );
    let command = bash(&text);
    let long = run(&command);
    let short = async {
        let _first = first.opened().await;
        run(&bash("sleep 1000 & disown; echo short")).await;
        fs::write(second.path(), "still here\n").unwrap();
    };

    let (long, ()) = tokio::join!(long, short);

    assert_eq!(long.output.render(1000, ""), "still here\n");
}

#[tokio::test]
async fn p4_endless_output_ends_the_command() {
    for text in [
        "yes",
        "tr '\\0' a </dev/zero",
        "tr '\\0' '\\n' </dev/zero",
        "cat /dev/urandom",
        "while :; do echo x; echo y >&2; done",
        "setsid yes & setsid yes >&2 & wait",
    ] {
        let limits = Limits { output: 1 << 20, ..LIMITS };

        let finished = run_within(limits, &bash(text)).await;

        assert_eq!(finished.cause, EndCause::TooMuchOutput, "{text}");
        assert!(finished.output.render(30_000, "").chars().count() <= 30_000);
    }
}

#[tokio::test]
async fn p12_a_command_sees_three_descriptors_whatever_the_server_has_open() {
    let leaked = File::open("/dev/null").unwrap();
    fcntl_setfd(&leaked, FdFlags::empty()).unwrap();

    let text =
        "for fd in /proc/$$/fd/*; do [ -e $fd ] && echo ${fd##*/}; done; readlink /proc/$$/fd/0";

    assert_eq!(output(text).await, "0\n1\n2\n/dev/null\n");
}

#[tokio::test]
async fn p5_a_command_has_no_terminal_and_no_input() {
    assert_eq!(output("cat; read x; : 2>/dev/null </dev/tty || echo none").await, "none\n");
    // The seventh field is the terminal; 0 is none.
    assert_eq!(output("cut -d' ' -f7 /proc/$$/stat").await.trim(), "0");
}

#[tokio::test]
async fn a_command_has_the_listed_environment_and_no_other() {
    let names = output("env -0 | sed -z 's/=.*//' | sort -z | tr '\\0' ' '").await;

    assert_eq!(
        names,
        "DEBIAN_FRONTEND EDITOR GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_KEY_1 \
         GIT_CONFIG_VALUE_0 GIT_CONFIG_VALUE_1 GIT_PAGER GIT_TERMINAL_PROMPT MANPAGER PAGER PATH \
         PWD SHELL SHLVL SYSTEMD_PAGER TERM _ "
    );
}

#[tokio::test]
async fn a_command_runs_within_limits() {
    assert_eq!(output("ulimit -c; ulimit -Hf").await, "0\n8388608\n");
    let files = output("ulimit -Hn").await;
    assert!(files.trim().parse::<u64>().unwrap() <= 4096, "{files}");
    assert_eq!(output("grep NoNewPrivs /proc/self/status").await, "NoNewPrivs:\t1\n");
    assert_eq!(output("cat /proc/self/oom_score_adj").await, "500\n");
    assert_eq!(output("trap").await, "", "no signal is ignored");
}

/// Writes a program that runs `script` with our program as `$0` and the same arguments.
fn starter(directory: &Path, script: &str) -> std::path::PathBuf {
    let program = directory.join("toolhand");
    // Let another process write it. A process that the tests fork meanwhile would hold
    // the file open, and a file that is open for writing cannot be executed.
    let write = r#"printf '#!/bin/sh\nset -- "%s" "$@"\n%s\n' "$1" "$2" >"$3" && chmod 755 "$3""#;
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", write, "sh"]).arg(test_support::program()).arg(script).arg(&program);
    assert!(shell.status().unwrap().success());
    program
}

/// Runs as another user, because root may trace everything.
#[tokio::test]
async fn p8_a_command_can_neither_trace_nor_read_its_supervisor() {
    let directory = TempDir::new().unwrap();
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory.path(), own).unwrap();
    let script = if rustix::process::geteuid().is_root() {
        r#"exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@""#
    } else {
        r#"exec "$@""#
    };
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    let program = starter(directory.path(), script);
    let runner = Runner::new(program, Environment::allowed([path]), None);
    let text = "read -r _ _ _ above _ </proc/$PPID/stat
        for process in $PPID $above; do
            cat /proc/$process/environ 2>/dev/null && echo read
            ls /proc/$process/fd 2>/dev/null && echo listed
            python3 -c 'import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, int(sys.argv[1]), 0, 0), ctypes.get_errno())' $process
        done
        cat /proc/self/oom_score_adj";

    let finished = runner.run(&bash(text), LIMITS, &CancellationToken::new()).await.unwrap();

    // Both return -1 and EPERM.
    assert_eq!(finished.output.render(1000, ""), "-1 1\n-1 1\n500\n");
}

#[tokio::test]
async fn a_command_ignores_nothing_that_the_server_was_started_to_ignore() {
    let directory = TempDir::new().unwrap();
    let script = r#"trap "" HUP INT QUIT CHLD USR1; exec "$@""#;
    let program = starter(directory.path(), script);
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    let runner = Runner::new(program, Environment::allowed([path]), None);

    let finished =
        runner.run(&bash("trap; exit 3"), LIMITS, &CancellationToken::new()).await.unwrap();

    assert_eq!(finished.output.render(1000, ""), "");
    assert_eq!(finished.exit, Some(Exit::Code(3)));
}

#[tokio::test]
async fn a_command_gets_the_umask_it_is_given() {
    let path = ("PATH".into(), "/bin".into());
    let runner = Runner::new(test_support::program(), Environment::allowed([path]), Some(0o027));

    let finished = runner.run(&bash("umask"), LIMITS, &CancellationToken::new()).await.unwrap();

    assert_eq!(finished.output.render(100, ""), "0027\n");
}

#[tokio::test]
async fn knows_where_a_command_ended() {
    let directory = TempDir::new().unwrap();
    let root = directory.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    let sub = FinalDirectory::To(root.join("sub").into());
    for (text, moved) in [
        ("cd sub; exit 3", sub.clone()),
        ("cd sub && exec true", sub.clone()),
        ("trap 'echo bye' EXIT; cd sub; exit 4", sub.clone()),
        ("set -e; pushd sub/deep; cd ..; false", sub.clone()),
        ("(cd sub)", FinalDirectory::Not),
        ("cd sub; cd ..", FinalDirectory::Not),
        ("mkdir gone; cd gone; rmdir ../gone", FinalDirectory::Nowhere),
        ("cd sub; sh -c 'cd deep'; env -C deep true", sub),
    ] {
        // The text ends as the Bash tool writes it, so that the last program is not the
        // shell itself.
        let finished = run(&bash_in(&root, &format!("{text}\n\n"))).await;

        assert_eq!(finished.moved, moved, "{text}");
    }
}

#[tokio::test]
async fn a_program_that_moves_does_not_move_the_shell() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();

    for text in ["env -C sub true", "true && env -C sub true", "true\nenv -C sub true\n"] {
        let finished = run(&bash_in(directory.path(), &format!("{text}\n\n"))).await;

        assert_eq!(finished.moved, FinalDirectory::Not, "{text}");
        assert_eq!(finished.exit, Some(Exit::Code(0)), "{text}");
    }
}

#[tokio::test]
async fn p14_says_why_a_command_cannot_run() {
    let error = async |command: Command| {
        runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap_err()
    };

    let missing = Command { program: "/bin/no-such-shell".into(), ..bash("true") };
    assert!(matches!(error(missing).await,
        RunError::Program { source, .. } if source.kind() == ErrorKind::NotFound));
    let nowhere = bash_in(Path::new("/no/such/directory"), "true");
    assert!(matches!(error(nowhere).await,
        RunError::Directory { source, .. } if source.kind() == ErrorKind::NotFound));
    assert!(matches!(error(bash("echo a\0b")).await, RunError::Nul));
    let no_supervisor = Runner::new("/no/such/file", Environment::allowed([]), None);
    let error = no_supervisor.run(&bash("true"), LIMITS, &CancellationToken::new()).await;
    assert!(matches!(error.unwrap_err(), RunError::Supervisor(_)));
}

#[tokio::test]
async fn a_directory_may_have_any_name() {
    let directory = TempDir::new().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff a'\"$x\n");
    let odd = directory.path().canonicalize().unwrap().join(name);
    fs::create_dir(&odd).unwrap();

    let finished = run(&bash_in(&odd, "cd ..; cd -; true")).await;
    assert_eq!((finished.exit, finished.moved), (Some(Exit::Code(0)), FinalDirectory::Not));

    let finished = run(&bash_in(directory.path(), "cd *; true")).await;
    assert_eq!(finished.moved, FinalDirectory::To(odd.into()));
}

#[tokio::test]
async fn many_commands_at_once_do_not_disturb_each_other() {
    let mut runs = JoinSet::new();
    for number in 0..24 {
        runs.spawn(async move {
            let finished = run(&bash(&format!("sleep 1000 & echo {number}; exit {number}"))).await;
            (number, finished)
        });
    }

    while let Some(run) = runs.join_next().await {
        let (number, finished) = run.unwrap();
        assert_eq!(finished.output.render(100, ""), format!("{number}\n"));
        assert_eq!(finished.exit, Some(Exit::Code(number)));
        assert_eq!(finished.leftovers, 1);
    }
}

/// A look empties the pipe while the command fills it.
#[tokio::test(flavor = "multi_thread")]
async fn looks_at_long_output_lose_none_of_it() {
    let limits = Limits { time: None, output: 64 << 20, ..LIMITS };
    let command = bash("head -c 32000000 /dev/zero | tr '\\0' x");
    let mut running = runner().spawn(&command, limits, KeepOutput::Nothing).unwrap();
    let control = running.control().clone();
    let mut ended = std::pin::pin!(running.ended());
    let finished = loop {
        tokio::select! {
            finished = &mut ended => break finished.unwrap(),
            () = control.catch_up() => {}
        }
    };
    assert_eq!(finished.output.so_far().1, 32_000_000);
}

/// What a command has printed before it opened the gate.
async fn printed(running: &Running, gate: &Gate) -> String {
    gate.opened().await.closed().await;
    running.control().catch_up().await;
    running.control().output().render(1000, "")
}

#[tokio::test]
async fn p16_a_handle_changes_hands_while_the_command_runs() {
    let (begun, end) = (Gate::new(), Gate::new());
    let text = format!(
        "echo begun; : >{}; read line <{}; echo $line",
        begun.path().display(),
        end.path().display()
    );
    let limits = Limits { time: None, ..LIMITS };
    let running = runner().spawn(&bash(&text), limits, KeepOutput::Nothing).unwrap();
    let said = printed(&running, &begun);
    assert_eq!(said.await, "begun\n");

    let (to, mut from) = tokio::sync::mpsc::channel(1);
    to.send(running).await.unwrap();
    let mut running: Running = from.recv().await.unwrap();
    fs::write(end.path(), "heard\n").unwrap();

    let finished = running.ended().await.unwrap();
    assert_eq!(finished.output.render(1000, ""), "begun\nheard\n");
    assert_eq!((finished.exit, finished.cause), (Some(Exit::Code(0)), EndCause::ItsOwn));
}

#[tokio::test]
async fn p16_a_handle_that_is_dropped_ends_the_tree() {
    let (gate, begun, marker) = (Gate::new(), Gate::new(), marker());
    // Every process holds the gate until it has ended.
    let text = format!(
        "exec 3>{}; setsid bash -c ': >{}; exec -a {marker} sleep 1000' & wait",
        gate.path().display(),
        begun.path().display()
    );
    let limits = Limits { time: None, ..LIMITS };
    let running = runner().spawn(&bash(&text), limits, KeepOutput::Nothing).unwrap();
    let open = gate.opened().await;
    begun.opened().await.closed().await;

    drop(running);

    open.closed().await;
    assert_eq!(processes_with(&marker), Vec::<String>::new());
}

#[tokio::test]
async fn p6_one_that_is_stopped_may_clean_up() {
    let gate = Gate::new();
    let text = format!(
        "trap 'echo cleaned; exit 7' TERM; : >{}; while :; do :; done",
        gate.path().display()
    );
    let limits = Limits { time: None, ..LIMITS };
    let mut running = runner().spawn(&bash(&text), limits, KeepOutput::Nothing).unwrap();
    gate.opened().await.closed().await;

    running.control().stop(StopReason::Asked);

    let finished = running.ended().await.unwrap();
    assert_eq!(finished.output.render(1000, ""), "cleaned\n");
    assert_eq!((finished.exit, finished.cause), (Some(Exit::Code(7)), EndCause::Stopped));
}

#[tokio::test]
async fn the_output_that_is_too_long_to_be_shown_is_whole_in_its_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("output");
    let make = {
        let path = path.clone();
        MakeFile::new(move || File::options().read(true).append(true).create(true).open(&path))
    };
    let text = "seq 1 100000; printf 'one\\rtwo\\r\\n\\033[1mbold'";
    let mut running = runner().spawn(&bash(text), LIMITS, KeepOutput::WhenLong(make)).unwrap();

    let finished = running.ended().await.unwrap();

    let lines: Vec<String> = (1..=100_000).map(|line| format!("{line}\n")).collect();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}two\nbold", lines.concat()));
    assert!(
        !finished.output.so_far().0.fits(LIMITS.shown) && finished.output.file_fault().is_none()
    );
}

#[tokio::test]
async fn a_command_that_says_nothing_more_has_its_output_in_the_file_all_the_same() {
    let (gate, file) = (Gate::new(), Gate::new());
    let directory = TempDir::new().unwrap();
    let (path, opened) = (directory.path().join("output"), file.path());
    let make = MakeFile::new(move || {
        let file = File::options().read(true).append(true).create(true).open(&path)?;
        fs::write(&opened, "")?;
        Ok(file)
    });
    let text = format!("echo begun; : >{}; sleep 1000", gate.path().display());
    let mut running = runner().spawn(&bash(&text), LIMITS, KeepOutput::WhenLong(make)).unwrap();
    gate.opened().await.closed().await;

    running.control().keep_output();

    file.opened().await.closed().await;
    running.control().stop(StopReason::Cancelled);
    running.ended().await.unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("output")).unwrap(), "begun\n");
}
