//! Tests that a file that may be written can be written where no other file can take its place: on
//! a mount point, in a directory that may not be written, with another owner. Its old contents or
//! its new ones are left, whatever happens meanwhile.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::disk::{BROKEN, Disk, Fault, NO_SPACE};
use crate::support::mount::Mount;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::answers;

/// A user and a group that are not ours.
const FOREIGN: (u32, u32) = (1000, 12345);

/// What keeps a new file from taking the place of the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Mount,
    Directory,
    Owner,
}

const OBSTACLES: [Obstacle; 3] = [Obstacle::Mount, Obstacle::Directory, Obstacle::Owner];

/// The tools that write, each with a file.
const TOOLS: [&str; 3] = ["Edit", "Write", "NotebookEdit"];

fn name_for(tool: &str) -> &'static str {
    if tool == "NotebookEdit" { "old.ipynb" } else { "old.txt" }
}

/// Lines that differ at each place from those a few bytes further on.
fn lines(count: usize) -> String {
    (0..count).flat_map(|number| ["line ".to_owned(), format!("{number:07}\n")]).collect()
}

fn text(head: &str, count: usize) -> String {
    format!("{head}\n{}", lines(count))
}

fn notebook(head: &str, count: usize) -> String {
    let cell = |id: &str, source: &str| {
        let (id, source) = (json!(id), json!([source]));
        format!(
            "  {{\n   \"cell_type\": \"markdown\",\n   \"id\": {id},\n   \"metadata\": {{}},\n   \
             \"source\": [\n    {}\n   ]\n  }}",
            source[0]
        )
    };
    format!(
        "{{\n \"cells\": [\n{},\n{}\n ],\n \"metadata\": {{}},\n \"nbformat\": 4,\n \
         \"nbformat_minor\": 5\n}}\n",
        cell("a", head),
        cell("b", &lines(count))
    )
}

/// The contents of the file that a tool writes, with this head.
fn contents(tool: &str, head: &str, count: usize) -> String {
    if tool == "NotebookEdit" { notebook(head, count) } else { text(head, count) }
}

/// The call that turns one head into another.
fn call(tool: &'static str, from: &str, to: &str, count: usize) -> (&'static str, Value) {
    let name = name_for(tool);
    let input = match tool {
        "Edit" => json!({ "file_path": name, "old_string": from, "new_string": to }),
        "Write" => json!({ "file_path": name, "content": text(to, count) }),
        _ => json!({ "notebook_path": name, "cell_id": "a", "new_source": to }),
    };
    (tool, input)
}

/// A workspace with a file that cannot be replaced, and how servers over it are started.
struct Ground {
    upstream: Upstream,
    /// Keeps the directories.
    home: Server,
    starter: PathBuf,
    workspace: PathBuf,
    file: PathBuf,
    _mount: Option<Mount>,
}

