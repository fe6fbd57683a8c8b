//! Ways out that need more than a plain system call.

use std::os::unix::net::UnixDatagram;

use super::*;

/// Each end of a pair of datagram sockets can send to any socket.
#[tokio::test]
async fn p8_a_socket_pair_reaches_no_other_socket() {
    for network in [Network::None, Network::Full] {
        for level in LEVELS {
            let ground = Ground::with(level, network);
            if let Some(fault) = ground.sandbox.outcome().await.fault() {
                not_run(level, &fault);
                continue;
            }
            let path = ground.path("root/datagrams");
            let server = UnixDatagram::bind(&path).unwrap();
            server.set_nonblocking(true).unwrap();
            let pair = "a, b = socket.socketpair(socket.AF_UNIX, socket";
            let lines = [
                format!("{pair}.SOCK_DGRAM); a.connect({path:?}); a.send(b'x')"),
                format!("{pair}.SOCK_DGRAM); b.sendto(b'x', {path:?})"),
                format!("{pair}.SOCK_RAW); b.sendto(b'x', {path:?})"),
                format!("{pair}.SOCK_SEQPACKET); a.connect({path:?}); a.send(b'x')"),
                format!("{pair}.SOCK_STREAM); b.sendto(b'x', {path:?})"),
            ];
            let said = ground.python(&lines).await;
            assert!(said[..3].iter().all(|said| said == "EPERM"), "{level}: {said:?}");
            assert!(server.recv(&mut [0; 8]).is_err(), "{level}: {said:?}");
        }
    }
}

/// Root owns the devices and the files of `/proc`, also without capabilities. In bubblewrap it can
/// change the devices' modes, which docs/sandbox.md says; who is not root cannot.
#[tokio::test]
async fn p8_the_machines_devices_cannot_be_changed() {
    let mode = |path: &str| fs::metadata(path).unwrap().mode();
    let is_root = rustix::process::geteuid().is_root();
    for ground in Ground::each().await {
        if is_root && ground.level == Level::Bwrap {
            let said = ground.output("chmod 600 /proc/version 2>&1 | grep -c Read-only").await;
            assert_eq!(said, "1\n");
            continue;
        }
        for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"] {
            let before = mode(device);
            ground.output(&format!("chmod 600 {device}; chown 1:1 {device}")).await;
            assert_eq!(mode(device), before, "{}: {device}", ground.level);
        }
    }
}

#[tokio::test]
async fn p8_no_limit_or_priority_of_another_process_can_be_changed() {
    let server = std::process::id();
    let lines = [
        format!("import resource; resource.prlimit({server}, resource.RLIMIT_CPU, (1, 1))"),
        format!("os.setpriority(os.PRIO_PROCESS, {server}, 19)"),
        "os.setpriority(os.PRIO_USER, 0, 19)".to_owned(),
        format!("os.sched_setaffinity({server}, [0])"),
        format!("os.sched_setscheduler({server}, os.SCHED_IDLE, os.sched_param(0))"),
        format!("call({}, 1, {server}, 3 << 13)", libc::SYS_ioprio_set),
        format!(
            "call({}, 3, {}, 3 << 13)",
            libc::SYS_ioprio_set,
            rustix::process::geteuid().as_raw()
        ),
    ];
    for ground in Ground::each().await {
        let said = ground.python(&lines).await;
        let refused = |said: &String| said == "EPERM" || said == "ESRCH";
        // In a namespace of its own, a user's processes are the command's.
        let by_user = [2, 6];
        for (at, said) in said.iter().enumerate() {
            let is_own = ground.level == Level::Bwrap && by_user.contains(&at);
            assert!(is_own || refused(said), "{}: {}: {said}", ground.level, lines[at]);
        }
        let own =
            ["os.setpriority(os.PRIO_PROCESS, 0, 5); os.sched_setaffinity(0, [0])".to_owned()];
        assert_eq!(ground.python(&own).await, ["ok"], "{}", ground.level);
    }
}

/// Shared memory belongs to no file, so Landlock has no rule for it.
#[tokio::test]
async fn p8_no_shared_memory_of_the_machine_can_be_reached() {
    let lines = [
        format!("call({}, 0x746f6f6c, 4096, 0o1777)", libc::SYS_shmget),
        format!("call({}, 0x746f6f6c, 0o1777)", libc::SYS_msgget),
        format!("call({}, 0x746f6f6c, 1, 0o1777)", libc::SYS_semget),
    ];
    for ground in Ground::each().await {
        let said = ground.python(&lines).await;
        let expected = if ground.level == Level::Bwrap { "ok" } else { "EPERM" };
        assert_eq!(said, vec![expected; 3], "{}", ground.level);
        let outside = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        assert!(!outside.contains(&0x746f_6f6c_u32.to_string()), "{outside}");
    }
}

