//! Measures what the sandbox costs, for `make bench` alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::bwrap::arguments;
use super::confinement::Level;
use super::environment::Environment;
use super::outcome::Limits;
use super::runner::{Command, Runner};
use super::sandbox::{Confined, Sandbox, SandboxSettings};

const LIMITS: Limits = Limits { time: Some(Duration::from_secs(60)), output: 1 << 20, shown: 1000 };
const SHELL: &str = "/bin/bash";
const NOTHING: [&str; 4] = ["--noprofile", "--norc", "-c", ":"];

/// How the command that does nothing is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// As a child, without supervisor or sandbox.
    Bare,
    Off,
    Landlock,
    Bwrap,
    /// In bubblewrap, confined to reading.
    Reader,
    /// By bubblewrap with the same arguments, without a supervisor.
    BwrapByHand,
}

/// What the runs took.
#[derive(Clone, Debug)]
pub struct Times {
    /// Of each run.
    pub runs: Vec<Duration>,
    /// Until the level was found.
    pub trial: Duration,
    /// Of preparing each run: looking for control files.
    pub preparing: Vec<Duration>,
}

/// Runs `:` again and again in a workspace. `Err` says why the level does not hold here.
#[expect(clippy::disallowed_methods, reason = "measures commands and nothing else")]
pub async fn runs(workspace: &Path, started: Started, runs: usize) -> Result<Times, String> {
    let level = match started {
        Started::Bare | Started::Off => None,
        Started::Landlock => Some(Level::Landlock),
        Started::Bwrap | Started::Reader | Started::BwrapByHand => Some(Level::Bwrap),
    };
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    let runner = Runner::new("/proc/self/exe", Environment::allowed([path]), None);
    let levels = level.into_iter().collect();
    let settings = SandboxSettings { levels, ..SandboxSettings::default() };
    let sandbox = Sandbox::new(runner.clone(), settings);
    let start = Instant::now();
    let fault = sandbox.outcome().await.fault();
    if let Some(fault) = fault.filter(|_| level.is_some()) {
        return Err(fault);
    }
    let mut times = Times { runs: Vec::new(), trial: start.elapsed(), preparing: Vec::new() };
    for _ in 0..runs {
        let start = Instant::now();
        let roots = vec![workspace.to_owned()];
        let confined = match started {
            Started::Reader => sandbox.confine_to_reading(roots, None).await,
            _ => sandbox.confine(roots, None).await,
        };
        let confined = confined.map_err(|error| error.to_string())?;
        times.preparing.push(start.elapsed());
        let start = Instant::now();
        match started {
            Started::Bare => spawn(Path::new(SHELL), &[])?,
            Started::BwrapByHand => {
                let confined = confined.as_ref().ok_or("no sandbox")?;
                spawn(Path::new("/usr/bin/bwrap"), &arguments(&confined.confinement))?;
            }
            _ => run(&runner, workspace, confined.as_ref()).await?,
        }
        times.runs.push(start.elapsed());
    }
    Ok(times)
}

/// Waits for a child. A few bytes are all that it could say.
fn spawn(program: &Path, arguments: &[OsString]) -> Result<(), String> {
    let mut process = Process::new(program);
    process.args(arguments);
    if !arguments.is_empty() {
        process.arg(SHELL);
    }
    let status = process.args(NOTHING).env_clear().status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

async fn run(runner: &Runner, workspace: &Path, confined: Option<&Confined>) -> Result<(), String> {
    let command = Command {
        program: PathBuf::from(SHELL),
        arguments: NOTHING.map(str::to_owned).to_vec(),
        directory: workspace.to_owned(),
        confinement: confined.map(|confined| Arc::clone(&confined.confinement)),
        kept_alive: confined.map(Confined::guard),
    };
    let finished = runner.run(&command, LIMITS, &CancellationToken::new()).await;
    finished.map(drop).map_err(|error| error.to_string())
}