impl Ground {
    /// `None` where the environment has no such obstacle.
    async fn new(obstacle: Obstacle, name: &str, contents: &str) -> Option<Self> {
        let upstream = Upstream::start();
        let mut home = Server::builder(&upstream).free().start().await;
        home.stop();
        let (workspace, starter) = (home.workspace(), home.state_dir().with_file_name("start.sh"));
        let file = workspace.join(name);
        fs::write(&file, contents).expect("a new file");
        let mount = match obstacle {
            Obstacle::Mount => {
                let elsewhere = workspace.with_file_name("elsewhere");
                fs::write(&elsewhere, contents).expect("a new file");
                Some(Mount::bind(&elsewhere, file.clone())?)
            }
            Obstacle::Directory => {
                fs::set_permissions(&workspace, fs::Permissions::from_mode(0o555)).expect("ours");
                None
            }
            Obstacle::Owner => {
                chown(&file, Some(FOREIGN.0), Some(FOREIGN.1)).ok()?;
                fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).expect("we are root");
                None
            }
        };
        write_starter(&starter);
        Some(Self { upstream, home, starter, workspace, file, _mount: mount })
    }

    fn builder(&self) -> Builder {
        self.asking_builder().free()
    }

    fn asking_builder(&self) -> Builder {
        Server::builder(&self.upstream)
            .program(&self.starter)
            .argument(&format!("--state-dir={}", self.home.state_dir().display()))
            .argument(&format!("--workspace={}", self.workspace.display()))
    }

    fn holds(&self) -> String {
        fs::read_to_string(&self.file).expect("a file")
    }

    /// What is in the directory of unfinished files.
    fn unfinished(&self) -> Vec<String> {
        names(&self.home.state_dir().join("unfinished"))
    }

    /// The contents that were kept aside.
    fn kept(&self) -> Vec<String> {
        let kept = self.home.state_dir().join("unfinished/kept");
        names(&kept)
            .iter()
            .map(|name| fs::read_to_string(kept.join(name)).expect("a file"))
            .collect()
    }

    /// What `toolhand check` says.
    fn check(&self) -> String {
        let mut check = Command::new(env!("CARGO_BIN_EXE_toolhand"));
        check.env_clear().env("HOME", self.workspace.parent().expect("below the home"));
        check.args(["check", "--upstream=http://127.0.0.1:9", "--workspace"]).arg(&self.workspace);
        check.arg("--state-dir").arg(self.home.state_dir());
        let output = check.output().expect("our own binary");
        String::from_utf8(output.stdout).expect("text")
    }

    /// What tells this file from another one, and who may use it.
    fn identity(&self) -> (u64, u32, u32, u32) {
        let metadata = fs::metadata(&self.file).expect("a file");
        (metadata.ino(), metadata.mode(), metadata.uid(), metadata.gid())
    }

    /// Lets the model read the file and make the calls, one a round. Returns the answers to these.
    async fn told(&self, server: &Server, rounds: &[(&str, Value)]) -> Vec<String> {
        let before = self.upstream.requests().len();
        let read = json!({ "file_path": self.file, "limit": 1 });
        self.upstream.round(calls(&[("c0", "Read", read)]));
        for (tool, input) in rounds {
            self.upstream.round(calls(&[("c1", tool, input.clone())]));
        }
        self.upstream.round(says("Done."));
        assert_eq!(server.client().chat(&ask("Write.")).await.text(), "Done.");
        answers(&self.upstream, before + 1 + rounds.len()).await.split_off(1)
    }

    /// The same for a server that may be killed meanwhile. Whether it was.
    async fn killed(&self, server: &mut Server, (tool, input): (&str, Value)) -> bool {
        let read = json!({ "file_path": self.file, "limit": 1 });
        self.upstream.round(calls(&[("c0", "Read", read)]));
        self.upstream.round(calls(&[("c1", tool, input)]));
        self.upstream.round(says("Done."));
        let heard = server.client().try_chat(&ask("Write.")).await;
        if heard.is_none() {
            self.upstream.forget_script();
            server.stop();
        }
        heard.is_none()
    }
}

