//! Changes files in other encodings than UTF-8: what is only guessed is never written.

use std::fs;

use encoding_rs::GBK;
use serde_json::{Value, json};

use crate::long_answers::rounds_of;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

/// All the Chinese of a C file, in comments so short that other encodings are guessed.
const COMMENTS: [&str; 8] =
    ["变量", "密码", "函数", "参数", "结束", "打开串口", "关闭窗口", "数据库连接"];

fn source(comment: &str) -> String {
    format!("int x = 1; /* {comment} */\nint y;\n")
}

/// Writes a source of each comment in GBK, named by its place in the list.
fn put_sources(server: &Server) {
    for (number, comment) in COMMENTS.into_iter().enumerate() {
        let source = source(comment);
        let (bytes, _, _) = GBK.encode(&source);
        fs::write(server.workspace().join(format!("{number}.c")), bytes.as_ref()).expect("a file");
    }
}

fn content(server: &Server, number: usize) -> Vec<u8> {
    fs::read(server.workspace().join(format!("{number}.c"))).expect("a file")
}

/// Lets the model read each source and change it. Returns the answers to the changes.
async fn change(
    server: &Server,
    upstream: &Upstream,
    tool: &str,
    input: impl Fn(usize) -> Value,
) -> Vec<String> {
    let numbers = 0..COMMENTS.len();
    let read = |number| ("Read", json!({ "file_path": format!("{number}.c") }));
    let reads: Vec<_> = numbers.clone().map(read).collect();
    let changes: Vec<_> = numbers.map(|number| (tool, input(number))).collect();
    let mut told = rounds_of(upstream, server, tool, &[&reads, &changes]).await;
    told.pop().expect("the answers to the changes")
}

/// An Edit that inserts a comment into a source.
fn insertion(number: usize, comment: &str) -> Value {
    json!({
        "file_path": format!("{number}.c"),
        "old_string": "int y;",
        "new_string": format!("int y; // {comment}"),
    })
}

async fn start(upstream: &Upstream, build: impl FnOnce(Builder) -> Builder) -> Server {
    let server = build(Server::builder(upstream).free()).start().await;
    put_sources(&server);
    server
}

#[tokio::test]
async fn files_1b_no_text_goes_into_a_file_in_an_encoding_that_was_guessed() {
    let upstream = Upstream::start();
    let server = start(&upstream, |builder| builder).await;

    let edit = |number| insertion(number, "修改注意");
    let write = |number: usize| {
        let content = source(COMMENTS[number]) + "// 修改注意\n";
        json!({ "file_path": format!("{number}.c"), "content": content })
    };
    let mut told = change(&server, &upstream, "Edit", edit).await;
    told.extend(change(&server, &upstream, "Write", write).await);
    for answer in told {
        assert!(answer.starts_with("Error: "), "{answer}");
        for part in ["not ASCII", "was guessed", "as `encoding`", "gbk ("] {
            assert!(answer.contains(part), "{part}: {answer}");
        }
    }
    for (number, comment) in COMMENTS.into_iter().enumerate() {
        assert_eq!(content(&server, number), *GBK.encode(&source(comment)).0, "{comment}");
    }
}

#[tokio::test]
async fn files_1b_ascii_goes_into_a_file_whose_encoding_is_not_certain() {
    let upstream = Upstream::start();
    let server = start(&upstream, |builder| builder).await;

    let edit = |number| insertion(number, "see README | {x}");
    let told = change(&server, &upstream, "Edit", edit).await;
    for (number, comment) in COMMENTS.into_iter().enumerate() {
        let wanted = source(comment).replace("int y;", "int y; // see README | {x}");
        assert_eq!(content(&server, number), *GBK.encode(&wanted).0, "{comment}");
        assert!(told[number].starts_with("Edited "), "{}", told[number]);
    }
}

#[tokio::test]
async fn files_1f_a_guess_does_not_refuse_what_the_file_can_hold() {
    let upstream = Upstream::start();
    let server = start(&upstream, |builder| builder).await;

    let told =
        change(&server, &upstream, "Edit", |number| insertion(number, "这里返回错误码")).await;
    for answer in told {
        assert!(answer.contains("was guessed"), "{answer}");
        assert!(!answer.contains("the file is in"), "{answer}");
    }
    // The way that the refusal names.
    let named = |number| {
        let mut input = insertion(number, "这里返回错误码");
        input["encoding"] = json!("gbk");
        input
    };
    let told = change(&server, &upstream, "Edit", named).await;
    for (number, comment) in COMMENTS.into_iter().enumerate() {
        let wanted = source(comment).replace("int y;", "int y; // 这里返回错误码");
        assert_eq!(content(&server, number), *GBK.encode(&wanted).0, "{}", told[number]);
    }
}

#[tokio::test]
async fn files_1_an_editorconfig_or_a_setting_makes_the_encoding_certain() {
    let upstream = Upstream::start();
    let by_file = |builder: Builder| builder.file(".editorconfig", "[*.c]\ncharset = gbk\n");
    let by_setting =
        |builder: Builder| builder.tables("[tools.files.encoding]\n\"*.c\" = \"gbk\"\n");
    let servers = [start(&upstream, by_file).await, start(&upstream, by_setting).await];
    for server in &servers {
        change(server, &upstream, "Edit", |number| insertion(number, "修改注意")).await;
        for (number, comment) in COMMENTS.into_iter().enumerate() {
            let wanted = source(comment).replace("int y;", "int y; // 修改注意");
            assert_eq!(content(server, number), *GBK.encode(&wanted).0, "{comment}");
        }
        // A new file of the kind is written in it as well.
        let new = json!({ "file_path": "new.c", "content": "// 变量\n" });
        change(server, &upstream, "Write", |_| new.clone()).await;
        let written = fs::read(server.workspace().join("new.c")).expect("a file");
        assert_eq!(written, *GBK.encode("// 变量\n").0);
        let told = change(
            server,
            &upstream,
            "Write",
            |number| json!({ "file_path": format!("new-{number}.c"), "content": "// 😀 né\n", "encoding": "big5" }),
        );
        for answer in told.await {
            assert!(answer.contains("Big5, which `encoding` names, has no"), "{answer}");
        }
    }
}
