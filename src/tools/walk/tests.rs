//! Searches hostile trees with Glob and Grep.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Mode, RenameFlags, mkdirat, openat, renameat_with};
use serde_json::json;

use super::Search;
use crate::blocking::{Pool, Size};
use crate::tools::builtin::glob::Glob;
use crate::tools::builtin::grep::Grep;
use crate::tools::builtin::read::Read;
use crate::tools::tool::test_support::Workspace;
use crate::workspace::directory::gate::test::Gate;

const IGNORE_FILES: [&str; 4] = [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"];

/// A Glob with a long time limit, for searches that are slow in a debug build.
fn patient() -> Glob {
    Glob { search: Search { time_limit: Duration::from_secs(3600), ..Search::default() } }
}

async fn both(workspace: &Workspace) -> [String; 2] {
    let names = workspace.call(Glob::default(), json!({ "pattern": "*.txt" })).await;
    let texts = workspace.call(Grep::default(), json!({ "pattern": "text" })).await;
    [names, texts]
}

/// Checks that both tools find `a.txt`, and give this reason for each ignore file.
async fn check_left_out(workspace: &Workspace, files: &[&str], why: &str) {
    for answer in both(workspace).await {
        let mut lines = answer.lines();
        assert!(lines.next().unwrap().ends_with("a.txt"), "{answer}");
        let mut expected: Vec<String> = files
            .iter()
            .map(|file| format!("(ignore file not used in full: $WORKSPACE/{file}: {why})"))
            .collect();
        expected.sort_unstable();
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }
}

fn workspace() -> Workspace {
    Workspace::new(&[(".git/HEAD", ""), (".git/info/x", ""), ("a.txt", "text\n")])
}

#[tokio::test]
async fn t28_ignore_files_that_are_no_regular_files_are_left_out_and_named() {
    let ground = workspace();
    for file in IGNORE_FILES {
        assert!(Command::new("mkfifo").arg(ground.path(file)).status().unwrap().success());
    }
    check_left_out(&ground, &IGNORE_FILES, "it is no regular file").await;

    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("rules"), "*\n").unwrap();
    for to in ["/dev/zero", outside.path().join("rules").to_str().unwrap(), "nowhere"] {
        let ground = workspace();
        for file in IGNORE_FILES {
            symlink(to, ground.path(file)).unwrap();
        }
        let why = "it is a link, and links are not followed";
        check_left_out(&ground, &IGNORE_FILES, why).await;
    }

    let ground = workspace();
    let sockets = &IGNORE_FILES[..3];
    let _open: Vec<UnixListener> =
        sockets.iter().map(|file| UnixListener::bind(ground.path(file)).unwrap()).collect();
    check_left_out(&ground, sockets, "it is no regular file").await;

    let ground = workspace();
    for file in sockets {
        fs::create_dir(ground.path(file)).unwrap();
    }
    check_left_out(&ground, &[], "").await;
}

#[tokio::test]
async fn t28_large_ignore_files_count_up_to_a_bound() {
    let ground = workspace();
    ground.write(".ignore", "a.txt\n".repeat(200_000).as_bytes());
    let answer = ground.call(patient(), json!({ "pattern": "*.txt" })).await;
    assert!(answer.starts_with("No files found\n"), "{answer}");
    assert!(answer.contains("/.ignore: only its first MiB counts"), "{answer}");
    assert!(answer.contains("/.ignore: only 10000 of its "), "{answer}");
}

#[tokio::test]
async fn t28_of_ignore_files_above_each_other_so_many_count() {
    let files: Vec<(String, String)> = (0..40)
        .flat_map(|depth| {
            let here = "d/".repeat(depth);
            [
                (format!("{here}.ignore"), format!("[n]{depth}.txt\n")),
                (format!("{here}n{depth}.txt"), String::new()),
            ]
        })
        .collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let answer = Workspace::new(&files).call(patient(), json!({ "pattern": "*.txt" })).await;

    let hidden = |depth: usize| !answer.contains(&format!("n{depth}.txt"));
    assert_eq!(
        (0..40).filter(|depth| hidden(*depth)).collect::<Vec<_>>(),
        (0..32).collect::<Vec<_>>()
    );
    let why = ".ignore: it lies below 32 others)";
    assert_eq!(answer.lines().filter(|line| line.ends_with(why)).count(), 5, "{answer}");
    assert!(answer.ends_with("(ignore file not used in full: 3 more)"), "{answer}");
}

#[tokio::test]
async fn rules_that_would_overwhelm_the_parser_are_left_out() {
    let ground = workspace();
    let rules = ["{".repeat(10_000), "*".repeat(500_000), "{a,".repeat(100), "b.txt".to_owned()];
    ground.write(".ignore", rules.join("\n").as_bytes());
    ground.write("b.txt", b"text");
    let why = "3 of its rules are too long, nested too deep, or no globs";
    check_left_out(&ground, &[".ignore"], why).await;
}

#[tokio::test]
async fn what_lies_above_the_root_tells_nothing_but_that_there_is_a_repository() {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().canonicalize().unwrap().join("ws");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::create_dir_all(above.path().join(".git/info")).unwrap();
    for file in IGNORE_FILES {
        fs::write(above.path().join(file), "*.txt\n").unwrap();
    }
    fs::write(root.join(".gitignore"), "b.txt\n").unwrap();
    for file in ["a.txt", "b.txt"] {
        fs::write(root.join("sub").join(file), "").unwrap();
    }
    let ground = Workspace::at(&root);
    let answer = ground.call(Glob::default(), json!({ "pattern": "*.txt", "path": "sub" })).await;
    assert_eq!(answer, "$WORKSPACE/sub/a.txt");
}

