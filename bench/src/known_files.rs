//! Measures what the look at known files adds to each round.

use toolhand::measured_files::looks_at_known_files;

use super::report::{Bound, Report, median};

const FILES: usize = 1000;
const RUNS: usize = 100;

pub(crate) fn measure(report: &mut Report) {
    let directory = tempfile::tempdir().expect("a directory");
    let times = looks_at_known_files(directory.path(), FILES, RUNS).expect("files");
    let times = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
    let detail = format!("{FILES} files in 50 directories, {RUNS} times");
    let what = "unchanged files that are known, a round";
    report.milliseconds(what, median(times), Bound::AtMost(2.0), detail);
}
