//! Uses real MCP servers, as they are installed, in the sandbox of this machine.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::installed::{self, Installed};
use super::{Call, has, offered_names, one, states, told};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::support::watch;
use crate::web::{Site, html};

/// A server with one MCP server, of which everything is allowed.
fn with(builder: Builder, name: &str, installed: &Installed) -> Builder {
    builder
        .config("mcp.first_turn_wait", r#""60s""#)
        .config("approval.channel", r#""none""#)
        .config("permissions.allow", &json!([format!("mcp__{name}")]).to_string())
        .config("sandbox.readable", &json!(installed.readable).to_string())
        .tables(&installed::table(name, &installed.table))
}

async fn ready(server: &Server, upstream: &Upstream, tool: &str) {
    let offered = offered_names(server, upstream).await;
    assert!(offered.iter().any(|name| name == tool), "{offered:?} {:?}", states(server).await);
}

#[tokio::test]
async fn the_time_server_tells_the_time() {
    let upstream = Upstream::start();
    let server = with(Server::builder(&upstream), "time", &installed::time().await).start().await;
    ready(&server, &upstream, "mcp__time__get_current_time").await;
    let zone = |zone: &str| ("c", "mcp__time__get_current_time", json!({ "timezone": zone }));
    let answers = told(&server, &upstream, &[zone("Asia/Tokyo"), zone("Mars/Base")]).await;
    has(&answers[0], &["\"timezone\": \"Asia/Tokyo\"", "+09:00"]);
    has(&answers[1], &["Error: ", "Mars/Base"]);
}

#[tokio::test]
async fn the_git_server_shows_the_status_of_a_repository() {
    let upstream = Upstream::start();
    let builder =
        with(Server::builder(&upstream), "git", &installed::git().await).file("new.txt", "new\n");
    let mut init = Command::new("git");
    init.args(["init", "-q"]).current_dir(builder.workspace()).stdin(Stdio::null());
    assert!(init.status().expect("git").success());
    let server = builder.start().await;
    ready(&server, &upstream, "mcp__git__git_status").await;
    let status = ("c", "mcp__git__git_status", json!({ "repo_path": server.workspace() }));
    has(&one(&server, &upstream, status).await, &["Untracked files:", "new.txt"]);
}

#[tokio::test]
async fn the_fetch_server_reads_a_page_and_says_what_it_cannot_reach() {
    let upstream = Upstream::start();
    let site = Site::start(vec![("/", html("<h1>Quinces</h1><p>They are ripe."))]);
    let installed = installed::fetch().await;
    let server = with(Server::builder(&upstream), "fetch", &installed).start().await;
    ready(&server, &upstream, "mcp__fetch__fetch").await;
    // To make an article of a page, it would install a package of npm first.
    let fetch = |url: &str| ("c", "mcp__fetch__fetch", json!({ "url": url, "raw": true }));
    let calls = [fetch(&site.url("/")), fetch("http://127.0.0.1:1/")];
    let answers = told(&server, &upstream, &calls).await;
    has(&answers[0], &["They are ripe."]);
    has(&answers[1], &["Error: ", "http://127.0.0.1:1/"]);
}

#[tokio::test]
async fn the_filesystem_server_reads_what_it_was_given() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).file("a.txt", "needle\n");
    let installed = installed::filesystem(&builder.workspace()).await;
    let server = with(builder, "files", &installed).start().await;
    ready(&server, &upstream, "mcp__files__read_text_file").await;
    let read = |path: PathBuf| ("c", "mcp__files__read_text_file", json!({ "path": path }));
    let inside = read(server.workspace().join("a.txt"));
    let answers = told(&server, &upstream, &[inside, read("/etc/hostname".into())]).await;
    has(&answers[0], &["needle"]);
    has(&answers[1], &["Error: ", "denied"]);
}

/// What the reference server shows: texts, numbers, a picture, links, resources, and a call that
/// takes longer than the server may be silent.
async fn shows_everything(builder: Builder, upstream: &Upstream, mut installed: Installed) {
    installed.table += "\ntimeout = \"3s\"";
    let server = with(builder, "everything", &installed).start().await;
    ready(&server, upstream, "mcp__everything__echo").await;
    let call = |name: &'static str, input: Value| -> Call { ("c", name, input) };
    let resource =
        |uri: &str| call("ReadMcpResource", json!({ "server": "everything", "uri": uri }));
    let calls = [
        call("mcp__everything__echo", json!({ "message": "hello" })),
        call("mcp__everything__get-sum", json!({ "a": 2, "b": 3 })),
        call("mcp__everything__get-tiny-image", json!({})),
        call("mcp__everything__get-resource-links", json!({ "count": 2 })),
        call("mcp__everything__get-structured-content", json!({ "location": "Chicago" })),
        call(
            "mcp__everything__trigger-long-running-operation",
            json!({ "duration": 4, "steps": 16 }),
        ),
        call("ListMcpResources", json!({})),
        resource("demo://resource/dynamic/text/1"),
        resource("demo://resource/dynamic/blob/1"),
        resource("demo://nothing"),
    ];
    let answers = told(&server, upstream, &calls).await;
    let expected: [&[&str]; 10] = [
        &["hello"],
        &["5"],
        &["(image attached) PNG"],
        &["[link to the resource "],
        &["\"temperature\":"],
        &["completed", "Steps: 16"],
        &["demo://resource/"],
        &["demo://resource/dynamic/text/1", "Resource 1: "],
        &["attachment of type ", "kept in "],
        &["Error: ", "demo://nothing"],
    ];
    for (answer, parts) in answers.iter().zip(expected) {
        has(answer, parts);
    }
}

#[tokio::test]
async fn the_server_with_everything_shows_it_over_pipes() {
    let upstream = Upstream::start();
    let installed = installed::everything().await;
    shows_everything(Server::builder(&upstream), &upstream, installed).await;
}

/// A server that is ended when the test is over.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[tokio::test]
async fn the_server_with_everything_shows_it_over_http() {
    let upstream = Upstream::start();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let mut node = Command::new("/usr/bin/node");
    node.arg(installed::script("server-everything").await).arg("streamableHttp");
    node.env("PORT", port.to_string());
    node.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _listening = Listening(node.spawn().expect("node"));
    let listens = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    watch("the server to listen", listens).await;
    let table = format!("url = \"http://127.0.0.1:{port}/mcp\"");
    let installed = Installed { table, readable: Vec::new() };
    shows_everything(Server::builder(&upstream), &upstream, installed).await;
}
