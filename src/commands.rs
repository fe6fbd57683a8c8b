//! Parses the command line and runs the command.

pub(crate) mod ask;
pub(crate) mod check;
pub(crate) mod demo_model;
pub(crate) mod serve;
pub(crate) mod signals;
pub(crate) mod tools;
pub(crate) mod up;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use toml::Value;

use crate::config::environment::Variables;
use crate::config::layers::{Setting, Source};
use crate::config::{ConfigInput, own_environment};

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
    /// Start the server, for an upstream that runs already
    Serve(ServerFlags),
    /// Start everything on a fresh machine: LiteLLM, a demo model, the server
    #[command(mut_arg("upstream", |flag| flag.hide(true)))]
    Up(up::Flags),
    /// Start the demo model alone, an upstream for trials
    DemoModel(demo_model::Flags),
    /// Check configuration and upstream; say what is on, what is not, and why
    Check(ServerFlags),
    /// Show the tools: names and descriptions, or the definitions as they go upstream
    Tools(tools::Flags),
}

/// The flags of `serve`; each is also a key of `toolhand.toml` and a variable.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerFlags {
    /// Configuration file, in place of the one in your configuration directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on; port 0 takes any free one [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help = "Where the model is [default: http://127.0.0.1:4000/v1]"
    )]
    upstream: Option<String>,
    /// Directory the tools work in [default: the working directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<String>,
    /// default, plan, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
    /// Directory of the server's own files [default: ~/.local/share/toolhand]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// Ask for no client key; only on loopback
    #[arg(long)]
    no_auth: bool,
    /// auto, required or off [default: auto]
    #[arg(long, value_name = "MODE")]
    sandbox: Option<String>,
    /// Format of the log on stderr: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log: Option<String>,
}

impl ServerFlags {
    /// All settings from outside of the file.
    pub(crate) fn given(&self, variables: &Variables) -> ConfigInput {
        let texts = [
            ("--listen", "server.listen", &self.listen),
            ("--upstream", "upstream.url", &self.upstream),
            ("--workspace", "server.workspace", &self.workspace),
            ("--permission-mode", "permissions.mode", &self.permission_mode),
            ("--state-dir", "server.state_dir", &self.state_dir),
            ("--sandbox", "sandbox.mode", &self.sandbox),
            ("--log", "log.format", &self.log),
        ];
        let setting = |(flag, path, value): (&'static str, &str, Value)| Setting {
            path: path.to_owned(),
            value,
            source: Source::Flag(flag),
        };
        let no_auth = self.no_auth.then_some(("--no-auth", "auth.required", false.into()));
        let given = texts
            .into_iter()
            .filter_map(|(flag, path, value)| Some((flag, path, Value::String(value.clone()?))));
        ConfigInput {
            file: self.config.clone(),
            flags: given.chain(no_auth).map(setting).collect(),
            variables: variables.clone(),
        }
    }
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
    let command = CommandLine::parse().command;
    // Protect secrets first. The program may start itself once more here.
    let closed = own_environment::close_to_others();
    let (variables, left) = own_environment::take();
    if let Err(error) = closed.and(left) {
        print_error(&format!("other processes of this user may be able to read our keys: {error}"));
    }
    let outcome = match command {
        Command::Ask(flags) => ask::run(&flags, variables),
        Command::Serve(flags) => serve::run(&flags.given(&variables)),
        Command::Up(flags) => up::run(&flags, &flags.server.given(&variables)),
        Command::DemoModel(flags) => demo_model::run(&flags),
        Command::Check(flags) => check::run(&flags.given(&variables)),
        Command::Tools(flags) => tools::run(&flags, &variables),
    };
    outcome.unwrap_or_else(|failure| {
        print_error(&failure.to_string());
        ExitCode::FAILURE
    })
}

/// Writes to stdout. A closed stdout is no failure: its reader wants no more.
pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Writes one line to stderr.
fn print_error(reason: &str) {
    drop(writeln!(io::stderr().lock(), "toolhand: {reason}"));
}
