//! Attacks from inside of each level that this machine offers. What came of it is looked at
//! from outside.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::processes::command_state::EndCause;
use crate::processes::environment::Environment;
use crate::processes::outcome::{Finished, Limits};
use crate::processes::probe::{Attempt, Probe};
use crate::processes::protocol::{Exit, FinalDirectory};
use crate::processes::runner::Command;
use crate::processes::test_support::{
    FORK_BOMB, again_unprivileged, marker, processes_with, program, runner,
};

mod broken_bwrap;
mod dropped;
mod escapes;
mod linked;
mod links;
mod piped;
mod readers;
mod rules;
mod views;

const LIMITS: Limits =
    Limits { time: Some(Duration::from_secs(60)), output: 16 << 20, shown: 30_000 };
const LEVELS: [Level; 2] = [Level::Landlock, Level::Bwrap];
const SECRET: &str = "a secret of the outside";

/// A root, and beside it a directory that nothing may reach.
struct Ground {
    directory: TempDir,
    level: Level,
    sandbox: Sandbox,
}

/// The name, mode, owner, size and content of everything in a directory.
type Contents = BTreeMap<PathBuf, (u32, u32, u64, u64, Vec<u8>)>;

impl Ground {
    fn new(level: Level) -> Self {
        Self::with(level, Network::None)
    }

    fn with(level: Level, network: Network) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        for name in ["root/sub", "outside/empty", "outside/full"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join("root/own"), "own").unwrap();
        fs::write(path.join("outside/file"), SECRET).unwrap();
        fs::write(path.join("outside/full/file"), SECRET).unwrap();
        symlink(path.join("outside"), path.join("root/way")).unwrap();
        let settings = SandboxSettings { levels: vec![level], network, ..Default::default() };
        Self { directory, level, sandbox: Sandbox::new(runner(), settings) }
    }

    /// The levels that hold here. Which ones do not, and why, is said in the output.
    async fn each() -> Vec<Self> {
        let mut grounds = Vec::new();
        for level in LEVELS {
            let ground = Self::new(level);
            match ground.sandbox.outcome().await.fault() {
                None => grounds.push(ground),
                Some(fault) => not_run(level, &fault),
            }
        }
        assert!(!grounds.is_empty(), "this machine offers no level");
        grounds
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Runs a command in the root. `OUT` stands for the directory outside.
    async fn run(&self, text: &str) -> Finished {
        let confined = self.sandbox.confine(vec![self.path("root")], None).await.unwrap().unwrap();
        assert_eq!(confined.confinement.level, self.level);
        let text = text.replace("OUT", self.path("outside").to_str().unwrap());
        let command = Command {
            program: "/bin/bash".into(),
            arguments: ["--noprofile", "--norc", "-c", &text, "bash"].map(str::to_owned).to_vec(),
            directory: self.path("root"),
            confinement: Some(Arc::clone(&confined.confinement)),
            kept_alive: Some(confined.guard()),
        };
        runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap()
    }

    async fn output(&self, text: &str) -> String {
        self.run(text).await.output.render(30_000, "")
    }

    /// Runs Python, which says what each line came to: `ok`, or the error's name.
    async fn python(&self, lines: &[String]) -> Vec<String> {
        let mut program = "import os, socket, ctypes, errno\n\
            libc = ctypes.CDLL(None, use_errno=True)\n\
            def call(*a):\n    \
                r = libc.syscall(*[ctypes.c_long(x) for x in a])\n    \
                if r < 0: raise OSError(ctypes.get_errno(), '')\n"
            .to_owned();
        for line in lines {
            write!(
                program,
                "try:\n    {line}\n    print('ok')\nexcept OSError as e:\n    \
                 print(errno.errorcode[e.errno])\n"
            )
            .unwrap();
        }
        fs::write(self.path("root/attack.py"), program).unwrap();
        let said = self.output("/usr/bin/python3 attack.py").await;
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        assert_eq!(said.len(), lines.len(), "{said:?}");
        said
    }

    fn outside(&self) -> Contents {
        let mut contents = Contents::new();
        collect(&self.path("outside"), &mut contents);
        contents
    }
}

