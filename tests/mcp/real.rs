//! Uses real MCP servers, as they are installed, in the sandbox of this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{has, offered_names, one, states, told};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::support::{environment, watch};

/// The programs of the Python package index, and the directories that they read.
async fn python() -> (PathBuf, Vec<PathBuf>) {
    let environment = environment("mcp").await.canonicalize().expect("the environment");
    let python = environment.join("bin/python3").canonicalize().expect("an interpreter");
    let prefix = python.parent().and_then(Path::parent).expect("a prefix").to_owned();
    (environment.join("bin"), vec![environment, prefix])
}

/// The script of a package of npm, and the directory that it reads.
async fn npm(package: &str) -> (PathBuf, Vec<PathBuf>) {
    environment("mcp").await;
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/node_modules");
    let modules = modules.canonicalize().expect("npm ci has run");
    (modules.join(format!("@modelcontextprotocol/{package}/dist/index.js")), vec![modules])
}

/// A server with one MCP server, of which everything is allowed.
fn with(upstream: &Upstream, name: &str, table: &str, readable: &[PathBuf]) -> Builder {
    Server::builder(upstream)
        .config("mcp.first_turn_wait", r#""60s""#)
        .config("approval.channel", r#""none""#)
        .config("permissions.allow", &json!([format!("mcp__{name}")]).to_string())
        .config("sandbox.readable", &json!(readable).to_string())
        .tables(&format!("[mcp.servers.{name}]\nstart_timeout = \"60s\"\n{table}\n"))
}

fn command(program: &Path, arguments: &[Value]) -> String {
    format!("command = {}\nargs = {}", json!(program), json!(arguments))
}

async fn ready(server: &Server, upstream: &Upstream, tool: &str) {
    let offered = offered_names(server, upstream).await;
    assert!(offered.iter().any(|name| name == tool), "{offered:?} {:?}", states(server).await);
}

#[tokio::test]
async fn the_time_server_tells_the_time() {
    let upstream = Upstream::start();
    let (programs, readable) = python().await;
    let table = command(&programs.join("mcp-server-time"), &[json!("--local-timezone=UTC")]);
    let server = with(&upstream, "time", &table, &readable).start().await;
    ready(&server, &upstream, "mcp__time__get_current_time").await;
    let zone = |zone: &str| ("c", "mcp__time__get_current_time", json!({ "timezone": zone }));
    let answers = told(&server, &upstream, &[zone("Asia/Tokyo"), zone("Mars/Base")]).await;
    has(&answers[0], &["\"timezone\": \"Asia/Tokyo\"", "+09:00"]);
    has(&answers[1], &["Error: ", "Mars/Base"]);
}

#[tokio::test]
async fn the_git_server_shows_the_status_of_a_repository() {
    let upstream = Upstream::start();
    let (programs, readable) = python().await;
    let builder =
        with(&upstream, "git", &command(&programs.join("mcp-server-git"), &[]), &readable)
            .file("new.txt", "new\n");
    let mut init = Command::new("git");
    init.args(["init", "-q"]).current_dir(builder.workspace()).stdin(Stdio::null());
    assert!(init.status().expect("git").success());
    let server = builder.start().await;
    ready(&server, &upstream, "mcp__git__git_status").await;
    let status = ("c", "mcp__git__git_status", json!({ "repo_path": server.workspace() }));
    has(&one(&server, &upstream, status).await, &["Untracked files:", "new.txt"]);
}

#[tokio::test]
async fn the_fetch_server_says_what_it_cannot_reach() {
    let upstream = Upstream::start();
    let (programs, readable) = python().await;
    let arguments = [json!("--ignore-robots-txt")];
    let table = command(&programs.join("mcp-server-fetch"), &arguments);
    let server = with(&upstream, "fetch", &table, &readable).start().await;
    ready(&server, &upstream, "mcp__fetch__fetch").await;
    let fetch = ("c", "mcp__fetch__fetch", json!({ "url": "http://127.0.0.1:1/" }));
    has(&one(&server, &upstream, fetch).await, &["Error: ", "http://127.0.0.1:1/"]);
}

#[tokio::test]
async fn the_filesystem_server_reads_what_it_was_given() {
    let upstream = Upstream::start();
    let (script, readable) = npm("server-filesystem").await;
    let builder = with(&upstream, "files", "", &readable).file("a.txt", "needle\n");
    let arguments = [json!(script), json!(builder.workspace())];
    let table = command(Path::new("/usr/bin/node"), &arguments);
    let server = builder.tables(&format!("{table}\n")).start().await;
    ready(&server, &upstream, "mcp__files__read_text_file").await;
    let read = |path: PathBuf| ("c", "mcp__files__read_text_file", json!({ "path": path }));
    let inside = read(server.workspace().join("a.txt"));
    let answers = told(&server, &upstream, &[inside, read("/etc/hostname".into())]).await;
    has(&answers[0], &["needle"]);
    has(&answers[1], &["Error: ", "denied"]);
}

/// What the reference server shows: texts, numbers, a picture, links, a resource.
async fn shows_everything(server: &Server, upstream: &Upstream) {
    ready(server, upstream, "mcp__everything__echo").await;
    let echo = ("c", "mcp__everything__echo", json!({ "message": "hello" }));
    let sum = ("c", "mcp__everything__get-sum", json!({ "a": 2, "b": 3 }));
    let picture = ("c", "mcp__everything__get-tiny-image", json!({}));
    let links = ("c", "mcp__everything__get-resource-links", json!({ "count": 2 }));
    let resources = ("c", "ListMcpResources", json!({}));
    let answers = told(server, upstream, &[echo, sum, picture, links, resources]).await;
    has(&answers[0], &["hello"]);
    has(&answers[1], &["5"]);
    has(&answers[2], &["(image attached) PNG"]);
    has(&answers[3], &["[link to the resource "]);
    has(&answers[4], &["demo://resource/"]);
}

#[tokio::test]
async fn the_server_with_everything_shows_it_over_pipes() {
    let upstream = Upstream::start();
    let (script, readable) = npm("server-everything").await;
    let table = command(Path::new("/usr/bin/node"), &[json!(script), json!("stdio")]);
    let server = with(&upstream, "everything", &table, &readable).start().await;
    shows_everything(&server, &upstream).await;
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
    let (script, _) = npm("server-everything").await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let mut node = Command::new("/usr/bin/node");
    node.arg(script).arg("streamableHttp").env("PORT", port.to_string());
    node.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _listening = Listening(node.spawn().expect("node"));
    let listens = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    watch("the server to listen", listens).await;
    let url = format!("url = \"http://127.0.0.1:{port}/mcp\"");
    let server = with(&upstream, "everything", &url, &[]).start().await;
    shows_everything(&server, &upstream).await;
}
