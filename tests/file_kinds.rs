//! Tests what the tools make of files and arguments in unusual forms: lines that end at CR alone, PDF
//! files behind other bytes, other formats of pictures, lists as text.

use std::fs;

use serde_json::{Value, json};

use crate::support::chunks::{call_head, call_piece, calls, end, says};
use crate::support::client::ask;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// The answers to these calls, one a round.
async fn answers(upstream: &Upstream, server: &Server, rounds: &[(&str, Value)]) -> Vec<String> {
    for (tool, input) in rounds {
        upstream.round(calls(&[("c1", tool, input.clone())]));
    }
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    answers_in(&upstream.requests().pop().expect("a request").json())
}

fn read(name: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": name }))
}

#[tokio::test]
async fn files_3b_a_file_with_returns_alone_has_lines() {
    let upstream = Upstream::start();
    let lines: Vec<String> = (1..=300).map(|number| format!("line {number}")).collect();
    let text = lines.join("\r") + "\r";
    let server = Server::builder(&upstream).free().file("a.txt", &text).start().await;
    let edit = json!({
        "file_path": "a.txt", "old_string": "line 7\nline 8\n",
        "new_string": "seven\neight\nmore\n",
    });
    let write = json!({ "file_path": "a.txt", "content": "one\ntwo\n" });
    let rounds = [
        ("Read", json!({ "file_path": "a.txt", "offset": 299, "limit": 1 })),
        ("Grep", json!({ "pattern": "line 20$", "output_mode": "content" })),
        (
            "Grep",
            json!({ "pattern": "line 299\\nline", "path": "a.txt", "multiline": true,
                         "output_mode": "content" }),
        ),
        ("Edit", edit),
        ("Grep", json!({ "pattern": "line", "output_mode": "count" })),
        ("Write", write),
    ];

    let told = answers(&upstream, &server, &rounds).await;

    assert!(told[0].starts_with("   299\tline 299\n(PARTIAL: lines 299-299 of 300"), "{told:?}");
    assert_eq!(told[1], "a.txt:20:line 20");
    assert_eq!(told[2], "a.txt:299:line 299\na.txt:300:line 300");
    assert!(
        told[3].contains("\n line 6\n-line 7\n-line 8\n+seven\n+eight\n+more\n line 9\n"),
        "{told:?}"
    );
    assert!(told[4].starts_with("a.txt:298\n"), "{told:?}");
    assert!(told[5].ends_with("\n+one\n+two") || told[5].contains("diff cut"), "{told:?}");
    assert_eq!(server.file("a.txt"), "one\rtwo\r");
}

#[tokio::test]
async fn files_3b_an_edit_writes_returns_and_a_mixed_file_stays() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free().file("a.txt", "a\rb\rc");
    let server = builder.file("mixed.txt", "a\rb\nc\n").start().await;
    let edit = |name: &str, old: &str, new: &str| {
        let input = json!({ "file_path": name, "old_string": old, "new_string": new });
        ("Edit", input)
    };
    let rounds = [
        read("a.txt"),
        edit("a.txt", "a\nb", "x\ny\r\nz"),
        read("mixed.txt"),
        edit("mixed.txt", "b\nc", "d\ne"),
    ];

    let told = answers(&upstream, &server, &rounds).await;

    assert_eq!(told[0], "     1\ta\n     2\tb\n     3\tc");
    assert!(told[2].starts_with("     1\ta\rb\n     2\tc"), "{told:?}");
    assert_eq!(server.file("a.txt"), "x\ry\rz\rc");
    assert_eq!(server.file("mixed.txt"), "a\rd\ne\n");
}

#[tokio::test]
async fn files_3b_grep_finds_lines_of_utf_16_that_end_at_returns() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let units = "one\rtwo\rthree\r".encode_utf16().flat_map(u16::to_le_bytes);
    let bytes: Vec<u8> = [0xff, 0xfe].into_iter().chain(units).collect();
    fs::write(server.workspace().join("a.txt"), bytes).expect("a new file");
    let grep = json!({ "pattern": "^two$", "output_mode": "content" });

    let told = answers(&upstream, &server, &[("Grep", grep)]).await;

    assert_eq!(told[0], "a.txt:2:two");
}

#[tokio::test]
async fn files_3b_grep_counts_the_lines_of_a_large_file_and_finds_returns() {
    let upstream = Upstream::start();
    let text = format!("{}\r", "x".repeat(99)).repeat(30_000);
    let builder = Server::builder(&upstream).free().file("a.txt", &text);
    let server = builder.file("b.txt", "one\rtwo\r").start().await;
    let count = |pattern: &str, path: &str| {
        let input = json!({ "pattern": pattern, "path": path, "output_mode": "count" });
        ("Grep", input)
    };

    let rounds = [count("x$", "a.txt"), count(r"one\rtwo", "b.txt")];
    let told = answers(&upstream, &server, &rounds).await;

    assert!(told[0].starts_with("a.txt:30000"), "{told:?}");
    assert!(told[1].starts_with("b.txt:1"), "{told:?}");
}

