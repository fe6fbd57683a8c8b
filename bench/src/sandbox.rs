//! Measures what the sandbox adds to a command that does nothing.

use std::fs;
use std::time::Duration;

use toolhand::measured_commands::{Started, Times, runs};

use super::report::{Bound, Report};

const RUNS: usize = 500;

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
    let bare = runs(&root, Started::Bare, RUNS).await.expect("bash");
    let off = runs(&root, Started::Off, RUNS).await.expect("no sandbox");
    let of = |what, times: &Times| {
        format!("{what}: p50 {:.2} ms, p99 {:.2} ms", at(&times.runs, 0.5), at(&times.runs, 0.99))
    };
    let without = format!("{}; {}", of("bare bash", &bare), of("off", &off));
    report.milliseconds("`:` without a sandbox", at(&off.runs, 0.5), Bound::Free, without);
    match runs(&root, Started::Landlock, RUNS).await {
        Ok(landlock) => {
            let added = at(&landlock.runs, 0.5) - at(&off.runs, 0.5);
            let detail = of("landlock", &landlock);
            report.milliseconds("what landlock adds to `:`", added, Bound::AtMost(2.0), detail);
        }
        Err(why) => not_measured(report, "what landlock adds to `:`", &why),
    }
    match runs(&root, Started::Reader, RUNS).await {
        Ok(reader) => {
            let added = at(&reader.runs, 0.5) - at(&off.runs, 0.5);
            let prepared = at(&reader.preparing, 0.5);
            let detail = format!("{}; prepared in {prepared:.2} ms", of("reader", &reader));
            report.milliseconds(
                "what reading in bwrap adds to `:`",
                added,
                Bound::AtMost(6.0),
                detail,
            );
        }
        Err(why) => not_measured(report, "what reading in bwrap adds to `:`", &why),
    }
    let bwrap = runs(&root, Started::Bwrap, RUNS).await;
    match (bwrap, runs(&root, Started::BwrapByHand, RUNS).await) {
        (Ok(bwrap), Ok(by_hand)) => {
            let added = at(&bwrap.runs, 0.5) - at(&off.runs, 0.5);
            let added_by_hand = at(&by_hand.runs, 0.5) - at(&bare.runs, 0.5);
            let detail = format!("{}; {}", of("bwrap", &bwrap), of("by hand", &by_hand));
            let bound = Bound::AtMost(20.0);
            report.milliseconds("what bwrap adds to `:`", added, bound, detail);
            let detail = format!("{added:.2} ms over off, by hand {added_by_hand:.2} ms over bash");
            let bound = Bound::AtMost(1.5);
            report.ratio("bwrap against bwrap by hand", added / added_by_hand, bound, detail);
            let prepared = at(&bwrap.preparing, 0.5);
            let detail = format!("some 320 directories; the trial took {:?}", bwrap.trial);
            report.milliseconds("looking for control files", prepared, Bound::Free, detail);
        }
        (Err(why), _) | (_, Err(why)) => not_measured(report, "what bwrap adds to `:`", &why),
    }
}

fn not_measured(report: &mut Report, what: &'static str, why: &str) {
    report.milliseconds(what, f64::NAN, Bound::Free, format!("not measured: {why}"));
}

fn at(times: &[Duration], share: f64) -> f64 {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
    super::report::percentile(&mut times, share)
}
