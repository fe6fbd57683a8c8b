//! Runs a shell command in the working directory of the session.

mod answer;
mod launch;
mod masked_paths;
mod output_end;
mod pending_look;
mod preview;
mod profile;
mod quiet_git;
mod read_file;
mod repeatable_command;
mod repository_above;
mod sandbox_notes;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::OnceCell;

use self::launch::Launch;
use self::pending_look::PendingLook;
use self::profile::Variables;
use crate::blocking::{Overloaded, RESOLVING};
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Lacked, Permit, SecondRun};
use crate::processes::sandbox::{Confined, Sandbox};
use crate::processes::{Command, Runner};
use crate::settings_files::SettingsFiles;
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};

/// The shell of every command. It is never the user's own shell, which would run start files.
const SHELL: &str = "/bin/bash";

/// A model that builds, tests and serves at once has some to spare.
const MAX_TASKS: usize = 8;

/// Nothing but the sandbox lets the command run, and the sandbox does not hold all that it has to.
const NOT_ALL_CLOSED: &str = "nothing ran: the workspace has more files than are looked through for \
    secrets and for what rules deny, so `sandbox.auto_allow` is not enough here. If it has to run, ";

/// Tells the model that a command which was to go to the background did not.
const IN_FOREGROUND: &str = "(nothing goes to the background here, so the command ran to its end)";

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
    /// Whether commands have the PATH of a login shell.
    pub(crate) profile: bool,
    /// The most tasks of a session that run in the background. 0: none do.
    pub(crate) background_tasks: usize,
}

impl Default for BashSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(600),
            profile: false,
            background_tasks: MAX_TASKS,
        }
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
    /// The login shell's variables, asked for by the first command.
    login: OnceCell<Variables>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct BashInput {
    /// The command line to run with bash.
    command: String,
    /// What the command does, in five to ten words, for whoever watches.
    description: Option<String>,
    /// Milliseconds to wait for the command. Set it for commands that take minutes.
    timeout: Option<u64>,
    /// Starts the command as a background task and answers at once, with its id and the file of
    /// its output. You are told when it ends. A command that runs longer than its timeout
    /// becomes such a task by itself, unless it begins with `sleep`, runs git or cannot be
    /// parsed.
    run_in_background: Option<bool>,
    /// Runs the command outside of the sandbox. A person is asked each time, so use it only
    /// for what has failed because of the sandbox itself.
    #[serde(rename = "dangerouslyDisableSandbox")]
    outside_sandbox: Option<bool>,
}

impl BashInput {
    /// What the model says that the command does.
    fn described(&self) -> Option<String> {
        self.description.clone().filter(|text| !text.trim().is_empty())
    }
}

/// The first line of a command that does something, for a line about the call. What the model says
/// of the command would be its words alone.
fn first_line(command: &str) -> String {
    let is_told = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut lines = command.lines().map(str::trim).filter(is_told);
    let first = lines.next().unwrap_or_else(|| command.trim());
    if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
}

impl Bash {
    pub(crate) fn new(
        runner: Runner,
        sandbox: Sandbox,
        settings: BashSettings,
        settings_files: Option<Arc<SettingsFiles>>,
    ) -> Self {
        let (escape, shell, login) = (false, SHELL.into(), OnceCell::new());
        Self { runner, sandbox, settings, settings_files, escape, shell, login }
    }

    /// With or without `dangerouslyDisableSandbox`.
    pub(crate) fn with_escape(self, escape: bool) -> Self {
        Self { escape, ..self }
    }

    /// What confines a command of the session to these roots; `None` where no sandbox holds.
    async fn confined(
        &self,
        roots: Vec<PathBuf>,
        permit: &Permit,
        context: &CallContext,
    ) -> Result<Option<Confined>, ToolError> {
        let session = context.session.name();
        let confined = if permit.reads_only() {
            self.sandbox.confine_to_reading(roots, session).await
        } else if permit.is_unapproved() {
            self.sandbox.confine_unapproved(roots, session).await
        } else {
            self.sandbox.confine(roots, session).await
        };
        confined.map_err(|error| {
            ToolError::Failed(format!(
                "the sandbox could not be prepared, and nothing ran: {error}"
            ))
        })
    }

    /// The runner with the variables of the login shell, and those of settings files, as they are
    /// now.
    async fn runner(&self, context: &CallContext) -> Result<Runner, ToolError> {
        let login = self.of_login().await?;
        let files = self.settings_files.clone();
        if login.is_empty() && files.is_none() {
            return Ok(self.runner.clone());
        }
        let (runner, sandbox) = (self.runner.clone(), self.sandbox.clone());
        let workspace = Arc::clone(&context.session.workspace);
        let read = move || {
            // Commands are judged by the server's own search path. They may have put programs
            // where they can write, and nobody has looked for those there.
            let can_write = |directory: &Path| {
                let further = sandbox.writable().iter().map(PathBuf::as_path);
                workspace.real_roots().chain(further).any(|place| directory.starts_with(place))
            };
            let runner = runner.with_login(&profile::without_writable(&login, can_write));
            match files {
                Some(files) => runner.with_variables(files.snapshot(&workspace).variables()),
                None => runner,
            }
        };
        RESOLVING.run(read).await.map_err(ToolError::failed)
    }