/// git follows this file to another directory, and takes settings and hooks from there.
#[tokio::test]
async fn p8_a_repository_cannot_be_led_to_other_settings() {
    let ground = Ground::new(Level::Bwrap);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Bwrap, &fault);
    }
    let root = ground.path("root");
    let git = |arguments: &[&str]| {
        let mut git = Process::new("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(&root).args(arguments);
        git.output().unwrap()
    };
    assert!(git(&["init", "-q"]).status.success());
    let evil = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tworktree = %s\\n\\tfsmonitor = \
        touch %s/ran; false\\n' $PWD $PWD";
    for attack in [
        format!(
            "cp -r .git evil; rm evil/config; {evil} >evil/config; echo ../evil >.git/commondir"
        ),
        "mkdir -p x; mv .git x/; mkdir .git; cp -r x/.git/* .git/; echo x >.git/config".to_owned(),
        "rm -f .git/commondir; mv .git/commondir x; ln -sf ../evil .git/commondir".to_owned(),
        format!("{evil} >.git/config.worktree"),
    ] {
        ground.output(&attack).await;
        git(&["status"]);
        assert!(!root.join("ran").exists(), "{attack}");
        assert!(!root.join(".git/commondir").exists(), "{attack}");
        assert!(!fs::read_to_string(root.join(".git/config")).unwrap().contains("fsmonitor"));
    }
}

/// Without a valid `.git`, git takes the directory above for a repository if it looks like one.
#[tokio::test]
async fn a_repository_that_a_root_is_made_is_told() {
    let ground = Ground::new(Level::Bwrap);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Bwrap, &fault);
    }
    let root = ground.path("root");
    let mut init = Process::new("git");
    init.env("GIT_CONFIG_GLOBAL", "/dev/null").args(["init", "-q"]).arg(&root);
    assert!(init.status().unwrap().success());
    let confined = ground.sandbox.confine(vec![root.clone()], None).await.unwrap().unwrap();
    let text = "mv .git/HEAD HEAD; mkdir objects refs; echo x >config";
    let command = shell(&confined, root.clone(), text);
    runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
    assert!(confined.changed_control_files().contains(&root));
}

/// The directory above a mount can be moved. Then another file could be put where it was.
#[tokio::test]
async fn p8_nested_control_files_stay_where_they_are() {
    let ground = Ground::new(Level::Bwrap);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Bwrap, &fault);
    }
    for name in ["root/a/b/.claude", "root/c/.git/hooks"] {
        fs::create_dir_all(ground.path(name)).unwrap();
    }
    for attack in [
        "mv a moved; mkdir -p a/b/.claude; echo x >a/b/.claude/settings.json",
        "mv a/b a/moved; mkdir -p a/b/.claude; echo x >a/b/.claude/settings.json",
        "mv c moved; mkdir -p c/.git/hooks; echo x >c/.git/hooks/pre-commit",
        "rm -rf a c; mkdir -p a/b/.claude c/.git/hooks; touch a/b/.claude/x c/.git/hooks/x",
    ] {
        ground.output(attack).await;
        for name in ["root/a/b/.claude", "root/c/.git/hooks"] {
            let entries = fs::read_dir(ground.path(name)).unwrap().count();
            assert_eq!(entries, 0, "{attack}: {name}");
        }
    }
}

#[tokio::test]
async fn p1_a_fork_bomb_is_contained_and_cleaned_up() {
    let _alone = FORK_BOMB.lock().await;
    for ground in Ground::each().await {
        let marker = marker();
        // It leaves its group and its session, and forks as fast as it can.
        let text = format!(
            "setsid bash -c ': {marker}; bomb() {{ bomb | bomb & }}; bomb; sleep 1000' & \
             bomb() {{ bomb | bomb & }}; bomb; sleep 1000"
        );
        let confined = ground.sandbox.confine(vec![ground.path("root")], None).await;
        let confined = confined.unwrap().unwrap();
        let command = shell(&confined, ground.path("root"), &text);
        let limits = Limits { time: Some(Duration::from_secs(2)), ..LIMITS };
        let running = runner();
        let never = CancellationToken::new();
        let run = running.run(&command, limits, &never);
        // Another command goes on beside it.
        let beside = async {
            let other = Ground::new(ground.level);
            other.output("echo works").await
        };
        let (finished, beside) = tokio::join!(run, beside);
        let finished = finished.unwrap();
        assert_eq!(beside, "works\n", "{}", ground.level);
        assert_ne!(finished.cause, EndCause::ItsOwn, "{}", ground.level);
        assert_eq!((processes_with(&marker), finished.stuck), (Vec::new(), 0), "{}", ground.level);
    }
}
