//! Checks what happens where a text or a name that the model gives only looks like the one on the
//! disk. The rows are those of the cases that people have reported of other agents.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::told;

const NARROW: &str = "Screenshot 10.00\u{202f}AM.txt";
const SPACED: &str = "Screenshot 10.00 AM.txt";
/// A letter followed by its accent, and the letter with it.
const APART: &str = "cafe\u{301}";
const JOINED: &str = "caf\u{e9}";
/// The same word in single letters and in syllables.
const LETTERS: &str = "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}";
const SYLLABLES: &str = "\u{d55c}\u{ae00}";

fn free(upstream: &Upstream, files: &[(&str, &str)]) -> Builder {
    with(Server::builder(upstream).free(), files)
}

fn with(builder: Builder, files: &[(&str, &str)]) -> Builder {
    for (name, content) in files {
        let path = builder.workspace().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("our own directory");
        fs::write(path, content).expect("our own file");
    }
    builder
}

fn read(path: &str) -> (&'static str, &'static str, Value) {
    ("c", "Read", json!({ "file_path": path }))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, &'static str, Value) {
    ("c", "Edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
}

fn write(path: &str, content: &str) -> (&'static str, &'static str, Value) {
    ("c", "Write", json!({ "file_path": path, "content": content }))
}

fn glob(pattern: &str) -> (&'static str, &'static str, Value) {
    ("c", "Glob", json!({ "pattern": pattern }))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<String> = entries.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[tokio::test]
async fn files_6b_a_look_alike_is_taken_where_it_is_unique() {
    for (content, old, new, expected) in [
        ("it\u{2019}s one\n", "it's one", "it's two", "it\u{2019}s two\n"),
        ("say \u{201c}a\u{201d}\n", "say \"a\"", "say \"b\"", "say \u{201c}b\u{201d}\n"),
        ("1 \u{2013} 2\n", "1 - 2", "1 - 3", "1 \u{2013} 3\n"),
        ("a \u{2014} b\n", "a - b", "b", "b\n"),
        ("x\u{a0}= 1;\r\ny\r\n", "x = 1;\ny", "x = 2;\ny", "x\u{a0}= 2;\r\ny\r\n"),
        ("10\u{202f}km\n", "10 km", "10 km/h", "10\u{202f}km/h\n"),
        ("\u{3000}変数\u{2212}1\n", " 変数-1", " 変数-1 'x'", "\u{3000}変数\u{2212}1 'x'\n"),
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream, &[("a.txt", content)]).start().await;
        let answers = told(&server, &upstream, &[read("a.txt"), edit("a.txt", old, new)]).await;
        assert_eq!(server.file("a.txt"), expected, "{answers:?}");
        let answer = &answers[1];
        assert!(answer.contains("the file has U+"), "{answer}");
        assert!(answer.contains("keeps the file's characters"), "{answer}");
    }
}

#[tokio::test]
async fn files_6b_6c_a_near_miss_is_named_and_what_was_named_then_matches() {
    for (content, old, difference, shown) in [
        (
            "f\u{ff08}a\u{ff09}\n",
            "f(a)",
            "U+FF08 (\u{ff08}) where old_string has U+0028 (()",
            "f\u{ff08}a",
        ),
        ("fo\u{200b}o\n", "foo", "column 3: the file has U+200B (zero-width space)", "fo\\u200bo"),
        (
            "def f():   \n  x\n",
            "def f():\n  x",
            "column 9: the file has U+0020 (space) where old_string has a line end",
            "():\\u0020\\u0020\\u0020\"",
        ),
        (
            "cafe\u{301}\n",
            "caf\u{e9}",
            "U+0065 U+0301 (e\u{301}) where old_string has U+00E9 (\u{e9})",
            "cafe\\u0301",
        ),
        (
            "x :=\t1\n",
            "x := 1",
            "column 5: the file has U+0009 (tab) where old_string has U+0020 (space)",
            "x :=\\t1",
        ),
        ("\u{1112}\u{1161}\u{11ab}\n", "\u{d55c}", "where old_string has U+D55C", "\\u1112"),
        (
            "let Value = 1;\n",
            "let value = 1;",
            "U+0056 (V) where old_string has U+0076 (v)",
            "let Value",
        ),
        ("it's\n", "it\u{2019}s", "U+0027 (') where old_string has U+2019", "it's"),
        ("it\u{2019}s it\u{2018}s\n", "it's", "U+2019", "2 places nearly match"),
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream, &[("a.txt", content)]).start().await;
        let answers = told(&server, &upstream, &[read("a.txt"), edit("a.txt", old, "NEW")]).await;
        let answer = &answers[1];
        assert!(answer.starts_with("Error: "), "{answer}");
        assert!(answer.contains(difference) && answer.contains(shown), "{answer}");
        assert_eq!(server.file("a.txt"), content);
    }
}

