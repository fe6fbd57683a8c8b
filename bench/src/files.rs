//! Measures Read, Edit and the output of Bash against plain reading and writing of the same file.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{CALLS, Upstream};

const RUNS: usize = 7;
const EDITED_BYTES: usize = 10_000_000;
const LARGE_BYTES: usize = 50_000_000;
/// A command is ended at 16 MiB.
const OUTPUT_BYTES: usize = 16_000_000;

/// What the two edits, made in turn, replace with each other.
const TEXTS: [&str; 2] = ["let first = 1;", "let second = 2;"];

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let workspace = tempfile::tempdir().expect("a directory");
    let settings = "permissions.mode = \"acceptEdits\"\nsandbox.mode = \"off\"\n";
    let (program, url) = (process::this_path(), upstream.url());
    let server = process::server_in(&program, &url, settings, workspace.path()).await;
    let mut bench = FileBench {
        client: Client::connect(server.address, &ask(CALLS, true, "none")).await,
        server,
        upstream,
        workspace: workspace.path(),
    };
    bench.read(report).await;
    bench.edit(report).await;
    bench.peak(report).await;
    bench.output(report).await;
}

struct FileBench<'a> {
    client: Client,
    server: Process,
    upstream: &'a Upstream,
    workspace: &'a Path,
}

impl FileBench<'_> {
    async fn read(&mut self, report: &mut Report) {
        let lines = "    let value = some_function(argument);\n".repeat(2_000);
        fs::write(self.workspace.join("lines.rs"), lines).expect("a file");
        let (mut reads, mut empty) = (Vec::new(), Vec::new());
        for _ in 0..=RUNS * 10 {
            reads.push(self.turn(&[("Read", json!({ "file_path": "lines.rs" }))]).await);
            empty.push(self.turn(&[nothing()]).await);
        }
        let (read, empty) = (median(reads), median(empty));
        let detail = format!("its turn {empty:.2} ms more");
        report.milliseconds("Read of 2,000 lines", read - empty, Bound::AtMost(1.0), detail);
    }

    async fn edit(&mut self, report: &mut Report) {
        self.write("edited.rs", EDITED_BYTES);
        let (mut edits, mut empty, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..=RUNS {
            let edit = self.turn(&[look("edited.rs"), replace("edited.rs", run)]).await;
            let nothing = self.turn(&[look("edited.rs"), nothing()]).await;
            let copy = self.copy("edited.rs");
            // The first run is a warm-up.
            if run > 0 {
                edits.push(edit);
                empty.push(nothing);
                plain.push(copy);
            }
        }
        let (edit, empty, plain) = (median(edits), median(empty), median(plain));
        let edit = edit - empty;
        let detail =
            format!("{edit:.1} ms, its turn {empty:.1} ms more, read, write, sync {plain:.1} ms");
        report.ratio("Edit of 10 MB to a plain copy", edit / plain, Bound::AtMost(3.0), detail);
    }

    #[expect(clippy::cast_precision_loss, reason = "some million bytes")]
    async fn peak(&mut self, report: &mut Report) {
        self.write("large.rs", LARGE_BYTES);
        self.turn(&[look("large.rs")]).await;
        let before = self.server.resident_megabytes();
        self.server.forget_peak();
        self.turn(&[look("large.rs"), replace("large.rs", 0)]).await;
        let more = self.server.peak_megabytes() - before;
        let detail = format!("{more:.0} MB more than before");
        let ratio = more / (LARGE_BYTES as f64 / 1e6);
        report.ratio("Edit of 50 MB, its peak to the file", ratio, Bound::AtMost(3.0), detail);
    }

    /// All of what a command prints goes into a file, and the model is shown its ends.
    async fn output(&mut self, report: &mut Report) {
        self.write("printed.txt", OUTPUT_BYTES);
        let print = || ("Bash", json!({ "command": "cat printed.txt" }));
        let empty = || ("Bash", json!({ "command": "echo" }));
        let (mut prints, mut nothing, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        let mut peak = 0.0;
        for run in 0..=RUNS {
            nothing.push(self.turn(&[empty()]).await);
            let before = self.server.resident_megabytes();
            self.server.forget_peak();
            let printed = self.turn(&[print()]).await;
            let copied = self.cat();
            if run > 0 {
                prints.push(printed);
                plain.push(copied);
                peak = f64::max(peak, self.server.peak_megabytes() - before);
            }
        }
        let (printed, nothing, plain) = (median(prints), median(nothing), median(plain));
        let printed = printed - nothing;
        let detail = format!("{printed:.1} ms, its turn {nothing:.1} ms more, cat {plain:.1} ms");
        report.ratio("16 MB of output to cat", printed / plain, Bound::AtMost(4.0), detail);
        let detail = "the most of any run".to_owned();
        report.megabytes("16 MB of output, memory", peak, Bound::AtMost(2.0), detail);
    }

    /// `cat` of the same file into another one.
    fn cat(&self) -> f64 {
        let copy = fs::File::create(self.workspace.join("copy")).expect("a new file");
        let start = Instant::now();
        let mut cat = Command::new("cat");
        let cat = cat.arg(self.workspace.join("printed.txt")).stdout(copy);
        assert!(cat.status().expect("cat").success());
        start.elapsed().as_secs_f64() * 1000.0
    }

    async fn turn(&mut self, calls: &[(&'static str, Value)]) -> f64 {
        self.upstream.calls(calls);
        self.client.time().await
    }

    fn write(&self, name: &str, length: usize) {
        let line = "    let value = some_function(argument, another, and_one_more);\n";
        let half = line.repeat(length / line.len() / 2);
        let text = format!("{half}{}\n{half}", TEXTS[0]);
        fs::write(self.workspace.join(name), text).expect("a file");
    }

    /// Reads the file and writes a copy that lasts.
    fn copy(&self, name: &str) -> f64 {
        let start = Instant::now();
        let bytes = fs::read(self.workspace.join(name)).expect("our own file");
        let mut copy = fs::File::create(self.workspace.join("copy")).expect("a new file");
        copy.write_all(&bytes).expect("there is room");
        copy.sync_all().expect("a disk");
        start.elapsed().as_secs_f64() * 1000.0
    }
}

fn nothing() -> (&'static str, Value) {
    ("Wait", json!({ "ms": 0 }))
}

fn look(name: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": name, "limit": 1 }))
}

fn replace(name: &str, run: usize) -> (&'static str, Value) {
    let [old, new] = [TEXTS[run % 2], TEXTS[(run + 1) % 2]];
    ("Edit", json!({ "file_path": name, "old_string": old, "new_string": new }))
}
