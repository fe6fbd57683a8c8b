//! Searches of a workspace whose ignore files mean harm.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::table::Line;
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const MAX_MIB: u64 = 512;
const CPU: Duration = Duration::from_secs(30);

/// A pair is a Grep and a Glob; in one round, more of them than may run at once.
const PAIRS: [usize; 2] = [1, 8];

/// What makes a workspace hostile.
type Fill = fn(&Path);

pub(super) async fn ignore_files() -> Line {
    let mut line = Line::new("ignore files (T28)");
    let cases: [(&str, Fill); 5] = [
        ("no files", no_files),
        ("8 MB", |root| ignore(root, &"**/some/directory/*.extension\n".repeat(280_000))),
        ("1 M rules", |root| ignore(root, &numbered(1_000_000, |rule| format!("{rule}\n")))),
        ("wide rules", |root| ignore(root, &numbered(10_000, wide))),
        ("in each of 200", |root| {
            for directory in 0..200 {
                let path = root.join(directory.to_string());
                fs::create_dir(&path).expect("a directory");
                ignore(&path, &numbered(10_000, wide));
            }
        }),
    ];
    for (case, fill) in cases {
        for pairs in PAIRS {
            search(&mut line, case, fill, pairs).await;
        }
    }
    line
}

async fn search(line: &mut Line, case: &str, fill: Fill, pairs: usize) {
    // Each at a server of its own, for its peak.
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    fs::create_dir(server.workspace().join(".git")).expect("a directory");
    fs::write(server.workspace().join("found.rs"), "a needle\n").expect("a file");
    fill(&server.workspace());
    let ids: Vec<String> = (0..2 * pairs).map(|call| format!("c{call}")).collect();
    let round: Vec<(&str, &str, Value)> = ids
        .iter()
        .enumerate()
        .map(|(call, id)| match call % 2 {
            0 => (id.as_str(), "Grep", json!({ "pattern": "needle" })),
            _ => (id.as_str(), "Glob", json!({ "pattern": "*.rs" })),
        })
        .collect();
    upstream.round(calls(&round));
    upstream.round(says("Done."));
    let before = resources::open_files(&server);
    let cpu = resources::cpu_time(&server);
    server.client().chat(&ask("Go.")).await;
    let cpu = resources::cpu_time(&server).saturating_sub(cpu);
    let answers = crate::turn::answers(&upstream, 1).await;
    let found = answers.iter().filter(|answer| answer.contains("found.rs")).count();
    let remains = resources::remains(&server, before).await;
    let (calls, peak) = (round.len(), remains.peak >> 20);
    line.runs += calls;
    line.note(format!("{case} x {calls}: {peak} MiB, {} ms", cpu.as_millis()));
    line.must(found == calls, || format!("{case}: {found} of {calls} found the file"));
    line.must(cpu <= CPU, || format!("{case} took {cpu:?}"));
    line.leaves(remains, MAX_MIB);
}

/// Names of ignore files that are none.
fn no_files(root: &Path) {
    symlink("/dev/zero", root.join(".gitignore")).expect("a link");
    mkfifoat(CWD, root.join(".ignore"), Mode::RWXU).expect("a pipe");
    symlink("/dev/zero", root.join(".rgignore")).expect("a link");
}

fn ignore(directory: &Path, rules: &str) {
    fs::write(directory.join(".gitignore"), rules).expect("a file");
}

fn numbered(rules: usize, rule: impl Fn(usize) -> String) -> String {
    (0..rules).map(rule).collect()
}

/// As long as a rule may be on average within the size of a file.
fn wide(number: usize) -> String {
    format!("**/*{{a{number},b?c[!d]*,e{{f,g[h-k]}}*}}/**/x{number}[0-9a-z]*y?{{l,m}}*.{{n,o}}\n")
}