/// A line for bash in this confinement.
fn shell(confined: &Confined, directory: PathBuf, line: &str) -> Command {
    Command {
        program: "/bin/bash".into(),
        arguments: ["-c", line].map(str::to_owned).to_vec(),
        directory,
        confinement: Some(Arc::clone(&confined.confinement)),
        kept_alive: Some(confined.guard()),
    }
}

#[expect(clippy::print_stderr, reason = "a test that could not run must say so")]
fn not_run(level: Level, fault: &str) {
    // A bubblewrap that could work and does not is a mistake of ours.
    let is_missing = ["no bwrap", "amespace", "not permitted", "of root's"];
    let is_missing = is_missing.iter().any(|reason| fault.contains(reason));
    assert!(level == Level::Landlock || is_missing, "{fault}");
    eprintln!("NOT RUN at the level {level}: {fault}");
}

fn collect(directory: &Path, contents: &mut Contents) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let (mode, owner) = (metadata.mode(), metadata.uid());
        if metadata.is_dir() {
            collect(&path, contents);
        }
        contents.insert(path, (mode, owner, metadata.nlink(), metadata.len(), bytes));
    }
}

#[tokio::test]
async fn p8_nothing_outside_can_be_changed_or_read() {
    let attacks = [
        "echo x >OUT/file",
        "echo x >>OUT/file",
        "echo x >OUT/new",
        "rm -f OUT/file",
        "rm -rf OUT/full",
        "rmdir OUT/empty",
        "mv OUT/file stolen",
        "mv own OUT/own",
        "ln OUT/file hard",
        "ln own OUT/hard",
        "ln -s x OUT/link",
        "mkdir OUT/directory",
        "mkfifo OUT/pipe",
        "cp own OUT/file",
        "truncate -s 0 OUT/file",
        "chmod 777 OUT/file OUT",
        "chmod 777 way way/file ../outside/file; cd way && chmod 777 . file",
        "ln -s OUT swapped; while :; do ln -sfn OUT swapped; ln -sfn sub swapped; done & \
            for i in $(seq 200); do chmod 777 swapped/file swapped; done 2>/dev/null; kill $!",
        "chown 12345 OUT/file",
        "echo x >way/file",
        "echo x >way/new",
        "ln -s OUT made; echo x >made/file; echo x >made/new",
        "cd way && echo x >file",
        "echo x >../outside/file",
        "mv sub ../outside/",
        "mv ../outside ../elsewhere",
        "cat OUT/file way/file ../outside/file; cp OUT/file copy; cat copy",
        "exec 9<OUT/file; /usr/bin/python3 -c 'import os; os.fchmod(9, 0o777)'",
        "exec 9<OUT/file; chmod 777 /proc/self/fd/9 /proc/$$/fd/9 /dev/fd/9",
        "/usr/bin/python3 -c 'import os; d = os.open(\"OUT\", os.O_PATH); \
            os.chmod(\"file\", 0o777, dir_fd=d)'",
        "chmod 777 OUT/../outside/file /proc/self/cwd/../outside/file",
        "/usr/bin/python3 -c 'import os; os.setxattr(\"OUT/file\", \"user.x\", b\"x\")'",
        "/usr/bin/python3 -c 'import os; os.truncate(\"OUT/file\", 1)'",
    ];
    for ground in Ground::each().await {
        let before = ground.outside();
        for attack in attacks {
            let said = ground.output(attack).await;
            assert!(!said.contains(SECRET), "{}: {attack}: {said}", ground.level);
            assert_eq!(ground.outside(), before, "{}: {attack}", ground.level);
        }
        let root = fs::read_dir(ground.path("root")).unwrap().flatten();
        for entry in root.filter(|entry| entry.metadata().unwrap().is_file()) {
            let text = fs::read_to_string(entry.path()).unwrap();
            assert!(!text.contains(SECRET), "{}: {}", ground.level, entry.path().display());
        }
    }
}

