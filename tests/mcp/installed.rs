//! Configures the real MCP servers that `scripts/test-env.sh` installs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::environment;

/// The lines of a server's table, and the directories that it reads beside the workspace.
pub(crate) struct Installed {
    pub(crate) table: String,
    pub(crate) readable: Vec<PathBuf>,
}

pub(crate) async fn time() -> Installed {
    python("mcp-server-time", &["--local-timezone=UTC"]).await
}

pub(crate) async fn git() -> Installed {
    python("mcp-server-git", &[]).await
}

/// It may fetch what the tests serve.
pub(crate) async fn fetch() -> Installed {
    python("mcp-server-fetch", &["--ignore-robots-txt", "--allow-private-ips"]).await
}

/// Over pipes.
pub(crate) async fn everything() -> Installed {
    let script = script("server-everything").await;
    node(&[json!(script), json!("stdio")], script)
}

/// It may read `root`.
pub(crate) async fn filesystem(root: &Path) -> Installed {
    let script = script("server-filesystem").await;
    node(&[json!(script), json!(root)], script)
}

/// The script of a package of npm.
pub(crate) async fn script(package: &str) -> PathBuf {
    environment("mcp").await;
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/node_modules");
    let modules = modules.canonicalize().expect("npm ci has run");
    modules.join(format!("@modelcontextprotocol/{package}/dist/index.js"))
}

/// A program of the Python package index.
async fn python(program: &str, arguments: &[&str]) -> Installed {
    let environment = environment("mcp").await.canonicalize().expect("the environment");
    let python = environment.join("bin/python3").canonicalize().expect("an interpreter");
    let prefix = python.parent().and_then(Path::parent).expect("a prefix").to_owned();
    let program = environment.join("bin").join(program);
    Installed {
        table: format!("command = {}\nargs = {}", json!(program), json!(arguments)),
        readable: vec![environment, prefix],
    }
}

fn node(arguments: &[Value], mut modules: PathBuf) -> Installed {
    while !modules.ends_with("node_modules") {
        assert!(modules.pop(), "the script is in node_modules");
    }
    Installed {
        table: format!("command = \"/usr/bin/node\"\nargs = {}", json!(arguments)),
        readable: vec![modules],
    }
}

/// `sandbox.readable` and the tables of these servers.
pub(crate) fn configuration(servers: &[(&str, Installed)]) -> String {
    let readable: Vec<_> = servers.iter().flat_map(|(_, server)| &server.readable).collect();
    let mut toml = format!("sandbox.readable = {}\n", json!(readable));
    for (name, server) in servers {
        toml += &table(name, &server.table);
    }
    toml
}

/// The table of one server. On a busy machine a start takes longer than it does elsewhere.
pub(crate) fn table(name: &str, lines: &str) -> String {
    format!("[mcp.servers.{name}]\nstart_timeout = \"60s\"\n{lines}\n")
}
