//! Kills a process that commits, at any moment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// The child: reads the directory from its input, and names each commit that it was told of.
#[tokio::test]
#[ignore = "the process that the next test kills"]
async fn commits_until_it_is_killed() {
    let mut directory = String::new();
    std::io::stdin().read_line(&mut directory).unwrap();
    let store = open(Path::new(directory.trim()));
    let (_, turn, changes) = conversation(scope("key"), "begin");
    store.commit(changes).await.unwrap();
    let mut out = std::io::stdout();
    for number in 0.. {
        let body = format!("{} {number} {}", turn.id, "x".repeat(number % 9000));
        store.commit(vec![entry(&turn, &body)]).await.unwrap();
        writeln!(out, "\nkept {} {number}", turn.id).unwrap();
    }
}

#[tokio::test]
async fn d1_every_acknowledged_record_survives_a_kill_and_none_is_torn() {
    let home = tempfile::tempdir().unwrap();
    for kill in 0..12_u32 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("store::sqlite::tests::kills::commits_until_it_is_killed")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{}", home.path().display()).unwrap();
        drop(input);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut acknowledged = Vec::new();
        // Another moment each time.
        let wanted = usize::try_from(1 + kill * 17).unwrap();
        let mut line = String::new();
        while acknowledged.len() < wanted {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child has ended");
            acknowledged.extend(line.trim().strip_prefix("kept ").map(str::to_owned));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in output.lines() {
            // A line that was cut by the kill was not told.
            let line = line.unwrap_or_default();
            acknowledged.extend(line.strip_prefix("kept ").map(str::to_owned));
        }
        let last = acknowledged.last().unwrap();
        let turn = TurnId::parse(last.split_once(' ').unwrap().0).unwrap();

        let store = open(home.path());
        let entries = store.entries(scope("key"), vec![turn.clone()]).await.unwrap();
        for (number, entry) in entries.iter().skip(1).enumerate() {
            let body = format!("{turn} {number} {}", "x".repeat(number % 9000));
            assert!(entry.body == body.as_bytes(), "entry {number}");
        }
        assert!(acknowledged.len() < entries.len() + 1, "{} lost", acknowledged.len());
        let row = store.turns(scope("key"), TurnKey::Id(turn)).await.unwrap();
        assert_eq!(row[0].status, TurnStatus::Crashed);
        store.close().await;
    }
    let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