#[tokio::test]
async fn the_machine_itself_cannot_be_changed() {
    for ground in Ground::each().await {
        let text = "for place in /usr /usr/bin /etc /bin /lib /opt; do \
            touch $place/toolhand-was-here 2>/dev/null && echo $place; done; \
            : 2>/dev/null >>/etc/passwd && echo passwd; \
            : 2>/dev/null >>/proc/sys/kernel/core_pattern && echo core_pattern; \
            : 2>/dev/null >/proc/sysrq-trigger && echo sysrq; \
            for file in $(find /proc -maxdepth 4 -type f -path '/proc/[a-z]*' \
                -not -path '/proc/*self/*' -writable 2>/dev/null); do \
                (: >>$file) 2>/dev/null && echo $file; done; echo done";
        assert_eq!(ground.output(text).await, "done\n", "{}", ground.level);
    }
}

/// Where Landlock cannot tell one place from another, the supervisor does it for the command.
#[tokio::test]
async fn modes_change_in_the_roots_by_every_call() {
    for ground in Ground::each().await {
        let text = r#"set -e
            printf '#!/bin/sh\necho made\n' >tool; chmod +x tool; ./tool
            chmod 640 "$PWD/own"; mkdir -m 700 private; chmod 2755 private; ln -s own soft
            f=$(mktemp); chmod 600 $f; cp -p tool copy; install -m 751 tool installed
            (cd private; chmod 600 ../soft; exec 9<../own; chmod 604 /proc/self/fd/9 2>/dev/null || true)
            /usr/bin/python3 - <<'E'
import os
os.fchmod(os.open('tool', os.O_RDONLY), 0o711)
os.chmod('copy', 0o705, dir_fd=os.open('.', os.O_RDONLY))
for call in [lambda: os.chmod('no', 0o600), lambda: os.chmod('own/x', 0o600),
             lambda: os.chmod('', 0o600), lambda: os.fchmod(77, 0o600),
             lambda: os.chmod('x' * 5000, 0o600)]:
    try: call(); print('changed')
    except OSError as error: print(os.strerror(error.errno))
import ctypes
print(ctypes.CDLL(None, use_errno=True).chmod(ctypes.c_void_p(8), 0o600), os.strerror(ctypes.get_errno()))
E"#;
        let finished = ground.run(text).await;
        let said = finished.output.render(3000, "");
        let expected = "made\nNo such file or directory\nNot a directory\n\
            No such file or directory\nBad file descriptor\nFile name too long\n-1 Bad address\n";
        assert_eq!(said, expected, "{}", ground.level);
        let mode = |name: &str| {
            let metadata = fs::metadata(ground.path("root").join(name)).unwrap();
            metadata.mode() & 0o7777
        };
        let modes = ["private", "tool", "copy", "installed"].map(mode);
        assert_eq!(modes, [0o2755, 0o711, 0o705, 0o751], "{}", ground.level);
    }
}

/// git ends where it has settings in home that it cannot read, and most people have some.
#[tokio::test]
async fn git_works_without_the_settings_in_home_but_for_the_name_of_the_person() {
    for level in LEVELS {
        let mut ground = Ground::new(level);
        let home = ground.path("outside");
        let of_git = "[user]\nname = Ada\n[alias]\nname = hidden\n";
        fs::write(home.join(".gitconfig"), of_git).unwrap();
        let variables = [("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), home.into())];
        let runner = Runner::new(program(), Environment::allowed(variables), None);
        let settings = SandboxSettings { levels: vec![level], ..SandboxSettings::default() };
        ground.sandbox = Sandbox::new(runner.clone(), settings);
        if let Some(fault) = ground.sandbox.outcome().await.fault() {
            not_run(level, &fault);
            continue;
        }
        let confined = ground.sandbox.confine(vec![ground.path("root")], None).await;
        let confined = confined.unwrap().unwrap();
        let text = "git init -q made && git -C made status -s && git config user.name; \
            git config alias.name; echo $?";
        let command = shell(&confined, ground.path("root"), text);
        let finished = runner.run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        // Only in bubblewrap home is a directory of the command's own.
        let known = if level == Level::Bwrap { "Ada\n1\n" } else { "1\n" };
        assert_eq!(finished.output.render(1000, ""), known, "{level}");
    }
}

/// No file of theirs becomes somebody else's program.
#[tokio::test]
async fn no_command_gives_a_file_the_rights_of_its_owner_at_the_level_landlock() {
    let ground = Ground::new(Level::Landlock);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Landlock, &fault);
    }
    let said = ground.output("cp /bin/true x; chmod u+s x; chmod 2755 x; stat -c %a x").await;
    assert!(said.ends_with("755\n") && said.matches("not permitted").count() == 2, "{said}");
}

