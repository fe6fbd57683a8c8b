//! Compares Grep and Glob with ripgrep on generated trees, ignore files and arguments.
//!
//! The cases are the same in every run: `make test` takes the first 300, `make soak` 5,000.

mod glob_query;
mod grep_query;
pub(super) mod ripgrep;
mod tree;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

use super::glob::Glob;
use super::grep::Grep;
use crate::tools::walk::AMONG_IGNORED;

use glob_query::GlobQuery;
use grep_query::{GrepQuery, Mode};
use ripgrep::Output;
use tree::{Planted, Tree};

/// Cases of `make test`. `PROPTEST_CASES` asks for more.
const CASES: u32 = 300;

/// Pages in which an answer is read, or each case would take too long.
const MAX_PAGES: usize = 8;

fn config(seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(CASES),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(17))]

    #[test]
    fn grep_finds_what_ripgrep_finds(tree in tree::tree(), query in grep_query::query()) {
        run(check_grep(&tree, &query))?;
    }
}

proptest! {
    #![proptest_config(config(18))]

    #[test]
    fn glob_lists_what_ripgrep_lists(tree in tree::tree(), query in glob_query::query()) {
        run(check_glob(&tree, &query))?;
    }
}

fn run(check: impl Future<Output = Result<(), TestCaseError>>) -> Result<(), TestCaseError> {
    if !ripgrep::is_installed() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check)
}

async fn check_grep(tree: &Tree, query: &GrepQuery) -> Result<(), TestCaseError> {
    let planted = tree.plant();
    let as_shown = tree.plant_as_shown(!query.is_of_carriage_returns());
    let whole = query.arguments(0, 0);
    let mut ours = grep(&planted, whole.clone()).await;
    ours.lines = tidy(ours.lines);
    let ripgrep = |flags: Vec<String>| match ripgrep::run(&as_shown.workspace.root(), &flags) {
        Output::Refused => None,
        Output::Text(text) => Some(tidy(in_order(&planted, query.mode, &Planted::shown(&text)))),
    };
    let Some(mut expected) = ripgrep(query.flags()) else {
        prop_assert!(ours.text.starts_with("Error: "), "{}: {}", whole, ours.text);
        return Ok(());
    };
    if ours.text.contains(AMONG_IGNORED) {
        // Ours does not count ignore files in a directory that they empty.
        prop_assert!(expected.is_empty(), "{}: {:?}", whole, expected);
        let flags = [vec!["--no-ignore".to_owned()], query.flags()].concat();
        expected = ripgrep(flags).unwrap_or_default();
    }
    prop_assert_eq!(&ours.lines, &expected, "{}: {}", whole, ours.text);
    if query.mode == Mode::Count && !expected.is_empty() {
        let total: u64 = expected.iter().map(|line| count_of(line)).sum();
        let files = if expected.len() == 1 { "file" } else { "files" };
        let told = format!("({total} in all, in {} {files})", expected.len());
        prop_assert!(ours.text.contains(&told), "{}: {}, not {}", whole, ours.text, told);
    }
    check_pages(&planted, query, &ours.lines).await
}

/// Follows the offsets that the answers name: together, the pages are the whole answer.
async fn check_pages(
    planted: &Planted,
    query: &GrepQuery,
    whole: &[String],
) -> Result<(), TestCaseError> {
    let (mut offset, mut pages) = (0, Vec::new());
    let size = query.page.max(whole.len() / MAX_PAGES);
    loop {
        let arguments = query.arguments(offset, size);
        let page = grep(planted, arguments.clone()).await;
        let lines = without_separators(&page.lines);
        prop_assert!(lines.len() <= size, "{}: {}", arguments, page.text);
        pages.extend(lines);
        let Some(next) = page.next_offset() else { break };
        prop_assert!(next > offset, "{}: {}", arguments, page.text);
        offset = next;
    }
    prop_assert_eq!(pages, without_separators(whole), "pages of {}", size);
    let beyond = grep(planted, query.arguments(whole.len() + 1, size)).await;
    let told = if whole.is_empty() { "No matches found" } else { "is past the end" };
    prop_assert!(beyond.text.contains(told), "past the end: {}", beyond.text);
    Ok(())
}