#[tokio::test]
async fn files_7e_new_lines_are_indented_in_the_files_unit_at_each_depth() {
    let upstream = Upstream::start();
    let text = "fn a() {\n\tif b {\n\t\tc();\n\t}\n}\n";
    let server = Server::builder(&upstream).free().file("a.rs", text).start().await;
    let edit = json!({
        "file_path": "a.rs",
        "old_string": "    if b {\n        c();\n",
        "new_string": "    if b {\n        if d {\n            e();\n        }\n",
    });

    let told = answers(&upstream, &server, &[read("a.rs"), ("Edit", edit)]).await;

    assert!(told[1].contains("new_string was indented like the file"), "{told:?}");
    let expected = "fn a() {\n\tif b {\n\t\tif d {\n\t\t\te();\n\t\t}\n\t}\n}\n";
    assert_eq!(server.file("a.rs"), expected);
}

#[tokio::test]
async fn files_7f_a_picture_that_is_not_shown_is_named_with_a_way_out() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let box_of = |brand: &str| format!("\0\0\0\u{14}ftyp{brand}\0\0\0\0mif1").into_bytes();
    let files = [
        ("a.bmp", b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0".to_vec(), "is a BMP picture"),
        ("a.tif", b"II*\0\x08\0\0\0\0\0".to_vec(), "is a TIFF picture"),
        ("a.heic", box_of("heic"), "is a HEIC picture"),
        ("a.png", box_of("avif"), "is an AVIF picture"),
    ];
    for (name, bytes, _) in &files {
        fs::write(server.workspace().join(name), bytes).expect("a new file");
    }
    let rounds: Vec<_> = files.iter().map(|(name, ..)| read(name)).collect();

    let told = answers(&upstream, &server, &rounds).await;

    for ((name, _, what), told) in files.iter().zip(&told) {
        assert!(told.contains(&format!("/{name} {what}")), "{told}");
        assert!(told.contains("only PNG, JPEG, GIF and WebP are shown. Where a program"), "{told}");
    }
}

#[tokio::test]
async fn files_9a_a_list_that_comes_as_text_is_taken() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("a.txt", "one\ntwo\n").start().await;
    let todos = json!([{ "content": "Build", "status": "in_progress", "activeForm": "Building" }]);
    let edits = json!([
        { "old_string": "one", "new_string": "1" }, { "old_string": "two", "new_string": "[2]" },
    ]);
    let options = json!([{ "label": "A", "description": "" }, { "label": "B", "description": "" }]);
    let questions =
        json!([{ "question": "Which?", "header": "Pick", "options": options.to_string() }]);
    let rounds = [
        ("TodoWrite", json!({ "todos": todos.to_string() })),
        read("a.txt"),
        ("Edit", json!({ "file_path": "a.txt", "edits": edits.to_string() })),
    ];

    let told = answers(&upstream, &server, &rounds).await;

    assert_eq!(told[0], "Todo list updated. Active: Building");
    assert!(told[2].starts_with("Edited "), "{told:?}");
    assert_eq!(server.file("a.txt"), "1\n[2]\n");
    let input = json!({ "questions": questions.to_string() });
    upstream.round(calls(&[("c1", "AskUserQuestion", input)]));
    let asked = server.client().chat(&ask("Ask me.")).await.text();
    assert!(asked.contains("Which?") && asked.contains('B'), "{asked}");
}

#[tokio::test]
async fn files_10a_half_a_surrogate_pair_in_arguments_is_written_as_a_mark() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let input = r#"{"file_path":"a.txt","content":"현\ud99c 보유"}"#;
    let round = [vec![call_head(0, "c1", "Write"), call_piece(0, input)], end("tool_calls")];
    upstream.round(round.concat());
    upstream.round(says("Done."));

    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");

    assert_eq!(server.file("a.txt"), "현\u{fffd} 보유");
    let last = upstream.requests().pop().expect("a request").json();
    let told = &answers_in(&last)[0];
    assert!(told.starts_with("Created ") && told.contains("half of a UTF-16"), "{told}");
    let messages = last["messages"].as_array().expect("messages").iter();
    let mut sent = messages.filter_map(|it| it["tool_calls"][0]["function"]["arguments"].as_str());
    let sent: Value = serde_json::from_str(sent.next().expect("the call")).expect("JSON");
    assert_eq!(sent["content"], "현\u{fffd} 보유", "the model sees what was written");
}
