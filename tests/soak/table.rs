//! Prints one table: a line for each part, and whether the part keeps its limits.

use std::env;
use std::fmt::Display;

use tokio::time::Instant;

use crate::support::resources::{KEPT, Remains};
use crate::support::seeded::Tally;

const MIB: u64 = 1 << 20;

/// The results of one part. Figures that it does not have are not shown.
#[derive(Debug)]
pub(super) struct Line {
    part: &'static str,
    began: Instant,
    pub(super) runs: usize,
    /// Runs that ended with exactly one terminal event.
    pub(super) terminal_events: Option<usize>,
    pub(super) false_stops: Option<usize>,
    double_executions: Option<usize>,
    remains: Option<Remains>,
    /// Further measurements.
    pub(super) notes: Vec<String>,
    /// Limits that were exceeded.
    broken: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    broken: Vec<String>,
    has_begun: bool,
}

impl Line {
    pub(super) fn new(part: &'static str) -> Self {
        Self {
            part,
            began: Instant::now(),
            runs: 0,
            terminal_events: None,
            false_stops: None,
            double_executions: None,
            remains: None,
            notes: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Takes the counts of seeded turns, and the first thing that went wrong.
    pub(super) fn count(&mut self, tally: &Tally) {
        self.runs = tally.runs;
        self.terminal_events = Some(tally.terminal_events);
        self.false_stops = Some(tally.false_stops);
        self.double_executions = Some(tally.double_executions);
        self.must(tally.wrong.is_empty(), || tally.wrong[0].clone());
    }

    /// Checks that no process and no file except kept connections is left, and that
    /// memory never exceeded this many MiB.
    pub(super) fn leaves(&mut self, remains: Remains, most: u64) {
        let Remains { files: (before, after), survivors, peak } = remains;
        self.must(after <= before + KEPT, || format!("{before} files open, then {after}"));
        self.must(survivors == 0, || format!("{survivors} processes left"));
        self.must(peak <= most * MIB, || format!("{} MiB of {most} MiB", peak / MIB));
        self.remains = Some(self.remains.map_or(remains, |others| others.and(remains)));
    }

    pub(super) fn must(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(otherwise());
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

/// Part of a part's name: only matching parts are measured.
const ONLY: &str = "SOAK_ONLY";

impl Table {
    /// Measures a part, unless only another one is wanted, and prints its line.
    #[expect(clippy::disallowed_methods, reason = "the configuration of a test run")]
    pub(super) async fn measure(&mut self, name: &str, part: impl Future<Output = Line>) {
        let only = env::var(ONLY).unwrap_or_default();
        if name.contains(&only) {
            self.add(part.await);
        }
    }

    /// Prints a line at once.
    fn add(&mut self, mut line: Line) {
        if !std::mem::replace(&mut self.has_begun, true) {
            show(&row([
                "part",
                "runs",
                "terminal events",
                "false stops",
                "double executions",
                "survivors",
                "files before/after",
                "peak RSS",
                "took",
                "measured",
            ]));
        }
        for (what, count, expected) in [
            ("terminal events", line.terminal_events, line.runs),
            ("false stops", line.false_stops, 0),
            ("double executions", line.double_executions, 0),
        ] {
            let is_right = count.is_none_or(|count| count == expected);
            line.must(is_right, || format!("{what}: {}", shown(count)));
        }
        let remains = line.remains;
        let survivors = remains.map(|remains| remains.survivors);
        let files = remains.map(|remains| format!("{}/{}", remains.files.0, remains.files.1));
        let peak = remains.map(|remains| format!("{} MiB", remains.peak.div_ceil(MIB)));
        let took = format!("{} s", line.began.elapsed().as_secs());
        let mut measured = line.notes.join(", ");
        if !line.broken.is_empty() {
            measured = format!("{measured} OVER ITS LIMIT: {}", line.broken.join(", "));
        }
        show(&row([
            line.part,
            &line.runs.to_string(),
            &shown(line.terminal_events),
            &shown(line.false_stops),
            &shown(line.double_executions),
            &shown(survivors),
            &shown(files),
            &shown(peak),
            &took,
            measured.trim(),
        ]));
        let part = line.part;
        self.broken.extend(line.broken.iter().map(|why| format!("{part}: {why}")));
    }

    pub(super) fn finish(self) {
        assert!(self.broken.is_empty(), "over the limits: {:#?}", self.broken);
    }
}

fn row(cells: [&str; 10]) -> String {
    const WIDTHS: [usize; 10] = [30, 6, 15, 11, 17, 9, 18, 8, 6, 0];
    let cells = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn shown(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[expect(clippy::print_stdout, reason = "the table is what the run is for")]
fn show(line: &str) {
    println!("{line}");
}