/// Root may write everywhere and give files away, so the server gives that up, and joins the
/// foreign group.
fn write_starter(starter: &Path) {
    let program = env!("CARGO_BIN_EXE_toolhand");
    let lost = "--bounding-set=-dac_override,-dac_read_search,-chown,-fowner,-fsetid";
    let group = FOREIGN.1;
    let script = format!(
        "#!/bin/sh\nif [ \"$(id -u)\" = 0 ]; then\n  \
         exec setpriv {lost} --groups {group} {program} \"$@\"\nfi\nexec {program} \"$@\"\n"
    );
    fs::write(starter, script).expect("a new file");
    fs::set_permissions(starter, fs::Permissions::from_mode(0o700)).expect("our own");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

async fn check_written(obstacle: Obstacle, why: &str) {
    for tool in TOOLS {
        let old = contents(tool, "one", 3);
        let Some(ground) = Ground::new(obstacle, name_for(tool), &old).await else { return };
        let link = ground.workspace.with_file_name("link");
        symlink(&ground.file, &link).expect("a link");
        let identity = ground.identity();
        let server = ground.builder().start().await;

        // The second one needs no second look.
        let rounds = [call(tool, "one", "two and more", 3), call(tool, "two and more", "3", 3)];
        let told = ground.told(&server, &rounds).await;

        for answer in &told {
            assert!(!answer.starts_with("Error"), "{obstacle:?} {tool}: {answer}");
            let told_why = format!("\nThe file was written in place, because {why}");
            assert!(answer.contains(&told_why), "{obstacle:?} {tool}: {answer}");
            assert!(!answer.contains("other changes") && !answer.contains("atomic"), "{answer}");
        }
        assert_eq!(ground.holds(), contents(tool, "3", 3), "{obstacle:?}");
        assert_eq!(fs::read_to_string(&link).expect("a link"), ground.holds());
        assert_eq!(ground.identity(), identity);
        assert_eq!(names(&ground.workspace), [name_for(tool)]);
        assert_eq!(ground.unfinished(), [""; 0]);
        assert!(ground.kept().is_empty());
        if obstacle == Obstacle::Mount {
            // It is not torn from what is mounted there.
            let elsewhere = ground.workspace.with_file_name("elsewhere");
            assert_eq!(fs::read_to_string(elsewhere).expect("a file"), ground.holds());
        }
    }
}

#[tokio::test]
async fn files_12_a_bind_mounted_file_is_edited() {
    check_written(Obstacle::Mount, "it is a mount point").await;
}

#[tokio::test]
async fn files_13_a_file_in_a_read_only_directory_is_edited() {
    check_written(Obstacle::Directory, "its directory lets no other file take its place").await;
}

#[tokio::test]
async fn files_13_a_file_of_another_owner_is_edited() {
    check_written(Obstacle::Owner, "it belongs to another user or group").await;
}

/// In a directory such as `/tmp` only its owner may replace a file, but others may write it.
#[tokio::test]
async fn files_13_a_file_of_another_owner_in_a_sticky_directory_is_edited() {
    let Some(ground) = Ground::new(Obstacle::Owner, "old.txt", "one\n").await else { return };
    chown(&ground.workspace, Some(2000), None).expect("we are root");
    fs::set_permissions(&ground.workspace, fs::Permissions::from_mode(0o1777)).expect("too");
    let identity = ground.identity();
    let server = ground.builder().start().await;
    let told = ground.told(&server, &[call("Edit", "one", "two", 0)]).await;
    assert!(told[0].contains("it belongs to another user or group"), "{told:?}");
    assert_eq!((ground.holds(), ground.identity()), ("two\n".to_owned(), identity));
    assert_eq!(names(&ground.workspace), ["old.txt"]);
}

#[tokio::test]
async fn files_12_a_file_mounted_into_a_read_only_tree_is_edited() {
    let Some(ground) = Ground::new(Obstacle::Mount, "old.txt", "one\n").await else { return };
    // As in a container whose root is read-only: the mounted file is not.
    let above = ground.workspace.with_file_name("above");
    fs::create_dir(&above).expect("a new directory");
    fs::write(above.join("old.txt"), "").expect("a new file");
    let Some(_tree) = Mount::read_only(&above) else { return };
    let elsewhere = ground.workspace.with_file_name("elsewhere");
    let Some(_file) = Mount::bind(&elsewhere, above.join("old.txt")) else { return };
    let server = Server::builder(&ground.upstream)
        .free()
        .argument(&format!("--state-dir={}", ground.home.state_dir().display()))
        .argument(&format!("--workspace={}", above.display()))
        .start()
        .await;
    let before = ground.upstream.requests().len();
    ground.upstream.round(calls(&[("c0", "Read", json!({ "file_path": "old.txt" }))]));
    let (tool, input) = call("Edit", "one", "two", 0);
    ground.upstream.round(calls(&[("c1", tool, input)]));
    let new = json!({ "file_path": "new.txt", "content": "x" });
    ground.upstream.round(calls(&[("c2", "Write", new)]));
    ground.upstream.round(says("Done."));
    server.client().chat(&ask("Write.")).await;
    let told = answers(&ground.upstream, before + 3).await;
    assert!(told[1].contains("written in place"), "{told:?}");
    assert!(told[2].contains("Read-only file system"), "{told:?}");
    assert_eq!(ground.holds(), "two\n");
}

/// Starts the program in a user namespace that has root and nobody alone.
const WITHOUT_NUMBERS: &str = r#"
import ctypes, os, sys
begun, mapped, server = os.pipe(), os.pipe(), os.getpid()
if os.fork() == 0:
    os.read(begun[0], 1)
    for kind in ("uid", "gid"):
        with open(f"/proc/{server}/{kind}_map", "w") as file:
            file.write("0 0 1\n65534 65534 1\n")
    os.write(mapped[1], b"x")
    os._exit(0)
if ctypes.CDLL(None).unshare(0x10000000) != 0:
    sys.exit("no user namespaces")
os.write(begun[1], b"x")
os.read(mapped[0], 1)
os.wait()
os.setresgid(0, 0, 0)
os.setresuid(0, 0, 0)
os.execv(PROGRAM, [PROGRAM, *sys.argv[1:]])
"#;

/// In a container without root a foreign owner has no number. The server could give its new file
/// to the user who has the number that is shown in its place.
#[tokio::test]
async fn files_13_a_file_of_an_owner_without_a_number_keeps_it() {
    let Some(ground) = Ground::new(Obstacle::Owner, "old.txt", "one\n").await else { return };
    fs::set_permissions(&ground.file, fs::Permissions::from_mode(0o666)).expect("we are root");
    let identity = ground.identity();
    let program = env!("CARGO_BIN_EXE_toolhand");
    let script = format!("#!/usr/bin/env python3\nPROGRAM = {program:?}\n{WITHOUT_NUMBERS}");
    fs::write(&ground.starter, script).expect("our own");
    let server = ground.builder().start().await;
    let told = ground.told(&server, &[call("Edit", "one", "two", 0)]).await;
    assert!(told[0].contains("it belongs to another user or group"), "{told:?}");
    assert_eq!((ground.holds(), ground.identity()), ("two\n".to_owned(), identity));
}

/// Lines of the files that are killed over: some ten writes each.
const LONG: usize = 40_000;

#[tokio::test]
async fn files_12_13_a_server_that_is_killed_at_any_moment_leaves_the_old_or_the_new_contents() {
    let (mut moments, mut old_left, mut new_left) = (0, 0, 0);
    for obstacle in OBSTACLES {
        for tool in TOOLS {
            let (old, new) = (contents(tool, "one", LONG), contents(tool, "a longer one", LONG));
            let Some(ground) = Ground::new(obstacle, name_for(tool), &old).await else { continue };
            let identity = ground.identity();
            // Towards the longer contents, and back to the shorter ones.
            let ways = [
                (&old, &new, call(tool, "one", "a longer one", LONG), Disk::of_workspace()),
                (&new, &old, call(tool, "a longer one", "one", LONG), Disk::of_unfinished()),
            ];
            for (from, to, call, disk) in ways {
                let mut server = disk.under(ground.builder()).start().await;
                for fault in [Fault::Kill, Fault::Tear] {
                    for moment in 0.. {
                        fs::write(&ground.file, from).expect("we are its owner, or root");
                        disk.plan(fault, moment);
                        let was_killed = ground.killed(&mut server, call.clone()).await;
                        disk.mend();
                        if !was_killed {
                            assert!(&ground.holds() == to, "{obstacle:?} {tool}");
                            break;
                        }
                        moments += 1;
                        server = disk.under(ground.builder()).start().await;
                        let left = ground.holds();
                        assert!(&left == from || &left == to, "{obstacle:?} {tool} {moment}");
                        if &left == from {
                            old_left += 1;
                        } else {
                            new_left += 1;
                        }
                        assert_eq!(ground.unfinished(), [""; 0], "{obstacle:?} {tool} {moment}");
                    }
                }
            }
            assert_eq!(ground.identity(), identity);
            assert_eq!(names(&ground.workspace), [name_for(tool)]);
        }
    }
    if rustix::process::geteuid().is_root() {
        assert!(200 <= moments && 0 < old_left && 0 < new_left, "{moments} {old_left} {new_left}");
    }
}

/// Kills a server in the middle of the file. Returns what it leaves there.
async fn half_written(ground: &Ground, moment: u32) -> String {
    let disk = Disk::of_workspace();
    let mut server = disk.under(ground.builder()).start().await;
    disk.plan(Fault::Tear, moment);
    assert!(ground.killed(&mut server, call("Edit", "one", "a longer one", LONG)).await);
    ground.holds()
}

#[tokio::test]
async fn files_12_what_others_changed_after_the_kill_stays_and_the_old_contents_are_kept() {
    let (old, new) = (text("one", LONG), text("a longer one", LONG));
    for obstacle in OBSTACLES {
        let Some(ground) = Ground::new(obstacle, "old.txt", &old).await else { continue };
        let left = half_written(&ground, 4).await;
        assert!(left != old && left != new, "a mix");
        let changed = format!("{left}and a line of someone else\n");
        fs::write(&ground.file, &changed).expect("ours, or we are root");

        let mut server = ground.builder().start().await;

        assert!(ground.holds() == changed, "{obstacle:?}");
        assert!(ground.kept() == [old.clone()], "{obstacle:?}");
        let log = server.log();
        assert!(log.contains("its contents from before are kept"), "{log}");
        assert!(log.contains("old.txt") && log.contains("unfinished/kept/"), "{log}");
        assert_eq!(ground.unfinished(), ["kept"]);
        assert!(server.stop().expect("a status").success());
        let checked = ground.check();
        assert!(checked.contains("the old contents of 1 file that has been changed"), "{checked}");
        // It is looked at once.
        drop(ground.builder().start().await);
        assert!(ground.holds() == changed && ground.kept().len() == 1);
    }
}

#[tokio::test]
async fn files_12_what_is_put_back_is_told_and_the_conversation_goes_on() {
    let old = text("one", LONG);
    let Some(ground) = Ground::new(Obstacle::Directory, "old.txt", &old).await else { return };
    assert!(half_written(&ground, 4).await != old);
    let server = ground.builder().start().await;
    assert!(ground.holds() == old);
    assert!(server.log().contains("half written in place has its old contents again"));
    let told = ground.told(&server, &[call("Edit", "one", "two", LONG)]).await;
    assert!(told[0].starts_with("Edited "), "{told:?}");
    assert!(ground.holds() == text("two", LONG));
}

#[tokio::test]
async fn t24_a_disk_that_fails_while_a_file_is_written_in_place_leaves_the_old_contents() {
    let (old, new) = (text("one", LONG), text("a longer one", LONG));
    let Some(ground) = Ground::new(Obstacle::Directory, "old.txt", &old).await else { return };
    for disk in [Disk::of_workspace(), Disk::of_unfinished()] {
        let mut server = disk.under(ground.builder()).start().await;
        // One write fails, and the next ones do not.
        for fault in [NO_SPACE, BROKEN] {
            for moment in 0.. {
                disk.plan_once(fault, moment);
                let told = ground.told(&server, &[call("Edit", "one", "a longer one", LONG)]).await;
                if !disk.was_hit() {
                    assert!(told[0].starts_with("Edited "), "{told:?}");
                    assert!(ground.holds() == new);
                    fs::write(&ground.file, &old).expect("our own");
                    break;
                }
                assert!(told[0].starts_with("Error: could not write "), "{told:?}");
                assert!(ground.holds() == old, "{fault:?} {moment}");
                assert_eq!(ground.unfinished(), [""; 0]);
            }
        }
        // All writes fail from one on. Where nothing can be put back, the next start does it.
        for moment in 0.. {
            disk.plan(NO_SPACE, moment);
            let told = ground.told(&server, &[call("Edit", "one", "a longer one", LONG)]).await;
            let was_hit = disk.was_hit();
            disk.mend();
            if !was_hit {
                fs::write(&ground.file, &old).expect("our own");
                break;
            }
            assert!(told[0].starts_with("Error: could not write "), "{told:?}");
            let is_kept = told[0].contains("the server's next start tries it again");
            assert_eq!(
                ground.holds() != old || !ground.unfinished().is_empty(),
                is_kept,
                "{told:?}"
            );
            server.stop();
            server = disk.under(ground.builder()).start().await;
            // All that the last write lacks is to be known to be on the disk.
            assert!(ground.holds() == old || is_kept && ground.holds() == new, "{moment}");
            assert_eq!(ground.unfinished(), [""; 0]);
            fs::write(&ground.file, &old).expect("our own");
        }
    }
}

/// A write that fails, and cannot be undone, is of the past once another one succeeds.
#[tokio::test]
async fn t24_what_is_written_after_a_failure_is_not_undone_by_the_next_start() {
    let Some(ground) = Ground::new(Obstacle::Directory, "old.txt", "a=1\nb=1\nc=1\n").await else {
        return;
    };
    let disk = Disk::of_workspace();
    let server = disk.under(ground.builder()).start().await;
    disk.plan(BROKEN, 1);
    let all = json!({ "file_path": "old.txt", "old_string": "=1", "new_string": "=2", "replace_all": true });
    let told = ground.told(&server, &[("Edit", all)]).await;
    disk.mend();
    assert!(told[0].contains("the server's next start tries it again"), "{told:?}");
    assert_eq!(ground.unfinished().len(), 1);
    // It holds a part of what was wanted.
    let part = json!({ "file_path": "old.txt", "content": "a=2\nb=1\nc=1\n" });
    let told = ground.told(&server, &[("Write", part)]).await;
    assert!(told[0].starts_with("Updated "), "{told:?}");
    drop(server);
    drop(ground.builder().start().await);
    assert_eq!((ground.holds(), ground.unfinished()), ("a=2\nb=1\nc=1\n".to_owned(), Vec::new()));
}

#[tokio::test]
async fn t24_a_disk_that_is_full_is_met_before_anything_is_lost() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream);
    let (workspace, starter) = (builder.workspace(), builder.home().join("start.sh"));
    let Some(_small) = Mount::small(&workspace, 64 << 10) else { return };
    write_starter(&starter);
    let old = text("one", 2000);
    fs::write(workspace.join("old.txt"), &old).expect("there is room");
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o555)).expect("our own");
    let server = builder.free().program(&starter).start().await;
    for head in ["x".repeat(100_000), "two".to_owned()] {
        let before = upstream.requests().len();
        upstream.round(calls(&[("c0", "Read", json!({ "file_path": "old.txt", "limit": 1 }))]));
        let (tool, input) = call("Edit", "one", &head, 0);
        upstream.round(calls(&[("c1", tool, input)]));
        upstream.round(says("Done."));
        server.client().chat(&ask("Write.")).await;
        let told = answers(&upstream, before + 2).await;
        if head == "two" {
            assert!(told[1].starts_with("Edited "), "{told:?}");
            assert!(server.file("old.txt") == text("two", 2000));
        } else {
            assert!(told[1].contains("No space left on device"), "{told:?}");
            assert!(server.file("old.txt") == old);
        }
        assert_eq!(names(&server.state_dir().join("unfinished")), [""; 0]);
    }
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755)).expect("our own");
}

