//! Runs a shell command in the working directory of the session.

mod answer;
mod last_command;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::RESOLVING;
use crate::markdown;
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, OpenedCommand, Permit};
use crate::processes::sandbox::{Confined, Sandbox};
use crate::processes::{
    Command, EndCause, Exit, FinalDirectory, Finished, Limits, RunError, Runner,
};
use crate::settings_files::SettingsFiles;
use crate::text;
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};
use crate::workspace::Workspace;

/// The shell of every command. It is never the user's own shell, which would run start files.
const SHELL: &str = "/bin/bash";

/// A command that writes more than this is ended.
const MAX_OUTPUT_BYTES: u64 = 16 << 20;

/// Characters of a command that a person is shown at either end. A command that is longer is
/// said to be cut, so that nobody takes it for the whole.
const MAX_PREVIEW_CHARS: usize = 6000;

/// `[tools.bash]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BashSettings {
    /// How long a command may run if the call names no time.
    #[serde(with = "crate::units::duration")]
    pub(crate) timeout: Duration,
    /// The longest time that a call may name.
    #[serde(with = "crate::units::duration")]
    pub(crate) max_timeout: Duration,
}

impl Default for BashSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(120), max_timeout: Duration::from_secs(600) }
    }
}

#[derive(Debug)]
pub(crate) struct Bash {
    runner: Runner,
    sandbox: Sandbox,
    settings: BashSettings,
    settings_files: Option<Arc<SettingsFiles>>,
    /// Whether a call may ask for a command outside of the sandbox.
    escape: bool,
    shell: PathBuf,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct BashInput {
    /// The command line to run with bash.
    command: String,
    /// What the command does, in five to ten words, for whoever watches.
    description: Option<String>,
    /// Milliseconds after which the command is ended. Give it to what takes minutes.
    timeout: Option<u64>,
    /// Runs the command outside of the sandbox. A person is asked each time, so use it only
    /// for what has failed because of the sandbox itself.
    #[serde(rename = "dangerouslyDisableSandbox")]
    outside_sandbox: Option<bool>,
}

impl Bash {
    pub(crate) fn new(
        runner: Runner,
        sandbox: Sandbox,
        settings: BashSettings,
        settings_files: Option<Arc<SettingsFiles>>,
    ) -> Self {
        Self { runner, sandbox, settings, settings_files, escape: false, shell: SHELL.into() }
    }

    /// With or without `dangerouslyDisableSandbox`.
    pub(crate) fn with_escape(self, escape: bool) -> Self {
        Self { escape, ..self }
    }

    /// What confines a command of the session to these roots; `None` where no sandbox holds.
    async fn confined(
        &self,
        roots: Vec<PathBuf>,
        context: &CallContext,
    ) -> Result<Option<Confined>, ToolError> {
        let confined = self.sandbox.confine(roots, context.session.name()).await;
        confined.map_err(|error| {
            ToolError::Failed(format!("no directory for temporary files: {error}"))
        })
    }

    /// The runner with the variables of settings files, as they are now.
    async fn runner(&self, context: &CallContext) -> Result<Runner, ToolError> {
        let Some(files) = self.settings_files.clone() else { return Ok(self.runner.clone()) };
        let (runner, workspace) = (self.runner.clone(), Arc::clone(&context.session.workspace));
        let read = move || runner.with_variables(files.snapshot(&workspace).variables());
        RESOLVING.run(read).await.map_err(ToolError::failed)
    }
}

impl Tool for Bash {
    type Input = BashInput;

    const NAME: &'static str = "Bash";
    const ALIASES: &'static [&'static str] = &["shell"];
    const ACCESS: AccessKind = AccessKind::Command;
    const DESCRIPTION: &'static str = "Runs a command line with bash and answers with what it \
        printed (standard output and standard error together) and its exit code. The working \
        directory stays where the command left it; variables and functions do not. There is \
        no terminal and no input, so give commands all they need as arguments. Commands may run \
        in a sandbox, where they can write only the workspace and $TMPDIR, cannot read the home \
        directory and have no network. What a command leaves running in the background is \
        ended with it. To read, search or change files, \
        use Read, Glob, Grep, Edit and Write.";
    const MAX_RESULT_CHARS: Option<usize> = Some(answer::MAX_CHARACTERS);

