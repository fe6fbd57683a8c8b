//! Runs what the documents print, from top to bottom, as a newcomer would: commands,
//! programs, requests and settings as they stand there, and compares the printed output.

mod blocks;
mod exceptions;
mod kinds;
mod machine;
mod network;
mod sample;
mod spans;
mod walkthrough;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use self::blocks::{Block, blocks};
use self::kinds::Kind;
use self::machine::Machine;
use self::walkthrough::Walkthrough;
use crate::support::up::Up;
use crate::support::{environment, kept, sync};

/// The documents with something to run.
const RUN: [&str; 8] = [
    "README.md",
    "docs/clients.md",
    "docs/hooks.md",
    "docs/lsp.md",
    "docs/mcp.md",
    "docs/permissions.md",
    "docs/sandbox.md",
    "docs/web.md",
];

/// Held by a run, because each one starts a LiteLLM of several hundred megabytes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Every document of the repository: its path and text.
fn documents() -> Vec<(String, String)> {
    let mut documents = Vec::new();
    for directory in ["", "docs"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        for entry in fs::read_dir(root).expect("the repository").flatten() {
            let name = entry.file_name().into_string().expect("UTF-8");
            if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(entry.path()).expect("a document");
                let path = Path::new(directory).join(name);
                documents.push((path.display().to_string(), text));
            }
        }
    }
    assert!(documents.len() > 5, "the documents are elsewhere: {documents:?}");
    documents
}

fn blocks_of(document: &str) -> Vec<Block> {
    let (name, text) = documents().into_iter().find(|(name, _)| name == document).expect("there");
    blocks(&name, &text)
}

#[test]
fn every_block_is_run_or_has_a_reason_why_not() {
    let mut all = Vec::new();
    for (document, text) in documents() {
        let blocks = blocks(&document, &text);
        let mut before = None;
        for block in &blocks {
            let kind =
                Kind::from_block(block, before.as_ref()).unwrap_or_else(|why| panic!("{why}"));
            assert!(
                !kind.is_run() || RUN.contains(&document.as_str()),
                "{}: nothing runs this document; add it to RUN",
                block.place()
            );
            before = Some(kind);
        }
        all.extend(blocks);
    }
    for used in exceptions::marks() {
        let known = all.iter().filter(|block| block.text.contains(used)).count();
        assert_eq!(known, 1, "an exception is for one block: {used}");
    }
}

#[test]
fn commands_flags_packages_and_settings_in_the_text_exist() {
    let faults: Vec<String> =
        documents().iter().flat_map(|(name, text)| spans::faults(name, text)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn the_readme_works_from_top_to_bottom() {
    run("README.md").await;
}

#[tokio::test]
async fn the_page_on_clients_works_from_top_to_bottom() {
    run("docs/clients.md").await;
}

#[tokio::test]
async fn the_page_on_permissions_works_from_top_to_bottom() {
    run("docs/permissions.md").await;
}

#[tokio::test]
async fn the_page_on_hooks_works_from_top_to_bottom() {
    run("docs/hooks.md").await;
}

#[tokio::test]
async fn the_page_on_language_servers_works_from_top_to_bottom() {
    run("docs/lsp.md").await;
}

#[tokio::test]
async fn the_page_on_mcp_servers_works_from_top_to_bottom() {
    run("docs/mcp.md").await;
}

#[tokio::test]
async fn the_page_on_the_sandbox_works_from_top_to_bottom() {
    run("docs/sandbox.md").await;
}

#[tokio::test]
async fn the_page_on_the_web_works_from_top_to_bottom() {
    run("docs/web.md").await;
}

async fn run(document: &'static str) {
    let sdk = environment("sdk").await;
    environment("mcp").await;
    if !kept("state/litellm/venv/.toolhand-installed").exists() {
        // Installs LiteLLM.
        drop(Up::shared().await);
    }
    let running = tokio::task::spawn_blocking(move || {
        let _alone = sync::lock(&ONE_AT_A_TIME);
        let machine = Machine::new(&sdk.join("bin"));
        let mut walkthrough = Walkthrough::new(&machine);
        let mut before = None;
        for block in blocks_of(document) {
            let kind =
                Kind::from_block(&block, before.as_ref()).unwrap_or_else(|why| panic!("{why}"));
            walkthrough.run(&block, &kind);
            before = Some(kind);
        }
        walkthrough.end();
    });
    running.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
}