#[tokio::test]
async fn t24_what_may_not_be_written_is_not_written_in_place_either() {
    let Some(ground) = Ground::new(Obstacle::Directory, "old.txt", "one\n").await else { return };
    fs::set_permissions(&ground.file, fs::Permissions::from_mode(0o444)).expect("our own");
    let server = ground.builder().start().await;
    for tool in ["Edit", "Write"] {
        let told = ground.told(&server, &[call(tool, "one", "two", 0)]).await;
        assert!(told[0].contains("Permission denied"), "{told:?}");
    }
    let new = json!({ "file_path": "new.txt", "content": "x" });
    let told = ground.told(&server, &[("Write", new)]).await;
    assert!(told[0].contains("Permission denied"), "{told:?}");
    assert_eq!((ground.holds(), ground.unfinished()), ("one\n".to_owned(), Vec::new()));
}

#[tokio::test]
async fn t12_names_that_a_file_has_elsewhere_are_told_before_it_is_written_in_place() {
    let Some(ground) = Ground::new(Obstacle::Directory, "old.txt", "one\n").await else { return };
    let twin = ground.workspace.with_file_name("twin");
    fs::hard_link(&ground.file, &twin).expect("a link");
    let asking = ground.asking_builder().argument("--permission-mode=acceptEdits");
    let server = asking.start().await;
    let (tool, input) = call("Edit", "one", "two", 0);
    ground.upstream.round(calls(&[("c0", "Read", json!({ "file_path": "old.txt" }))]));
    ground.upstream.round(calls(&[("c1", tool, input)]));
    let question = server.client().chat(&ask("Write.")).await.text();
    assert!(question.contains("if it can only be written in place, they change too"), "{question}");
    assert_eq!(fs::read_to_string(&twin).expect("a file"), "one\n");
}

#[tokio::test]
async fn t12_names_that_a_file_has_elsewhere_show_what_is_written_in_place() {
    let Some(ground) = Ground::new(Obstacle::Directory, "old.txt", "one\n").await else { return };
    let twin = ground.workspace.with_file_name("twin");
    fs::hard_link(&ground.file, &twin).expect("a link");
    let server = ground.builder().start().await;
    let told = ground.told(&server, &[call("Edit", "one", "two", 0)]).await;
    assert!(told[0].contains("its other names show the change too"), "{told:?}");
    assert_eq!(fs::read_to_string(&twin).expect("a file"), "two\n");
}
