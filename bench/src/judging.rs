//! Measures what the permissions cost: commands against rules for commands, reads against rules
//! for paths.

use std::fs;
use std::path::Path;
use std::time::Duration;

use toolhand::measured::{Judged, judging};
use toolhand::measured_commands::{Started, runs};

use super::report::{Bound, Report};

const RUNS: usize = 2000;
const RULES: usize = 200;
const SHARE_RUNS: usize = 300;

/// 120 bytes of five parts, with files and a redirect.
const COMMAND: &str = "cd src && grep -rn 'needle' lib.rs | sort -u | head -n 20 && timeout 60 cargo test --locked --quiet -- parser > out.txt";

pub(crate) async fn measure(report: &mut Report) {
    let workspace = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(workspace.path().join("src/deep/er")).expect("a new directory");
    fs::write(workspace.path().join("src/deep/er/a.rs"), "x").expect("a new file");
    let commands = rules(|number| format!("Bash(tool{number} * --flag{number} *)"));
    let paths = rules(|number| format!("Read(private{number}/**/*.rs)"));
    let long = COMMAND.replace("needle", &"n".repeat(10_000 - COMMAND.len() + "needle".len()));
    let rows: [(_, _, &[String], _, _); 3] = [
        (
            "a command of five parts, p50",
            "a command of five parts, p99",
            &commands,
            Judged::Command(COMMAND),
            [0.2, 1.0],
        ),
        (
            "a command of 10,000 bytes, p50",
            "a command of 10,000 bytes, p99",
            &commands,
            Judged::Command(&long),
            [10.0, 10.0],
        ),
        (
            "a Read, p50",
            "a Read, p99",
            &paths,
            Judged::Read("src/deep/er/a.rs"),
            [0.05, f64::INFINITY],
        ),
    ];
    for (half, most, rules, judged, bounds) in rows {
        let mut times = judging(workspace.path(), rules, judged, RUNS).expect("rules");
        times.sort_unstable();
        for (what, at, bound) in [(half, RUNS / 2, bounds[0]), (most, RUNS * 99 / 100, bounds[1])] {
            let bound = if bound.is_finite() { Bound::AtMost(bound) } else { Bound::Free };
            let detail = format!("judged against {RULES} rules, {RUNS} times");
            report.milliseconds(what, milliseconds(times[at]), bound, detail);
        }
    }
    share(&workspace.path().canonicalize().expect("a directory"), &commands, report).await;
}

/// How much of a call of Bash is judging it, when the command does nothing.
async fn share(workspace: &Path, rules: &[String], report: &mut Report) {
    let judged = judging(workspace, rules, Judged::Command(COMMAND), SHARE_RUNS).expect("rules");
    let run =
        runs(workspace, &[Started::Off], SHARE_RUNS).await.remove(0).expect("no sandbox").runs;
    let [judged, run] = [judged, run].map(|mut times| {
        times.sort_unstable();
        milliseconds(times[times.len() / 2])
    });
    let detail = format!("{judged:.2} ms of {:.2} ms without a sandbox", judged + run);
    report.ratio("judging's share of a Bash call", judged / (judged + run), Bound::Free, detail);
}

fn rules(rule: impl Fn(usize) -> String) -> Vec<String> {
    (0..RULES).map(rule).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
