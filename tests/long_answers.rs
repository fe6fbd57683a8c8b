//! Tests answers that are longer than a limit: what the model is shown of them, and where the
//! rest is.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::{ask, with};
use crate::support::mount::Mount;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// A file with so many lines, each of which says its number.
fn numbered(lines: usize) -> String {
    let mut text = String::new();
    for number in 1..=lines {
        writeln!(text, "line {number}").expect("writing to memory does not fail");
    }
    text
}

/// The answers of each round of one turn, in which the model makes these calls.
pub(crate) async fn rounds_of(
    upstream: &Upstream,
    server: &Server,
    session: &str,
    rounds: &[&[(&str, Value)]],
) -> Vec<Vec<String>> {
    for round in rounds {
        let ids: Vec<String> = (0..round.len()).map(|at| format!("c{at}")).collect();
        let named: Vec<_> = round
            .iter()
            .zip(&ids)
            .map(|((tool, input), id)| (id.as_str(), *tool, input.clone()))
            .collect();
        upstream.round(calls(&named));
    }
    upstream.round(says("Done."));
    let before = upstream.requests().len();
    let answer = server
        .client()
        .chat(&with(ask("Go."), json!({ "toolhand": { "session": session } })))
        .await;
    assert_eq!(answer.text(), "Done.");
    let requests = upstream.requests();
    let mut seen = answers_in(&requests[before].json()).len();
    let mut answers = Vec::new();
    for request in &requests[before + 1..] {
        let mut all = answers_in(&request.json());
        let new = all.split_off(seen);
        seen += new.len();
        answers.push(new);
    }
    answers
}

/// The path in the note of an answer that was cut.
pub(crate) fn kept_in(answer: &str) -> PathBuf {
    let (_, rest) = answer.split_once("the whole text is in ").expect("a note");
    rest.split_once(": Read").expect("a path").0.into()
}

#[tokio::test]
async fn read_shows_the_rest_of_what_a_limit_has_cut() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream)
        .config("tools.max_result_chars", "5000")
        .file("a.txt", &numbered(1000));
    let read = |offset: u64| [("Read", json!({ "file_path": "a.txt", "offset": offset }))];

    let server = builder.start().await;
    let rounds = rounds_of(&upstream, &server, "one", &[&read(1), &read(1), &read(300)]).await;

    let [first, again, later] = [&rounds[0][0], &rounds[1][0], &rounds[2][0]];
    let note = first.lines().last().expect("a note");
    assert!(first.chars().count() <= 5000 && note.starts_with("(PARTIAL: lines 1-"), "{note}");
    assert!(again.contains("has not changed since you read lines 1-"), "{again}");
    assert!(later.contains("line 300\n"), "{later}");
    // The offset of the note is where the shown lines end.
    let next: u64 = note.rsplit(' ').next().unwrap().trim_end_matches(')').parse().unwrap();
    assert!(first.contains(&format!("line {}\n", next - 1)), "{note}");
    assert!(!first.contains(&format!("line {next}\n")), "{note}");
}

#[tokio::test]
async fn lines_that_the_limit_of_a_round_cuts_are_shown_again() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream)
        .config("tools.max_round_chars", "6000")
        .file("a.txt", &numbered(400))
        .file("b.txt", "short\n");
    let server = builder.start().await;
    let read = |name: &str| ("Read", json!({ "file_path": name }));

    let rounds =
        rounds_of(&upstream, &server, "one", &[&[read("a.txt"), read("b.txt")], &[read("a.txt")]])
            .await;

    let first = &rounds[0][0];
    assert!(first.contains("go on with offset ") && !first.contains("line 400\n"), "{first}");
    assert_eq!(rounds[0][1], "     1\tshort");
    assert!(rounds[1][0].contains("line 1\n"), "shown again: {}", rounds[1][0]);
}

