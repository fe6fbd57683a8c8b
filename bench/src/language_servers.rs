//! Measures what diagnostics add to Edit: of a server that is warm, and of one that never gets there.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{CALLS, Upstream};

const RUNS: usize = 21;
/// How long Edit waits for diagnostics: the default of `lsp.diagnostics`.
const BUDGET_MILLISECONDS: f64 = 2000.0;
const FILE: &str = "main.py";
const TEXTS: [&str; 2] = ["double(4)", "double(\"four\")"];

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let langserver = process::test_environment("lsp").join("bin/basedpyright-langserver");
    let mut warm = Editing::start(upstream, &settings(&langserver, &["--stdio"])).await;
    let mut cold = Editing::start(upstream, &settings(Path::new("/bin/sleep"), &["1000"])).await;
    let mut off = Editing::start(upstream, "sandbox.mode = \"off\"\nlsp.enabled = \"off\"\n").await;
    let place = json!({ "operation": "hover", "filePath": FILE, "line": 3, "symbol": "double" });
    upstream.calls(&[("LSP", place)]);
    Client::connect(warm.server.address, &ask(CALLS, true, "none")).await.ask().await;

    // The warm server works on after its answer, so the others have their turns later.
    let [warm] = times(upstream, [&mut warm]).await;
    let [cold, off] = times(upstream, [&mut cold, &mut off]).await;
    let detail = format!("{warm:.1} ms with its turn, {off:.1} ms without a server");
    let what = "diagnostics of a warm server after Edit";
    report.milliseconds(what, warm - off, Bound::AtMost(BUDGET_MILLISECONDS), detail);
    let detail = format!("{cold:.2} ms, {off:.2} ms without a server");
    let what = "Edit beside a server that still starts";
    report.ratio(what, cold / off, Bound::AtMost(1.1), detail);
}

/// The median times of turns that change a file, in milliseconds, one server after the other.
async fn times<const N: usize>(upstream: &Upstream, mut servers: [&mut Editing; N]) -> [f64; N] {
    let mut times = [const { Vec::new() }; N];
    for run in 0..RUNS {
        upstream.calls(&change(run));
        for (server, times) in servers.iter_mut().zip(&mut times) {
            times.push(server.client.time().await);
        }
    }
    times.map(median)
}

/// A server in a workspace of its own, and a client whose turns change a file there.
struct Editing {
    client: Client,
    server: Process,
    _workspace: TempDir,
}

impl Editing {
    async fn start(upstream: &Upstream, settings: &str) -> Self {
        let workspace = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            ("pyproject.toml", "[project]\nname = \"x\"\n"),
            ("lib.py", "def double(number: int) -> int:\n    return 2 * number\n"),
            (FILE, "from lib import double\n\nprint(double(4))\n"),
        ] {
            fs::write(workspace.path().join(name), text).expect("a new file");
        }
        let settings = format!("permissions.mode = \"acceptEdits\"\n{settings}");
        let program = process::this_path();
        let server =
            process::server_in(&program, &upstream.url(), &settings, workspace.path()).await;
        let client = Client::connect(server.address, &ask(CALLS, true, "none")).await;
        Self { client, server, _workspace: workspace }
    }
}

fn settings(program: &Path, arguments: &[&str]) -> String {
    format!(
        "sandbox.mode = \"off\"\n[lsp]\nstart_timeout = \"10m\"\n[lsp.servers.python]\n\
         command = {}\nargs = {}\nextensions = {{ \".py\" = \"python\" }}\n\
         roots = [\"pyproject.toml\"]\n",
        json!(program),
        json!(arguments)
    )
}

/// The calls of a turn, which changes the file and, the next time, changes it back.
fn change(run: usize) -> [(&'static str, Value); 2] {
    let (old, new) = (TEXTS[run % 2], TEXTS[(run + 1) % 2]);
    let edit = json!({ "file_path": FILE, "old_string": old, "new_string": new });
    [("Read", json!({ "file_path": FILE })), ("Edit", edit)]
}
