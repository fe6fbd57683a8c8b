//! Which rows of the security tables (H: HTTP, V: requests, U: upstream faults,
//! P: processes) have a test, and which wait for a part that is not built yet.
//!
//! A test is of a row when its name begins with it: `u13_…`, or `v1_v2_…` for two.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;

use ignore::Walk;

/// A table's letter and its rows.
const TABLES: &[(char, RangeInclusive<u32>)] =
    &[('h', 1..=35), ('u', 1..=39), ('v', 1..=28), ('p', 1..=17)];

/// Rows without a test of their own: what brings or measures them instead.
const DEFERRED: &[(&str, &str)] = &[
    ("v21", "approvals in the conversation come with sessions"),
    ("v23", "compaction comes with sessions"),
    ("v25", "sessions, which a background call must not write, come with their issue"),
    ("v27", "two requests on one session come with sessions"),
    ("p1", "a fork bomb is contained by the sandbox"),
    ("p9", "file sizes are bounded by the sandbox"),
    ("p10", "memory is bounded by the sandbox"),
    ("p16", "background tasks come with their issue"),
];

#[test]
fn every_row_of_the_security_tables_has_a_test_or_a_reason() {
    let tested = tested_rows();
    let deferred: BTreeSet<String> = DEFERRED.iter().map(|(row, _)| (*row).to_owned()).collect();
    let rows = TABLES.iter().flat_map(|(table, rows)| rows.clone().map(move |row| (*table, row)));
    let rows: BTreeSet<String> = rows.map(|(table, row)| format!("{table}{row}")).collect();

    let missing: Vec<_> = rows.difference(&tested).filter(|row| !deferred.contains(*row)).collect();
    assert!(missing.is_empty(), "rows without a test: {missing:?}");
    let both: Vec<_> = deferred.intersection(&tested).collect();
    assert!(both.is_empty(), "deferred, and yet there is a test: {both:?}");
}

#[test]
fn the_row_of_a_test_is_the_beginning_of_its_name() {
    let rows = |line: &str| rows_of(line).collect::<Vec<_>>();
    assert_eq!(rows("    async fn u13_a_line_is_bounded() {"), ["u13"]);
    assert_eq!(rows("fn v1_v22_the_body() {"), ["v1", "v22"]);
    assert!(rows("fn a_u13_in_the_middle() {").is_empty());
    assert!(rows("/// fn u13_in_words").is_empty());
    assert!(rows("fn under_score() {").is_empty());
}

/// The rows that a test in the sources is named by.
fn tested_rows() -> BTreeSet<String> {
    let files = ["src", "tests"].into_iter().flat_map(Walk::new).flatten();
    let rust = files.filter(|file| file.path().extension().is_some_and(|end| end == "rs"));
    let sources = rust.map(|file| fs::read_to_string(file.path()).expect("UTF-8"));
    sources.flat_map(|source| source.lines().flat_map(rows_of).collect::<Vec<_>>()).collect()
}

/// The rows in the name of the function that `line` begins.
fn rows_of(line: &str) -> impl Iterator<Item = String> {
    let line = line.trim_start();
    let name = line.strip_prefix("async fn ").or(line.strip_prefix("fn ")).unwrap_or_default();
    let words = name.split(['_', '(']).take_while(|word| is_row(word));
    words.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn is_row(word: &str) -> bool {
    let number = word.strip_prefix(['h', 'v', 'u', 'p']);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