    fn withheld(&self) -> &'static [&'static str] {
        if self.escape { &[] } else { &["dangerouslyDisableSandbox"] }
    }

    fn access_request(&self, input: &BashInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Command {
            line: input.command.clone(),
            directory: context.session.working_dir(),
            outside_sandbox: input.outside_sandbox == Some(true),
        }
    }

    fn headline(&self, input: &BashInput) -> String {
        let shown = input.description.as_ref().filter(|text| !text.trim().is_empty());
        let shown = shown.unwrap_or(&input.command);
        shown.trim().lines().next().unwrap_or_default().to_owned()
    }

    async fn preview(
        &self,
        input: &BashInput,
        asked: &AskedAccess,
        _: &CallContext,
    ) -> Option<Preview> {
        let command = asked.command()?;
        let directory = markdown::code(&command.real_directory.display().to_string());
        let time = answer::seconds(self.time(input.timeout).0);
        let shown = markdown::fence("sh", &shown(&command.line));
        let place = if command.outside_sandbox { ", **outside of the sandbox**" } else { "" };
        Some(Preview::of(format!("{shown}in {directory}, for at most {time}{place}\n")))
    }

    async fn execute(
        &self,
        input: BashInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let permitted =
            permit.command().ok_or_else(|| ToolError::failed("no command was permitted"))?;
        let OpenedCommand { command_line, workspace, .. } = permitted;
        let text = command_line.line.as_str();
        let (time, mut notes) = self.time(input.timeout);
        let roots = workspace.real_roots().map(Path::to_owned).collect();
        let confined = if command_line.outside_sandbox {
            None
        } else {
            self.confined(roots, &context).await?
        };
        let confinement = confined.as_ref().map(|confined| Arc::clone(&confined.confinement));
        let level = confinement.as_ref().map(|confinement| confinement.level);
        let command = Command {
            program: self.shell.clone(),
            arguments: arguments(text),
            directory: command_line.directory.clone(),
            confinement,
            kept_alive: confined.as_ref().map(Confined::guard),
        };
        let limits =
            Limits { time: Some(time), output: MAX_OUTPUT_BYTES, shown: answer::MAX_CHARACTERS };
        let finished = self
            .runner(&context)
            .await?
            .run(&command, limits, &context.cancelled)
            .await
            .map_err(|error| not_run(&error, text, &context))?;
        notes.extend(follow(&finished, workspace, &context));
        notes.extend(confined.as_ref().and_then(answer::cut_short));
        if let Some(confined) = confined {
            let changed = tokio::task::spawn_blocking(move || confined.changed_control_files());
            notes.extend(answer::unprotected(&changed.await.unwrap_or_default()));
        }
        let max_chars = context.max_chars.unwrap_or(answer::MAX_CHARACTERS);
        Ok(answer::answer(text, time, level, (&finished, max_chars), &notes))
    }
}

impl Bash {
    /// How long the command may run, and a note if that is less than requested.
    fn time(&self, wanted: Option<u64>) -> (Duration, Vec<String>) {
        let most = self.settings.max_timeout;
        match wanted.map(Duration::from_millis) {
            Some(wanted) if most < wanted => {
                let most_shown = answer::seconds(most);
                let note = format!("(timeout lowered to {most_shown}, the most that is allowed)");
                (most, vec![note])
            }
            // A timeout of zero would end every command at once, so it counts as none.
            None | Some(Duration::ZERO) => (self.settings.timeout.min(most), Vec::new()),
            Some(wanted) => (wanted, Vec::new()),
        }
    }
}

/// Moves the session's working directory to the one in which the command ended, if that lies
/// in the workspace. Returns a note if the working directory was reset instead.
fn follow(finished: &Finished, workspace: &Workspace, context: &CallContext) -> Option<String> {
    if finished.cause != EndCause::ItsOwn || !matches!(finished.exit, Some(Exit::Code(_))) {
        return None;
    }
    match &finished.moved {
        FinalDirectory::Not => None,
        FinalDirectory::To(directory) => {
            let directory = Path::new(directory);
            if workspace.resolve(directory).is_ok() {
                context.session.set_working_dir(directory.to_owned());
                return None;
            }
            let why = format!("{} is outside the workspace", directory.display());
            Some(reset(context, &why))
        }
        FinalDirectory::Nowhere => {
            Some(reset(context, "the directory that the command ended in was removed"))
        }
    }
}

fn not_run(error: &RunError, text: &str, context: &CallContext) -> ToolError {
    match error {
        RunError::Directory { .. } => {
            let reset = reset(context, "the one before cannot be entered");
            ToolError::Failed(format!("{error}; nothing was run {reset}"))
        }
        RunError::Program { source, .. } if source.kind() == ErrorKind::ArgumentListTooLong => {
            ToolError::Failed(format!(
                "a command of {} bytes is too long for the system; write it to a file and \
                 run that",
                text.len()
            ))
        }
        _ => ToolError::failed(error),
    }
}

/// The command for a person, with a note in place of its middle if it is very long.
fn shown(command: &str) -> Cow<'_, str> {
    let (head, tail) = (
        text::first_chars(command, MAX_PREVIEW_CHARS),
        text::last_chars(command, MAX_PREVIEW_CHARS),
    );
    let hidden = command.len().saturating_sub(head.len() + tail.len());
    if hidden == 0 {
        return Cow::Borrowed(command);
    }
    Cow::Owned(format!("{head}\n[… {hidden} BYTES OF THE COMMAND ARE NOT SHOWN …]\n{tail}"))
}

fn reset(context: &CallContext, why: &str) -> String {
    let root = context.session.workspace.root();
    context.session.set_working_dir(root.to_owned());
    format!("(the working directory is {} again: {why})", root.display())
}

/// The arguments of bash. The whole text is one argument, so nothing in it needs quoting. The
/// line ends keep bash from replacing itself with the last program (an implicit `exec`): a
/// change of directory by that program would then pass for one by the shell.
fn arguments(text: &str) -> Vec<String> {
    ["--noprofile", "--norc", "-c"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("{text}\n\n"), "bash".to_owned()])
        .collect()
}

#[cfg(test)]
mod tests;
