//! Generates random numbers that are repeatable: all follow from one seed. Counts what became of
//! turns that they have decided.

use std::any::Any;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::resources::Remains;

/// A small generator (`SplitMix64`), good enough to vary tests and the same on every
/// machine.
#[derive(Clone, Debug)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    /// The numbers of `seed`, different for each `part` that it decides.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ part.rotate_left(32));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("64 bits");
        usize::try_from(self.next() % end).expect("smaller than end")
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The results of many seeded turns.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: usize,
    /// Turns that had exactly one terminal event.
    pub(crate) terminal_events: usize,
    /// Turns that reported success although upstream had failed.
    pub(crate) false_stops: usize,
    /// Calls that ran more than once.
    pub(crate) double_executions: usize,
    /// The resources that the server used, and what it left behind.
    pub(crate) remains: Remains,
    /// Everything that differed from the expectation, by seed.
    pub(crate) wrong: Vec<String>,
}

impl Tally {
    /// Panics with the seeds to examine, unless everything went as expected. `alone` is the
    /// command that runs one seed.
    pub(crate) fn check(&self, alone: &str) {
        let shown = &self.wrong[..self.wrong.len().min(20)];
        assert!(
            self.wrong.is_empty(),
            "{} of {} went wrong; one alone: {alone}\n{}",
            self.wrong.len(),
            self.runs,
            shown.join("\n")
        );
        assert_eq!(self.terminal_events, self.runs);
        assert_eq!((self.false_stops, self.double_executions), (0, 0));
        assert_eq!(self.remains.survivors, 0);
    }

    /// Counts the calls that ran more than once.
    pub(crate) fn count_repeats(&mut self, ran: &HashMap<String, usize>) {
        for (label, times) in ran.iter().filter(|(_, times)| 1 < **times) {
            self.double_executions += 1;
            self.wrong.push(format!("{label} ran {times} times"));
        }
    }
}

/// How often each command ran. A command appends its label to the file each time.
pub(crate) fn times_run(file: &Path) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for label in fs::read_to_string(file).unwrap_or_default().lines() {
        *times.entry(label.to_owned()).or_default() += 1;
    }
    times
}

/// The seeds to run: usually these. `7..8` in the variable runs seed 7 alone.
#[expect(clippy::disallowed_methods, reason = "a failed seed is looked at alone")]
pub(crate) fn seeds(variable: &str, usual: Range<u64>) -> Range<u64> {
    let Ok(range) = std::env::var(variable) else { return usual };
    let (from, to) = range.split_once("..").unwrap_or_else(|| panic!("{variable}=FROM..TO"));
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

#[test]
fn a_seed_throws_the_same_again() {
    let throws = |seed| {
        let mut dice = SeededRandom::new(seed, 1);
        (0..20).map(|_| dice.below(6)).collect::<Vec<_>>()
    };
    assert_eq!(throws(7), throws(7));
    assert_ne!(throws(7), throws(8));
    assert!((0..6).all(|side| throws(7).iter().chain(&throws(9)).any(|thrown| *thrown == side)));
}