#[tokio::test]
async fn files_6b_under_a_guessed_encoding_nothing_is_taken_for_another() {
    let upstream = Upstream::start();
    let builder = free(&upstream, &[]);
    let content = b"it\x92s caf\xe9, na\xefve\n";
    fs::write(builder.workspace().join("a.txt"), content).expect("our own file");
    let server = builder.start().await;
    let answers = told(&server, &upstream, &[read("a.txt"), edit("a.txt", "it's", "is")]).await;
    assert!(answers[1].starts_with("Error: "), "{}", answers[1]);
    assert_eq!(fs::read(server.workspace().join("a.txt")).expect("a file"), content);
}

#[tokio::test]
async fn files_15a_a_name_that_looks_the_same_is_read_and_told() {
    let upstream = Upstream::start();
    let files = [
        (NARROW, "one\n"),
        ("it\u{2019}s a\u{a0}dir/a\u{2013}b.txt", "two\n"),
        ("\u{ff21}.txt", "three\n"),
        ("plain name.txt", "four\n"),
    ];
    let server = free(&upstream, &files).start().await;
    let answers = told(
        &server,
        &upstream,
        &[
            read(SPACED),
            read("it's a dir/a-b.txt"),
            read("A.txt"),
            read("plain\u{a0}name.txt"),
            edit(SPACED, "one", "1"),
            write("it's a dir/a-b.txt", "2\n"),
            ("c", "Grep", json!({ "pattern": "2", "path": "it's a dir" })),
            ("c", "Glob", json!({ "pattern": "*", "path": "it's a dir" })),
        ],
    )
    .await;
    for (answer, content) in answers.iter().zip(["\tone", "\ttwo", "\tthree", "\tfour"]) {
        assert!(answer.contains(content) && answer.contains("only looks the same"), "{answer}");
    }
    let narrow = "at character 17 its name has U+202F (narrow no-break space) where the given path \
        has U+0020 (space)";
    assert!(answers[0].contains(narrow), "{}", answers[0]);
    assert!(answers[4].starts_with("Edited") && answers[4].contains(narrow), "{}", answers[4]);
    assert!(answers[5].starts_with("Updated"), "{}", answers[5]);
    assert!(answers[6].contains("a\u{2013}b.txt"), "{}", answers[6]);
    assert!(answers[7].contains("a\u{2013}b.txt"), "{}", answers[7]);
    assert_eq!(server.file(NARROW), "1\n");
    assert_eq!(server.file("it\u{2019}s a\u{a0}dir/a\u{2013}b.txt"), "2\n");
    assert_eq!(names(&server.workspace()).len(), 4);
}

