//! Runs `make bench`. Each row is a ratio of two measurements of the same run, so that a
//! busy machine does not decide; absolute times stand beside them.
//!
//! This program has two roles: the server under test, with a tool that only waits; and by
//! default the bench itself, with the scripted upstream and the clients. The bare relay
//! for comparison is another program.

mod agents;
mod client;
mod definitions;
mod documents;
mod files;
mod footprint;
mod judging;
mod known_files;
mod language_servers;
mod mcp;
mod pass_through;
mod process;
mod report;
mod sandbox;
mod searches;
mod sessions;
mod turns;
mod upstream;
mod web;

use std::path::Path;
use std::process::ExitCode;

use mimalloc::MiMalloc;
use report::Report;
use upstream::Upstream;

/// The same allocator as in the server's program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // The server re-executes itself for commands and documents, which must come first.
    if let Some(code) = toolhand::supervise_if_asked() {
        return code;
    }
    if let Some(code) = toolhand::read_if_asked() {
        return code;
    }
    match std::env::args().nth(1).as_deref() {
        Some("serve") => toolhand::commands::run(),
        Some("searches") => searches(),
        Some("files") => files(),
        Some("pass-through") => pass_through(),
        Some("sessions") => sessions(),
        Some("judging") => judging(),
        Some("sandbox") => sandbox(),
        Some("documents") => documents(),
        Some("definitions") => definitions(),
        Some("agents") => agents(),
        Some("outside") => outside(),
        Some("mcp-calls") => mcp_calls(),
        Some("languages") => languages(),
        _ => bench(),
    }
}

/// Runs the rows of the server alone, without its tools.
#[tokio::main]
async fn pass_through() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    pass_through::measure(&upstream, &mut report).await;
    footprint::measure(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of Read and Edit alone.
#[tokio::main]
async fn files() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    files::measure(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of subagents alone.
#[tokio::main]
async fn agents() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    agents::measure(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of the permissions alone.
#[tokio::main]
async fn judging() -> ExitCode {
    let mut report = Report::default();
    judging::measure(&mut report).await;
    report.print()
}

/// Runs the rows of sessions alone.
#[tokio::main]
async fn sessions() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    sessions::measure(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of the sandbox alone.
#[tokio::main]
async fn sandbox() -> ExitCode {
    let mut report = Report::default();
    sandbox::measure(&mut report).await;
    report.print()
}

/// Runs the rows of pictures, documents and known files alone.
#[tokio::main]
async fn documents() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    known_files::measure(&mut report);
    documents::measure(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of Grep and Glob alone, also for another server's program if one is
/// named.
#[tokio::main]
async fn searches() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    let other = std::env::args_os().nth(2);
    searches::measure_beside(other.as_deref().map(Path::new), &upstream, &mut report).await;
    report.print()
}

/// Runs the rows of skills and agents alone.
#[tokio::main]
async fn definitions() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    definitions::measure(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of single MCP calls alone.
#[tokio::main]
async fn mcp_calls() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    mcp::measure_calls(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of language servers alone.
#[tokio::main]
async fn languages() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    language_servers::measure(&upstream, &mut report).await;
    report.print()
}

/// Runs the rows of MCP servers, of the web and of language servers alone.
#[tokio::main]
async fn outside() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    measure_outside(&upstream, &mut report).await;
    report.print()
}

async fn measure_outside(upstream: &Upstream, report: &mut Report) {
    mcp::measure(upstream, report).await;
    web::measure(upstream, report).await;
    language_servers::measure(upstream, report).await;
}

#[tokio::main]
async fn bench() -> ExitCode {
    let upstream = Upstream::start().await;
    let mut report = Report::default();
    pass_through::measure(&upstream, &mut report).await;
    footprint::measure(&upstream, &mut report).await;
    turns::measure(&upstream, &mut report).await;
    sessions::measure(&upstream, &mut report).await;
    agents::measure(&upstream, &mut report).await;
    definitions::measure(&upstream, &mut report).await;
    measure_outside(&upstream, &mut report).await;
    searches::measure(&upstream, &mut report).await;
    files::measure(&upstream, &mut report).await;
    documents::measure(&upstream, &mut report).await;
    known_files::measure(&mut report);
    judging::measure(&mut report).await;
    sandbox::measure(&mut report).await;
    report.print()
}
