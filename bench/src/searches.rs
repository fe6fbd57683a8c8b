//! Measures Grep and Glob against processes with the same task: on a tree of 100,000 files
//! and 1 GB, in a git repository and outside of one, and in one file of 300 MB.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::client::{Client, ask};
use super::process;
use super::report::{Bound, Report, median};
use super::upstream::{CALLS, Upstream};

const DIRECTORIES: usize = 2_000;
const FILES: usize = 50;
const FILE_BYTES: usize = 10_000;
const LARGE_FILE_BYTES: usize = 300_000_000;

/// How often both sides are measured, in turn, so that load on the machine affects both.
const RUNS: usize = 7;

/// What both sides search for.
#[derive(Debug)]
struct Case {
    what: &'static str,
    tool: &'static str,
    arguments: Value,
    program: &'static str,
    flags: Vec<&'static str>,
    bound: Bound,
}

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    measure_beside(None, upstream, report).await;
}

/// Measures another server's program as well, to compare two in one run.
pub(crate) async fn measure_beside(other: Option<&Path>, upstream: &Upstream, report: &mut Report) {
    let tree = tree();
    let git = tree.path().join(".git");
    fs::create_dir(&git).expect("a directory");
    in_tree("in a repository", other, tree.path(), upstream, report).await;
    fs::remove_dir(&git).expect("our own directory");
    in_tree("outside one", other, tree.path(), upstream, report).await;
    drop(tree);
    let large = tempfile::tempdir().expect("a directory");
    let mut text = Text::default();
    let mut bytes = text.bytes(LARGE_FILE_BYTES);
    bytes.extend_from_slice(b"let rare_word = 1;\n");
    write(large.path().join("large.rs"), &bytes);
    drop(bytes);
    let benches = Benches::start(other, large.path(), upstream).await;
    for case in large_file_cases() {
        benches.row(&case, "300 MB", report).await;
    }
}

async fn in_tree(
    place: &'static str,
    other: Option<&Path>,
    tree: &Path,
    upstream: &Upstream,
    report: &mut Report,
) {
    let benches = Benches::start(other, tree, upstream).await;
    for case in tree_cases() {
        benches.row(&case, place, report).await;
    }
}

fn tree_cases() -> Vec<Case> {
    let globbed = || json!({ "pattern": "**/*.rs" });
    let mut cases = vec![
        grep("rare literal", json!({ "pattern": "rare_word" }), &["-l", "rare_word"]),
        grep("-i", json!({ "pattern": "RARE_word", "-i": true }), &["-il", "RARE_word"]),
        grep("no literal", json!({ "pattern": "[A-Z]{4}[0-9]{3}" }), &["-l", "[A-Z]{4}[0-9]{3}"]),
        grep("count", json!({ "pattern": "value", "output_mode": "count" }), &["-c", "value"]),
        grep(
            "type",
            json!({ "pattern": "rare_word", "type": "rust" }),
            &["-l", "-trust", "rare_word"],
        ),
        grep(
            "multiline",
            json!({ "pattern": r"rare_word[^;]*;\nlet", "multiline": true }),
            &["-lU", "--multiline-dotall", r"rare_word[^;]*;\nlet"],
        ),
        grep("no match", json!({ "pattern": "nowhere_at_all" }), &["-l", "nowhere_at_all"]),
        Case {
            what: "Glob to rg",
            tool: "Glob",
            arguments: globbed(),
            program: "rg",
            flags: vec![
                "--no-config",
                "--hidden",
                "--files",
                "--sortr=modified",
                "-g",
                "**/*.rs",
                "-g",
                "!.git",
                ".",
            ],
            bound: Bound::AtMost(0.5),
        },
    ];
    if let Some(program) = fd() {
        cases.push(Case {
            what: "Glob to fd",
            tool: "Glob",
            arguments: globbed(),
            program,
            flags: vec!["--hidden", "--exclude=.git", "--type=f", "--glob", "*.rs"],
            bound: Bound::AtMost(1.2),
        });
    }
    cases
}

fn large_file_cases() -> Vec<Case> {
    let in_file = |what, arguments, flags: &[&'static str]| {
        let mut case = grep(what, arguments, flags);
        *case.flags.last_mut().expect("the path") = "large.rs";
        case.arguments["path"] = json!("large.rs");
        case.bound = Bound::AtMost(1.1);
        case
    };
    vec![
        in_file("rare literal", json!({ "pattern": "rare_word" }), &["-l", "rare_word"]),
        in_file("count", json!({ "pattern": "value", "output_mode": "count" }), &["-c", "value"]),
        in_file(
            "rare count",
            json!({ "pattern": "rare_word", "output_mode": "count" }),
            &["-c", "rare_word"],
        ),
        in_file(
            "no literal, count",
            json!({ "pattern": "[A-Z]{4}[0-9]{3}", "output_mode": "count" }),
            &["-c", "[A-Z]{4}[0-9]{3}"],
        ),
    ]
}

fn grep(what: &'static str, arguments: Value, flags: &[&'static str]) -> Case {
    let common = ["--no-config", "--hidden", "-g", "!.git"];
    let flags = [&common[..], flags, &["."]].concat();
    Case { what, tool: "Grep", arguments, program: "rg", flags, bound: Bound::AtMost(1.0) }
}

