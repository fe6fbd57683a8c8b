//! Parses the command line and runs the command.

pub(crate) mod ask;
pub(crate) mod check;
pub(crate) mod demo_model;
mod ending;
mod flags;
mod invocation;
pub(crate) mod key;
pub(crate) mod mcp;
mod output;
pub(crate) mod serve;
pub(crate) mod signals;
mod style;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod up;
mod usage;

use std::fmt;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::flags::{CheckFlags, ServeFlags};
pub(crate) use self::output::{print, print_error, print_result, say};
use crate::config::own_environment;

/// An OpenAI-compatible endpoint that gives any model hands.
#[derive(Debug, Parser)]
#[command(name = "toolhand", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask the running server one question, and show the answer as it comes
    Ask(ask::Flags),
    /// Ask question after question in one session
    Chat(ask::ChatFlags),
    /// Start the server, for an upstream that runs already
    Serve(ServeFlags),
    /// Start everything on a fresh machine: LiteLLM, a demo model, the server
    Up(up::Flags),
    /// Start the demo model alone, an upstream for trials
    DemoModel(demo_model::Flags),
    /// Check configuration and upstream; say what is on, what is not, and why
    Check(CheckFlags),
    /// Make, list and revoke client keys
    Key(key::Flags),
    /// Let a workspace's settings files, agents, skills, commands, MCP servers and outside imports count
    Trust(trust::Flags),
    /// Let only the deny and ask rules of a workspace count
    Untrust(trust::UntrustFlags),
    /// List the MCP servers with their tools, and accept the tools of one as they are now
    #[command(subcommand)]
    Mcp(mcp::Command),
    /// Show the tools: names and descriptions, or the definitions as they go upstream
    Tools(tools::Flags),
}

/// Why a command failed, in one line for its caller.
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs the command. A usage error has ended the program with status 2.
pub fn run() -> ExitCode {
    let parsed = CommandLine::try_parse();
    let command = parsed
        .unwrap_or_else(|error| usage::explain(error, &CommandLine::command()).exit())
        .command;
    // Protect secrets first. The program may start itself once more here.
    let closed = own_environment::close_to_others();
    let (variables, left) = own_environment::take();
    if let Err(error) = closed.and(left) {
        print_error(&format!("other processes of this user may be able to read our keys: {error}"));
    }
    let outcome = match command {
        Command::Ask(flags) => ask::run(&flags, variables),
        Command::Chat(flags) => ask::run_chat(&flags, variables),
        Command::Serve(flags) => serve::run(&flags.input(&variables)),
        Command::Up(flags) => up::run(&flags, &flags.input(&variables)),
        Command::DemoModel(flags) => demo_model::run(&flags),
        Command::Check(flags) => check::run(&flags.input(&variables), flags.command.as_deref()),
        Command::Key(flags) => key::run(&flags, &variables),
        Command::Trust(flags) => trust::run(&flags, &variables),
        Command::Untrust(flags) => trust::run_untrust(&flags, &variables),
        Command::Mcp(command) => mcp::run(&command, &variables),
        Command::Tools(flags) => tools::run(&flags, &variables),
    };
    outcome.unwrap_or_else(|failure| {
        print_error(&failure.to_string());
        ExitCode::FAILURE
    })
}
