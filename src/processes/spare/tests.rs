//! Runs real commands under supervisors that were started ahead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::processes::confinement::{Level, Network};
use crate::processes::sandbox::{Confined, Sandbox, SandboxSettings};
use crate::processes::test_support::{program, runner};
use crate::processes::{Command, Environment, Exit, Limits, Runner};

const LIMITS: Limits =
    Limits { time: Some(std::time::Duration::from_secs(120)), output: 1 << 20, shown: 30_000 };

/// All that a command can find out about how it was started. Numbers of processes and of pipes
/// differ from one start to the next.
const LOOKS: &str = r#"
    env | sort
    for what in c d e f i l m n q r s t v x; do echo "$(ulimit -S$what) $(ulimit -H$what)"; done
    umask; pwd; trap; nice; echo "$- $0 $#"
    cat /proc/self/oom_score_adj /proc/self/coredump_filter
    sed -E 's/toolhand-[0-9]+/toolhand-N/' /proc/$$/cgroup
    grep -E '^(Umask|Uid|Gid|Groups|NoNewPrivs|Seccomp|Seccomp_filters|Cap.*|Sig(Blk|Ign|Cgt)):' /proc/self/status
    for fd in /proc/$$/fd/*; do
        [ -e $fd ] && echo "${fd##*/} $(readlink $fd | tr -d 0-9)"
    done
    read -r pid _ state parent group session terminal _ </proc/$$/stat
    [ $group = $pid ] && [ $session = $parent ] && echo "$terminal leads a group, and its parent the session"
    cut -d' ' -f18,19,40,41 /proc/$$/stat
    readlink /proc/$$/cwd /proc/$$/root
    exit 3"#;

/// A runner, and a workspace in which it confines commands.
struct Ground {
    directory: TempDir,
    runner: Runner,
    sandbox: Sandbox,
    level: Option<Level>,
}

impl Ground {
    /// `None`: the machine does not have the level.
    async fn new(level: Option<Level>) -> Option<Self> {
        let runner = runner();
        let levels = level.into_iter().collect();
        let settings = SandboxSettings { levels, network: Network::None, ..Default::default() };
        let sandbox = Sandbox::new(runner.clone(), settings);
        if sandbox.level().await != level {
            return None;
        }
        Some(Self { directory: TempDir::new().unwrap(), runner, sandbox, level })
    }

