//! Calls Grep as the model does, and compares it with ripgrep.

use std::process::Command;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::Grep;
use crate::tools::builtin::against_ripgrep::ripgrep::{self, Output};
use crate::tools::tool::erase;
use crate::tools::tool::test_support::Workspace;
use crate::tools::walk::Search;

fn grep() -> Grep {
    Grep::default()
}

fn with_no_time() -> Grep {
    let search = Search { time_limit: Duration::ZERO, ..Search::default() };
    Grep { search, ..Grep::default() }
}

/// A small tree with the cases that a search easily gets wrong.
fn tree() -> Workspace {
    let long = format!("needle {}\n", "x".repeat(600));
    let workspace = Workspace::new(&[
        (".git/HEAD", "needle\n"),
        (".git/info/exclude", "excluded.txt\n"),
        ("excluded.txt", "needle\n"),
        ("src/excluded.txt", "needle\n"),
        (".rgignore", "docs/secret.md\n"),
        ("docs/secret.md", "needle\n"),
        ("src/y.log", "needle\n"),
        ("nested/.gitignore", "*\n!z.txt\n"),
        ("nested/z.txt", "needle\n"),
        ("nested/other.txt", "needle\n"),
        (".gitignore", "/build\n*.log\n!keep.log\n"),
        (".hidden/conf", "a needle here\n"),
        ("build/out.txt", "needle\n"),
        ("a.log", "needle\n"),
        ("keep.log", "needle\n"),
        ("src/.ignore", "gen*.rs\n"),
        ("src/generated.rs", "needle\n"),
        ("src/main.rs", "fn main() {\n    needle();\n    // NEEDLE and needle, needle\n}\n"),
        ("src/lib.rs", "//! lib\n\nfn a() {}\nfn b() { needle() }\n\n\n\nfn c() { needle() }\n"),
        ("src/a/x.rs", "one\ntwo needle\nthree\n"),
        ("src/a.rs", "needle without newline"),
        ("docs/crlf.md", "first\r\nneedle\r\nlast\r\n"),
        ("docs/long.md", &long),
        ("docs/utf8.md", "größe needle ≠\n"),
        ("empty", ""),
    ]);
    workspace.write("bin/early.bin", b"\0needle\n");
    workspace.write(
        "bin/late.bin",
        &[&b"needle\n"[..], &b"x".repeat(70_000), b"\n\0\nneedle\n"].concat(),
    );
    workspace.write("docs/utf16.txt", b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0");
    std::os::unix::fs::symlink(workspace.path("src/main.rs"), workspace.path("link.rs")).unwrap();
    std::os::unix::fs::symlink(workspace.root(), workspace.path("loop")).unwrap();
    workspace
}

/// The sorted output of ripgrep for the same call.
fn ripgrep(workspace: &Workspace, arguments: &[&str]) -> Vec<String> {
    let arguments = [&["-g", "!.git"], arguments].concat();
    match ripgrep::run(&workspace.root(), &arguments) {
        Output::Text(text) => sorted(&String::from_utf8_lossy(&text)),
        Output::Refused => panic!("rg refuses {arguments:?}"),
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.strip_prefix("./").unwrap_or(line).to_owned())
        .filter(|line| !line.starts_with("No matches found") && !line.starts_with('('))
        // Ours counts the matches in a long line.
        .map(|line| match line.split_once("[Omitted long ") {
            Some((place, _)) => format!("{place}[Omitted long line]"),
            None => line,
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Several threads search a large file, each some pieces of it.
#[tokio::test]
async fn finds_in_a_large_file_what_ripgrep_finds() {
    if !ripgrep::is_installed() {
        return;
    }
    // Lines of 7 to 90 bytes, so that pieces begin anywhere in them.
    let line = |number: usize| {
        let word = if number.is_multiple_of(97) { "needle needle" } else { "hay" };
        format!("{word}{}\n", "x".repeat(number * 31 % 80 + 3))
    };
    let text: Vec<u8> = (0..70_000).flat_map(|number| line(number).into_bytes()).collect();
    let long = [&b"needle"[..], &b"x".repeat(5 << 20), b"\nneedle\n"].concat();
    let workspace = Workspace::new(&[]);
    let without_end = text.strip_suffix(b"\n").unwrap();
    for (name, bytes) in [
        ("text", &text[..]),
        ("no_newline_at_the_end", without_end),
        ("match_at_the_end", &[&text[..], b"a needle"].concat()),
        ("nul_at_the_end", &[&text[..], b"\0needle\n"].concat()),
        ("nul_at_the_beginning", &[b"\0", &text[..]].concat()),
        ("mark", &[b"\xef\xbb\xbfneedle\n", &text[..]].concat()),
        ("utf16", &utf16(&text)),
        ("long_line", &long),
        ("latin1", &[&text[..], b"\xff needle\n"].concat()),
        ("no_match", &b"hay\n".repeat(1 << 20)),
    ] {
        workspace.write(name, bytes);
        for (pattern, mode, flag) in [
            ("needle", "files_with_matches", "-l"),
            ("^needle", "files_with_matches", "-l"),
            ("needle", "count", "-c"),
            ("needle$", "count", "-c"),
            (r"[a-z]+e\b", "count", "-c"),
            (r"\Aneedle", "count", "-c"),
        ] {
            let arguments = json!({"pattern": pattern, "output_mode": mode, "path": name});
            let ours = sorted(&workspace.call(grep(), arguments.clone()).await);
            assert_eq!(ours, ripgrep(&workspace, &[flag, pattern, name]), "{arguments}");
        }
        let arguments =
            json!({"pattern": "needle", "output_mode": "count", "-o": true, "path": name});
        let ours = sorted(&workspace.call(grep(), arguments).await);
        assert_eq!(ours, ripgrep(&workspace, &["-co", "needle", name]), "-o {name}");
    }
}

#[tokio::test]
async fn every_line_of_a_long_answer_can_be_reached() {
    let line = |number: usize| format!("match {number:09} {}\n", "x".repeat(60));
    let lines = |count: usize| (0..count).map(line).collect::<String>();
    let workspace = Workspace::new(&[("many.txt", &lines(150_000))]);
    let call = async |arguments: Value| workspace.call(grep(), arguments).await;
    let page = |path: &str, offset: usize, limit: usize| {
        let page = json!({"pattern": "match", "output_mode": "content", "-n": false});
        let mut page = page.as_object().unwrap().clone();
        page.extend([("path".to_owned(), json!(path)), ("offset".to_owned(), json!(offset))]);
        page.insert("head_limit".to_owned(), json!(limit));
        Value::Object(page)
    };
    let last = call(page("many.txt", 149_998, 5)).await;
    assert!(last.starts_with("many.txt:match 000149998 x") && last.lines().count() == 2, "{last}");
    let beyond = call(page("many.txt", 150_000, 5)).await;
    let expected = "(offset 150000 is past the end of the results, of which there are 150000)";
    assert_eq!(beyond, expected);
    let all = call(page("many.txt", 0, 0)).await;
    let (_, how) = all.rsplit_once("(more lines follow: set offset to ").unwrap();
    let next: usize = how.split(' ').next().unwrap().parse().unwrap();
    let next = call(page("many.txt", next, 1)).await;
    assert!(next.contains("(more lines follow: set offset to "), "{next}");

    // Of many files not all results are kept, and no offset beyond those is named.
    for number in 0..30 {
        workspace.write(&format!("tree/{number}.txt"), lines(10_000).as_bytes());
    }
    for offset in [200_000, 299_999, 400_000] {
        let answer = call(page("tree", offset, 5)).await;
        let expected = "(more results follow, too many to page through: narrow the search)";
        assert_eq!(answer, expected, "{offset}");
    }
    let first = call(page("tree", 20_000, 5)).await;
    assert!(
        first.ends_with("(more lines follow: set offset to 20005 to go on, or narrow the search)")
    );
}

fn utf16(text: &[u8]) -> Vec<u8> {
    let units = text.iter().flat_map(|byte| [*byte, 0]);
    b"\xff\xfe".iter().copied().chain(units).collect()
}

#[tokio::test]
async fn finds_what_ripgrep_finds() {
    if !ripgrep::is_installed() {
        return;
    }
    let workspace = tree();
    let cases: &[(Value, &[&str])] = &[
        (json!({"pattern": "needle"}), &["-l", "needle", "."]),
        (json!({"pattern": "NEEDLE"}), &["-l", "NEEDLE", "."]),
        (json!({"pattern": "NEEDLE", "-i": true}), &["-il", "NEEDLE", "."]),
        (json!({"pattern": "needle", "path": "src"}), &["-l", "needle", "src"]),
        (json!({"pattern": "needle", "path": "build"}), &["-l", "needle", "build"]),
        (json!({"pattern": "needle", "path": "a.log"}), &["-l", "needle", "a.log"]),
        (json!({"pattern": "needle", "type": "rust"}), &["-l", "-t", "rust", "needle", "."]),
        (json!({"pattern": "needle", "glob": "*.md"}), &["-l", "-g", "*.md", "needle", "."]),
        (json!({"pattern": "needle", "glob": "*.log"}), &["-l", "-g", "*.log", "needle", "."]),
        (
            json!({"pattern": "needle", "glob": "*.{rs,md}, !src/a/**"}),
            &["-l", "-g", "*.{rs,md}", "-g", "!src/a/**", "needle", "."],
        ),
        (
            json!({"pattern": "needle", "glob": "src/*.rs"}),
            &["-l", "-g", "src/*.rs", "needle", "."],
        ),
        (json!({"pattern": "needle", "glob": "/src/**"}), &["-l", "-g", "/src/**", "needle", "."]),
        (json!({"pattern": "^"}), &["-l", "^", "."]),
        (json!({"pattern": ""}), &["-l", "", "."]),
        (json!({"pattern": r"^\s*$"}), &["-l", r"^\s*$", "."]),
        (json!({"pattern": r"\bneedle\(\)"}), &["-l", r"\bneedle\(\)", "."]),
        (json!({"pattern": "größe"}), &["-l", "größe", "."]),
        (json!({"pattern": "needle", "output_mode": "count"}), &["-c", "needle", "."]),
        (json!({"pattern": "needle", "output_mode": "count", "-o": true}), &["-co", "needle", "."]),
        (
            json!({"pattern": r"\{\n", "output_mode": "count", "multiline": true}),
            &["-cU", "--multiline-dotall", r"\{\n", "."],
        ),
        (json!({"pattern": "needle", "output_mode": "content"}), &["-n", "needle", "."]),
        (
            json!({"pattern": "needle", "output_mode": "content", "-n": false}),
            &["-N", "needle", "."],
        ),
        (
            json!({"pattern": "needle", "output_mode": "content", "-o": true}),
            &["-no", "needle", "."],
        ),
        (json!({"pattern": "needle", "output_mode": "content", "-C": 1}), &["-nC1", "needle", "."]),
        (json!({"pattern": "needle", "output_mode": "content", "-A": 2}), &["-nA2", "needle", "."]),
        (
            json!({"pattern": "needle", "output_mode": "content", "-B": 1, "-n": false}),
            &["-NB1", "needle", "."],
        ),
        (
            json!({"pattern": r"main.*needle\(", "output_mode": "content", "multiline": true}),
            &["-nU", "--multiline-dotall", r"main.*needle\(", "."],
        ),
        (
            json!({"pattern": "needle", "output_mode": "content", "path": "bin/late.bin"}),
            &["-n", "needle", "bin/late.bin"],
        ),
        (
            json!({"pattern": "needle", "output_mode": "content", "path": "bin/early.bin"}),
            &["-n", "needle", "bin/early.bin"],
        ),
    ];
    for (arguments, flags) in cases {
        let ours = sorted(&workspace.call(grep(), arguments.clone()).await);
        assert_eq!(ours, ripgrep(&workspace, flags), "{arguments}");
    }
}

#[tokio::test]
async fn gitignore_counts_inside_a_repository_only() {
    if !ripgrep::is_installed() {
        return;
    }
    let files = [(".gitignore", "a\n"), (".ignore", "b\n"), ("a", "x"), ("b", "x"), ("c", "x")];
    let workspace = Workspace::new(&files);
    for expected in [vec!["a", "c"], vec!["c"]] {
        let ours = sorted(&workspace.call(grep(), json!({"pattern": "^x"})).await);
        assert_eq!(ours, expected);
        assert_eq!(ours, ripgrep(&workspace, &["-l", "^x", "."]));
        workspace.write(".git/HEAD", b"");
    }
}

#[tokio::test]
async fn lists_files_newest_first_and_ties_by_name() {
    let workspace = Workspace::new(&[("b", "x"), ("a", "x"), ("new", "x"), ("no", "y")]);
    workspace.age("b", 60);
    workspace.age("a", 60);
    assert_snapshot!(workspace.call(grep(), json!({"pattern": "x"})).await, @r"
    new
    a
    b
    ");
}

#[tokio::test]
async fn content_reads_like_ripgreps() {
    let workspace = tree();
    let arguments = json!({"pattern": "needle", "output_mode": "content", "-C": 1, "glob": "*.rs"});
    assert_snapshot!(workspace.call(grep(), arguments).await, @r"
    src/a/x.rs-1-one
    src/a/x.rs:2:two needle
    src/a/x.rs-3-three
    --
    src/a.rs:1:needle without newline
    --
    src/generated.rs:1:needle
    --
    src/lib.rs-3-fn a() {}
    src/lib.rs:4:fn b() { needle() }
    src/lib.rs-5-
    --
    src/lib.rs-7-
    src/lib.rs:8:fn c() { needle() }
    --
    src/main.rs-1-fn main() {
    src/main.rs:2:    needle();
    src/main.rs:3:    // NEEDLE and needle, needle
    src/main.rs-4-}
    ");
}

#[tokio::test]
async fn counts_over_the_whole_set() {
    let workspace = Workspace::new(&[("a", "x\nx\n"), ("b", "x\n"), ("c", "x x\n")]);
    let arguments = json!({"pattern": "x", "output_mode": "count", "head_limit": 1});
    assert_snapshot!(workspace.call(grep(), arguments).await, @r"
    a:2
    (4 in all, in 3 files)
    (2 more files: set offset to 1 to go on, or narrow the search)
    ");
    let arguments = json!({"pattern": "x", "output_mode": "count", "-o": true, "offset": 2});
    assert_snapshot!(workspace.call(grep(), arguments).await, @r"
    c:2
    (5 in all, in 3 files)
    ");
}

#[tokio::test]
async fn pages_through_long_answers() {
    let lines: Vec<String> = (1..=300).map(|n| format!("x{n}\n")).collect();
    let workspace = Workspace::new(&[("a", &lines.concat()), ("b", "x\n")]);
    let call = async |offset: usize, limit: Option<usize>| {
        let arguments = json!({
            "pattern": "x", "output_mode": "content", "offset": offset, "head_limit": limit,
        });
        workspace.call(grep(), arguments).await
    };
    let first = call(0, None).await;
    assert_eq!(first.lines().count(), 251);
    assert_snapshot!(first.lines().last().unwrap(), @"(more lines follow: set offset to 250 to go on, or narrow the search)");
    assert_snapshot!(call(299, Some(1)).await, @r"
    a:300:x300
    (more lines follow: set offset to 300 to go on, or narrow the search)
    ");
    assert_snapshot!(call(299, Some(2)).await, @r"
    a:300:x300
    b:1:x
    ");
    assert_snapshot!(call(301, Some(2)).await, @"(offset 301 is past the end of the results, of which there are 301)");
    assert_eq!(call(0, Some(0)).await.lines().count(), 301);
    let files = json!({"pattern": "x", "head_limit": 1});
    assert_snapshot!(workspace.call(grep(), files).await.lines().last().unwrap(), @"(1 more file: set offset to 1 to go on, or narrow the search)");
}

#[tokio::test]
async fn tells_programs_what_it_found() {
    let workspace = Workspace::new(&[("a/b", "x\nx\n"), ("a/c", "x\n"), ("d", "x\n")]);
    for (mode, offset, expected) in [
        ("content", 0, json!([2, 3, null, ["a/b", "a/c"], true])),
        ("content", 2, json!([2, 2, null, ["a/c", "d"], false])),
        ("count", 0, json!([3, 2, 4, ["a/b", "a/c"], true])),
        ("count", 2, json!([3, 1, 4, ["d"], false])),
    ] {
        let limit = if mode == "content" && offset == 0 { 3 } else { 2 };
        let arguments = json!({
            "pattern": "x", "output_mode": mode, "offset": offset, "head_limit": limit,
        });
        let told = workspace.run(&erase(grep()), arguments).await.unwrap().structured;
        let names = ["num_files", "num_lines", "num_matches", "filenames", "truncated"];
        let members: Vec<&Value> = names.iter().map(|name| &told[*name]).collect();
        assert_eq!(told["mode"], mode);
        assert_eq!(json!(members), expected, "{mode} from {offset}");
    }
}

#[tokio::test]
async fn takes_the_names_that_all_providers_pass_on() {
    let workspace = Workspace::new(&[("a", "1\n2\nX\n4\n5\n")]);
    let call = async |arguments: Value| workspace.call(grep(), arguments).await;
    let long = call(json!({
        "pattern": "x", "output_mode": "content", "case_insensitive": true,
        "before_context": "1", "after_context": 2.0, "line_numbers": false,
    }));
    let short = call(json!({
        "pattern": "x", "output_mode": "content", "-i": true, "-B": 1, "-A": 2, "-n": false,
    }));
    assert_eq!(long.await, short.await);
    let around = call(json!({"pattern": "X", "output_mode": "content", "context": 1}));
    assert_snapshot!(around.await, @r"
    a-2-2
    a:3:X
    a-4-4
    ");
}

#[tokio::test]
async fn explains_what_it_cannot_search_for() {
    let workspace = tree();
    let call = async |arguments: Value| workspace.call(grep(), arguments).await;
    assert_snapshot!(call(json!({"pattern": "interface{}"})).await, @r"
    Error: invalid input: the pattern is not a valid regular expression: regex parse error:
        (?:interface{})
                     ^
    error: repetition quantifier expects a valid decimal
    To match a brace literally, put a backslash before it: `\{`.
    ");
    assert_snapshot!(call(json!({"pattern": "a{,"})).await, @r"
    Error: invalid input: the pattern is not a valid regular expression: regex parse error:
        (?:a{,)
             ^
    error: repetition quantifier expects a valid decimal
    To match a brace literally, put a backslash before it: `\{`.
    ");
    assert_snapshot!(call(json!({"pattern": "("})).await, @r"
    Error: invalid input: the pattern is not a valid regular expression: regex parse error:
        (?:()
        ^
    error: unclosed group
    ");
    assert_snapshot!(call(json!({"pattern": "a\nb"})).await, @r#"
    Error: invalid input: the pattern is not a valid regular expression: the literal "\n" is not allowed in a regex
    To match across lines, set multiline to true.
    "#);
    assert_snapshot!(call(json!({"pattern": "(a{1000}){1000}"})).await, @r"
    Error: invalid input: the pattern is not a valid regular expression: compiled regex exceeds size limit of 10485760
    Use smaller repetitions.
    ");
    assert_snapshot!(call(json!({"pattern": r"\p{L}{1000}"})).await, @r"
    Error: invalid input: the pattern is not a valid regular expression: compiled regex exceeds size limit of 10485760
    Use smaller repetitions.
    ");
    assert_snapshot!(call(json!({"pattern": "a", "type": "rusty"})).await, @"Error: invalid input: type: unrecognized file type: rusty; closest: rust, rst, ruby");
    assert_snapshot!(call(json!({"pattern": "a", "glob": "{a"})).await, @"Error: invalid input: glob: error parsing glob '{a': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)");
    assert_snapshot!(call(json!({"pattern": "a", "path": "nowhere"})).await, @"Error: $WORKSPACE/nowhere does not exist");
    assert_snapshot!(call(json!({"pattern": "a", "path": "/etc"})).await, @"Error: not permitted: /etc is outside the workspace");
    assert_snapshot!(call(json!({"pattern": "a", "output_mode": "json"})).await, @r#"Error: invalid input: `output_mode`: expected one of "content", "files_with_matches", "count", got string "json""#);
    assert_snapshot!(call(json!({"pattern": "zzz", "path": "src/main.rs"})).await, @"No matches found");
}

#[tokio::test]
async fn patterns_are_never_flags_and_never_slow() {
    let workspace = Workspace::new(&[("a", "--pre=./evil\n"), (".ripgreprc", "--pre=./evil\n")]);
    let content = json!({"pattern": "--pre=./evil", "output_mode": "content"});
    assert_snapshot!(workspace.call(grep(), content).await, @r"
    .ripgreprc:1:--pre=./evil
    a:1:--pre=./evil
    ");
    workspace.write("long", &b"a".repeat(100_000));
    let answer = workspace.call(grep(), json!({"pattern": "(a+)+$", "path": "long"})).await;
    assert_eq!(answer, "long");
}

#[tokio::test]
async fn tells_paths_from_the_working_directory() {
    let workspace = Workspace::new(&[("a/x", "x"), ("b/y\n", "x")]);
    workspace.context().agent.set_working_dir(workspace.path("a"));
    let answer = workspace.call(grep(), json!({"pattern": "x", "path": ".."})).await;
    assert_eq!(
        {
            let mut lines: Vec<&str> = answer.lines().collect();
            lines.sort_unstable();
            lines
        },
        [r"$WORKSPACE/b/y\n", "x"]
    );
}

#[tokio::test]
async fn shows_no_hidden_paths() {
    let mut workspace = Workspace::new(&[("state/key", "x"), ("a", "x")]);
    std::fs::hard_link(workspace.path("state/key"), workspace.path("other name")).unwrap();
    workspace.hide(&workspace.path("state"));
    assert_eq!(workspace.call(grep(), json!({"pattern": "x"})).await, "a");
}

#[tokio::test]
async fn searches_regular_files_only() {
    let workspace = Workspace::new(&[("a", "x")]);
    let pipe = workspace.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(workspace.call(grep(), json!({"pattern": "x"})).await, "a");
    let answer = workspace.call(grep(), json!({"pattern": "x", "path": "pipe"})).await;
    assert_snapshot!(answer, @"Error: $WORKSPACE/pipe is not a regular file or directory");
}

#[tokio::test]
async fn says_so_when_time_runs_out_and_stops_when_cancelled() {
    let workspace = Workspace::new(&[("a", "x")]);
    let output = workspace.run(&erase(with_no_time()), json!({"pattern": "x"})).await.unwrap();
    assert_snapshot!(output.text, @r"
    No matches found in what was searched
    (incomplete: the search ran out of time; narrow the path or the pattern)
    ");
    assert_eq!(output.structured["truncated"], true);
    let answer = workspace.call(with_no_time(), json!({"pattern": "x", "path": "a"})).await;
    assert!(answer.contains("ran out of time"), "{answer}");

    workspace.context().cancelled.cancel();
    assert_snapshot!(workspace.call(grep(), json!({"pattern": "x"})).await, @"Error: interrupted");
}

#[tokio::test]
async fn t16_names_what_it_could_not_search_and_why() {
    let workspace = Workspace::new(&[("a", "x\n")]);
    workspace.write("long", &b"a".repeat(65 << 20));
    let call = async |arguments: Value| workspace.call(grep(), arguments).await;
    let arguments = json!({"pattern": "needle", "output_mode": "content", "path": "long"});
    assert_snapshot!(call(arguments).await, @r"
    No matches found in what was searched
    (not searched: $WORKSPACE/long: a line is over 64 MiB)
    ");
    assert_snapshot!(call(json!({"pattern": "x", "multiline": true})).await, @r"
    a
    (not searched: $WORKSPACE/long: it is over 64 MiB, too large for multiline)
    ");
}

#[tokio::test]
async fn files_19a_brackets_in_globs_are_read_literally_where_nothing_else_fits() {
    let literal = "(brackets and braces of the glob are read as plain characters: it matches \
        nothing otherwise)";
    let workspace = Workspace::new(&[
        ("src/app/[locale]/(auth)/page.tsx", "needle\n"),
        ("src/app/[...slug]/page.tsx", "needle\n"),
        ("src/app/[[...opt]]/page.tsx", "needle\n"),
        ("src/app/{id}/page.ts", "needle\n"),
        ("src/app/@slot/$id+x.tsx", "needle\n"),
        ("src/l/a.rs", "needle\n"),
    ]);
    let search = async |glob: &str| {
        workspace.call(grep(), json!({ "pattern": "needle", "glob": glob })).await
    };
    for (glob, found) in [
        ("src/app/[locale]/(auth)/**", "src/app/[locale]/(auth)/page.tsx"),
        ("src/app/[...slug]/*.{ts,tsx}", "src/app/[...slug]/page.tsx"),
        ("src/app/[[...opt]]/**", "src/app/[[...opt]]/page.tsx"),
        ("src/app/{id}/*", "src/app/{id}/page.ts"),
    ] {
        assert_eq!(search(glob).await, format!("{found}\n{literal}"), "{glob}");
    }
    assert_eq!(search("src/[l]/*").await, "src/l/a.rs");
    assert_eq!(search("src/app/@slot/$id+*.tsx").await, "src/app/@slot/$id+x.tsx");
    assert_eq!(search("src/app/(auth)/**").await, "No matches found");
    let group = search("**/!(*.test).tsx").await;
    assert!(group.contains("there are no groups such as !(a|b)"), "{group}");
}

#[tokio::test]
async fn files_21_an_empty_answer_counts_what_ignore_files_leave_out() {
    let workspace = Workspace::new(&[
        (".git/HEAD", "needle\n"),
        (".gitignore", "scripts/*\nnode_modules/\n*.log\n"),
        ("scripts/build.sh", "needle\n"),
        ("scripts/deep/x.sh", "needle\n"),
        ("node_modules/a/b.js", "needle\n"),
        ("a.log", "needle\n"),
        ("a.txt", "hay\n"),
    ]);
    let search = async |arguments: Value| workspace.call(grep(), arguments).await;
    assert_snapshot!(search(json!({ "pattern": "needle" })).await, @r"
    No matches found
    (passed over: 4 ignored entries: a.log, node_modules/, scripts/build.sh, …; to search one, set path to it)
    (passed over: 1 version control directory: .git; to search one, set path to it)
    ");
    // What the globs do not ask for is not counted.
    assert_snapshot!(search(json!({ "pattern": "hay", "glob": "!*.txt" })).await, @r"
    No matches found
    (passed over: 4 ignored entries: a.log, node_modules/, scripts/build.sh, …; to search one, set path to it)
    (passed over: 1 version control directory: .git; to search one, set path to it)
    ");
    assert_snapshot!(search(json!({ "pattern": "needle", "type": "md" })).await, @r"
    No matches found
    (passed over: 2 ignored entries: node_modules/, scripts/deep/; to search one, set path to it)
    (passed over: 1 version control directory: .git; to search one, set path to it)
    ");
    let scripts = search(json!({ "pattern": "needle", "path": "scripts" })).await;
    let mut lines: Vec<&str> = scripts.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "(ignore files leave out this directory, so they do not count in it)",
            "scripts/build.sh",
            "scripts/deep/x.sh",
        ]
    );
    for path in ["scripts/build.sh", "node_modules/a/b.js", "node_modules/a", ".git", "a.log"] {
        let answer = search(json!({ "pattern": "needle", "path": path })).await;
        assert!(answer.starts_with(path), "{path}: {answer}");
    }
    let named = search(json!({ "pattern": "absent", "path": "scripts" })).await;
    assert_eq!(
        named,
        "No matches found\n(ignore files leave out this directory, so they do not count in it)"
    );
}

#[tokio::test]
async fn files_20_an_empty_answer_counts_linked_directories() {
    let workspace = Workspace::new(&[("items/foo/x.md", "needle\n"), ("cat/a.md", "hay\n")]);
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("o.md"), "needle\n").unwrap();
    for (to, at) in [
        ("../items/foo", "cat/foo"),
        ("../nowhere", "cat/broken"),
        ("foo/x.md", "cat/file.md"),
        (outside.path().to_str().unwrap(), "cat/out"),
    ] {
        std::os::unix::fs::symlink(to, workspace.path(at)).unwrap();
    }
    let search = async |arguments: Value| workspace.call(grep(), arguments).await;
    assert_snapshot!(search(json!({ "pattern": "needle", "path": "cat" })).await, @r"
    No matches found
    (passed over: 1 linked directory: cat/foo; to search one, set path to it)
    (passed over: 1 linked file: cat/file.md; to search one, set path to it)
    (passed over: 1 link out of the workspace: cat/out; nothing there is searched)
    ");
    assert_snapshot!(search(json!({ "pattern": "needle", "path": "cat", "glob": "*.rs" })).await, @r"
    No matches found
    (passed over: 1 linked directory: cat/foo; to search one, set path to it)
    (passed over: 1 link out of the workspace: cat/out; nothing there is searched)
    ");
    assert_eq!(search(json!({ "pattern": "needle", "path": "cat/foo" })).await, "cat/foo/x.md");
    assert_eq!(search(json!({ "pattern": "hay" })).await, "cat/a.md");
}

#[tokio::test]
async fn files_20_what_is_hidden_is_neither_named_nor_counted() {
    let mut workspace =
        Workspace::new(&[(".ignore", "state\n*.log\n"), ("state/key.log", "x"), ("a", "y")]);
    std::os::unix::fs::symlink(workspace.path("state"), workspace.path("way in")).unwrap();
    workspace.hide(&workspace.path("state"));
    assert_eq!(workspace.call(grep(), json!({ "pattern": "x" })).await, "No matches found");
}

#[tokio::test]
async fn files_22a_a_file_with_nul_bytes_is_named_or_counted() {
    let workspace = Workspace::new(&[("a.txt", "hay\n")]);
    workspace.write("one.c", b"int a;\nchar c = '\0'; // needle\n");
    workspace.write("late.c", &[&b"int a;\n".repeat(20_000)[..], b"\0 needle\n"].concat());
    workspace.write("b.bin", &[b"\x7fELF needle".to_vec(), vec![0; 900]].concat());
    let search = async |arguments: Value| workspace.call(grep(), arguments).await;
    let expected = "No matches found in what was searched\n\
        (not searched: $WORKSPACE/late.c: it has NUL bytes; set path to it to search it)\n\
        (not searched: $WORKSPACE/one.c: it has NUL bytes; set path to it to search it)\n\
        (passed over: 1 binary file: b.bin; to search one, set path to it)";
    for mode in ["content", "count", "files_with_matches"] {
        let answer = search(json!({ "pattern": "needle", "output_mode": mode })).await;
        assert_eq!(answer, expected, "{mode}");
    }
    for path in ["one.c", "late.c", "b.bin"] {
        let answer = search(json!({ "pattern": "needle", "path": path })).await;
        assert_eq!(answer, path);
    }
}

#[tokio::test]
async fn files_23_text_is_found_in_the_encodings_that_read_decodes() {
    let workspace = Workspace::new(&[("u.txt", "größer 变量\n")]);
    let gbk = "/* 变量是什么，函数又是什么：程序设计语言的基本概念。 */\r\nint a; // 结束\r\n";
    workspace.write("gbk.c", &encoding_rs::GBK.encode(gbk).0);
    workspace.write("latin.txt", b"Die Gr\xf6\xdfe ist gr\xf6\xdfer, sch\xf6n!\nend\n");
    let wide: Vec<u8> =
        "text größer\r\nend\r\n".repeat(9).encode_utf16().flat_map(u16::to_le_bytes).collect();
    workspace.write("wide.txt", &wide);
    workspace.write("marked.txt", &[b"\xff\xfe", &wide[..]].concat());
    let search = async |arguments: Value| workspace.call(grep(), arguments).await;
    let content = |pattern: &str, path: &str| json!({ "pattern": pattern, "output_mode": "content", "path": path });
    let gbk = search(content("函数|结束$", "gbk.c")).await;
    assert_snapshot!(gbk, @r"
    gbk.c:1:/* 变量是什么，函数又是什么：程序设计语言的基本概念。 */
    gbk.c:2:int a; // 结束
    (read in a guessed encoding: 1 file: gbk.c; what is not ASCII may be missed there, or be shown wrongly; the encoding of Edit, or tools.files.encoding, makes it certain)
    ");
    let latin = search(content("größer", "latin.txt")).await;
    assert!(latin.starts_with("latin.txt:1:Die Größe ist größer, schön!\n(read in"), "{latin}");
    // In ASCII the guess takes nothing away, unless it is shown.
    let ascii = search(json!({ "pattern": "int a", "path": "gbk.c" })).await;
    assert_eq!(ascii, "gbk.c");
    for path in ["wide.txt", "marked.txt"] {
        let answer = search(json!({
            "pattern": "größer$", "output_mode": "content", "path": path, "head_limit": 1,
        }));
        let answer = answer.await;
        assert!(answer.starts_with(&format!("{path}:1:text größer\n")), "{answer}");
    }
    let files = search(json!({ "pattern": "größer", "output_mode": "count" })).await;
    assert_snapshot!(files, @r"
    latin.txt:1
    marked.txt:9
    u.txt:1
    wide.txt:9
    (20 in all, in 4 files)
    (read in a guessed encoding: 3 files: gbk.c, latin.txt, wide.txt; what is not ASCII may be missed there, or be shown wrongly; the encoding of Edit, or tools.files.encoding, makes it certain)
    ");
    // What a guess does not show may be there all the same.
    assert_snapshot!(search(json!({ "pattern": "ñandú" })).await, @r"
    No matches found
    (read in a guessed encoding: 3 files: gbk.c, latin.txt, wide.txt; what is not ASCII may be missed there, or be shown wrongly; the encoding of Edit, or tools.files.encoding, makes it certain)
    ");
}

#[tokio::test]
async fn files_23_a_large_file_in_another_encoding_is_searched_to_its_end() {
    let workspace = Workspace::new(&[]);
    let line = "plain text of many lines\n".repeat(120_000);
    workspace.write("latin", &[line.as_bytes(), b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n"].concat());
    for (mode, expected) in [
        ("content", "latin:120001:Grüße aus Köln, schön!"),
        ("count", "latin:1\n(1 in all, in 1 file)"),
        ("files_with_matches", "latin"),
    ] {
        for path in [Value::Null, json!("latin")] {
            let arguments = json!({ "pattern": "Köln.*n!$", "output_mode": mode, "path": path });
            let answer = workspace.call(grep(), arguments.clone()).await;
            let (found, _) =
                answer.split_once("\n(read in a guessed encoding: 1 file: latin; ").unwrap();
            assert_eq!(found, expected, "{arguments}");
        }
    }
}

#[tokio::test]
async fn files_24_line_ends_with_carriage_returns_match_as_edit_matches_them() {
    let workspace = Workspace::new(&[
        ("a.py", "def f():\r\n    pass\r\n\r\nx = 1\r\n"),
        ("b.py", "def g():\n    pass\n"),
        ("c.py", "cr\rpass\r here\r\n"),
    ]);
    let content = |pattern: &str, multiline: bool| {
        json!({
            "pattern": pattern, "output_mode": "content", "multiline": multiline, "glob": "[ab].py",
        })
    };
    let search = async |arguments: Value| workspace.call(grep(), arguments).await;
    assert_eq!(search(content("pass$", false)).await, "a.py:2:    pass\nb.py:2:    pass");
    assert_eq!(search(content("^$", false)).await, "a.py:3:");
    assert_eq!(search(content("pass", false)).await, "a.py:2:    pass\nb.py:2:    pass");
    let expected = "a.py:1:def f():\na.py:2:    pass\nb.py:1:def g():\nb.py:2:    pass";
    for pattern in [":\\n    pass", ":\n    pass$", r"\(\):\s+pass"] {
        assert_eq!(search(content(pattern, true)).await, expected, "{pattern}");
    }
    assert_eq!(search(content(r"pass\r\n", true)).await, "a.py:2:    pass");
    assert_eq!(
        search(json!({ "pattern": r"\r$", "output_mode": "count" })).await,
        "a.py:4\nc.py:1\n(5 in all, in 2 files)"
    );
    let only = json!({ "pattern": ".+", "output_mode": "content", "-o": true, "path": "a.py" });
    assert_eq!(search(only).await, "a.py:1:def f():\na.py:2:    pass\na.py:4:x = 1");
    assert_eq!(search(json!({ "pattern": "pass$", "path": "c.py" })).await, "No matches found");
}

#[tokio::test]
async fn files_25_a_line_that_is_left_out_tells_its_matches_and_how_to_see_it() {
    let item = r#"{"name":"item","id":1},"#;
    let one_line = format!("[{}{{\"name\":\"needle\"}}]", item.repeat(7000));
    let workspace = Workspace::new(&[
        ("one.json", &one_line),
        ("two.txt", &format!("needle {} needle\nneedle\n", "x".repeat(600))),
    ]);
    let search = async |arguments: Value| workspace.call(grep(), arguments).await;
    assert_snapshot!(search(json!({ "pattern": "needle", "output_mode": "content" })).await, @r"
    one.json:1:[Omitted long line with 1 match]
    two.txt:1:[Omitted long line with 2 matches]
    two.txt:2:needle
    (lines of over 500 bytes are left out: to see the matches in one, set -o and put .{0,80} before and after the pattern; to see the line itself, Read it with offset and column)
    ");
    let parts = json!({
        "pattern": ".{0,12}needle.{0,80}", "output_mode": "content", "-o": true, "path": "one.json",
    });
    assert_snapshot!(search(parts).await, @r#"one.json:1:1},{"name":"needle"}]"#);
}
