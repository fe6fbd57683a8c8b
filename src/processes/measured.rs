//! Measures what the sandbox costs, for `make bench` alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
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

/// All commands are of one session.
const SESSION: &str = "measured";

/// The time between two commands, in which the next spare supervisor is started. A model takes
/// much longer to ask for the next command.
const PAUSE: Duration = Duration::from_millis(5);

/// How the command that does nothing is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// As a child, without supervisor or sandbox.
    Bare,
    Off,
    /// Like [`Self::Off`], by a runner that has no spare supervisor yet.
    OffAtFirst,
    Landlock,
    Bwrap,
    /// In bubblewrap, confined to reading.
    Reader,
    /// By bubblewrap with the same arguments, without a supervisor.
    BwrapByHand,
    /// The same, with the arguments of [`Self::Reader`].
    ReaderByHand,
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

/// One way of starting the command, and what it took so far.
struct Subject {
    started: Started,
    runner: Runner,
    sandbox: Sandbox,
    times: Times,
    _sessions: TempDir,
}

/// Runs `:` again and again in a workspace, in turn in each of these ways, so that what else the
/// machine does hits all of them. `Err` says why a level does not hold here.
pub async fn runs(workspace: &Path, ways: &[Started], rounds: usize) -> Vec<Result<Times, String>> {
    let mut subjects = Vec::new();
    for started in ways {
        subjects.push(Subject::new(*started).await);
    }
    for _ in 0..rounds {
        for subject in &mut subjects {
            let Ok(measured) = subject else { continue };
            pause().await;
            if let Err(why) = measured.run(workspace).await {
                *subject = Err(why);
            }
        }
    }
    subjects.into_iter().map(|subject| subject.map(|subject| subject.times)).collect()
}

#[expect(clippy::disallowed_methods, reason = "measures commands and nothing else")]
impl Subject {
    async fn new(started: Started) -> Result<Self, String> {
        let level = match started {
            Started::Bare | Started::Off | Started::OffAtFirst => None,
            Started::Landlock => Some(Level::Landlock),
            Started::Bwrap | Started::Reader | Started::BwrapByHand | Started::ReaderByHand => {
                Some(Level::Bwrap)
            }
        };
        let runner = new_runner();
        let levels = level.into_iter().collect();
        let directory = TempDir::new().map_err(|error| error.to_string())?;
        let sessions = Some(directory.path().to_owned());
        let settings = SandboxSettings { levels, sessions, ..SandboxSettings::default() };
        let sandbox = Sandbox::new(runner.clone(), settings);
        let start = Instant::now();
        let fault = sandbox.outcome().await.fault();
        if let Some(fault) = fault.filter(|_| level.is_some()) {
            return Err(fault);
        }
        let times = Times { runs: Vec::new(), trial: start.elapsed(), preparing: Vec::new() };
        Ok(Self { started, runner, sandbox, times, _sessions: directory })
    }

    async fn run(&mut self, workspace: &Path) -> Result<(), String> {
        let start = Instant::now();
        let roots = vec![workspace.to_owned()];
        let confined = match self.started {
            Started::Reader | Started::ReaderByHand => {
                self.sandbox.confine_to_reading(roots, Some(SESSION)).await
            }
            _ => self.sandbox.confine(roots, Some(SESSION)).await,
        };
        let confined = confined.map_err(|error| error.to_string())?;
        self.times.preparing.push(start.elapsed());
        if self.started == Started::OffAtFirst {
            self.runner = new_runner();
        }
        let start = Instant::now();
        match self.started {
            Started::Bare => spawn(Path::new(SHELL), &[])?,
            Started::BwrapByHand | Started::ReaderByHand => {
                let confined = confined.as_ref().ok_or("no sandbox")?;
                spawn(Path::new("/usr/bin/bwrap"), &arguments(&confined.confinement))?;
            }
            _ => run(&self.runner, workspace, confined.as_ref()).await?,
        }
        self.times.runs.push(start.elapsed());
        Ok(())
    }
}

/// Passes [`PAUSE`] without rest: a processor that has slept is slower for a while, in which the
/// bare shell would be measured, too.
#[expect(clippy::disallowed_methods, reason = "measures commands and nothing else")]
async fn pause() {
    let start = Instant::now();
    while start.elapsed() < PAUSE {
        tokio::task::yield_now().await;
    }
}

fn new_runner() -> Runner {
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    Runner::new("/proc/self/exe", Environment::allowed([path]), None)
}

/// Waits for a child. A few bytes are all that it could say.
fn spawn(program: &Path, arguments: &[OsString]) -> Result<(), String> {
    let mut process = Process::new(program);
    process.args(arguments);
    if !arguments.is_empty() {
        process.arg("--").arg(SHELL);
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
