//! Measures what the sandbox adds to a command that does nothing.

use std::fs;
use std::time::Duration;

use toolhand::measured_commands::{Started, Times, runs};

use super::report::{Bound, Report};

const RUNS: usize = 300;

/// All that is compared, in turn.
const WAYS: [Started; 8] = [
    Started::Bare,
    Started::Off,
    Started::OffAtFirst,
    Started::Landlock,
    Started::Reader,
    Started::ReaderByHand,
    Started::Bwrap,
    Started::BwrapByHand,
];

/// A workspace with a repository and some hundred directories.
fn workspace() -> tempfile::TempDir {
    let workspace = tempfile::tempdir().expect("a directory");
    let directories = (0..300).map(|number| format!("src/part{}/deep{number}", number % 20));
    for name in directories.chain([".git/hooks".to_owned(), ".git/info".to_owned()]) {
        fs::create_dir_all(workspace.path().join(name)).expect("a new directory");
    }
    fs::write(workspace.path().join(".git/config"), "[core]\n").expect("a new file");
    workspace
}

pub(crate) async fn measure(report: &mut Report) {
    let workspace = workspace();
    let root = workspace.path().canonicalize().expect("a directory");
    let measured: [Measured; WAYS.len()] =
        runs(&root, &WAYS, RUNS).await.try_into().expect("one for each way");
    let [bare, off, first, landlock, reader, reader_by_hand, bwrap, bwrap_by_hand] = measured;
    let (bare, off) = (bare.expect("bash"), off.expect("no sandbox"));
    let first = first.expect("no sandbox");
    let without = median(&off.runs);
    let detail = format!(
        "{}; {}; {}",
        figures("off", &off),
        figures("bare bash", &bare),
        figures("the first command, which finds no spare supervisor", &first)
    );
    report.milliseconds("`:` without a sandbox", without, Bound::AtMost(2.5), detail);
    // 2.5 ms on the machine the bound was set for, where the bare shell takes 0.9 ms: 2.5 / 0.9.
    let bash = median(&bare.runs);
    let detail = format!("{without:.2} ms, bare bash {bash:.2} ms");
    let bound = Bound::AtMost(2.78);
    report.ratio("`:` without a sandbox against bare bash", without / bash, bound, detail);
    let bases = Bases { without, bash };
    add(report, "what landlock adds to `:`", 2.0, landlock.as_ref(), without);
    let prepared = reader.clone().map(with_preparing);
    add(report, "what reading in bwrap adds to `:`", 6.0, prepared.as_ref(), without);
    let what = "reading in bwrap against bwrap by hand";
    compare(report, what, 1.2, [reader.as_ref(), reader_by_hand.as_ref()], bases);
    add(report, "what bwrap adds to `:`", 20.0, bwrap.as_ref(), without);
    let what = "bwrap against bwrap by hand";
    compare(report, what, 1.5, [bwrap.as_ref(), bwrap_by_hand.as_ref()], bases);
    if let Ok(bwrap) = bwrap {
        let detail = format!("some 320 directories; the trial took {:?}", bwrap.trial);
        let prepared = median(&bwrap.preparing);
        report.milliseconds("looking for control files", prepared, Bound::Free, detail);
    }
}

type Measured = Result<Times, String>;

/// The same runs, each with its preparing.
fn with_preparing(times: Times) -> Times {
    let runs = times.runs.iter().zip(&times.preparing).map(|(run, preparing)| *run + *preparing);
    Times { runs: runs.collect(), ..times }
}

/// What a level adds to what a command takes without a sandbox.
fn add(
    report: &mut Report,
    what: &'static str,
    most: f64,
    measured: Result<&Times, &String>,
    without: f64,
) {
    match measured {
        Ok(times) => {
            let detail = figures("in all", times);
            let prepared = median(&times.preparing);
            let detail = format!("{detail}; preparing took {prepared:.2} ms");
            let added = median(&times.runs) - without;
            report.milliseconds(what, added, Bound::AtMost(most), detail);
        }
        Err(why) => not_measured(report, what, why),
    }
}

/// What commands take that are in no sandbox, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Bases {
    /// Under a supervisor.
    without: f64,
    /// The bare shell.
    bash: f64,
}

/// What a level adds to a command under a supervisor, against what bubblewrap adds to the bare
/// shell with the same arguments.
fn compare(
    report: &mut Report,
    what: &'static str,
    most: f64,
    [ours, by_hand]: [Result<&Times, &String>; 2],
    bases: Bases,
) {
    match (ours, by_hand) {
        (Ok(ours), Ok(by_hand)) => {
            let added = median(&ours.runs) - bases.without;
            let added_by_hand = median(&by_hand.runs) - bases.bash;
            let detail = format!(
                "{added:.2} ms over off, by hand {added_by_hand:.2} ms over bash; {}; {}",
                figures("ours", ours),
                figures("by hand", by_hand)
            );
            report.ratio(what, added / added_by_hand, Bound::AtMost(most), detail);
        }
        (Err(why), _) | (_, Err(why)) => not_measured(report, what, why),
    }
}

fn figures(what: &str, times: &Times) -> String {
    let at = |share| at(&times.runs, share);
    format!("{what}: p10 {:.2}, p50 {:.2}, p99 {:.2} ms", at(0.1), at(0.5), at(0.99))
}

fn median(times: &[Duration]) -> f64 {
    at(times, 0.5)
}

fn not_measured(report: &mut Report, what: &'static str, why: &str) {
    report.milliseconds(what, f64::NAN, Bound::Free, format!("not measured: {why}"));
}

fn at(times: &[Duration], share: f64) -> f64 {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
    super::report::percentile(&mut times, share)
}
