//! A command that is confined to reading changes nothing, whatever its program tries.

use std::net::TcpListener;

use super::*;

impl Ground {
    /// What a command prints that may only read, with the directory of a session.
    async fn read(&self, text: &str) -> String {
        let roots = vec![self.path("root")];
        let confined = self.sandbox.confine_to_reading(roots, Some("session")).await;
        let confined = confined.unwrap().unwrap();
        assert!(confined.confinement.reads_only);
        let command = shell(&confined, self.path("root"), text);
        let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        assert_eq!(confined.changed_control_files(), Vec::<PathBuf>::new(), "{text}");
        finished.output.render(30_000, "")
    }

    /// Everything in the root and in the directory of the session.
    fn inside(&self) -> Contents {
        let mut contents = Contents::new();
        collect(&self.path("root"), &mut contents);
        collect(&self.path("sessions"), &mut contents);
        contents
    }
}

/// Grounds at each level that holds here, with sessions and all of the network.
async fn grounds() -> Vec<Ground> {
    let mut grounds = Vec::new();
    for level in LEVELS {
        let mut ground = Ground::new(level);
        fs::create_dir_all(ground.path("sessions/session/tmp")).unwrap();
        fs::write(ground.path("sessions/session/tmp/kept"), "kept").unwrap();
        fs::create_dir_all(ground.path("root/.git/hooks")).unwrap();
        let settings = SandboxSettings {
            levels: vec![level],
            network: Network::Full,
            sessions: Some(ground.path("sessions")),
            writable: vec![ground.path("root/sub")],
            ..SandboxSettings::default()
        };
        ground.sandbox = Sandbox::new(runner(), settings);
        match ground.sandbox.outcome().await.fault() {
            None => grounds.push(ground),
            Some(fault) => not_run(level, &fault),
        }
    }
    assert!(!grounds.is_empty(), "this machine offers no level");
    grounds
}

#[tokio::test]
async fn a_reader_changes_no_root_and_no_directory_of_its_session() {
    let attacks = [
        "echo x >own",
        "echo x >>own; truncate -s 0 own; : >sub/new; mkdir made; ln -s own soft; ln own hard",
        "rm -rf own sub .git; mv own moved; mkfifo pipe; echo x >.git/hooks/pre-commit",
        "chmod 777 own sub .; chown 12345 own; touch own; touch -d 2001-01-01 own sub",
        "cp own \"$TMPDIR/x\"; echo x >\"$TMPDIR/kept\"; rm -rf \"$TMPDIR\"; chmod 777 \"$TMPDIR\"",
        "echo x >../sessions/session/tmp/kept; rm -rf ../sessions; echo x >../sessions/new",
        "exec 9<own; chmod 777 /proc/self/fd/9; /usr/bin/python3 -c 'import os; os.fchmod(9, 0o777)'",
        "/usr/bin/python3 -c 'import os; os.setxattr(\"own\", \"user.x\", b\"x\")'",
        "/usr/bin/python3 -c 'import os; os.utime(os.open(\"own\", os.O_RDONLY), (1, 1))'",
        "cd /proc/self/cwd && echo x >own; echo x >/proc/$$/cwd/own; echo x >/proc/1/root/$PWD/own",
    ];
    for ground in grounds().await {
        let before = ground.inside();
        let time = |name: &str| fs::metadata(ground.path(name)).unwrap().modified().unwrap();
        let times = || ["root/own", "root/sub", "root", "sessions/session/tmp"].map(time);
        let times_before = times();
        for attack in attacks {
            let said = ground.read(attack).await;
            assert_eq!(ground.inside(), before, "{}: {attack}: {said}", ground.level);
            assert_eq!(times(), times_before, "{}: {attack}: {said}", ground.level);
        }
        assert_eq!(ground.read("cat own && ls -A sub | wc -l").await, "own0\n", "{}", ground.level);
    }
}

#[tokio::test]
async fn a_reader_has_an_empty_tmp_of_its_own_or_none() {
    for ground in grounds().await {
        let name = marker();
        let text = format!(
            "cat /tmp/kept $TMPDIR/kept 2>/dev/null; cd /tmp && echo made >{name} && cat {name}; \
             echo x >/var/tmp/{name}; echo x >/dev/shm/{name}; echo x >/run/{name}; echo x >~/{name}"
        );
        let said = ground.read(&text).await;
        let made = said.lines().filter(|line| *line == "made").count();
        match ground.level {
            Level::Bwrap => assert!(made == 1 && !said.contains("kept"), "{said}"),
            Level::Landlock => assert_eq!(made, 0, "{said}"),
        }
        for place in ["/tmp", "/var/tmp", "/dev/shm", "/run"] {
            assert!(!Path::new(place).join(&name).exists(), "{}: {place}", ground.level);
        }
        let again = ground.read(&format!("ls -A /tmp 2>/dev/null | grep -c {name}")).await;
        assert_eq!(again, "0\n", "{}", ground.level);
        let nothing = ground.read("echo x >/dev/null && echo thrown away").await;
        assert_eq!(nothing, "thrown away\n", "{}", ground.level);
    }
}

#[tokio::test]
async fn a_reader_has_no_network_although_commands_have() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo open || echo shut");
    for ground in grounds().await {
        assert_eq!(ground.output(&text).await, "open\n", "{}", ground.level);
        assert_eq!(ground.read(&text).await, "shut\n", "{}", ground.level);
        let sockets = "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)' \
            2>&1 | tail -n 1";
        let said = ground.read(sockets).await;
        assert!(said.contains("not permitted"), "{}: {said}", ground.level);
    }
}

#[tokio::test]
async fn a_reader_has_no_capabilities() {
    for ground in grounds().await {
        let said =
            ground.read("grep -hE 'NoNewPrivs|Cap(Eff|Prm|Bnd|Amb)' /proc/self/status").await;
        let values: Vec<&str> = said.lines().filter_map(|line| line.split('\t').nth(1)).collect();
        let none = "0000000000000000";
        let no_new = |value: &&&str| **value == "1";
        assert_eq!(values.iter().filter(no_new).count(), 1, "{}: {said}", ground.level);
        let bounding = if rustix::process::geteuid().is_root() { 4 } else { 3 };
        let empty = values.iter().filter(|value| **value == none).count();
        assert!(bounding <= empty, "{}: {said}", ground.level);
    }
}
