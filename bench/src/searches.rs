//! Measures Grep and Glob against a ripgrep process with the same task, on a tree of
//! 20,000 files, in a git repository and outside of one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio::time::Instant;

use super::client::{Client, ask};
use super::process;
use super::report::{Bound, Report, median};
use super::upstream::{GLOB, GREP, Upstream};

const DIRECTORIES: usize = 400;
const FILES: usize = 50;
/// How often both sides are measured, in turn, so that load on the machine affects both.
const RUNS: usize = 15;

/// The pattern that the scripted model and ripgrep search for.
pub(crate) const PATTERN: &str = "needle_[0-9]+";
pub(crate) const FILE_NAMES: &str = "**/*.rs";

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    measure_with(&process::this_path(), upstream, report).await;
}

/// Measures another server's program as well, to compare two in one run.
pub(crate) async fn measure_with(server: &Path, upstream: &Upstream, report: &mut Report) {
    for (grep, glob, is_repository) in [
        ("Grep to rg, in a repository", "Glob to rg, in a repository", true),
        ("Grep to rg, outside one", "Glob to rg, outside one", false),
    ] {
        let tree = tree(is_repository);
        let server = process::server_in(server, &upstream.url(), "", tree.path()).await;
        let common = ["--no-config", "--hidden", "-g", "!.git"];
        let flags = [&common[..], &["-l", PATTERN]].concat();
        row(grep, GREP, &server, tree.path(), &flags, report).await;
        let flags = ["--no-config", "--hidden", "--files", "--sortr", "modified", "-g", FILE_NAMES];
        row(glob, GLOB, &server, tree.path(), &flags, report).await;
    }
}

async fn row(
    what: &'static str,
    model: &str,
    server: &process::Process,
    tree: &Path,
    flags: &[&str],
    report: &mut Report,
) {
    let mut client = Client::connect(server.address, &ask(model, true, "none")).await;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let start = Instant::now();
        client.ask().await;
        let turn = start.elapsed().as_secs_f64() * 1000.0;
        let start = Instant::now();
        ripgrep(tree, flags);
        let process = start.elapsed().as_secs_f64() * 1000.0;
        // The first run is a warm-up.
        if run > 0 {
            ours.push(turn);
            theirs.push(process);
        }
    }
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let detail = format!("{:.1} ms with its turn, rg {:.1} ms", median(ours), median(theirs));
    report.ratio(what, median(ratios), Bound::AtMost(1.0), detail);
}

fn ripgrep(tree: &Path, flags: &[&str]) {
    let mut command = Command::new("rg");
    command.args(flags).arg(".").current_dir(tree);
    let output = command.stdin(Stdio::null()).output().expect("rg is installed");
    assert!(output.status.success() && !output.stdout.is_empty(), "rg found nothing");
}

/// Makes nested directories with ignore files here and there.
fn tree(is_repository: bool) -> TempDir {
    let tree = tempfile::tempdir().expect("a directory");
    if is_repository {
        fs::create_dir(tree.path().join(".git")).expect("a directory");
    }
    write(tree.path().join(".gitignore"), "*.log\n/target\n!keep.log\n**/generated/*.rs\n");
    let line = "fn some_function(argument: usize) -> usize { argument + 1 }\n";
    for directory in 0..DIRECTORIES {
        let path = format!("{}/{}/{directory}", directory % 4, directory % 20);
        let path = tree.path().join(path);
        fs::create_dir_all(&path).expect("a directory");
        if directory % 10 == 0 {
            write(path.join(".gitignore"), "*.tmp\nbuild/\n");
        }
        for file in 0..FILES {
            let needle =
                if file == 7 { format!("let needle_{directory} = 1;\n") } else { String::new() };
            let name = format!("{file}.{}", ["rs", "md", "txt", "log"][file % 4]);
            write(path.join(name), &format!("{}{needle}", line.repeat(40)));
        }
    }
    tree
}

fn write(path: PathBuf, text: &str) {
    fs::write(path, text).expect("a file");
}