#[tokio::test]
async fn the_whole_of_a_cut_answer_can_be_read_and_searched_without_asking() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).file("a.txt", &numbered(3000));
    let search =
        json!({ "pattern": "line", "path": "a.txt", "output_mode": "content", "head_limit": 0 });
    let server = builder.start().await;

    let first = &rounds_of(&upstream, &server, "one", &[&[("Grep", search.clone())]]).await[0][0];

    let path = kept_in(first);
    assert!(first.chars().count() <= 20_000, "{}", first.len());
    let note = first.lines().last().expect("a note");
    let shown = first.lines().filter(|line| line.contains(":line ")).count();
    assert_eq!(
        note,
        format!("(more lines follow: set offset to {shown} to go on, or narrow the search)")
    );
    let kept = fs::read_to_string(&path).unwrap();
    assert_eq!(kept.lines().count(), 3000);
    let read = json!({ "file_path": path, "offset": 2999 });
    let grep = json!({ "pattern": ":line 2500$", "path": path, "output_mode": "content" });
    let write = json!({ "file_path": path, "content": "" });
    let calls = [("Grep", search), ("Read", read), ("Grep", grep), ("Write", write)];
    let again = rounds_of(&upstream, &server, "one", &[&calls]).await;
    let [same, end, found, refused] = &again[0][..] else { panic!("{again:?}") };
    assert_eq!(same, first, "the same answer has the same bytes");
    assert!(end.starts_with("  2999\ta.txt:2999:line 2999\n"), "{end}");
    assert!(found.contains("2500:a.txt:2500:line 2500"), "{found}");
    assert!(refused.contains("state directory"), "{refused}");
}

#[tokio::test]
async fn another_session_reads_no_kept_answer() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", &numbered(3000)).start().await;
    let search =
        json!({ "pattern": "line", "path": "a.txt", "output_mode": "content", "head_limit": 0 });
    let path = kept_in(&rounds_of(&upstream, &server, "one", &[&[("Grep", search)]]).await[0][0]);

    let read = [("Read", json!({ "file_path": path }))];
    let refused = &rounds_of(&upstream, &server, "other", &[&read]).await[0][0];

    assert!(refused.contains("state directory"), "{refused}");
}

/// The directory in which the server keeps what it has cut.
fn directory_of(kept: &Path) -> &Path {
    kept.parent().expect("a directory")
}

const SEARCH: &str = r#"{"pattern":"line","output_mode":"content","head_limit":0,"path":"#;

/// A search of `file` whose answer is too long.
fn search(file: &str) -> (&'static str, Value) {
    ("Grep", serde_json::from_str(&format!("{SEARCH}\"{file}\"}}")).expect("an object"))
}

#[tokio::test]
async fn a_kept_answer_that_is_gone_says_so() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", &numbered(3000)).start().await;
    let path = kept_in(&rounds_of(&upstream, &server, "one", &[&[search("a.txt")]]).await[0][0]);
    fs::remove_file(&path).expect("it is there");

    let read = ("Read", json!({ "file_path": path }));
    let grep = ("Grep", json!({ "pattern": "x", "path": path }));
    let told = rounds_of(&upstream, &server, "one", &[&[read, grep]]).await;

    assert!(told[0].iter().all(|answer| answer.starts_with("Error: ")), "{told:?}");
    assert!(told[0].iter().all(|answer| answer.contains("is no longer kept")), "{told:?}");
}

#[tokio::test]
async fn nothing_is_written_through_a_link_in_the_place_of_the_directory() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream);
    let server =
        builder.file("a.txt", &numbered(3000)).file("b.txt", &numbered(2999)).start().await;
    let path = kept_in(&rounds_of(&upstream, &server, "one", &[&[search("a.txt")]]).await[0][0]);
    let outside = server.workspace().join("outside");
    fs::create_dir(&outside).expect("a new directory");
    fs::remove_dir_all(directory_of(&path)).expect("it is there");
    symlink(&outside, directory_of(&path)).expect("a new link");

    let told = rounds_of(&upstream, &server, "one", &[&[search("b.txt")]]).await;

    let answer = &told[0][0];
    assert!(answer.contains("the whole text could not be kept: "), "{answer}");
    assert!(answer.ends_with("to go on, or narrow the search)"), "{answer}");
    assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 0);
}

