//! Prints one table: each value, its bound, and whether the bound holds.

use std::process::ExitCode;

#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Row>);

#[derive(Debug)]
struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    bound: Bound,
    /// The absolute figures behind the value.
    detail: String,
}

/// The bound of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Shown, but not defended.
    Free,
}

impl Report {
    pub(crate) fn ratio(
        &mut self,
        what: impl Into<String>,
        value: f64,
        bound: Bound,
        detail: String,
    ) {
        self.push(Row { what: what.into(), value, unit: "x", bound, detail });
    }

    pub(crate) fn milliseconds(
        &mut self,
        what: impl Into<String>,
        value: f64,
        bound: Bound,
        detail: String,
    ) {
        self.push(Row { what: what.into(), value, unit: "ms", bound, detail });
    }

    pub(crate) fn megabytes(
        &mut self,
        what: impl Into<String>,
        value: f64,
        bound: Bound,
        detail: String,
    ) {
        self.push(Row { what: what.into(), value, unit: "MB", bound, detail });
    }

    #[expect(clippy::print_stderr, reason = "tells at once what the table tells at the end")]
    fn push(&mut self, row: Row) {
        eprintln!("{}: {:.3} {}", row.what, row.value, row.unit);
        self.0.push(row);
    }

    /// Prints the table. Fails if a bound is broken.
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    pub(crate) fn print(&self) -> ExitCode {
        println!("| measured | value | bound | holds | figures |");
        println!("|---|---:|---:|---|---|");
        for row in &self.0 {
            let value = format!("{:.3} {}", row.value, row.unit);
            let holds = match row.holds() {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "",
            };
            println!(
                "| {} | {value} | {} | {holds} | {} |",
                row.what,
                row.told_bound(),
                row.detail
            );
        }
        let broken = self.0.iter().any(|row| row.holds() == Some(false));
        if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

impl Row {
    fn holds(&self) -> Option<bool> {
        match self.bound {
            Bound::AtLeast(bound) => Some(self.value >= bound),
            Bound::AtMost(bound) => Some(self.value <= bound),
            Bound::Free => None,
        }
    }

    fn told_bound(&self) -> String {
        match self.bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
            Bound::Free => String::new(),
        }
    }
}

/// The median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    percentile(&mut figures, 0.5)
}

/// The figure below which this share of them lies.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank among some thousand figures"
)]
pub(crate) fn percentile(figures: &mut [f64], share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let rank = (figures.len() as f64 * share) as usize;
    figures[rank.min(figures.len() - 1)]
}
