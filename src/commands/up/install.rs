//! Installs the pinned LiteLLM into a private virtual environment, once.
//!
//! A stamp is written last. If it is missing or differs, an installation was interrupted
//! or is of another version, and the environment is made anew.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, BufReader};

use super::python::{Module, Python};
use super::{UpError, install_fault, log};
use crate::commands::output::say;
use crate::config::environment::Variables;

/// Every package with its version and hashes.
const REQUIREMENTS: &str = include_str!("requirements.txt");

const STAMP: &str = ".toolhand-installed";

/// How many packages are fetched between two lines of progress.
const STRIDE: usize = 10;

/// A program that fails in an environment whose Python was replaced by another version or
/// for another machine, or that lacks its packages. It takes no second; LiteLLM itself does.
const TRIAL: &str = "import importlib.metadata, litellm_proxy_extras, pydantic_core; \
                     importlib.metadata.version('litellm')";

/// What an earlier installation has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    Usable,
    Missing,
    /// It was interrupted, or failed.
    Unfinished,
    /// This program pins other packages.
    Outdated,
    /// Its Python is gone or another one.
    ForeignPython,
}

impl Existing {
    /// Why it is installed anew.
    fn reason(self) -> Option<&'static str> {
        match self {
            Self::Usable | Self::Missing => None,
            Self::Unfinished => Some("The last installation of LiteLLM was not finished."),
            Self::Outdated => {
                Some("The installed LiteLLM is not the version that this toolhand needs.")
            }
            Self::ForeignPython => {
                Some("The installed LiteLLM does not run: its Python is gone or was replaced.")
            }
        }
    }
}

/// The interpreter of the environment with LiteLLM. Installs it first if necessary.
pub(super) async fn ensure(directory: &Path, variables: &Variables) -> Result<Python, UpError> {
    let venv = place(directory);
    let python = Python::new(venv.join("bin/python"));
    let existing = inspect(&venv, &python).await;
    if existing == Existing::Usable {
        return Ok(python);
    }
    let system = Python::find().await?;
    existing.reason().map(say).unwrap_or_default();
    say(
        "Installing LiteLLM into the state directory. This happens once and takes a minute or two.",
    );
    remove(&venv).map_err(|error| UpError::file(&venv, error))?;
    let installation = Installation { directory, log: directory.join("install.log"), variables };
    installation.make_venv(&system, &venv).await?;
    installation.fill_venv(&python).await?;
    let stamp = venv.join(STAMP);
    fs::write(&stamp, digest()).map_err(|error| UpError::file(&stamp, error))?;
    say("LiteLLM is installed.");
    Ok(python)
}

fn place(directory: &Path) -> PathBuf {
    directory.join("venv")
}

/// Whether an installation was begun and is not finished.
pub(super) fn is_unfinished(directory: &Path) -> bool {
    matches!(stamped(&place(directory)), Existing::Unfinished)
}

async fn inspect(venv: &Path, python: &Python) -> Existing {
    match stamped(venv) {
        Existing::Usable if !python.runs(TRIAL).await => Existing::ForeignPython,
        existing => existing,
    }
}

/// What the stamp says.
fn stamped(venv: &Path) -> Existing {
    if venv.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Existing::Missing;
    }
    match fs::read_to_string(venv.join(STAMP)) {
        Ok(stamp) if stamp == digest() => Existing::Usable,
        Ok(_) => Existing::Outdated,
        Err(_) => Existing::Unfinished,
    }
}

/// Removes what stands in the place of the environment, whatever it is.
fn remove(venv: &Path) -> io::Result<()> {
    match fs::remove_dir_all(venv) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => fs::remove_file(venv),
        other => other,
    }
}

fn digest() -> String {
    blake3::hash(REQUIREMENTS.as_bytes()).to_string()
}

/// The variables that pip needs to reach the packages. Provider keys are not among them.
fn is_for_installing(name: &OsStr) -> bool {
    const NAMES: [&str; 4] =
        ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
    let name = name.to_string_lossy();
    name.starts_with("PIP_")
        || name.to_ascii_lowercase().ends_with("_proxy")
        || NAMES.contains(&name.as_ref())
}

struct Installation<'a> {
    directory: &'a Path,
    log: PathBuf,
    variables: &'a Variables,
}

impl Installation<'_> {
    async fn make_venv(&self, system: &Python, venv: &Path) -> Result<(), UpError> {
        say("  making a virtual environment");
        let module = system.module("venv", [venv], self.directory);
        let output = log::create(&self.log)?;
        let errors = output.try_clone().map_err(|error| UpError::file(&self.log, error))?;
        let command = module.output(Stdio::from(output), Stdio::from(errors));
        let status = self.status(command).await?;
        self.check(status)
    }

    async fn fill_venv(&self, python: &Python) -> Result<(), UpError> {
        let requirements = self.directory.join("requirements.txt");
        fs::write(&requirements, REQUIREMENTS)
            .map_err(|error| UpError::file(&requirements, error))?;
        let arguments = [
            "install",
            // The list is complete; install nothing that it does not name.
            "--no-deps",
            "--require-hashes",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar=off",
            "-r",
            "requirements.txt",
        ];
        let wanted = self.variables.iter().filter(|(name, _)| is_for_installing(name));
        let module = python.module("pip", arguments, self.directory).handing(wanted);
        let command = module.output(Stdio::piped(), Stdio::from(log::append(&self.log)?));
        let status = self.watch(command).await?;
        self.check(status)
    }

    async fn status(&self, command: Module) -> Result<ExitStatus, UpError> {
        let (mut child, lifeline) = command.start().await?;
        let status = child.wait().await.map_err(UpError::Start);
        drop(lifeline);
        status
    }

    /// Waits for pip, and prints its progress.
    async fn watch(&self, command: Module) -> Result<ExitStatus, UpError> {
        let (mut child, lifeline) = command.start().await?;
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
        let cause = install_fault::explain(&log::text(&self.log));
        Err(UpError::Install { log: self.log.clone(), cause })
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
    fn pip_is_told_of_the_way_and_of_no_key() {
        for name in ["PIP_INDEX_URL", "https_proxy", "NO_PROXY", "SSL_CERT_FILE"] {
            assert!(is_for_installing(name.as_ref()), "{name}");
        }
        for name in ["ANTHROPIC_API_KEY", "PIPELINE_KEY", "TOOLHAND_UPSTREAM_PROXY_KEY"] {
            assert!(!is_for_installing(name.as_ref()), "{name}");
        }
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
