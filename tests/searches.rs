//! Tests that Glob and Grep do not claim that something is absent which they did not look at.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::long_answers::{kept_in, rounds_of};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// The answers to calls that the model makes in one round.
async fn answers(
    upstream: &Upstream,
    server: &Server,
    session: &str,
    round: &[(&str, Value)],
) -> Vec<String> {
    rounds_of(upstream, server, session, &[round]).await.remove(0)
}

/// A server in whose workspace these files are.
async fn server_with(upstream: &Upstream, files: &[(&str, &[u8])]) -> Server {
    let builder = Server::builder(upstream);
    for (name, bytes) in files {
        let path = builder.workspace().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(path, bytes).expect("a new file");
    }
    builder.start().await
}

fn glob(pattern: &str) -> (&'static str, Value) {
    ("Glob", json!({ "pattern": pattern }))
}

fn grep(pattern: &str, more: &Value) -> (&'static str, Value) {
    let mut input = json!({ "pattern": pattern });
    let object = input.as_object_mut().expect("an object");
    object.extend(more.as_object().expect("an object").clone());
    ("Grep", input)
}

#[tokio::test]
async fn files_19a_brackets_in_names_are_found() {
    let upstream = Upstream::start();
    let page = "src/app/[locale]/(auth)/page.tsx";
    let server = server_with(&upstream, &[(page, b"needle\n")]).await;

    let pattern = "src/app/[locale]/(auth)/**";
    let round = [glob(pattern), grep("needle", &json!({ "glob": pattern }))];
    let told = answers(&upstream, &server, "one", &round).await;

    for answer in &told {
        let (path, note) = answer.split_once('\n').expect("a note");
        assert!(path.ends_with(page), "{answer}");
        assert!(note.contains("are read as plain characters"), "{answer}");
    }
}

#[tokio::test]
async fn files_20_and_21_what_was_passed_over_is_counted_and_found_by_its_path() {
    let upstream = Upstream::start();
    let files: [(&str, &[u8]); 6] = [
        ("a, b.txt", b"straw\n"),
        (".git/HEAD", b""),
        (".gitignore", b"scripts/*\nnode_modules/\n"),
        ("scripts/build.sh", b"needle\n"),
        ("node_modules/a/index.js", b"needle\n"),
        ("items/foo/x.md", b"hay\n"),
    ];
    let server = server_with(&upstream, &files).await;
    fs::create_dir(server.workspace().join("cat")).expect("a new directory");
    symlink("../items/foo", server.workspace().join("cat/foo")).expect("a new link");
    symlink("nowhere", server.workspace().join("cat/broken")).expect("a new link");

    let round = [
        grep("needle", &json!({})),
        glob("**/*.sh"),
        glob("cat/**/*.md"),
        grep("needle", &json!({ "path": "scripts" })),
        glob("scripts/build.sh"),
        glob("node_modules/a/*"),
        glob("cat/foo/x.md"),
        grep("hay", &json!({ "path": "cat/foo" })),
        grep("hay", &json!({ "path": "cat" })),
        grep("needle", &json!({ "glob": "scripts/build.sh" })),
        grep("straw", &json!({ "glob": "a, b.txt" })),
    ];
    let told = answers(&upstream, &server, "one", &round).await;

    assert!(told[0].contains("(passed over: 2 ignored entries: node_modules/, scripts/build.sh;"));
    assert!(told[0].contains("1 version control directory: .git;"), "{}", told[0]);
    assert!(told[1].contains("(passed over: 2 ignored entries: "), "{}", told[1]);
    assert!(told[2].contains("(passed over: 1 linked directory: "), "{}", told[2]);
    for (answer, path) in [
        (&told[3], "scripts/build.sh"),
        (&told[4], "scripts/build.sh"),
        (&told[5], "node_modules/a/index.js"),
        (&told[6], "cat/foo/x.md"),
        (&told[7], "cat/foo/x.md"),
        (&told[9], "scripts/build.sh"),
        (&told[10], "a, b.txt"),
    ] {
        assert!(answer.lines().next().expect("a path").ends_with(path), "{answer}");
    }
    assert!(told[8].contains("(passed over: 1 linked directory: cat/foo; "), "{}", told[8]);
}