#[tokio::test]
async fn t31_the_answer_comes_although_an_open_hangs() {
    let ground = Workspace::new(&[("a.txt", "text"), ("hangs-31/b.txt", "text")]);
    let gate = Gate::shut("hangs-31");
    let search = || Search { time_limit: Duration::from_millis(300), ..Search::default() };

    let glob = Glob { search: search() };
    let names = ground.call(glob, json!({ "pattern": "*.txt" })).await;
    gate.wait_for(1);
    let grep = Grep { search: search(), ..Grep::default() };
    let texts = ground.call(grep, json!({ "pattern": "text" })).await;

    let incomplete = "(incomplete: the search ran out of time; narrow the path or the pattern)";
    assert_eq!(names, format!("$WORKSPACE/a.txt\n{incomplete}"));
    assert_eq!(texts, format!("a.txt\n{incomplete}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_that_hang_are_bounded_and_hold_up_nobody_else() {
    const CALLS: usize = 560;
    let ground = Arc::new(Workspace::new(&[("a.txt", "text"), ("hangs-560/b.txt", "text")]));
    let gate = Gate::shut("hangs-560");
    let pool: &'static Pool = Box::leak(Box::new(Pool::new(
        "search",
        Size {
            at_once: 4,
            stuck: 8,
            threads_each: 8,
            waiting: CALLS,
            max_wait: Duration::from_secs(2),
        },
    )));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let ground = Arc::clone(&ground);
        let search = Search { pool, time_limit: Duration::from_millis(20) };
        calls.spawn(
            async move { ground.call(Glob { search }, json!({ "pattern": "*.txt" })).await },
        );
    }
    // While the searches hang, another client can read.
    let read = ground.call(Read::default(), json!({ "file_path": "a.txt" })).await;
    assert!(read.contains("text"), "{read}");

    let (mut partial, mut refused) = (0, 0);
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        partial += usize::from(answer.contains("ran out of time"));
        refused += usize::from(answer.contains("overloaded"));
    }
    assert_eq!(partial + refused, CALLS);
    assert!(gate.waiting() <= 12, "{} hang, where 4 and 8 may", gate.waiting());
    assert!(refused > 0, "none was told that there are too many");
}

#[tokio::test]
async fn a_tree_deeper_than_a_stack_and_longer_than_a_path_is_walked() {
    const LEVELS: usize = 10_000;
    let ground = Workspace::new(&[]);
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
    let mut here = openat(CWD, ground.root(), flags, Mode::empty()).unwrap();
    for level in 0..LEVELS {
        mkdirat(&here, "d", Mode::RWXU).unwrap();
        if level % 500 == 0 {
            mkdirat(&here, "e", Mode::RWXU).unwrap();
        }
        here = openat(&here, "d", flags, Mode::empty()).unwrap();
    }
    let create = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    drop(openat(&here, "deep.txt", create, Mode::RUSR).unwrap());

    let answer = ground.call(patient(), json!({ "pattern": "*.txt" })).await;

    assert!(answer.ends_with("/d/d/deep.txt"), "{}", &answer[answer.len().saturating_sub(200)..]);
    assert_eq!(answer.matches("/d").count(), LEVELS + 1);
    assert!(Command::new("rm").arg("-rf").arg(ground.root()).status().unwrap().success());
}

#[tokio::test]
async fn a_directory_swapped_for_a_link_never_leads_outside() {
    const ROUNDS: usize = 400;
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("deep")).unwrap();
    for file in ["secret.txt", "deep/secret.txt"] {
        fs::write(outside.path().join(file), "text").unwrap();
    }
    let ground = Workspace::new(&[("in/deep/a.txt", "text"), ("a.txt", "text")]);
    symlink(outside.path(), ground.path("link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = thread::spawn({
        let (stop, one, other) = (Arc::clone(&stop), ground.path("in"), ground.path("link"));
        move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        }
    });
    for _ in 0..ROUNDS {
        for answer in both(&ground).await {
            assert!(!answer.contains("secret"), "{answer}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
}

#[tokio::test]
async fn t32_the_state_directory_is_known_under_other_names() {
    let mut ground = Workspace::new(&[("state/deep/key.txt", "text"), ("a.txt", "text")]);
    ground.hide(&ground.path("state"));
    fs::hard_link(ground.path("state/deep/key.txt"), ground.path("innocent.txt")).unwrap();
    for answer in both(&ground).await {
        assert!(answer.ends_with("a.txt") && !answer.contains("innocent"), "{answer}");
    }
}

#[tokio::test]
async fn a_directory_of_many_entries_is_read_in_parts() {
    let ground = Workspace::new(&[]);
    for n in 0..5000 {
        fs::write(ground.path(&format!("{n}.txt")), "text").unwrap();
    }
    for n in 0..100 {
        fs::create_dir(ground.path(&n.to_string())).unwrap();
    }
    ground.write(".ignore", b"1*.txt\n");
    ground.write("99/a.txt", b"text");
    let answer = ground.call(Glob::default(), json!({ "pattern": "*.txt" })).await;
    // 5000 files, without 1, 10 to 19, 100 to 199 and 1000 to 1999, with `99/a.txt`, and
    // without the 100 that are listed.
    assert_eq!(answer.lines().last(), Some("(3790 more; narrow the pattern)"));
}