    /// The login shell's variables, which the first command asks for.
    async fn of_login(&self) -> Result<Variables, ToolError> {
        if !self.settings.profile {
            return Ok(Variables::new());
        }
        let ask = async || {
            let found = profile::variables(&self.runner, &self.runner.home()).await;
            let found = found.unwrap_or_default();
            let path = found.iter().find(|(name, _)| name == profile::PATH);
            if let Some(path) = path.map(|(_, path)| OsString::from(path)) {
                let sandbox = self.sandbox.clone();
                RESOLVING.run(move || sandbox.show_programs(&path)).await?;
            }
            Ok::<_, Overloaded>(found)
        };
        self.login.get_or_try_init(ask).await.cloned().map_err(ToolError::failed)
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
    const MAX_RESULT_CHARS: Option<usize> = Some(output_end::MAX_CHARACTERS);

    fn withheld(&self) -> &'static [&'static str] {
        match (self.settings.background_tasks > 0, self.escape) {
            (true, true) => &[],
            (true, false) => &["dangerouslyDisableSandbox"],
            (false, true) => &["run_in_background"],
            (false, false) => &["run_in_background", "dangerouslyDisableSandbox"],
        }
    }

    fn access_request(&self, input: &BashInput, context: &CallContext) -> AccessRequest {
        let directory = context.agent.working_dir();
        AccessRequest::Command {
            lacked: context.agent.failed_commands.lacked(&input.command, &directory),
            line: input.command.clone(),
            directory,
            outside_sandbox: input.outside_sandbox == Some(true),
        }
    }

    fn headline(&self, input: &BashInput) -> String {
        first_line(&input.command)
    }

    async fn preview(
        &self,
        input: &BashInput,
        asked: &AskedAccess,
        context: &CallContext,
    ) -> Option<Preview> {
        let time = answer::seconds(self.time(input.timeout).0);
        let goes_on = self.has_tasks(context) && asked.may_go_on_alone();
        let time = match (self.is_for_background(input, context), goes_on) {
            (true, _) => "in the background".to_owned(),
            (false, true) => {
                format!("for {time}, then on in the background while the model continues")
            }
            (false, false) => format!("for at most {time}, then it is ended"),
        };
        let shown = preview::shown(&asked.command_summary()?, asked.command()?, &time);
        Some(Preview { described: input.described(), ..Preview::of(shown) })
    }

    async fn execute(
        &self,
        input: BashInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let permitted =
            permit.command().ok_or_else(|| ToolError::failed("no command was permitted"))?;
        let command_line = &permitted.command_line;
        // Before the sandbox: it shows what the login shell's search path names.
        let runner = self.runner(&context).await?;
        let roots: Vec<PathBuf> = permitted.workspace.real_roots().map(Path::to_owned).collect();
        let mut confined = if command_line.outside_sandbox {
            None
        } else {
            self.confined(Vec::clone(&roots), &permit, &context).await?
        };
        if permit.is_by_sandbox_alone() && confined.as_ref().is_some_and(|it| it.is_cut) {
            let (line, directory) = (&command_line.line, &command_line.directory);
            context.agent.failed_commands.remember(line, directory, Lacked::Look);
            let advice = permit.second_run(Lacked::Look).advice();
            return Err(ToolError::Failed(format!("{NOT_ALL_CLOSED}{advice}")));
        }
        let watch = match &mut confined {
            Some(confined) => confined.watch.take(),
            None if permitted.is_proven_to_read() => None,
            None => self.sandbox.watch(roots).await.ok(),
        };
        let files = context.session.files.clone();
        let look = PendingLook::begin(watch, files, &command_line.line).await;
        let guard = confined.as_ref().map(Confined::guard);
        let kept_alive = match &look {
            Some(look) => Some(look.keeping(guard)),
            None => guard,
        };
        let command = Command {
            program: self.shell.clone(),
            arguments: arguments(&shell_text(&permit, &command_line.line)),
            directory: command_line.directory.clone(),
            confinement: confined.as_ref().map(|it| Arc::clone(&it.confinement)),
            kept_alive,
        };
        let (time, mut notes) = self.time(input.timeout);
        let is_for_background = self.is_for_background(&input, &context);
        if input.run_in_background == Some(true) && !is_for_background {
            notes.push(IN_FOREGROUND.to_owned());
        }
        let launch = Launch {
            runner,
            command,
            confined,
            look,
            permitted,
            context: &context,
            description: input.description,
            time,
            notes,
            has_tasks: self.has_tasks(&context),
            may_escape: self.escape && permit.second_run(Lacked::Look) != SecondRun::IsRefused,
            permit: &permit,
        };
        if is_for_background { launch.in_background().await } else { launch.in_foreground().await }
    }
}

impl Bash {
    /// Whether commands may go to the background: those of a subagent end with it.
    fn has_tasks(&self, context: &CallContext) -> bool {
        self.settings.background_tasks > 0 && context.agent.is_main()
    }

    fn is_for_background(&self, input: &BashInput, context: &CallContext) -> bool {
        self.has_tasks(context) && input.run_in_background == Some(true)
    }

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

/// The line as bash gets it.
fn shell_text(permit: &Permit, line: &str) -> String {
    if permit.reads_git() { quiet_git::prelude() + line } else { line.to_owned() }
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