/// The servers under test: this one first.
struct Benches<'a> {
    servers: Vec<process::Process>,
    workspace: &'a Path,
    upstream: &'a Upstream,
}

impl<'a> Benches<'a> {
    async fn start(other: Option<&Path>, workspace: &'a Path, upstream: &'a Upstream) -> Self {
        let mut servers = Vec::new();
        for program in [Some(process::this_path().as_path()), other].into_iter().flatten() {
            servers.push(process::server_in(program, &upstream.url(), "", workspace).await);
        }
        Self { servers, workspace, upstream }
    }

    /// A row for each server; the bound holds for the first, which is this one. The cost of a turn
    /// whose call does nothing is subtracted.
    async fn row(&self, case: &Case, place: &str, report: &mut Report) {
        let mut clients = Vec::new();
        for server in &self.servers {
            clients.push(Client::connect(server.address, &ask(CALLS, true, "none")).await);
        }
        let mut turns = vec![(Vec::new(), Vec::new()); clients.len()];
        let mut processes = Vec::new();
        for run in 0..=RUNS {
            let process = self.process(case);
            for (client, (calls, empty)) in clients.iter_mut().zip(&mut turns) {
                let call = self.turn(client, (case.tool, case.arguments.clone())).await;
                let nothing = self.turn(client, ("Wait", json!({ "ms": 0 }))).await;
                // The first run is a warm-up.
                if run > 0 {
                    calls.push(call);
                    empty.push(nothing);
                }
            }
            if run > 0 {
                processes.push(process);
            }
        }
        let process = median(processes);
        for (number, (calls, empty)) in turns.into_iter().enumerate() {
            let (call, empty) = (median(calls), median(empty));
            let detail = format!(
                "{:.1} ms, its turn {empty:.1} ms more, {} {process:.1} ms",
                call - empty,
                case.program
            );
            let bound = if number == 0 { case.bound } else { Bound::Free };
            let what = match case.tool {
                "Grep" => format!("Grep to rg, {place}: {}", case.what),
                _ => format!("{}, {place}", case.what),
            };
            report.ratio(what, (call - empty) / process, bound, detail);
        }
    }

    async fn turn(&self, client: &mut Client, call: (&'static str, Value)) -> f64 {
        self.upstream.calls(&[call]);
        client.time().await
    }

    fn process(&self, case: &Case) -> f64 {
        let mut command = Command::new(case.program);
        command.args(&case.flags).current_dir(self.workspace).stdin(Stdio::null());
        let start = Instant::now();
        let output = command.output().expect("it is installed");
        let time = start.elapsed().as_secs_f64() * 1000.0;
        let has_failed = output.status.code().is_none_or(|code| code > 1);
        assert!(!has_failed, "{}", String::from_utf8_lossy(&output.stderr));
        time
    }
}

/// The name of fd, which `scripts/test-env.sh fd` brings.
fn fd() -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["fdfind", "fd"].into_iter().find(runs)
}

/// Makes nested directories with ignore files here and there.
fn tree() -> TempDir {
    let tree = tempfile::tempdir().expect("a directory");
    write(tree.path().join(".gitignore"), b"*.log\n/target\n!keep.log\n**/generated/*.rs\n");
    let mut text = Text::default();
    for directory in 0..DIRECTORIES {
        let path = format!("{}/{}/{directory}", directory % 4, directory % 40);
        let path = tree.path().join(path);
        fs::create_dir_all(&path).expect("a directory");
        if directory % 10 == 0 {
            write(path.join(".gitignore"), b"*.tmp\nbuild/\n");
        }
        for file in 0..FILES {
            let mut bytes = text.bytes(FILE_BYTES);
            if file == 4 && directory % 20 == 0 {
                bytes.extend_from_slice(b"let rare_word = 1;\nlet other = 2;\n");
            }
            let name = format!("{file}.{}", ["rs", "md", "txt", "log"][file % 4]);
            write(path.join(name), &bytes);
        }
    }
    tree
}

/// Makes lines of words, the same in every run.
#[derive(Debug, Default)]
struct Text {
    state: u64,
}

impl Text {
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        const WORDS: [&str; 24] = [
            "fn", "let", "mut", "value", "return", "match", "self", "index", "Option", "Result",
            "if", "else", "struct", "impl", "usize", "string", "buffer", "length", "result",
            "error", "const", "while", "state", "counter",
        ];
        let mut text = String::with_capacity(length + 100);
        while text.len() < length {
            for _ in 0..=self.below(9) {
                let (word, number) = (WORDS[self.below(WORDS.len())], self.below(100));
                let mark = [" ", "_", "(", ") ", ".", ", "][self.below(6)];
                write!(text, "{word}{mark}").expect("a string");
                if number < 10 {
                    write!(text, "{number} ").expect("a string");
                }
            }
            text.push_str(if self.below(4) == 0 { ";\n\n    " } else { "\n    " });
        }
        text.push('\n');
        text.into_bytes()
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from((self.state >> 33) % limit as u64).expect("it is below a usize")
    }
}

fn write(path: PathBuf, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file");
}