#[tokio::test]
async fn files_15a_of_several_names_none_is_taken_and_the_difference_is_named() {
    let upstream = Upstream::start();
    let files = [("a\u{a0}b.txt", "one\n"), ("a\u{202f}b.txt", "two\n"), ("c\u{a0}d.txt", "")];
    let server = free(&upstream, &files).start().await;
    let odd = "c\u{2009}d.txt";
    let answers = told(
        &server,
        &upstream,
        &[read("a b.txt"), edit("a b.txt", "x", "y"), edit(odd, "x", "y")],
    )
    .await;
    for answer in &answers {
        assert!(answer.starts_with("Error: File does not exist: "), "{answer}");
        assert!(
            answer.contains("which looks the same: at character 2 its name has U+"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn files_15b_either_normal_form_finds_the_file() {
    for (there, given) in
        [(APART, JOINED), (JOINED, APART), (LETTERS, SYLLABLES), (SYLLABLES, LETTERS)]
    {
        let upstream = Upstream::start();
        let there_file = format!("{there}/{there} 1.txt");
        let server = free(&upstream, &[(&there_file, "one\n")]).start().await;
        let given_file = format!("{given}/{given} 1.txt");
        let answers = told(
            &server,
            &upstream,
            &[
                write(&given_file, "new\n"),
                read(&given_file),
                glob(&format!("**/{given}*")),
                glob(&given_file),
                glob(&format!("{there}/{given}*")),
                glob(&format!("./{given}/../{given}/*.txt")),
                ("c", "Grep", json!({ "pattern": "one", "glob": format!("{given}*.txt") })),
                ("c", "Grep", json!({ "pattern": "one", "glob": format!("/{there}/{given}*") })),
                ("c", "Grep", json!({ "pattern": "one", "glob": format!("!*{given} 1*") })),
                ("c", "Grep", json!({ "pattern": "one", "path": given })),
                write(&given_file, "new\n"),
            ],
        )
        .await;
        let refused = "Error: Must read file before editing: ";
        assert!(answers[0].starts_with(refused) && answers[0].contains(&there_file), "{answers:?}");
        assert!(answers[1].contains("\tone"), "{}", answers[1]);
        for (index, answer) in answers.iter().enumerate().skip(2).take(8) {
            assert_eq!(answer.contains(&there_file), index != 8, "{index}: {answer}");
        }
        assert!(answers[10].starts_with("Updated"), "{}", answers[10]);
        assert_eq!(server.file(&there_file), "new\n");
        assert_eq!(names(&server.workspace()), [there]);
        assert_eq!(names(&server.workspace().join(there)).len(), 1);
    }
}

#[tokio::test]
async fn files_15b_a_new_file_that_is_meant_to_look_the_same_is_told() {
    let upstream = Upstream::start();
    let server = free(&upstream, &[("a-b.txt", "one\n"), ("Ab.txt", "")]).start().await;
    let calls = [write("a\u{2013}b.txt", "two\n"), write("ab.txt", "three\n")];
    let answers = told(&server, &upstream, &calls).await;
    assert!(answers[0].starts_with("Created "), "{}", answers[0]);
    assert!(answers[0].contains("a-b.txt, which looks the same: at character 2"), "{}", answers[0]);
    // Another case looks like another name.
    assert!(!answers[1].contains("looks the same"), "{}", answers[1]);
    assert_eq!(names(&server.workspace()).len(), 4);
}

/// The answers where this is denied and nobody is asked.
async fn guarded(
    rules: &[(&str, &str)],
    files: &[(&str, &str)],
    call: (&'static str, &'static str, Value),
) -> (String, Server) {
    let upstream = Upstream::start();
    let mut builder = with(Server::builder(&upstream).argument("--sandbox=off"), files)
        .config("permissions.mode", r#""dontAsk""#);
    for (list, rule) in rules {
        builder = builder.config(&format!("permissions.{list}"), &format!("[\"{rule}\"]"));
    }
    let server = builder.start().await;
    let answer = told(&server, &upstream, &[call]).await.remove(0);
    (answer, server)
}

#[tokio::test]
async fn files_15a_no_look_alike_is_a_way_around_a_rule() {
    let real = "top\u{a0}secret.txt";
    let given = "top secret.txt";
    let files = [(real, "hush\n")];
    // The real name is denied: as if it were not there.
    let (answer, _) = guarded(&[("deny", "Read(top\u{a0}secret.txt)")], &files, read(given)).await;
    assert!(answer.starts_with("Error: File does not exist: "), "{answer}");
    assert!(!answer.contains("hush") && !answer.contains(real), "{answer}");
    // The given name is denied: it still is.
    let (answer, _) = guarded(&[("deny", "Read(top secret.txt)")], &files, read(given)).await;
    assert!(answer.starts_with("Error: not permitted: ") && !answer.contains("hush"), "{answer}");
    // The one asks, and the other does not.
    for (rule, path) in [("Read(top secret.txt)", given), ("Read(top\u{a0}secret.txt)", given)] {
        let (answer, _) = guarded(&[("ask", rule)], &files, read(path)).await;
        assert!(answer.starts_with("Error: ") && !answer.contains("hush"), "{rule}: {answer}");
    }
    // The given name may be written, the real one may not.
    let allowed = [("allow", "Edit(top secret.txt)")];
    let (answer, server) = guarded(&allowed, &files, write(given, "mine\n")).await;
    assert!(answer.contains("which looks the same"), "{answer}");
    assert_eq!(server.file(real), "hush\n");
    // A name on the list of secrets that only looks so, and one that is.
    for (real, given) in [("credentials ", "credentials"), ("credentials", "credentials ")] {
        let (answer, _) = guarded(&[], &[(real, "hush\n")], read(given)).await;
        assert!(answer.starts_with("Error: ") && !answer.contains("hush"), "{real:?}: {answer}");
    }
    let (answer, _) = guarded(&[], &files, read(given)).await;
    assert!(answer.contains("hush"), "{answer}");
}

#[tokio::test]
async fn files_15b_a_rule_is_for_a_name_in_each_normal_form() {
    for (real, named) in [(APART, JOINED), (SYLLABLES, LETTERS)] {
        let files = [(real, "hush\n")];
        let rule = format!("Read({named})");
        let rules = [("deny", rule.as_str())];
        let (answer, _) = guarded(&rules, &files, read(real)).await;
        assert!(answer.starts_with("Error: ") && !answer.contains("hush"), "{named:?}: {answer}");
        let (answer, _) = guarded(&rules, &files, glob("*")).await;
        assert!(!answer.contains(real), "{named:?}: {answer}");
    }
}

#[tokio::test]
async fn files_15a_no_denied_directory_is_the_closest_name() {
    let files = [("hidden/a.txt", "hush\n")];
    for given in ["hiden/a.txt", "hiden", "hidden\u{a0}"] {
        let (answer, _) = guarded(&[("deny", "Read(hidden/)")], &files, read(given)).await;
        assert!(answer.starts_with("Error: ") && !answer.contains("closest"), "{answer}");
    }
}

#[tokio::test]
async fn files_15a_a_link_of_the_same_look_leads_where_it_leads() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).argument("--sandbox=off");
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("x.txt"), "hush\n").expect("our own file");
    let link = builder.workspace().join("a\u{a0}link");
    std::os::unix::fs::symlink(outside.path(), link).expect("our own link");
    let server = builder.config("permissions.mode", r#""dontAsk""#).start().await;
    let answers = told(&server, &upstream, &[read("a link/x.txt")]).await;
    assert!(answers[0].starts_with("Error: ") && !answers[0].contains("hush"), "{}", answers[0]);
}

const NOTEBOOK: &str = include_str!("documents/analysis.ipynb");

/// The notebook with a conflict in one source, as git leaves it.
fn conflict() -> String {
    let (before, after) = NOTEBOOK.split_once("total").expect("a source");
    format!("{before}\n<<<<<<< HEAD\ntotal\n=======\nsum\n>>>>>>> theirs\n{after}")
}

#[tokio::test]
async fn files_16d_a_notebook_that_is_not_json_is_text_until_it_is() {
    let upstream = Upstream::start();
    let content = conflict();
    let server = free(&upstream, &[("a.ipynb", &content), ("b.ipynb", &content)]).start().await;
    let cell = |path: &str| {
        (
            "c",
            "NotebookEdit",
            json!({ "notebook_path": path, "cell_id": "load", "new_source": "x" }),
        )
    };
    let marks = "\n<<<<<<< HEAD\ntotal\n=======\nsum\n>>>>>>> theirs\n";
    let answers = told(
        &server,
        &upstream,
        &[
            cell("a.ipynb"),
            read("a.ipynb"),
            cell("a.ipynb"),
            edit("a.ipynb", marks, "total"),
            edit("a.ipynb", "total", "sum"),
            cell("a.ipynb"),
            read("b.ipynb"),
            write("b.ipynb", NOTEBOOK),
            cell("b.ipynb"),
        ],
    )
    .await;
    assert!(answers[0].contains("Must read file before editing"), "{}", answers[0]);
    let is_shown = answers[1].contains("\t<<<<<<< HEAD") && answers[1].contains("it is not JSON");
    assert!(is_shown && answers[1].contains("shown as text"), "{}", answers[1]);
    assert!(answers[2].contains("use Edit"), "{}", answers[2]);
    assert!(answers[3].starts_with("Edited"), "{}", answers[3]);
    assert!(answers[4].ends_with("use NotebookEdit"), "{}", answers[4]);
    for index in [5, 8] {
        assert!(answers[index].starts_with("Updated cell load"), "{}", answers[index]);
    }
    assert_eq!(server.file("a.ipynb"), server.file("b.ipynb"));
}

#[tokio::test]
async fn files_16d_what_has_no_cells_to_edit_is_text_whatever_its_name() {
    for content in [
        "",
        "\n",
        "{\"cells\": [",
        "{\"a\": 1}\n",
        "[]",
        "{\"nbformat\": 3, \"worksheets\": []}\n",
        "{\"nbformat\": 4, \"cells\": [1]}\n",
        "plain text\n",
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream, &[("a.ipynb", content)]).start().await;
        let (old, new) = (content, format!("{content}x"));
        let calls = [read("a.ipynb"), edit("a.ipynb", old, &new), write("a.ipynb", "y")];
        let answers = told(&server, &upstream, &calls).await;
        assert!(answers.iter().all(|answer| !answer.starts_with("Error: ")), "{answers:?}");
        assert_eq!(server.file("a.ipynb"), "y");
    }
}

/// What people reported of other tools, with their own inputs: the file, the old and the new text,
/// and the file after it. `None`: an error that names the difference.
type Report = (&'static str, String, &'static str, &'static str, Option<&'static str>);

fn reports() -> Vec<Report> {
    let mut reports = Vec::new();
    for dash in ['\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}'] {
        let content = format!("top{dash}level\n");
        reports.push(("openai/codex#610", content, "top-level\n", "", Some("")));
    }
    reports.extend([
        (
            "github/copilot-cli#3254",
            "do not re-examine \u{201c}what repo\u{201d} each time.\n".to_owned(),
            "re-examine \"what repo\" each time.",
            "re-examine \"what repo\" each session.",
            Some("do not re-examine \u{201c}what repo\u{201d} each session.\n"),
        ),
        (
            "anthropics/claude-code#26141",
            "She said, \u{201c}Hello.\u{201d}\n\nHe replied, \u{201c}Goodbye.\u{201d}\n".to_owned(),
            "She said, \"Hello.\"",
            "She said, \"Hi there.\"",
            Some("She said, \u{201c}Hi there.\u{201d}\n\nHe replied, \u{201c}Goodbye.\u{201d}\n"),
        ),
        (
            "NousResearch/hermes-agent#70395",
            "10\u{2002}m, 3\u{202f}% and \u{2212}5\n".to_owned(),
            "10 m, 3 % and -5",
            "10 m, 4 % and -5",
            Some("10\u{2002}m, 4\u{202f}% and \u{2212}5\n"),
        ),
        (
            "openclaw/openclaw#116124",
            "it\u{2019}s kept\nvalue = 1\n\u{201c}kept\u{201d} too\n".to_owned(),
            "it's kept\nvalue = 1\n\"kept\" too",
            "it's kept\nvalue = 2\n\"kept\" too",
            Some("it\u{2019}s kept\nvalue = 2\n\u{201c}kept\u{201d} too\n"),
        ),
        (
            "NousResearch/hermes-agent#56375",
            "wait \u{2014} no\u{2026} yes\n".to_owned(),
            "wait -- no... yes",
            "wait",
            None,
        ),
        (
            "anthropics/claude-code#52482",
            "// \u{95a2}\u{6570}\u{ff08}init\u{ff09}\u{306f}\u{3001}\u{5fc5}\u{8981}\u{3002}\n"
                .to_owned(),
            "// \u{95a2}\u{6570}(init)\u{306f},\u{5fc5}\u{8981}.",
            "// x",
            None,
        ),
        (
            "microsoft/vscode#87127",
            "offset: [0, 2, 5]\u{200b}\nintensity: 100\n".to_owned(),
            "offset: [0, 2, 5]\nintensity: 100",
            "offset: []",
            None,
        ),
    ]);
    reports
}

#[tokio::test]
async fn reports_of_texts_that_only_look_the_same() {
    for (report, content, old, new, expected) in reports() {
        let upstream = Upstream::start();
        let server = free(&upstream, &[("a.txt", &content)]).start().await;
        let answers = told(&server, &upstream, &[read("a.txt"), edit("a.txt", old, new)]).await;
        assert!(answers[1].contains("the file has U+"), "{report}: {}", answers[1]);
        assert_eq!(
            answers[1].starts_with("Edited"),
            expected.is_some(),
            "{report}: {}",
            answers[1]
        );
        assert_eq!(server.file("a.txt"), expected.unwrap_or(&content), "{report}");
    }
}

/// holon-run/holon#2741: twenty lines are right, and the twenty-first is not.
#[tokio::test]
async fn a_report_of_a_wrong_line_deep_in_a_long_text() {
    let lines: Vec<String> = (1..=30).map(|n| format!("  step_{n}(\"value {n}\");")).collect();
    let content = lines.join("\n");
    let old = lines[..25].join("\n").replace("\"value 21\"", "\"value.21\"");
    let upstream = Upstream::start();
    let server = free(&upstream, &[("a.txt", &content)]).start().await;
    let answers = told(&server, &upstream, &[read("a.txt"), edit("a.txt", &old, "x")]).await;
    let difference =
        "line 21, column 17: the file has U+0020 (space) where old_string has U+002E (.)";
    assert!(answers[1].contains(difference), "{}", answers[1]);
}

/// delphinus in oflisback/obsidian-bridge.nvim#43, Garmelon/PFERD#141 and microsoft/winfile#86:
/// names in the other normal form, in a directory, of a file, of kana with their marks.
#[tokio::test]
async fn reports_of_names_in_another_normal_form() {
    for (there, given) in [
        ("U\u{308}bung/ss20.pdf.txt", "\u{dc}bung/ss20.pdf.txt"),
        ("notes/\u{438}\u{306}.md", "notes/\u{439}.md"),
        ("\u{30cf}\u{309a}\u{30d2}\u{309a}.md", "\u{30d1}\u{30d4}.md"),
        ("\u{30d1}\u{30d4}.md", "\u{30cf}\u{309a}\u{30d2}\u{309a}.md"),
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream, &[(there, "one\n")]).start().await;
        let calls = [read(given), write(given, "two\n"), glob(given)];
        let answers = told(&server, &upstream, &calls).await;
        assert!(answers[0].contains("\tone"), "{}", answers[0]);
        assert!(answers[1].starts_with("Updated"), "{}", answers[1]);
        assert!(answers[2].contains(there), "{}", answers[2]);
        assert_eq!(server.file(there), "two\n");
        assert_eq!(names(&server.workspace()).len(), 1);
    }
}

/// microsoft/vscode-python#12576, jupyter/help#171 and jupyter/nbdime#379: markers behind the last
/// brace, a marker with a name, an empty file.
#[tokio::test]
async fn files_16d_reports_of_notebooks_that_are_none() {
    for content in [
        format!("{NOTEBOOK}>>>>>>> theirs\n"),
        format!("<<<<<<< HEAD:mergetest\n{NOTEBOOK}"),
        NOTEBOOK.replace("\"nbformat\": 4", "\"nbformat\": 4,,"),
        String::new(),
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream, &[("a.ipynb", &content)]).start().await;
        let arguments = json!({ "notebook_path": "a.ipynb", "cell_id": "load", "new_source": "x" });
        let cell = ("c", "NotebookEdit", arguments);
        let calls =
            [read("a.ipynb"), cell.clone(), edit("a.ipynb", &content, NOTEBOOK), cell.clone()];
        let answers = told(&server, &upstream, &calls).await;
        assert!(answers[1].contains("use Edit"), "{}", answers[1]);
        assert!(answers[3].starts_with("Updated cell load"), "{answers:?}");
    }
}