#[tokio::test]
async fn many_threads_change_modes_at_once() {
    for ground in Ground::each().await {
        let text = "for i in $(seq 20); do (for j in $(seq 20); do touch $i.$j; chmod 601 $i.$j; \
            done) & done; wait; find . -name '*.*' -perm 601 | wc -l";
        assert_eq!(ground.output(text).await, "400\n", "{}", ground.level);
    }
}

#[tokio::test]
async fn ordinary_work_goes_on() {
    for ground in Ground::each().await {
        let text = "set -e
            echo a >new; mv new sub/moved; ln sub/moved hard; ln -s own soft; rm own; rmdir -p sub 2>/dev/null || true
            cat <<<here; diff <(echo a) sub/moved; [ -w /dev/null ]; head -c1 /dev/zero | wc -c
            f=$(mktemp); echo kept >$f; cat $f; [ \"$TMPDIR\" ]; echo x >$TMPDIR/y
            (sleep 0.01 & wait); /usr/bin/python3 -c 'import threading as t; x=t.Thread(target=lambda: print(\"thread\")); x.start(); x.join()'";
        let finished = ground.run(text).await;
        let said = finished.output.render(3000, "");
        assert_eq!(said, "here\n1\nkept\nthread\n", "{}", ground.level);
        assert_eq!(finished.exit, Some(Exit::Code(0)), "{}", ground.level);
        assert_eq!(fs::read_to_string(ground.path("root/hard")).unwrap(), "a\n");
    }
}

#[tokio::test]
async fn the_working_directory_and_the_exit_are_seen_as_without() {
    for ground in Ground::each().await {
        let finished = ground.run("cd sub; exit 7").await;
        assert_eq!(finished.exit, Some(Exit::Code(7)), "{}", ground.level);
        assert_eq!(finished.moved, FinalDirectory::To(ground.path("root/sub").into()));
        let finished = ground.run("kill -SEGV $$").await;
        assert_eq!(finished.exit, Some(Exit::Signal(11)), "{}", ground.level);
    }
}

#[tokio::test]
async fn no_socket_leads_anywhere_but_a_pair() {
    let families = ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"];
    let kinds = ["SOCK_STREAM", "SOCK_DGRAM"];
    let lines: Vec<String> = families
        .iter()
        .flat_map(|family| {
            kinds.map(|kind| format!("socket.socket(socket.{family}, socket.{kind})"))
        })
        .collect();
    for ground in Ground::each().await {
        assert_eq!(ground.python(&lines).await, vec!["EPERM"; lines.len()], "{}", ground.level);
        let pair = ground.python(&["socket.socketpair()".to_owned()]).await;
        assert_eq!(pair, ["ok"], "{}", ground.level);
    }
}

/// With the network, a program can reach it, and still no socket of the machine.
#[tokio::test]
async fn the_whole_network_has_no_unix_sockets() {
    for level in LEVELS {
        let ground = Ground::with(level, Network::Full);
        if let Some(fault) = ground.sandbox.outcome().await.fault() {
            not_run(level, &fault);
            continue;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = ground.path("root/socket");
        let _listening = std::os::unix::net::UnixListener::bind(&unix).unwrap();
        let lines = [
            format!(
                "socket.create_connection(('127.0.0.1', {}))",
                listener.local_addr().unwrap().port()
            ),
            "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)".to_owned(),
            format!("socket.socket(socket.AF_UNIX).connect({unix:?})"),
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)".to_owned(),
        ];
        let said = ground.python(&lines).await;
        assert_eq!(said, ["ok", "ok", "EPERM", "EPERM"], "{level}");
    }
}

#[tokio::test]
async fn the_calls_of_the_filter_fail() {
    let calls = [
        libc::SYS_io_uring_setup,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_bpf,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_mount,
        libc::SYS_setns,
        libc::SYS_fsopen,
        libc::SYS_open_tree,
    ];
    let new_user = libc::CLONE_NEWUSER;
    let mut lines: Vec<String> =
        calls.iter().map(|call| format!("call({call}, 1, 0, 0, 0, 0, 0)")).collect();
    lines.push(format!("call({}, {new_user})", libc::SYS_unshare));
    lines.push(format!("call({}, {}, 0, 0, 0, 0)", libc::SYS_clone, new_user | libc::SIGCHLD));
    lines.push(format!("call({}, 0, 0x5412, 0)", libc::SYS_ioctl));
    // The upper half of the number is none of the kernel's business.
    lines.push(format!("call({}, 0, 0x700005412, 0)", libc::SYS_ioctl));
    // A lease makes everybody else wait who opens the file.
    lines.push(format!("call({}, os.open('/etc/hosts', 0), 1024, 1)", libc::SYS_fcntl));
    for ground in Ground::each().await {
        assert_eq!(ground.python(&lines).await, vec!["EPERM"; lines.len()], "{}", ground.level);
        let clone3 = [format!("call({}, 0, 0)", libc::SYS_clone3)];
        assert_eq!(ground.python(&clone3).await, ["ENOSYS"], "{}", ground.level);
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn calls_of_another_interface_kill() {
    for ground in Ground::each().await {
        let finished = ground
            .run("exec /usr/bin/python3 -c 'import ctypes; ctypes.CDLL(None).syscall(0x40000027)'")
            .await;
        assert_eq!(finished.exit, Some(Exit::Signal(libc::SIGSYS)), "{}", ground.level);
    }
}

#[tokio::test]
async fn p13_no_environment_but_the_commands_own_can_be_read() {
    // The program that runs these tests has it.
    assert!(fs::read("/proc/self/environ").unwrap().windows(9).any(|text| text == b"CARGO_PKG"));
    for ground in Ground::each().await {
        let said = ground.output("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'").await;
        assert!(said.contains("TERM=dumb"), "{}: {said}", ground.level);
        assert!(!said.contains("CARGO"), "{}: {said}", ground.level);
    }
}

#[tokio::test]
async fn p8_no_process_but_its_own_gets_a_signal() {
    let server = std::process::id();
    for ground in Ground::each().await {
        let text = format!(
            "kill -0 {server} 2>/dev/null && echo server; kill -9 $PPID 2>/dev/null && [ $PPID -gt 1 ] && echo above; kill -9 -1 2>/dev/null; echo on"
        );
        // Every process that it may end is its own.
        let finished = ground.run(&text).await;
        let said = finished.output.render(100, "");
        assert!(!said.contains("server"), "{}: {said}", ground.level);
        assert_eq!((finished.stuck, finished.leftovers), (0, 0), "{}", ground.level);
    }
}

#[tokio::test]
async fn p2_nothing_survives_it() {
    for ground in Ground::each().await {
        let marker = marker();
        let text = format!(
            "setsid bash -c 'exec -a {marker}-a sleep 1000' & \
             (setsid bash -c 'trap \"\" TERM; exec -a {marker}-b sleep 1000' &) & \
             nohup bash -c 'exec -a {marker}-c sleep 1000' >/dev/null 2>&1 & \
             until [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cE '^{marker}-.$') -ge 3 ]; do :; done; echo done"
        );
        let finished = ground.run(&text).await;
        assert_eq!(finished.output.render(100, ""), "done\n", "{}", ground.level);
        assert!(3 <= finished.leftovers, "{}", finished.leftovers);
        assert_eq!(processes_with(&marker), Vec::<String>::new(), "{}", ground.level);
    }
}

#[tokio::test]
async fn p9_no_file_is_larger_than_its_limit() {
    for ground in Ground::each().await {
        let finished = ground.run("truncate -s 9G big").await;
        assert_ne!(finished.exit, Some(Exit::Code(0)), "{}", ground.level);
        let size = fs::metadata(ground.path("root/big")).map_or(0, |metadata| metadata.len());
        assert!(size <= 8 << 30, "{}: {size}", ground.level);
    }
}

#[tokio::test]
async fn p10_it_is_ended_before_the_server_when_memory_runs_out() {
    for ground in Ground::each().await {
        let said = ground.output("cat /proc/self/oom_score_adj; grep -E 'NoNewPrivs|Cap(Eff|Prm|Bnd)' /proc/self/status").await;
        assert!(said.starts_with("500\n") && said.contains("NoNewPrivs:\t1"), "{said}");
        assert!(said.contains("CapEff:\t0000000000000000"), "{said}");
        assert!(said.contains("CapPrm:\t0000000000000000"), "{said}");
    }
}

#[tokio::test]
async fn nothing_is_left_behind() {
    for ground in Ground::each().await {
        let names = || {
            let mut contents = Contents::new();
            collect(&ground.path("root"), &mut contents);
            contents.into_keys().collect::<Vec<_>>()
        };
        let before = names();
        ground.run("true").await;
        assert_eq!(names(), before, "{}", ground.level);
    }
}

#[tokio::test]
async fn temporary_files_of_a_session_are_there_in_its_next_command_and_private() {
    for level in LEVELS {
        let state = TempDir::new().unwrap();
        let mut ground = Ground::new(level);
        let settings = SandboxSettings {
            levels: vec![level],
            sessions: Some(state.path().join("sessions")),
            hidden: vec![state.path().to_owned()],
            ..SandboxSettings::default()
        };
        ground.sandbox = Sandbox::new(runner(), settings);
        if ground.sandbox.level().await.is_none() {
            continue;
        }
        let run = async |session: &str, text: &str| {
            let roots = vec![ground.path("root")];
            let confined = ground.sandbox.confine(roots, Some(session)).await.unwrap().unwrap();
            let command = shell(&confined, ground.path("root"), text);
            let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await;
            finished.unwrap().output.render(1000, "")
        };
        run("one", "echo kept >$TMPDIR/note").await;
        assert_eq!(run("one", "cat $TMPDIR/note").await, "kept\n", "{level}");
        assert!(run("two", "cat $TMPDIR/note").await.contains("No such file"), "{level}");
        run("one", "mkdir -p $XDG_CACHE_HOME && echo built >$XDG_CACHE_HOME/part").await;
        assert_eq!(run("one", "cat $XDG_CACHE_HOME/part").await, "built\n", "{level}");
        let other = state.path().join("sessions/one/tmp");
        let mode = fs::metadata(&other).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let said = run("two", &format!("cat {}/note", other.display())).await;
        assert!(!said.contains("kept"), "{level}: {said}");
    }
}

#[tokio::test]
async fn a_level_that_is_not_there_is_said_and_the_next_one_is_tried() {
    let settings = SandboxSettings { levels: LEVELS.to_vec(), ..SandboxSettings::default() };
    let path = ("PATH".into(), "/usr/bin:/bin".into());
    let environment = Environment::allowed([path]);
    let broken = Runner::new("/bin/false", environment, None);

    let outcome = Sandbox::new(broken, settings).outcome().await.clone();

    assert_eq!((outcome.level, outcome.trials.len()), (None, 2));
    assert!(outcome.fault().is_some());
    assert!(outcome.trials.iter().all(|trial| !trial.passed && trial.why.is_some()));
}

/// At the level bwrap those that exist are read-only, and the few that may not come cannot, and
/// nothing of that is left. At the level Landlock they are open, and the answer names them.
#[tokio::test]
async fn p8_control_files_are_protected_or_named() {
    let attacks = [
        ("echo x >.git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("echo x >>.git/config", ".git/config"),
        ("mkdir -p .claude && echo x >.claude/settings.json", ".claude/settings.json"),
        (
            "mv .git gone && mkdir -p .git/hooks && echo x >.git/hooks/pre-commit; ls",
            ".git/hooks/pre-commit",
        ),
        (
            "rm -rf .git/hooks; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit",
            ".git/hooks/pre-commit",
        ),
        ("echo x >new && mv -f new .envrc", ".envrc"),
        ("echo x >.mcp.json; rmdir .mcp.json; ln own .mcp.json", ".mcp.json"),
        ("echo x >deep/er/.vscode/tasks.json", "deep/er/.vscode/tasks.json"),
        (
            "mv .github old; mkdir -p .github/workflows; echo x >.github/workflows/ci.yml",
            ".github/workflows/ci.yml",
        ),
        ("mkdir -p .git/modules/x; echo x >.git/modules/x/config", ".git/modules/x/config"),
        ("mkdir -p .git/info; echo x >.git/info/attributes", ".git/info/attributes"),
    ];
    for level in LEVELS {
        for (attack, file) in attacks {
            let ground = Ground::new(level);
            if ground.sandbox.level().await.is_none() {
                continue;
            }
            for directory in [".git/hooks", ".git/info", ".github/workflows", "deep/er/.vscode"] {
                fs::create_dir_all(ground.path("root").join(directory)).unwrap();
            }
            fs::write(ground.path("root/.git/config"), "[core]\n").unwrap();
            fs::write(ground.path("root/.envrc"), "use nix\n").unwrap();
            let mut before = Contents::new();
            collect(&ground.path("root"), &mut before);

            let confined =
                ground.sandbox.confine(vec![ground.path("root")], None).await.unwrap().unwrap();
            let command = shell(&confined, ground.path("root"), attack);
            runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
            let changed = confined.changed_control_files();
            drop((command, confined));

            let path = ground.path("root").join(file);
            if level == Level::Landlock {
                assert!(changed.contains(&path), "{attack}: {changed:?}");
                continue;
            }
            let mut after = Contents::new();
            collect(&ground.path("root"), &mut after);
            after.retain(|path, _| !path.ends_with("new"));
            assert_eq!(after, before, "{attack}");
        }
    }
}

#[tokio::test]
async fn the_rest_of_a_repository_stays_writable() {
    for ground in Ground::each().await {
        // In bubblewrap the settings of a repository are read-only, which `git init` writes.
        let mut init = Process::new("git");
        init.env("GIT_CONFIG_GLOBAL", "/dev/null").args(["init", "-q"]).arg(ground.path("root"));
        assert!(init.status().unwrap().success());
        let below = "export GIT_CONFIG_GLOBAL=/dev/null; git init -q deep/below && rm -rf deep && echo made";
        assert_eq!(ground.output(below).await, "made\n", "{}", ground.level);
        let owner = rustix::process::geteuid().as_raw();
        assert_eq!(fs::metadata(ground.path("root/.git")).unwrap().uid(), owner);
        let first = "export GIT_CONFIG_GLOBAL=/dev/null; git add own; \
            git -c user.name=n -c user.email=e commit -qm first 2>&1; git log --format=%s";
        let said = ground.output(first).await;
        assert!(said.ends_with("first\n"), "{}: {said}", ground.level);
        let again = "export GIT_CONFIG_GLOBAL=/dev/null; echo more >>own; git add -A; \
            git -c user.name=n -c user.email=e commit -qm second 2>&1; git log --format=%s; git ls-files";
        let said = ground.output(again).await;
        assert!(said.contains("second\nfirst\n"), "{}: {said}", ground.level);
        assert!(said.ends_with("own\nway\n"), "{}: {said}", ground.level);
    }
}

/// The placeholders of one command are still needed when another one ends.
#[tokio::test]
async fn placeholders_are_there_until_the_last_command_has_ended() {
    let ground = Ground::new(Level::Bwrap);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Bwrap, &fault);
    }
    let root = ground.path("root");
    fs::create_dir(root.join("gates")).unwrap();
    let (opened, open) = (root.join("gates/opened"), root.join("gates/open"));
    let text = "echo >gates/opened; read <gates/open; \
        echo x >.mcp.json; rmdir .mcp.json; mkdir .claude; echo x >.claude/a; echo tried";
    let pipe = |path: PathBuf| Process::new("mkfifo").arg(path).status().unwrap();
    assert!(pipe(opened.clone()).success() && pipe(open.clone()).success());
    let long = ground.run(text);
    let short = async {
        tokio::task::spawn_blocking(move || fs::read(opened).unwrap()).await.unwrap();
        ground.run("true").await;
        tokio::task::spawn_blocking(move || fs::write(open, "go\n").unwrap()).await.unwrap();
    };
    let (long, ()) = tokio::join!(long, short);
    assert!(long.output.render(1000, "").ends_with("tried\n"));
    assert!(!root.join(".mcp.json").exists() && !root.join(".claude").exists());
}

#[tokio::test]
async fn p1_a_command_has_512_processes_at_most() {
    for ground in Ground::each().await {
        let marker = marker();
        let text = format!(
            "for i in $(seq 700); do bash -c 'exec -a {marker} sleep 1000' & done 2>/dev/null; wait"
        );
        let confined = ground.sandbox.confine(vec![ground.path("root")], None).await;
        let confined = confined.unwrap().unwrap();
        let command = shell(&confined, ground.path("root"), &text);
        let limits = Limits { time: Some(Duration::from_secs(10)), ..LIMITS };
        let running = runner();
        let never = CancellationToken::new();
        let run = running.run(&command, limits, &never);
        let finished = run.await.unwrap();
        assert!(finished.leftovers <= 512 || finished.cause != EndCause::ItsOwn, "{finished:?}");
        if ground.level == Level::Landlock {
            assert_eq!(finished.cause, EndCause::TooManyProcesses);
        }
        assert_eq!((processes_with(&marker), finished.stuck), (Vec::new(), 0), "{}", ground.level);
    }
}

/// Otherwise a bomb has tens of thousands of processes before it is the supervisor's turn.
#[tokio::test]
async fn p1_who_counts_the_processes_runs_before_them() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ground = Ground::new(Level::Landlock);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Landlock, &fault);
    }
    // The command may be there first. Field 41 is the policy, by which 2 is real-time.
    let text = "until [ \"$(cut -d ' ' -f 41 /proc/$PPID/stat)\" = 2 ]; do :; done; echo before";
    assert_eq!(ground.output(text).await, "before\n");
}

/// Runs these tests once more as somebody who is nobody.
#[test]
fn an_unprivileged_user_is_confined_too() {
    // It sets off one of its own.
    let _alone = FORK_BOMB.blocking_lock();
    let skipped = ["--skip", "unprivileged", "--skip", "forbidden"];
    let arguments = [&["processes::sandbox::tests::"], &skipped[..]].concat();
    let Some(said) = again_unprivileged(&arguments) else { return };
    assert!(said.contains("p8_nothing_outside_can_be_changed_or_read ... ok"), "{said}");
}

#[test]
fn where_user_namespaces_are_forbidden_landlock_is_what_is_left() {
    let state = TempDir::new().unwrap();
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && \
        exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let mut check = Process::new("unshare");
    check.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]);
    check.arg(program()).arg("check");
    check.arg("--state-dir").arg(state.path().join("state")).arg("--workspace").arg(state.path());
    let output = check.env("HOME", state.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("sandbox: auto: commands run in landlock"), "{said}{output:?}");
    assert!(said.contains("bwrap failed: "), "{said}");
}