    async fn each() -> Vec<Self> {
        let mut all = Vec::new();
        for level in [None, Some(Level::Landlock), Some(Level::Bwrap)] {
            all.extend(Self::new(level).await);
        }
        all
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    async fn confined(&self) -> Option<Confined> {
        self.sandbox.confine(vec![self.root()], None).await.unwrap()
    }

    /// Runs a command and returns what it says. It must exit with 3.
    async fn run(&self, confined: Option<&Confined>, text: &str) -> String {
        self.run_in(&self.root(), confined, text).await
    }

    async fn run_in(&self, directory: &Path, confined: Option<&Confined>, text: &str) -> String {
        let command = Command {
            program: "/bin/bash".into(),
            arguments: ["--noprofile", "--norc", "-c", text].map(str::to_owned).to_vec(),
            directory: directory.to_owned(),
            confinement: confined.map(|confined| Arc::clone(&confined.confinement)),
            kept_alive: confined.map(Confined::guard),
        };
        let finished = self.runner.run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        let said = finished.output.render(30_000, "");
        assert_eq!(finished.exit, Some(Exit::Code(3)), "{:?}: {said}", self.level);
        assert_eq!((finished.leftovers, finished.stuck), (0, 0), "{:?}", self.level);
        said
    }

    fn spare(&self) -> Option<Pid> {
        self.runner.starter().spares().process()
    }

    /// Waits for the spare that follows a command.
    async fn next_spare(&self) -> Pid {
        loop {
            if let Some(spare) = self.spare() {
                return spare;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits for a spare, begun by a command if there is none yet.
    async fn some_spare(&self) -> Pid {
        if self.spare().is_none() {
            self.run(self.confined().await.as_ref(), "exit 3").await;
        }
        self.next_spare().await
    }
}

/// Waits until a process has ended, whether or not somebody has asked how.
fn wait_for_end(process: Pid) {
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return };
    let ended = retry_on_intr(|| poll(&mut [PollFd::new(&handle, PollFlags::IN)], None));
    assert_eq!(ended, Ok(1));
}

/// Says the number of the monitor: the parent of the parent.
const MONITOR: &str = "read -r _ _ _ monitor _ </proc/$PPID/stat; echo $monitor; exit 3";

#[tokio::test]
async fn p8_a_command_of_a_spare_supervisor_is_confined_as_any_other() {
    for ground in Ground::each().await {
        let level = ground.level;
        let confined = ground.confined().await;
        // A runner of its own has no spare.
        let cold = Ground { runner: runner(), ..ground };
        let without = cold.run(confined.as_ref(), LOOKS).await;
        let spare = cold.next_spare().await;

        let with = cold.run(confined.as_ref(), LOOKS).await;

        assert_ne!(cold.spare(), Some(spare), "{level:?}: it was used");
        assert!(with.contains("leads a group") && with.contains("NoNewPrivs:\t1"), "{with}");
        assert_eq!(with, without, "{level:?}");
    }
}

#[tokio::test]
async fn p12_a_spare_supervisor_knows_nothing_and_leaves_its_command_three_descriptors() {
    for ground in Ground::each().await {
        let spare = ground.some_spare().await;
        let own = format!("/proc/{}", spare.as_raw_nonzero());
        // Only root may look at it: see `p8_a_command_can_neither_trace_nor_read_its_supervisor`.
        if let Ok(environment) = std::fs::read(format!("{own}/environ")) {
            assert_eq!(environment, b"", "{:?}", ground.level);
        }
        let lines = std::fs::read(format!("{own}/cmdline")).unwrap();
        let line = String::from_utf8(lines).unwrap();
        let root = ground.root();
        assert!(!line.contains(root.to_str().unwrap()), "{line}");
        let text = "for fd in /proc/$$/fd/*; do [ -e $fd ] && echo ${fd##*/}; done; exit 3";
        let confined = ground.confined().await;
        assert_eq!(ground.run(confined.as_ref(), text).await, "0\n1\n2\n", "{:?}", ground.level);
    }
}

#[tokio::test]
async fn a_spare_is_used_for_one_command() {
    let ground = Ground::new(None).await.unwrap();
    let spare = ground.some_spare().await;
    let mut runs = JoinSet::new();
    let ground = Arc::new(ground);
    for _ in 0..8 {
        let ground = Arc::clone(&ground);
        runs.spawn(async move { ground.run(None, MONITOR).await });
    }
    let monitors: Vec<String> = runs.join_all().await;
    let distinct: BTreeSet<&String> = monitors.iter().collect();
    let of_spare = format!("{}\n", spare.as_raw_nonzero());
    assert_eq!(distinct.len(), 8, "{monitors:?}");
    assert!(distinct.contains(&of_spare), "{monitors:?} {of_spare}");
    // One that follows at once finds another spare or none.
    for _ in 0..8 {
        assert!(!monitors.contains(&ground.run(None, MONITOR).await));
    }
}

/// The process that waits for the job: the monitor's child, or a bubblewrap.
fn waiting(spare: Pid) -> Pid {
    let number = spare.as_raw_nonzero();
    loop {
        let name = std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap();
        if name == "bwrap\n" {
            return spare;
        }
        let children = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
        let child = children.unwrap().split(' ').next().and_then(|child| child.parse().ok());
        if let Some(child) = child.and_then(Pid::from_raw) {
            return child;
        }
    }
}

#[tokio::test]
async fn p20_a_spare_that_was_killed_is_replaced_and_the_command_runs_once() {
    let text = "echo x >>ran; wc -l <ran; rm ran; exit 3";
    for ground in Ground::each().await {
        for is_noticed in [false, true] {
            for find in [|spare| spare, waiting] {
                let confined = ground.confined().await;
                let spare = ground.some_spare().await;
                let killed = find(spare);
                kill_process(killed, Signal::KILL).unwrap();
                if is_noticed {
                    wait_for_end(killed);
                }
                let said = ground.run(confined.as_ref(), text).await;
                assert_eq!(said, "1\n", "{:?}", ground.level);
                assert_ne!(ground.next_spare().await, spare);
            }
        }
    }
}

/// It is killed when it has been given the job, and has not taken it.
#[tokio::test]
async fn p20_a_spare_that_is_killed_before_it_takes_the_job_loses_no_command() {
    let text = "echo x >>ran; wc -l <ran; rm ran; exit 3";
    for ground in Ground::each().await {
        let confined = ground.confined().await;
        let spare = ground.some_spare().await;
        let killed = waiting(spare);
        // Stopped, it cannot take the job.
        kill_process(killed, Signal::STOP).unwrap();
        let kill = async {
            while ground.spare() == Some(spare) {
                tokio::task::yield_now().await;
            }
            kill_process(killed, Signal::KILL).unwrap();
        };
        let (said, ()) = tokio::join!(ground.run(confined.as_ref(), text), kill);
        assert_eq!(said, "1\n", "{:?}", ground.level);
    }
}

/// Nobody else is left to end it.
#[tokio::test]
async fn p20_what_waits_for_a_job_ends_with_its_monitor() {
    let ground = Ground::new(None).await.unwrap();
    let spare = ground.some_spare().await;
    let waiting = waiting(spare);
    kill_process(spare, Signal::KILL).unwrap();
    wait_for_end(waiting);
}

#[tokio::test]
async fn a_spare_ends_with_its_runner() {
    for ground in Ground::each().await {
        let spare = ground.some_spare().await;
        drop(ground);
        wait_for_end(spare);
    }
}

/// The program of the next command is the one that is there, and not the one that was.
#[tokio::test]
async fn a_spare_of_a_program_that_was_replaced_is_not_used() {
    let directory = TempDir::new().unwrap();
    let ours = directory.path().join("toolhand");
    let write = |umask: &str| {
        // Another process writes it: see `starter` in the tests above.
        let next = directory.path().join("next");
        let write = r#"printf '#!/bin/sh\numask %s\nexec "%s" "$@"\n' "$1" "$2" >"$3" && chmod 755 "$3" && mv "$3" "$4""#;
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", write, "sh", umask]).arg(program()).arg(&next).arg(&ours);
        assert!(shell.status().unwrap().success());
    };
    write("022");
    let path = ("PATH".into(), "/usr/bin:/bin".into());
    let runner = Runner::new(&ours, Environment::allowed([path]), None);
    let sandbox = Sandbox::new(runner.clone(), SandboxSettings::default());
    let directory = TempDir::new().unwrap();
    let ground = Ground { directory, runner, sandbox, level: None };
    assert_eq!(ground.run(None, "umask; exit 3").await, "0022\n");
    let spare = ground.next_spare().await;

    write("027");

    assert_eq!(ground.run(None, "umask; exit 3").await, "0027\n");
    wait_for_end(spare);
}

/// A command with its standard error apart needs another pipe than a spare has.
#[tokio::test]
async fn a_command_with_input_leaves_the_spare_alone() {
    let ground = Ground::new(None).await.unwrap();
    let spare = ground.some_spare().await;
    let command = Command {
        program: "/bin/bash".into(),
        arguments: ["-c", "cat; echo error >&2"].map(str::to_owned).to_vec(),
        directory: "/".into(),
        confinement: None,
        kept_alive: None,
    };
    let input =
        crate::processes::ProgramInput { stdin: "input\n".to_owned(), ..Default::default() };
    let never = CancellationToken::new();
    let finished = ground.runner.run_with_input(&command, input, LIMITS, &never).await.unwrap();
    assert_eq!(finished.output.render(100, ""), "input\n");
    assert_eq!(finished.errors.render(100, ""), "error\n");
    assert_eq!(ground.spare(), Some(spare));
}

/// In bubblewrap a spare has mounted what the last command of its kind was shown.
#[tokio::test]
async fn p8_a_command_is_shown_its_own_roots_where_a_spare_has_mounted_those_of_another() {
    let Some(ground) = Ground::new(Some(Level::Bwrap)).await else { return };
    let elsewhere = TempDir::new().unwrap();
    for (root, name) in [(ground.directory.path(), "here"), (elsewhere.path(), "there")] {
        std::fs::write(root.join(name), "").unwrap();
    }
    let roots = [ground.root(), elsewhere.path().canonicalize().unwrap()];
    for turn in 0..6 {
        let [shown, other] = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        let confined = ground.sandbox.confine(vec![roots[shown].clone()], None).await.unwrap();
        let list = format!("cd {}; ls; exit 3", roots[shown].display());
        let other = format!("ls {} 2>&1; exit 3", roots[other].display());

        let said = ground.run_in(&roots[shown], confined.as_ref(), &list).await;
        assert_eq!(said, ["here\n", "there\n"][shown]);
        ground.next_spare().await;
        let said = ground.run_in(&roots[shown], confined.as_ref(), &other).await;
        assert!(said.contains("No such file"), "{said}");
        ground.next_spare().await;
    }
}

/// The spare has mounted the directory that was there.
#[tokio::test]
async fn a_root_that_was_replaced_is_shown_as_it_is_now() {
    for ground in Ground::each().await {
        std::fs::write(ground.root().join("old"), "").unwrap();
        let reads = ground.sandbox.confine_to_reading(vec![ground.root()], None).await.unwrap();
        assert_eq!(ground.run(reads.as_ref(), "ls; exit 3").await, "old\n");
        ground.next_spare().await;
        let aside = TempDir::new().unwrap();
        std::fs::rename(ground.root(), aside.path().join("root")).unwrap();
        std::fs::create_dir(ground.directory.path()).unwrap();
        std::fs::write(ground.root().join("new"), "").unwrap();

        let reads = ground.sandbox.confine_to_reading(vec![ground.root()], None).await.unwrap();
        assert_eq!(ground.run(reads.as_ref(), "ls; exit 3").await, "new\n", "{:?}", ground.level);
    }
}

/// What it has mounted is given back.
#[tokio::test]
async fn a_spare_that_nobody_needs_ends() {
    for ground in Ground::each().await {
        let at_once = std::time::Duration::from_millis(1);
        let runner = ground.runner.clone().with_spare_patience(at_once);
        let ground = Ground { runner, ..ground };
        let confined = ground.confined().await;
        ground.run(confined.as_ref(), "exit 3").await;
        let spare = ground.next_spare().await;
        while ground.spare().is_some() {
            tokio::task::yield_now().await;
        }
        wait_for_end(spare);
    }
}
