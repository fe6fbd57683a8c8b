//! Asks the real language servers, as they are installed, in the sandbox of this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{builder, definition, edit, has, read, skipped, told};
use crate::permissions::has_sandbox;
use crate::support::environment;
use crate::support::server::Builder;
use crate::support::upstream::Upstream;

/// A server with these directories before the system's own on PATH, whose sandbox shows the
/// places besides.
fn with_programs(upstream: &Upstream, directories: &[&Path], shown: &[&Path]) -> Builder {
    let path = directories.iter().map(|it| it.display().to_string());
    let path = path.chain(["/usr/bin".to_owned(), "/bin".to_owned()]);
    builder(upstream)
        .environment("PATH", &path.collect::<Vec<_>>().join(":"))
        .config("sandbox.readable", &serde_json::json!(shown).to_string())
        .config("lsp.diagnostics", r#""20s""#)
}

/// The toolchain with `rust-analyzer`, `cargo` and `rustc`.
pub(crate) async fn toolchain() -> PathBuf {
    let told = Command::new("rustc").args(["--print", "sysroot"]).output().await.expect("rustc");
    PathBuf::from(String::from_utf8(told.stdout).expect("a path").trim())
}

#[tokio::test]
async fn basedpyright_tells_a_type_error_after_an_edit() {
    let upstream = Upstream::start();
    let environment = environment("lsp").await;
    let python = environment.join("bin/python3").canonicalize().expect("an interpreter");
    let installed = python.parent().and_then(Path::parent).expect("a prefix");
    let server = with_programs(&upstream, &[&environment.join("bin")], &[installed])
        .file("pyproject.toml", "[project]\nname = \"x\"\n")
        .file("lib.py", "def double(number: int) -> int:\n    return 2 * number\n")
        .file("main.py", "from lib import double\n\nprint(double(4))\n")
        .start()
        .await;
    let answers =
        told(&server, &upstream, &[read("main.py"), definition("main.py", 3, "double")]).await;
    has(&answers[1], &["lib.py:1:5: def double(number: int) -> int:"]);
    let change = edit("main.py", "double(4)", "double(\"four\")");
    let answers = told(&server, &upstream, &[read("main.py"), change]).await;
    has(
        &answers[1],
        &["Diagnostics (basedpyright):", " new", "3:14 error: ", "[reportArgumentType]"],
    );
}

#[tokio::test]
async fn rust_analyzer_finds_a_definition_and_the_callers() {
    let upstream = Upstream::start();
    let toolchain = toolchain().await;
    if !toolchain.join("bin/rust-analyzer").exists() {
        let test = "rust_analyzer_finds_a_definition_and_the_callers";
        return skipped(test, "no rust-analyzer");
    }
    let server = with_programs(&upstream, &[&toolchain.join("bin")], &[&toolchain])
        .config("lsp.timeout", r#""120s""#)
        .file("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
        .file("Cargo.lock", "version = 4\n\n[[package]]\nname = \"x\"\nversion = \"0.1.0\"\n")
        .file("src/lib.rs", "pub fn double(number: u32) -> u32 {\n    2 * number\n}\n\nmod more;\n")
        .file("src/more.rs", "pub fn four() -> u32 {\n    crate::double(2)\n}\n")
        .start()
        .await;
    let callers = serde_json::json!({
        "operation": "incoming_calls", "filePath": "src/lib.rs", "line": 1, "symbol": "double",
    });
    let symbols = serde_json::json!({ "operation": "workspaceSymbol", "query": "four" });
    let answers = told(
        &server,
        &upstream,
        &[definition("src/more.rs", 2, "double"), ("c", "LSP", callers), ("c", "LSP", symbols)],
    )
    .await;
    has(&answers[0], &["src/lib.rs:1:8: pub fn double(number: u32) -> u32 {"]);
    has(&answers[1], &["src/more.rs:2:12 function four: crate::double(2)"]);
    has(&answers[2], &["src/more.rs:1:8 function four: pub fn four() -> u32 {"]);
}

/// A directory with `typescript-language-server` alone.
async fn typescript() -> tempfile::TempDir {
    environment("lsp").await;
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lsp/node_modules");
    let programs = tempfile::tempdir().expect("a directory");
    let program = packages.join("typescript-language-server/lib/cli.mjs");
    symlink(program, programs.path().join("typescript-language-server")).expect("a link");
    programs
}

#[tokio::test]
async fn typescript_language_server_finds_references_and_symbols() {
    let upstream = Upstream::start();
    let programs = typescript().await;
    let server = with_programs(&upstream, &[programs.path()], &[])
        .file("tsconfig.json", "{ \"compilerOptions\": { \"strict\": true } }\n")
        .file("lib.ts", "export class Box {\n  open(): number {\n    return 1\n  }\n}\n")
        .file("main.ts", "import { Box } from './lib'\n\nconst size: number = new Box().open()\n")
        .start()
        .await;
    let symbols = serde_json::json!({ "operation": "documentSymbol", "filePath": "lib.ts" });
    let references = serde_json::json!({
        "operation": "findReferences", "filePath": "main.ts", "line": 3, "symbol": "Box",
    });
    let answers =
        told(&server, &upstream, &[("c", "LSP", symbols), ("c", "LSP", references)]).await;
    has(&answers[0], &["lib.ts:1:14 class Box", "\n  lib.ts:2:3 method open"]);
    has(&answers[1], &["lib.ts:1:14: export class Box {", "main.ts:3:26: const size"]);
    let change = edit("main.ts", "const size: number", "const size: string");
    let answers = told(&server, &upstream, &[read("main.ts"), change]).await;
    has(&answers[1], &["Diagnostics (typescript-language-server):", "3:7 error: ", "[2322]"]);
    assert!(fs::exists(server.workspace().join("lib.ts")).expect("our own"));
}

#[tokio::test]
async fn a_plug_in_of_the_repository_does_nothing_outside_of_the_workspace() {
    let upstream = Upstream::start();
    let programs = typescript().await;
    let builder = with_programs(&upstream, &[programs.path()], &[]);
    // Not in /tmp, of which a sandbox has its own.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let outside = place.path().join("made");
    let plug_in = format!(
        "require('fs').writeFileSync({outside:?}, 'made')\n\
         module.exports = () => ({{ create: info => info.languageService }})\n"
    );
    let plug_ins = "{ \"compilerOptions\": { \"plugins\": [{ \"name\": \"evil\" }] } }\n";
    let server = builder
        .file("tsconfig.json", plug_ins)
        .file("node_modules/evil/package.json", "{ \"name\": \"evil\", \"main\": \"index.js\" }")
        .file("node_modules/evil/index.js", &plug_in)
        .file("main.ts", "const size = 1\nconst other = size\n")
        .start()
        .await;
    if !has_sandbox(&server).await {
        let test = "a_plug_in_of_the_repository_does_nothing_outside_of_the_workspace";
        return skipped(test, "no sandbox");
    }
    let answer = told(&server, &upstream, &[definition("main.ts", 2, "size")]).await.remove(0);
    has(&answer, &["main.ts:1:7: const size = 1"]);
    assert!(!outside.exists());
}
