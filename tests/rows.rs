//! Compares the rows of `docs/threats.md` with the tests: each row needs a test or a
//! reason why it has none.
//!
//! A test belongs to a row if its name begins with it (`u13_…`, or `v1_v2_…` for two), or
//! if the row names it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use ignore::Walk;

const THREATS: &str = include_str!("../docs/threats.md");

/// Rows without a test of their own, and what brings or measures them instead.
const DEFERRED: &[(&str, &str)] =
    &[("x9", "a directory of its own for each key's commands comes with its issue")];

#[test]
fn every_row_of_the_threats_has_a_test_or_a_reason() {
    let names = test_names();
    let mut tested: BTreeSet<String> = names.iter().flat_map(|name| rows_of(name)).collect();
    tested.extend(named_in_their_row(&names));
    let deferred: BTreeSet<String> = DEFERRED.iter().map(|(row, _)| (*row).to_owned()).collect();
    let rows: BTreeSet<String> = threats().map(|(row, _)| row).collect();
    assert!(rows.len() > 100, "docs/threats.md has other tables than this test reads: {rows:?}");

    let missing: Vec<_> = rows.difference(&tested).filter(|row| !deferred.contains(*row)).collect();
    assert!(missing.is_empty(), "rows without a test: {missing:?}");
    let both: Vec<_> = deferred.intersection(&tested).collect();
    assert!(both.is_empty(), "deferred, and yet there is a test: {both:?}");
    let unknown: Vec<_> = tested.union(&deferred).filter(|row| !rows.contains(*row)).collect();
    assert!(unknown.is_empty(), "no such rows in docs/threats.md: {unknown:?}");
}

/// What `docs/threat-tests.md` begins with.
const HEADING: &str = "# The rows of the threats, and their tests\n\n\
    Made by `UPDATE_ROWS=1 cargo test --test suite rows::`. The rows are those of [threats.md](threats.md).\n\n\
    | row | tests |\n|---|---|\n";

#[test]
fn the_table_of_rows_and_tests_is_as_the_tests_are() {
    let tests = tests();
    let named: BTreeSet<String> = tests.iter().map(|(_, name)| name.clone()).collect();
    let mut table = HEADING.to_owned();
    for (row, line) in threats() {
        let is_named = |name: &String| line.contains(&format!("`{name}`"));
        let its = tests.iter().filter(|(_, name)| rows_of(name).contains(&row) || is_named(name));
        let its: Vec<_> = its.map(|(place, name)| format!("`{place}::{name}`")).collect();
        let reason = DEFERRED.iter().find(|(deferred, _)| *deferred == row);
        let shown = reason.map_or_else(|| its.join(", "), |(_, why)| format!("none: {why}"));
        assert!(!shown.is_empty(), "{row} has functions of its name, and none is a test");
        writeln!(table, "| {} | {shown} |", row.to_uppercase()).expect("text");
    }
    assert!(named.len() > 1_000, "{} tests", named.len());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/threat-tests.md");
    if std::env::var_os("UPDATE_ROWS").is_some() {
        fs::write(path, &table).expect("our own file");
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(written == table, "docs/threat-tests.md is old: UPDATE_ROWS=1 makes it anew");
}

#[test]
fn the_row_of_a_test_is_the_beginning_of_its_name() {
    assert_eq!(rows_of("u13_a_line_is_bounded"), ["u13"]);
    assert_eq!(rows_of("v1_v22_the_body"), ["v1", "v22"]);
    assert!(rows_of("a_u13_in_the_middle").is_empty());
    assert!(rows_of("under_score").is_empty());
    assert_eq!(name_of("    async fn u13_a_line() {"), Some("u13_a_line"));
    assert_eq!(name_of("/// fn u13_in_words() {"), None);
}

/// Each row of the tables, with the rest of its line.
fn threats() -> impl Iterator<Item = (String, &'static str)> {
    THREATS.lines().filter_map(|line| {
        let (row, rest) = line.strip_prefix("| ")?.split_once(" |")?;
        let row = row.to_lowercase();
        is_row(&row).then_some((row, rest))
    })
}

/// The rows that name an existing test. A row that names a missing one fails.
fn named_in_their_row(names: &BTreeSet<String>) -> Vec<String> {
    let is_test_name = |word: &str| word.matches('_').count() > 1 && !word.contains(['.', '<']);
    let mut rows = Vec::new();
    for (row, line) in threats() {
        // Every second piece is between backticks.
        for word in line.split('`').skip(1).step_by(2).filter(|word| is_test_name(word)) {
            assert!(names.contains(word), "{row} names {word}, and there is no such test");
            rows.push(row.clone());
        }
    }
    rows
}

/// The names of all functions in the sources.
fn test_names() -> BTreeSet<String> {
    let files = ["src", "tests"].into_iter().flat_map(Walk::new).flatten();
    let rust = files.filter(|file| file.path().extension().is_some_and(|end| end == "rs"));
    let sources = rust.map(|file| fs::read_to_string(file.path()).expect("UTF-8"));
    let names = |source: String| source.lines().filter_map(name_of).map(str::to_owned).collect();
    sources.flat_map(|source| -> Vec<String> { names(source) }).collect()
}

/// The tests in the sources, by the path of their module.
fn tests() -> BTreeSet<(String, String)> {
    let files = ["src", "tests"].into_iter().flat_map(Walk::new).flatten();
    let mut found = BTreeSet::new();
    for file in files.filter(|file| file.path().extension().is_some_and(|end| end == "rs")) {
        let source = fs::read_to_string(file.path()).expect("UTF-8");
        let mut place = file.path().with_extension("").display().to_string();
        place = place.trim_start_matches("src/").trim_start_matches("tests/").replace('/', "::");
        let mut is_test = false;
        for line in source.lines().map(str::trim_start) {
            is_test |= line.starts_with("#[") && line.contains("test") && !line.contains("cfg");
            if let Some(name) = name_of(line) {
                if is_test {
                    found.insert((place.clone(), name.to_owned()));
                }
                is_test = false;
            }
        }
    }
    found
}

/// The name of the function that `line` declares.
fn name_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let name = line.strip_prefix("async fn ").or(line.strip_prefix("fn "))?;
    name.split(['(', '<']).next()
}

/// The rows in the name of a function.
fn rows_of(name: &str) -> Vec<String> {
    name.split('_').take_while(|word| is_row(word)).map(str::to_owned).collect()
}

/// The tables have one of the rows of promises, whose letter is R.
fn is_row(word: &str) -> bool {
    const LETTERS: [char; 12] = ['h', 'v', 'u', 's', 't', 'p', 'g', 'k', 'd', 'x', 'w', 'm'];
    let number = word.strip_prefix(LETTERS);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    word == "r20" || number.is_some_and(is_number)
}