#[tokio::test]
async fn files_20_no_rule_is_passed_by_a_link_and_nothing_denied_is_counted() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream)
        .config("permissions.deny", "[\"Read(private)\", \"Read(private/**)\"]")
        .file("a.txt", "hay\n");
    let root = builder.workspace();
    for (name, text) in [(".gitignore", "*.key\n"), ("private/x.key", "needle\n")] {
        fs::create_dir_all(root.join("private")).expect("a directory");
        fs::write(root.join(name), text).expect("a new file");
    }
    fs::create_dir_all(root.join(".git")).expect("a directory");
    symlink("private", root.join("way")).expect("a new link");
    let server = builder.start().await;

    let round = [
        glob("way/*"),
        glob("way/x.key"),
        glob("**/x.key"),
        glob("private/x.key"),
        grep("needle", &json!({})),
        grep("needle", &json!({ "path": "way" })),
    ];
    let told = answers(&upstream, &server, "one", &round).await;

    for answer in &told {
        let is_silent = answer.starts_with("No files found")
            || answer.starts_with("No matches found")
            || answer.starts_with("Error: not permitted");
        assert!(is_silent && !answer.contains("ignored entr"), "{answer}");
        assert!(!answer.contains("linked"), "{answer}");
    }
}

#[tokio::test]
async fn files_22a_23_and_24_text_is_found_as_read_shows_it() {
    let upstream = Upstream::start();
    let gbk = encoding_rs::GBK.encode("/* 变量 */\r\nint a; /* 函数返回的结果 */\r\n").0;
    let builder = Server::builder(&upstream).tables("[tools.files.encoding]\n\"*.c\" = \"gbk\"\n");
    let root = builder.workspace();
    fs::write(root.join("gbk.c"), &gbk).expect("a new file");
    fs::write(root.join("nul.h"), b"int a;\nint b\0; // needle\n").expect("a new file");
    fs::write(root.join("a.py"), b"def f():\r\n    pass\r\n").expect("a new file");
    let server = builder.start().await;

    let content = |more: Value| {
        let mut all = json!({ "output_mode": "content" });
        let object = all.as_object_mut().expect("an object");
        object.extend(more.as_object().expect("an object").clone());
        all
    };
    let round = [
        grep("变量", &content(json!({}))),
        grep("结果 \\*/$", &content(json!({}))),
        grep("needle", &json!({})),
        grep("pass$", &content(json!({}))),
        grep(":\n    pass", &content(json!({ "multiline": true }))),
    ];
    let told = answers(&upstream, &server, "one", &round).await;

    assert!(told[0].starts_with("gbk.c:1:/* 变量 */"), "{}", told[0]);
    assert!(told[1].starts_with("gbk.c:2:int a; /* 函数返回的结果 */"), "{}", told[1]);
    assert!(told[2].starts_with("No matches found in what was searched\n"), "{}", told[2]);
    assert!(told[2].contains("/nul.h: it has NUL bytes; set path to it"), "{}", told[2]);
    assert!(told[3].starts_with("a.py:2:    pass"), "{}", told[3]);
    assert!(told[4].starts_with("a.py:1:def f():\na.py:2:    pass"), "{}", told[4]);
}

#[tokio::test]
async fn files_25_the_middle_of_a_kept_line_is_read() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let command = "for i in $(seq 1 20000); do printf '{\"id\":%d},' $i; done";
    let round = [("Bash", json!({ "command": command }))];
    let told = answers(&upstream, &server, "one", &round).await;
    let kept = kept_in(&told[0]);
    let line = fs::read_to_string(&kept).expect("it is kept");
    assert!(!line.trim_end().contains('\n') && line.len() > 200_000, "{}", line.len());

    let read = |column: Option<u64>| ("Read", json!({ "file_path": kept, "column": column }));
    let matches = json!({ "path": kept, "output_mode": "content" });
    let part = json!({ "path": kept, "output_mode": "content", "-o": true });
    let round = [
        read(None),
        read(Some(150_001)),
        grep("\"id\":9999\\}", &matches),
        grep(".{0,9}\"id\":9999\\}.{0,9}", &part),
    ];
    let told = answers(&upstream, &server, "one", &round).await;

    assert!(told[0].contains("set offset to its number and column to 2001"), "{}", told[0]);
    assert!(told[1].starts_with(&format!("     1\t{}", &line[150_000..160_000])), "{}", told[1]);
    assert!(told[1].ends_with("of line 1; go on with offset 1 and column 160001)"), "{}", told[1]);
    assert!(told[2].contains("1:[Omitted long line with 1 match]"), "{}", told[2]);
    assert!(told[2].contains("set -o and put .{0,80} before and after"), "{}", told[2]);
    assert!(told[3].ends_with(":1:\":9998},{\"id\":9999},{\"id\":10"), "{}", told[3]);
}
