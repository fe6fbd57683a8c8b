//! Starts Python modules that end when this process ends, even when it is killed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::error::UpError;
use crate::config::own_environment;

/// Runs the module, and watches the pipe on its standard input. See the file itself.
const LAUNCH: &str = include_str!("launch.py");

/// Names of the interpreter, the usual one first.
const NAMES: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

/// The Python versions that the pinned LiteLLM supports.
const FITS: &str = "(3, 11) <= sys.version_info[:2] <= (3, 14)";

/// A Python interpreter.
#[derive(Clone, Debug)]
pub(super) struct Python {
    program: PathBuf,
}

impl Python {
    pub(super) fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// The first interpreter on the search path that has a supported version and can make
    /// virtual environments.
    pub(super) async fn find() -> Result<Self, UpError> {
        let mut fault = UpError::NoPython;
        for name in NAMES {
            let python = Self::new(name);
            let check = format!("import sys; assert {FITS}");
            if !python.runs(&check).await {
                continue;
            }
            // Debian packages this part separately.
            if python.runs("import venv, ensurepip").await {
                return Ok(python);
            }
            fault = UpError::NoVenv;
        }
        Err(fault)
    }

    /// Whether the interpreter exists and runs this program successfully.
    pub(super) async fn runs(&self, program: &str) -> bool {
        let mut command = Command::new(&self.program);
        command.args(["-I", "-c", program]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).kill_on_drop(true);
        command.status().await.is_ok_and(|status| status.success())
    }

    /// Prepares `python -m MODULE …` in `directory`.
    pub(super) fn module<A: AsRef<OsStr>>(
        &self,
        module: &str,
        arguments: impl IntoIterator<Item = A>,
        directory: &Path,
    ) -> Module {
        let mut command = Command::new(&self.program);
        command
            // Isolated mode: import nothing from the working directory or PYTHON*
            // variables.
            .args(["-I", "-c", LAUNCH, module])
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .envs(own_environment::kept())
            .stdin(Stdio::piped())
            .process_group(0);
        Module { command, environment: Vec::new() }
    }
}

/// A module that is ready to start.
#[derive(Debug)]
pub(super) struct Module {
    command: Command,
    /// The variables in the form that goes over the pipe.
    environment: Vec<u8>,
}

impl Module {
    pub(super) fn output(mut self, output: Stdio, errors: Stdio) -> Self {
        self.command.stdout(output).stderr(errors);
        self
    }

    /// Adds variables for the module. They go over the pipe, so that the initial
    /// environment of the process does not show them.
    pub(super) fn handing<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in variables {
            let (name, value) = (name.into(), value.into());
            self.environment.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        self
    }

    /// Starts the module. It runs for as long as the caller keeps its standard input
    /// open.
    pub(super) async fn start(mut self) -> Result<(Child, Option<ChildStdin>), UpError> {
        let mut child = self.command.spawn().map_err(UpError::Start)?;
        let mut lifeline = child.stdin.take();
        if let Some(pipe) = &mut lifeline {
            let length = format!("{:016x}", self.environment.len());
            let message = [length.as_bytes(), &self.environment].concat();
            // If the process has already ended, its exit tells why.
            _ = pipe.write_all(&message).await;
        }
        Ok((child, lifeline))
    }
}