/// Without separators that separate nothing: with `-o`, a match of line ends shows no line, but
/// may come with a separator.
fn tidy(mut lines: Vec<String>) -> Vec<String> {
    lines.dedup_by(|line, before| line == "--" && before == "--");
    lines.pop_if(|line| line == "--");
    let begins = usize::from(lines.first().is_some_and(|line| line == "--"));
    lines.split_off(begins)
}

/// Between groups of context. No generated line of a file consists of it.
fn without_separators(lines: &[String]) -> Vec<String> {
    lines.iter().filter(|line| *line != "--").cloned().collect()
}

async fn check_glob(tree: &Tree, query: &GlobQuery) -> Result<(), TestCaseError> {
    let planted = tree.plant();
    let arguments = query.arguments();
    let text = planted.workspace.call(Glob::default(), arguments.clone()).await;
    let root = planted.workspace.root();
    // With a glob, ripgrep lists ignored files that fit. So the globs and the ignore files
    // are asked for each on their own.
    let outputs = (ripgrep::run(&root, &query.matching()), ripgrep::run(&root, &query.kept()));
    let (Output::Text(matching), Output::Text(kept)) = outputs else {
        prop_assert!(text.starts_with("Error: "), "{}: {}", arguments, text);
        return Ok(());
    };
    let matching: BTreeSet<String> = lines(&Planted::shown(&matching)).collect();
    let mut expected = in_order(&planted, Mode::Files, &Planted::shown(&kept));
    expected.retain(|path| matching.contains(path));
    let kept: Vec<String> = lines(&Planted::shown(&kept)).collect();
    let mut ours: Vec<String> = lines(&text)
        .filter_map(|line| line.strip_prefix("$WORKSPACE/").map(str::to_owned))
        .collect();
    // Ours lists ignored files that the pattern names, and what is in a directory that it names
    // and that ignore files empty.
    let is_emptied = query.directory().is_some_and(|directory| {
        expected.is_empty() || !kept.iter().any(|path| path.starts_with(&format!("{directory}/")))
    });
    if query.names_files() || is_emptied {
        ours.retain(|path| expected.contains(path) || !matching.contains(path));
    }
    prop_assert_eq!(ours, expected, "{}: {}", arguments, text);
    Ok(())
}

/// The lines of ripgrep's answer in the order of ours: newest first where files are listed, else
/// by path, as ripgrep was told.
fn in_order(planted: &Planted, mode: Mode, output: &str) -> Vec<String> {
    let mut lines: Vec<String> = lines(output).map(|line| comparable(&line)).collect();
    if mode == Mode::Files {
        lines.sort_by_cached_key(|path| planted.newest_first(path));
    }
    lines
}

fn count_of(line: &str) -> u64 {
    line.rsplit(':').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// An answer of Grep.
struct Answer {
    text: String,
    /// Its results, without the notes.
    lines: Vec<String>,
}

impl Answer {
    fn next_offset(&self) -> Option<usize> {
        let (_, rest) = self.text.rsplit_once("set offset to ")?;
        rest.split(' ').next()?.parse().ok()
    }
}

async fn grep(planted: &Planted, arguments: Value) -> Answer {
    let text = planted.workspace.call(Grep::default(), arguments).await;
    let lines = lines(&text).filter(|line| !is_note(line)).map(|line| comparable(&line)).collect();
    Answer { text, lines }
}

/// Lines of text, some of which may end with a carriage return.
fn lines(text: &str) -> impl Iterator<Item = String> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lines = text.split('\n').filter(|_| !text.is_empty());
    lines.map(|line| line.strip_prefix("./").unwrap_or(line).to_owned())
}

fn is_note(line: &str) -> bool {
    line.starts_with('(') || line.starts_with("No matches found")
}

/// A line without what differs: ours does not show carriage returns at the end of a line, counts
/// the matches of a long line, and counts bytes without the carriage returns.
fn comparable(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    if let Some((place, _)) = line.split_once("[Omitted long ")
        && !line.contains("context line]")
    {
        return format!("{place}[Omitted long line]");
    }
    match line.split_once(" byte around offset ") {
        Some((what, _)) => what.to_owned(),
        None => line.to_owned(),
    }
}