#[tokio::test]
async fn a_linked_file_in_the_place_of_a_kept_answer_is_not_read() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", &numbered(3000)).start().await;
    let path = kept_in(&rounds_of(&upstream, &server, "one", &[&[search("a.txt")]]).await[0][0]);
    fs::remove_file(&path).expect("it is there");
    symlink("/etc/passwd", &path).expect("a new link");

    let read = ("Read", json!({ "file_path": path }));
    let told = rounds_of(&upstream, &server, "one", &[&[read, search("a.txt")]]).await;

    assert!(told[0][0].starts_with("Error: ") && !told[0][0].contains("root:"), "{told:?}");
    assert!(told[0][1].contains("the whole text could not be kept: "), "{told:?}");
}

#[tokio::test]
async fn the_oldest_kept_answer_makes_room_for_a_new_one() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).config("tools.spill_bytes", "\"100KiB\"");
    let server =
        builder.file("a.txt", &numbered(3000)).file("b.txt", &numbered(2999)).start().await;

    let told =
        rounds_of(&upstream, &server, "one", &[&[search("a.txt")], &[search("b.txt")]]).await;

    let (first, second) = (kept_in(&told[0][0]), kept_in(&told[1][0]));
    assert!(!first.exists() && second.exists(), "{first:?} {second:?}");
}

/// The bytes of all files that are kept beside this one.
fn kept_bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path.parent().expect("a directory")).expect("it is there");
    entries.map(|entry| entry.expect("an entry").metadata().expect("it is there").len()).sum()
}

#[tokio::test]
async fn life_6c_an_output_counts_while_it_grows() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free().config("tools.spill_bytes", "\"200KiB\"");
    let server = builder.file("a.txt", &numbered(3000)).start().await;
    let kept = kept_in(&rounds_of(&upstream, &server, "one", &[&[search("a.txt")]]).await[0][0]);
    assert!(kept.exists());

    let grow = json!({ "command": "yes; echo never", "run_in_background": true });
    let started = rounds_of(&upstream, &server, "one", &[&[("Bash", grow)]]).await;
    let id = started[0][0].lines().find_map(|line| line.strip_prefix("Background task started: "));
    let id = id.expect("an id").to_owned();
    let look = json!({ "task_id": id });
    let told = rounds_of(&upstream, &server, "one", &[&[("TaskOutput", look)]]).await;

    let mut lines = told[0][0].lines();
    let told_end = lines.rfind(|line| line.starts_with("Task ")).expect("how it ended");
    let why = "killed (output limit: the outputs of running commands fill what may be kept of this \
               session, tools.spill_bytes)";
    assert_eq!(told_end, format!("Task {id}: {why}"));
    assert!(!kept.exists(), "the oldest that has ended goes first");
    let output = kept.with_file_name(format!("{id}.txt"));
    assert_eq!(kept_bytes(&output), 200 << 10);
    // What has ended makes room again; a command that is waited for runs to its end without.
    let flood = json!({ "command": "seq 100000; echo the end" });
    let told = rounds_of(&upstream, &server, "one", &[&[("Bash", flood)]]).await;
    assert!(told[0][0].ends_with("100000\nthe end"), "{told:?}");
    assert!(!output.exists() && kept_bytes(&output) <= 200 << 10);
}

#[tokio::test]
async fn p18_output_that_fills_the_disk_leaves_room_for_the_record() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free();
    let state_dir = builder.home().join("state");
    fs::create_dir(&state_dir).expect("a new directory");
    let Some(_small) = Mount::small(&state_dir, 12 << 20) else { return };
    let server = builder.start().await;
    // About seven megabytes each.
    let flood = [("Bash", json!({ "command": "seq 1000000; echo the end" }))];
    for session in ["one", "two", "one"] {
        let rounds = rounds_of(&upstream, &server, session, &[&flood, &flood]).await;
        for round in rounds {
            assert!(round[0].contains("\n1000000\nthe end"), "{}", round[0]);
        }
    }
}
