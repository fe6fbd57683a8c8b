//! Kills the server, and checks what it leaves behind and how the next one handles it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

/// Builds a server over the files of one that was killed.
fn after(upstream: &Upstream, gone: &Server) -> Builder {
    Server::builder(upstream)
        .free()
        .argument(&format!("--state-dir={}", gone.state_dir().display()))
        .argument(&format!("--workspace={}", gone.workspace().display()))
}

fn names(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.workspace()).expect("the workspace").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Lets the model read and rewrite a file, and kills the server when the write begins.
async fn kill_while_writing(server: &mut Server, upstream: &Upstream, content: &str) {
    let call = |tool, input: Value| calls(&[("c1", tool, input)]);
    upstream.round(call("Read", json!({ "file_path": "old.txt", "limit": 1 })));
    let input = json!({ "file_path": "old.txt", "content": content });
    upstream.round(call("Write", input));
    upstream.otherwise(says("Too late."));
    let progress = json!({ "toolhand": { "progress": "events" } });
    let mut stream = server.client().stream(&with(ask_streamed("Write."), progress)).await;
    stream.until_progress("tool_end").await;
    stream.until_progress("tool_start").await;

    kill_process(server.pid(), Signal::KILL).expect("our child is there");
    server.stop();
}

#[tokio::test]
async fn t24_a_killed_server_leaves_files_whole_and_no_litter_after_the_next_start() {
    let (one, two) = ("one\n".repeat(200_000), "two\n".repeat(200_000));
    let upstream = Upstream::start();
    let mut first = Server::builder(&upstream).free().file("old.txt", &one).start().await;
    kill_while_writing(&mut first, &upstream, &two).await;
    for content in [&one, &two, &one, &two] {
        let mut server = after(&upstream, &first).start().await;
        assert_eq!(names(&first), ["old.txt"]);
        let left = first.file("old.txt");
        assert!(left == one || left == two, "{} bytes", left.len());
        kill_while_writing(&mut server, &upstream, content).await;
    }
    drop(after(&upstream, &first).start().await);
    assert_eq!(names(&first), ["old.txt"]);
}

#[tokio::test]
async fn files_that_a_killed_server_had_not_finished_are_removed() {
    let upstream = Upstream::start();
    let mut first = Server::builder(&upstream).file("precious.txt", "keep\n").start().await;
    assert!(first.stop().expect("a status").success());
    // The files as they are just before a rename.
    let name = ".toolhand-0123456789abcdef0123456789abcdef.tmp";
    let notes = first.state_dir().join("unfinished");
    fs::write(first.workspace().join(name), "half").expect("a new file");
    symlink(first.workspace().join(name), notes.join(name)).expect("a new link");
    // A foreign note for a file that is not ours.
    symlink(first.workspace().join("precious.txt"), notes.join("precious.txt")).expect("a link");

    drop(after(&upstream, &first).start().await);

    assert_eq!(names(&first), ["precious.txt"]);
    assert_eq!(fs::read_dir(notes).expect("a directory").count(), 0);
}

const TEMPORARY: &str = ".toolhand-0123456789abcdef0123456789abcdef.tmp";
const ANOTHER: &str = ".toolhand-11111111111111111111111111111111.tmp";

/// A server that has run once, and a directory that does not belong to it.
async fn ended_beside_foreign(upstream: &Upstream) -> (Server, std::path::PathBuf) {
    let mut first = Server::builder(upstream).start().await;
    assert!(first.stop().expect("a status").success());
    let foreign = first.state_dir().with_file_name("foreign");
    fs::create_dir(&foreign).expect("a new directory");
    for name in [TEMPORARY, ANOTHER, "precious.txt"] {
        fs::write(foreign.join(name), "keep").expect("a new file");
    }
    (first, foreign)
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).expect("a directory").count()
}

#[tokio::test]
async fn d14_the_sweep_never_goes_through_a_link() {
    let upstream = Upstream::start();
    let (first, foreign) = ended_beside_foreign(&upstream).await;
    let notes = first.state_dir().join("unfinished");
    symlink(foreign.join(TEMPORARY), foreign.join("note-of-a-sort")).expect("a link");
    fs::remove_dir(&notes).expect("it is empty");
    symlink(&foreign, &notes).expect("a link");

    let mut second = after(&upstream, &first).start().await;
    assert!(second.log().contains("unfinished"), "{}", second.log());
    assert_eq!(count(&foreign), 4);
    // Nothing is noted there either, and a file is written all the same.
    write_new(&upstream, &second).await;
    assert_eq!((count(&foreign), first.file("new.txt")), (4, "new\n".to_owned()));
    assert!(second.stop().expect("a status").success());

    // A note whose directory is reached through a link.
    fs::remove_file(&notes).expect("the link");
    fs::create_dir(&notes).expect("a new directory");
    fs::set_permissions(&notes, fs::Permissions::from_mode(0o700)).expect("our own");
    symlink(&foreign, first.workspace().join("link")).expect("a link");
    symlink(first.workspace().join("link").join(TEMPORARY), notes.join(TEMPORARY)).expect("a note");
    drop(after(&upstream, &first).start().await);
    assert_eq!((count(&foreign), count(&notes)), (4, 0));
}

async fn write_new(upstream: &Upstream, server: &Server) {
    upstream.round(calls(&[(
        "c1",
        "Write",
        json!({ "file_path": "new.txt", "content": "new\n" }),
    )]));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&crate::support::client::ask("Write.")).await.text(), "Done.");
}

#[tokio::test]
async fn d14_the_sweep_removes_temporary_files_of_ours_and_nothing_else() {
    let upstream = Upstream::start();
    let (first, foreign) = ended_beside_foreign(&upstream).await;
    let notes = first.state_dir().join("unfinished");
    let name = |letter: char| format!(".toolhand-{}.tmp", letter.to_string().repeat(32));
    // Notes that name no temporary file, but a link, a pipe and a directory.
    symlink(foreign.join("precious.txt"), foreign.join(name('a'))).expect("a link");
    mkfifoat(CWD, foreign.join(name('b')), Mode::RWXU).expect("a pipe");
    fs::create_dir(foreign.join(name('c'))).expect("a directory");
    for letter in ['a', 'b', 'c'] {
        symlink(foreign.join(name(letter)), notes.join(name(letter))).expect("a note");
    }
    // A relative note, one for a file of another name, and one that names nothing.
    symlink(ANOTHER, notes.join(ANOTHER)).expect("a note");
    symlink(foreign.join("precious.txt"), notes.join(name('d'))).expect("a note");
    symlink("\u{1}".repeat(4000), notes.join(name('e'))).expect("a note");
    // An entry that is no note.
    mkfifoat(CWD, notes.join(name('f')), Mode::RWXU).expect("a pipe");
    fs::create_dir(notes.join(name('0'))).expect("a directory");
    fs::write(notes.join("list.bin"), vec![0xff; 1 << 20]).expect("a file");
    // And one valid note.
    symlink(foreign.join(TEMPORARY), notes.join(TEMPORARY)).expect("a note");

    drop(after(&upstream, &first).start().await);

    assert!(!foreign.join(TEMPORARY).exists());
    assert!(foreign.join(ANOTHER).exists() && foreign.join("precious.txt").exists());
    for letter in ['a', 'b', 'c'] {
        assert!(foreign.join(name(letter)).symlink_metadata().is_ok(), "{letter}");
    }
    for name in [name('f'), name('0'), "list.bin".to_owned()] {
        assert!(notes.join(&name).symlink_metadata().is_ok(), "{name} is no note");
    }
    assert_eq!(count(&notes), 3);
}
