//! What a command in bubblewrap sees of its workspace is what the server has opened, and nothing
//! that is not there.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;
use crate::processes::RunError;
use crate::processes::confinement::{Confinement, Shown};
use crate::processes::handles;

/// A ground with bubblewrap; `None` where there is none.
async fn ground() -> Option<Ground> {
    let ground = Ground::new(Level::Bwrap);
    match ground.sandbox.outcome().await.fault() {
        None => Some(ground),
        Some(fault) => {
            not_run(Level::Bwrap, &fault);
            None
        }
    }
}

async fn run(
    confined: &Confined,
    confinement: Confinement,
    text: &str,
) -> Result<Finished, RunError> {
    let directory = confined.confinement.writable[0].from.path().to_owned();
    let command =
        Command { confinement: Some(Arc::new(confinement)), ..shell(confined, directory, text) };
    runner().run(&command, LIMITS, &CancellationToken::new()).await
}

/// Exchanges two names until it is dropped.
struct Exchange {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Exchange {
    fn begin(one: PathBuf, other: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let exchange = move || {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                thread::yield_now();
            }
        };
        Self { is_over, thread: Some(thread::spawn(exchange)) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        _ = self.thread.take().unwrap().join();
    }
}

/// Starts commands while a directory with control files and a link to the outside change places.
/// Returns how many ran.
async fn start_among_exchanges(starts: usize) -> Option<usize> {
    let ground = ground().await?;
    for place in ["root/holder", "root/inner", "outside"] {
        fs::create_dir_all(ground.path(place).join(".git/info")).unwrap();
        fs::create_dir_all(ground.path(place).join(".vscode")).unwrap();
        let text = if place == "outside" { SECRET } else { "ours" };
        for name in ["file", ".envrc", ".git/config", ".vscode/tasks.json"] {
            fs::write(ground.path(place).join(name), text).unwrap();
        }
    }
    symlink(ground.path("outside"), ground.path("root/link")).unwrap();
    symlink(ground.path("outside"), ground.path("root/link2")).unwrap();
    let before = ground.outside();
    let attack = "for d in holder link . ../inner; do \
        cat $d/file $d/.envrc $d/.git/config $d/.vscode/tasks.json; echo x >$d/new; \
        echo x >>$d/file; echo x >$d/.envrc; echo x >$d/.vscode/new; done 2>/dev/null; echo ran";
    let mut ran = 0;
    for (directory, one, other) in
        [("root", "root/holder", "root/link"), ("root/inner", "root/inner", "root/link2")]
    {
        let exchange = Exchange::begin(ground.path(one), ground.path(other));
        for _ in 0..starts / 2 {
            let confined = ground.sandbox.confine(vec![ground.path(directory)], None).await;
            // Refused.
            let Ok(confined) = confined else { continue };
            let confined = confined.unwrap();
            let attack = format!("cd {}; {attack}", ground.path(directory).display());
            let command = shell(&confined, "/usr".into(), &attack);
            let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await;
            let Ok(finished) = finished else { continue };
            let said = finished.output.render(30_000, "");
            assert!(!said.contains(SECRET), "{said}");
            ran += usize::from(said.ends_with("ran\n"));
        }
        drop(exchange);
        assert_eq!(ground.outside(), before);
    }
    Some(ran)
}

#[tokio::test]
async fn g8_nothing_outside_is_mounted_while_another_command_exchanges_directories() {
    let ran = start_among_exchanges(200).await;
    assert!(ran.is_none_or(|ran| 0 < ran), "nothing ran at all");
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn g8_a_thousand_starts_among_exchanges() {
    assert!(start_among_exchanges(1000).await.is_none_or(|ran| 0 < ran));
}

#[tokio::test]
async fn g8_what_is_mounted_must_be_what_the_server_has_opened() {
    let Some(ground) = ground().await else { return };
    fs::write(ground.path("root/.envrc"), "use nix").unwrap();
    let confined = ground.sandbox.confine(vec![ground.path("root")], None).await;
    let confined = confined.unwrap().unwrap();
    let right = confined.confinement.as_ref().clone();
    assert!(right.masks.iter().any(|mask| mask.place.path().ends_with(".envrc")));
    let ran = run(&confined, right.clone(), "echo ran").await.unwrap();
    assert_eq!(ran.output.render(100, ""), "ran\n");

    let other = handles::id(handles::open(&ground.path("outside")).unwrap()).unwrap();
    let mut root = right.clone();
    root.writable[0].id = Some(other);
    let mut mask = right.clone();
    mask.masks.iter_mut().for_each(|mask| mask.id = other);
    let mut tool = right.clone();
    tool.readable[0].id = Some(other);
    let mut added = right.clone();
    added.readable.push(Shown::as_it_is(&ground.path("root/sub")));
    let mut gone = right;
    gone.masks.iter_mut().for_each(|mask| mask.place = ground.path("root/gone").into());
    for (name, wrong) in
        [("root", root), ("mask", mask), ("tool", tool), ("added", added), ("gone", gone)]
    {
        let run = run(&confined, wrong, "echo ran >own").await;
        assert!(matches!(run, Err(RunError::Exchanged)), "{name}: {run:?}");
    }
    assert_eq!(fs::read_to_string(ground.path("root/own")).unwrap(), "own");
}

/// Directories that a command cannot enter: one of its own user, and where there is the right to
/// make one, one of another user. Each holds a secret and what git obeys.
struct ShutDirectories {
    ground: Ground,
    denied: DeniedPaths,
}

const SHUT: [&str; 2] = ["root/shut", "root/foreign"];

impl ShutDirectories {
    async fn new() -> Option<Self> {
        let ground = ground().await?;
        for name in SHUT {
            fs::create_dir_all(ground.path(name).join(".git/hooks")).unwrap();
            fs::write(ground.path(name).join("server.key"), SECRET).unwrap();
            fs::write(ground.path(name).join(".envrc"), "use nix").unwrap();
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(ground.path("root/foreign"), Some(999), Some(999)).unwrap();
            set_mode(&ground.path("root/foreign"), 0o700);
        }
        set_mode(&ground.path("root/shut"), 0);
        let reading = SHUT.map(|name| ground.path(name).join("server.key")).to_vec();
        Some(Self { ground, denied: DeniedPaths { reading, ..DeniedPaths::default() } })
    }
}

impl Drop for ShutDirectories {
    fn drop(&mut self) {
        // Else nobody but root could remove it.
        set_mode(&self.ground.path("root/shut"), 0o700);
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_directory_that_a_command_cannot_enter_stops_none_and_shows_none_its_secrets() {
    let Some(shut) = ShutDirectories::new().await else { return };
    let ground = &shut.ground;
    let denied = shut.denied.clone();
    ground.sandbox.deny(Box::new(move |_, _| denied.clone()));
    let roots = || vec![ground.path("root")];
    for right in [Right::Write, Right::WriteUnapproved, Right::Read] {
        let confined = ground.sandbox.confine_for(right, roots(), None).await.unwrap().unwrap();
        let attack = "(chmod 700 shut; mv shut moved; mkdir shut;             echo x >shut/.envrc; echo x >shut/.git/hooks/pre-commit; chmod -R 777 .;             cat */server.key) 2>/dev/null; ls >/dev/null && echo ran";
        let said = run(&confined, confined.confinement.as_ref().clone(), attack).await.unwrap();
        assert_eq!(said.output.render(1000, ""), "ran\n", "{right:?}");
        // Another command opens it meanwhile.
        set_mode(&ground.path("root/shut"), 0);
        let confined = ground.sandbox.confine_for(right, roots(), None).await.unwrap().unwrap();
        let late = "echo x >/tmp/begun; cat shut/server.key 2>/dev/null;             until [ -e opened ]; do :; done; cat shut/server.key 2>/dev/null; echo ran";
        let view = confined.confinement.as_ref().clone();
        let command = Command {
            confinement: Some(Arc::new(view)),
            ..shell(&confined, ground.path("root"), late)
        };
        let running = runner();
        let stop = CancellationToken::new();
        let finished = running.run(&command, LIMITS, &stop);
        let open = async {
            set_mode(&ground.path("root/shut"), 0o755);
            fs::write(ground.path("root/opened"), "").unwrap();
        };
        let (finished, ()) = tokio::join!(finished, open);
        assert_eq!(finished.unwrap().output.render(1000, ""), "ran\n", "{right:?}");
        fs::remove_file(ground.path("root/opened")).unwrap();
        assert_eq!(fs::read(ground.path("root/shut/.envrc")).unwrap(), b"use nix");
        assert!(!ground.path("root/shut/.git/hooks/pre-commit").exists());
        set_mode(&ground.path("root/shut"), 0);
    }
}

/// A directory that cannot be entered is masked as a whole only if the server has opened it.
#[tokio::test]
async fn g8_a_directory_above_a_mask_must_be_what_the_server_has_opened() {
    let Some(shut) = ShutDirectories::new().await else { return };
    if !rustix::process::geteuid().is_root() {
        // Nobody else can look into one and mask what lies in it.
        return;
    }
    let ground = &shut.ground;
    let denied = shut.denied.clone();
    ground.sandbox.deny(Box::new(move |_, _| denied.clone()));
    let confined = ground.sandbox.confine_to_reading(vec![ground.path("root")], None).await;
    let confined = confined.unwrap().unwrap();
    let right = confined.confinement.as_ref().clone();
    assert_eq!(right.above.len(), SHUT.len());
    let mut other = right.clone();
    let outside = handles::id(handles::open(&ground.path("outside")).unwrap()).unwrap();
    other.above.iter_mut().for_each(|above| above.id = outside);
    let exchanged = run(&confined, other, "echo ran").await;
    assert!(matches!(exchanged, Err(RunError::Exchanged)), "{exchanged:?}");

    let unknown = Confinement { above: Vec::new(), ..right };
    let refused = run(&confined, unknown, "echo ran").await.unwrap_err().to_string();
    let path = ground.path("root/foreign/server.key");
    let named = format!("put in force: {}: Permission denied", path.display());
    assert!(refused.contains(&named), "{refused}");
}

/// Programs that list, pack and copy a workspace find what is there, and a few directories.
#[tokio::test]
async fn p21_nothing_is_shown_that_is_not_there_but_the_names_that_may_not_come() {
    let Some(ground) = ground().await else { return };
    let root = ground.path("root");
    let mut init = Process::new("git");
    init.env("GIT_CONFIG_GLOBAL", "/dev/null").args(["init", "-q"]).arg(&root);
    assert!(init.status().unwrap().success());
    fs::remove_file(root.join("way")).unwrap();
    let said = ground.output("ls -A; ls -A .git .git/info").await;
    let there = ".claude\n.git\n.mcp.json\nown\nsub\n.git:\nHEAD\nbranches\ncommondir\nconfig\ndescription\n\
        hooks\ninfo\nmodules\nobjects\nrefs\n\n.git/info:\nattributes\nexclude\n";
    assert_eq!(said, there);
    let work = "set -e; tar cf ../packed.tar . 2>&1 || tar cf /tmp/packed.tar .; cp -r . /tmp/copy; \
        rm -rf /tmp/copy; find . -type f -exec cat {} + >/dev/null; git add -A; git ls-files; \
        grep -c . /proc/self/mountinfo >/tmp/count; ! grep -q 'size=524288k.* /.*root' /proc/self/mountinfo; \
        echo works";
    assert_eq!(ground.output(work).await, "own\nworks\n");
    for name in [".claude", ".mcp.json", ".git/modules", ".git/info/attributes"] {
        assert!(!root.join(name).exists(), "{name}");
    }
}

/// All masks are of one object, which takes nothing.
#[tokio::test]
async fn p21_masks_hold_no_data_of_a_command() {
    let Some(ground) = ground().await else { return };
    let names: Vec<String> = (0..60).map(|number| format!("secret{number}")).collect();
    for name in &names {
        fs::write(ground.path("root").join(name), SECRET).unwrap();
    }
    let reading = names.iter().map(|name| ground.path("root").join(name)).collect();
    let denied = DeniedPaths { reading, ..DeniedPaths::default() };
    ground.sandbox.deny(Box::new(move |_, _| denied.clone()));
    let text = "for f in secret*; do echo x >$f; chmod 700 $f; rm -f $f; cp own $f; done 2>/dev/null; \
        cat secret* 2>/dev/null | wc -c; stat -c '%d %i %s %a' secret* | sort -u | wc -l; \
        stat -c '%s %a' secret0";
    assert_eq!(ground.output(text).await, "0\n1\n0 0\n");
    assert_eq!(fs::read_to_string(ground.path("root/secret7")).unwrap(), SECRET);
}

/// The operator's directory is shown under two names, and is protected under both.
#[tokio::test]
async fn control_files_are_read_only_under_every_name() {
    let Some(mut ground) = ground().await else { return };
    fs::create_dir_all(ground.path("real/.git/hooks")).unwrap();
    fs::write(ground.path("real/.envrc"), "use nix").unwrap();
    symlink(ground.path("real"), ground.path("alias")).unwrap();
    let settings = SandboxSettings {
        levels: vec![Level::Bwrap],
        writable: vec![ground.path("alias")],
        ..SandboxSettings::default()
    };
    ground.sandbox = Sandbox::new(runner(), settings);
    ground.sandbox.outcome().await;
    let text = "for d in alias real; do echo x >../$d/.envrc; echo x >../$d/.git/hooks/pre-commit; \
        echo made >../$d/file; done 2>/dev/null; cat ../alias/file";
    assert_eq!(ground.output(text).await, "made\n");
    assert_eq!(fs::read_to_string(ground.path("real/.envrc")).unwrap(), "use nix");
    assert!(!ground.path("real/.git/hooks/pre-commit").exists());
}

/// A file that other programs obey, and was not there, may be made, and is told.
#[tokio::test]
async fn what_a_command_makes_for_other_programs_is_told() {
    let Some(ground) = ground().await else { return };
    let confined = ground.sandbox.confine(vec![ground.path("root")], None).await;
    let confined = confined.unwrap().unwrap();
    let text = "export GIT_CONFIG_GLOBAL=/dev/null; git init -q; echo x >.npmrc; \
        mkdir sub/.husky && echo x >sub/.husky/pre-commit; echo x >ordinary";
    let right = confined.confinement.as_ref().clone();
    run(&confined, right, text).await.unwrap();
    let mut changed = confined.changed_control_files();
    changed.sort();
    let expected = [".git", ".npmrc", "sub/.husky/pre-commit"];
    assert_eq!(changed, expected.map(|name| ground.path("root").join(name)));
}
