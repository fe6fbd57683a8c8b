//! The private virtual environment with the pinned LiteLLM: made once, found again.
//!
//! A stamp is written last. Where it is missing or another one, an installation was
//! interrupted or is of another version, and is made anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::python::Python;
use super::{UpError, log, say};

/// Every package with its version and the digests of its files.
const REQUIREMENTS: &str = include_str!("requirements.txt");

const STAMP: &str = ".toolhand-installed";

/// How many packages are fetched between two lines of progress.
const STRIDE: usize = 10;

/// The interpreter that has LiteLLM, which is installed first where it is not there.
pub(super) async fn ensure(directory: &Path) -> Result<Python, UpError> {
    let venv = directory.join("venv");
    let python = Python::new(venv.join("bin/python"));
    if is_stamped(&venv) && python.runs("import litellm_proxy_extras").await {
        return Ok(python);
    }
    let system = Python::find().await?;
    say(
        "Installing LiteLLM into the state directory. This happens once and takes a minute or two.",
    );
    match fs::remove_dir_all(&venv) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(UpError::file(&venv, error));
        }
        _ => {}
    }
    let installation = Installation { directory, log: directory.join("install.log") };
    installation.make_venv(&system, &venv).await?;
    installation.fill_venv(&python).await?;
    let stamp = venv.join(STAMP);
    fs::write(&stamp, digest()).map_err(|error| UpError::file(&stamp, error))?;
    say("LiteLLM is installed.");
    Ok(python)
}

fn is_stamped(venv: &Path) -> bool {
    fs::read_to_string(venv.join(STAMP)).is_ok_and(|stamp| stamp == digest())
}

fn digest() -> String {
    blake3::hash(REQUIREMENTS.as_bytes()).to_string()
}

struct Installation<'a> {
    directory: &'a Path,
    log: PathBuf,
}

impl Installation<'_> {
    async fn make_venv(&self, system: &Python, venv: &Path) -> Result<(), UpError> {
        say("  making a virtual environment");
        let mut command = system.module("venv", [venv], self.directory);
        let output = log::create(&self.log)?;
        command.stdout(Stdio::from(
            output.try_clone().map_err(|error| UpError::file(&self.log, error))?,
        ));
        command.stderr(Stdio::from(output));
        let status = self.status(command).await?;
        self.check(status)
    }

    async fn fill_venv(&self, python: &Python) -> Result<(), UpError> {
        let requirements = self.directory.join("requirements.txt");
        fs::write(&requirements, REQUIREMENTS)
            .map_err(|error| UpError::file(&requirements, error))?;
        let arguments = [
            "install",
            // The list is whole, and what it does not name is not installed.
            "--no-deps",
            "--require-hashes",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar=off",
            "-r",
            "requirements.txt",
        ];
        let mut command = python.module("pip", arguments, self.directory);
        command.stdout(Stdio::piped()).stderr(Stdio::from(log::append(&self.log)?));
        let status = self.watch(command).await?;
        self.check(status)
    }

    async fn status(&self, mut command: Command) -> Result<ExitStatus, UpError> {
        let mut child = command.spawn().map_err(UpError::Start)?;
        let lifeline = child.stdin.take();
        let status = child.wait().await.map_err(UpError::Start);
        drop(lifeline);
        status
    }

    /// Runs pip to its end and tells how far it is.
    async fn watch(&self, mut command: Command) -> Result<ExitStatus, UpError> {
        let mut child = command.spawn().map_err(UpError::Start)?;
        let lifeline = child.stdin.take();
        let output = child.stdout.take().map(|output| BufReader::new(output).lines());
        let mut fetched = 0;
        if let Some(mut lines) = output {
            while let Ok(Some(line)) = lines.next_line().await {
                log::line(&self.log, &line)?;
                fetched += usize::from(line.starts_with("Collecting "));
                if let Some(progress) = progress(&line, fetched) {
                    say(&progress);
                }
            }
        }
        let status = child.wait().await.map_err(UpError::Start);
        drop(lifeline);
        status
    }

    fn check(&self, status: ExitStatus) -> Result<(), UpError> {
        if status.success() {
            return Ok(());
        }
        Err(UpError::Install { log: self.log.clone(), tail: log::tail(&self.log) })
    }
}

fn progress(line: &str, fetched: usize) -> Option<String> {
    if line.starts_with("Collecting ") && (fetched == 1 || fetched.is_multiple_of(STRIDE)) {
        return Some(format!("  fetching packages: {fetched} of about {}", packages()));
    }
    line.starts_with("Installing collected packages")
        .then(|| format!("  unpacking {fetched} packages"))
}

fn packages() -> usize {
    REQUIREMENTS
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_alphanumeric()))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_by_version_and_digest_and_no_host_is_named() {
        let lines = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
        let logical = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");

        for requirement in logical.lines() {
            assert!(
                requirement.contains("==") && requirement.contains("--hash=sha256:"),
                "{requirement}"
            );
        }
        assert!(logical.contains("litellm==1.106.2 "));
        assert!(!REQUIREMENTS.contains("://"));
        assert!(packages() > 90);
    }

    #[test]
    fn progress_is_a_line_now_and_then() {
        assert_eq!(
            progress("Collecting a==1", 1),
            Some(format!("  fetching packages: 1 of about {}", packages()))
        );
        assert_eq!(progress("Collecting b==1", 2), None);
        assert!(progress("Collecting c==1", 20).is_some());
        assert_eq!(progress("  Using cached c", 20), None);
        assert_eq!(
            progress("Installing collected packages: a", 20),
            Some("  unpacking 20 packages".into())
        );
    }
}
