//! Starts Python modules that end when we end, however that is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::UpError;
use crate::config::own_environment;

/// Holds the other end of the child's standard input; see the file itself.
const LAUNCH: &str = include_str!("launch.py");

/// Names it goes by, the usual one first.
const NAMES: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

/// Which versions the pinned LiteLLM runs on.
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

    /// The first on the search path that fits and can make virtual environments.
    pub(super) async fn find() -> Result<Self, UpError> {
        let mut fault = UpError::NoPython;
        for name in NAMES {
            let python = Self::new(name);
            let check = format!("import sys; assert {FITS}");
            if !python.runs(&check).await {
                continue;
            }
            // Debian keeps this part in a package of its own.
            if python.runs("import venv, ensurepip").await {
                return Ok(python);
            }
            fault = UpError::NoVenv;
        }
        Err(fault)
    }

    /// Whether the interpreter is there and this program succeeds in it.
    pub(super) async fn runs(&self, program: &str) -> bool {
        let mut command = Command::new(&self.program);
        command.args(["-I", "-c", program]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command.status().await.is_ok_and(|status| status.success())
    }

    /// `python -m MODULE …`, in `directory`.
    pub(super) fn module<A: AsRef<OsStr>>(
        &self,
        module: &str,
        arguments: impl IntoIterator<Item = A>,
        directory: &Path,
    ) -> Module {
        let mut command = Command::new(&self.program);
        command
            // Isolated: nothing of the working directory or of PYTHON* is imported.
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

/// A module that is to be run.
#[derive(Debug)]
pub(super) struct Module {
    command: Command,
    /// As it goes over the pipe.
    environment: Vec<u8>,
}

impl Module {
    pub(super) fn output(mut self, output: Stdio, errors: Stdio) -> Self {
        self.command.stdout(output).stderr(errors);
        self
    }

    /// Adds variables to what the module finds in its environment, but nobody finds who
    /// looks at its process.
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

    /// The child's standard input must be held as long as it shall live.
    pub(super) async fn start(mut self) -> Result<(Child, Option<ChildStdin>), UpError> {
        let mut child = self.command.spawn().map_err(UpError::Start)?;
        let mut lifeline = child.stdin.take();
        if let Some(pipe) = &mut lifeline {
            let length = format!("{:016x}", self.environment.len());
            let message = [length.as_bytes(), &self.environment].concat();
            // One that has ended already says why by its end.
            _ = pipe.write_all(&message).await;
        }
        Ok((child, lifeline))
    }
}
