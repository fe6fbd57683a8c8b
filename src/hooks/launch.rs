//! Runs the program of one hook, and writes the line of the log that a run leaves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{self, HookAnswer, HookDecision, HookEnd, HookFault, MORE_IS_NOT_READ};
use super::failures::HookFailures;
use super::settings::{HookSetting, OnError};
use crate::memory_budget::MemoryBudget;
#[cfg(test)]
use crate::processes::sandbox::SandboxSettings;
use crate::processes::sandbox::{Confined, Sandbox};
use crate::processes::{
    Command, CommandOutput, EndCause, Exit, Finished, Limits, ProgramInput, Runner,
};
use crate::settings_files::SettingsSnapshot;
use crate::text::{first_chars, shown_line};
use crate::workspace::Workspace;

/// The shell of a command line. It reads no start files.
const SHELL: &str = "/bin/bash";

/// How much of standard output, and of standard error, is read as a hook's answer.
const MAX_ANSWER_CHARS: usize = 1 << 20;

/// A hook that prints more than this is ended. Up to it, what it prints beyond its answer is
/// thrown away, so that a talkative hook can still say no with its exit code.
const MAX_OUTPUT_BYTES: u64 = 32 << 20;

/// The most characters of a fault in the log.
const MAX_LOGGED_CHARS: usize = 500;

/// How much of the memory budget the input of a hook takes, by its length: its text, the copy
/// for this hook, and the message to its supervisor, in which each character may be escaped.
const INPUT_COPIES: usize = 4;

/// What runs hooks.
#[derive(Clone, Debug)]
pub(crate) struct HookPrograms {
    /// For the operator's and the user's, with the variables of the user's settings.
    pub(crate) runner: Runner,
    /// For those of a workspace, with the variables of its settings too. `None`: as the others.
    pub(crate) workspace_runner: Option<Runner>,
    pub(crate) sandbox: Sandbox,
    /// `sandbox.mode = "required"`: what a hook without its sandbox was to judge is denied.
    pub(crate) is_sandbox_required: bool,
    /// What hooks are told may be large: a file's contents, the output of a command.
    pub(crate) memory_budget: MemoryBudget,
    /// The last failures of the hooks.
    pub(crate) failures: Arc<HookFailures>,
}

#[cfg(test)]
impl HookPrograms {
    /// Of a server without a sandbox.
    pub(crate) fn samples() -> Self {
        let runner = crate::processes::test_support::runner();
        Self {
            sandbox: Sandbox::new(runner.clone(), SandboxSettings::default()),
            runner,
            workspace_runner: None,
            is_sandbox_required: false,
            memory_budget: MemoryBudget::new(64 << 20),
            failures: Arc::default(),
        }
    }
}

/// Where a hook runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookPlace<'a> {
    pub(super) workspace: &'a Workspace,
    /// The session's directory for temporary files is called by it.
    pub(super) session: Option<&'a str>,
    pub(super) cancelled: &'a CancellationToken,
}

/// How a run ended.
enum Run {
    Ended(HookEnd),
    Failed(String),
    /// It may run only in a sandbox, and there is none.
    NoSandbox,
}

impl HookPrograms {
    /// With the variables of settings files. Those of a workspace reach no program that is not
    /// its own.
    pub(super) fn with_variables(&self, snapshot: &SettingsSnapshot) -> Self {
        Self {
            runner: self.runner.with_variables(snapshot.users_variables()),
            workspace_runner: Some(self.runner.with_variables(snapshot.variables())),
            ..self.clone()
        }
    }

    fn runner_of(&self, hook: &HookSetting) -> &Runner {
        let workspaces = self.workspace_runner.as_ref();
        workspaces.filter(|_| hook.source.is_workspaces()).unwrap_or(&self.runner)
    }

    /// Runs one hook. Never fails: what goes wrong is a notice. Where the hook was to decide on a
    /// call it asks, or does what the operator says.
    pub(super) async fn run(
        &self,
        hook: &HookSetting,
        label: &str,
        input: &str,
        place: HookPlace<'_>,
    ) -> HookAnswer {
        let began = Instant::now();
        let run = self.launch(hook, input, place).await;
        let exit = match &run {
            Run::Ended(end) => end.code.to_string(),
            Run::Failed(_) | Run::NoSandbox => "none".to_owned(),
        };
        let (answer, fault) = self.judged(hook, label, run);
        log(hook, label, &exit, began.elapsed(), &answer, fault.as_deref());
        self.failures.note(label, hook, fault.as_deref()).await;
        answer
    }

    /// The answer, and what went wrong.
    fn judged(&self, hook: &HookSetting, label: &str, run: Run) -> (HookAnswer, Option<String>) {
        let fault = match run {
            Run::Ended(end) => match answer::read(hook.event, &end) {
                Ok(answer) => return (answer, None),
                Err(fault) => fault,
            },
            Run::Failed(fault) => HookFault::NoAnswer(fault),
            Run::NoSandbox => {
                let fault = "runs only in a sandbox, and there is none";
                let reason = format!("the hook {label} {fault}");
                let decision = match self.is_sandbox_required {
                    _ if !hook.event.is_gate() => HookDecision::None,
                    true => HookDecision::Deny(reason.clone()),
                    false => HookDecision::Ask(reason.clone()),
                };
                return (failed(decision, reason), Some(fault.to_owned()));
            }
        };
        let is_unanswered = matches!(fault, HookFault::NoAnswer(_));
        let (HookFault::NoAnswer(fault) | HookFault::SaysNothing(fault)) = fault;
        let notice = format!("the hook {label} {fault}");
        let decision = match hook.on_error {
            OnError::Deny if hook.event.is_gate() => {
                HookDecision::Deny(format!("{notice}; it denies what it cannot judge"))
            }
            // Nobody knows what it would have denied.
            OnError::Ask if is_unanswered && hook.event.decides_on_call() => {
                HookDecision::Ask(notice.clone())
            }
            OnError::Ask | OnError::Deny | OnError::Pass => HookDecision::None,
        };
        (failed(decision, notice), Some(fault))
    }

    async fn launch(&self, hook: &HookSetting, input: &str, place: HookPlace<'_>) -> Run {
        let mut reservation = self.memory_budget.reservation();
        if reservation.hold(INPUT_COPIES.saturating_mul(input.len())).is_err() {
            let fault = "the server's memory for running requests is used up (limits.buffers)";
            return Run::Failed(format!("could not be started: {fault}"));
        }
        let confined = if hook.is_confined() {
            let roots = place.workspace.real_roots().map(PathBuf::from).collect();
            match self.sandbox.confine(roots, place.session).await {
                Ok(Some(confined)) => Some(confined),
                Ok(None) => return Run::NoSandbox,
                Err(error) => return Run::Failed(format!("could not be started: {error}")),
            }
        } else {
            None
        };
        let root = place.workspace.root();
        let Some((program, arguments)) = program(hook, root) else {
            let fault = "could not be started: the workspace's path is not UTF-8";
            return Run::Failed(fault.to_owned());
        };
        let command = Command {
            program,
            arguments,
            directory: root.to_owned(),
            confinement: confined.as_ref().map(|it| Arc::clone(&it.confinement)),
            kept_alive: confined.as_ref().map(Confined::guard),
        };
        let input = ProgramInput {
            stdin: input.to_owned(),
            variables: vec![(PROJECT_DIR.into(), OsString::from(root))],
        };
        let limits =
            Limits { time: Some(hook.timeout), output: MAX_OUTPUT_BYTES, shown: MAX_ANSWER_CHARS };
        match self.runner_of(hook).run_with_input(&command, input, limits, place.cancelled).await {
            Ok(finished) => ended(&finished, hook.timeout),
            Err(error) => Run::Failed(format!("could not be started: {error}")),
        }
    }
}

fn failed(decision: HookDecision, notice: String) -> HookAnswer {
    HookAnswer { decision, notice: Some(notice), ..HookAnswer::default() }
}

/// The variable that holds the workspace.
const PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";

/// A line for bash, or with arguments a program of its own, in whose texts the workspace stands for
/// its placeholder: no shell puts it there. `None` where the path of the workspace is not UTF-8.
fn program(hook: &HookSetting, root: &Path) -> Option<(PathBuf, Vec<String>)> {
    let Some(arguments) = &hook.args else {
        let line = ["--noprofile", "--norc", "-c", &hook.command];
        return Some((SHELL.into(), line.map(str::to_owned).to_vec()));
    };
    let placeholder = format!("${{{PROJECT_DIR}}}");
    let filled = |text: &String| {
        if !text.contains(&placeholder) {
            return Some(text.clone());
        }
        Some(text.replace(&placeholder, root.to_str()?))
    };
    let arguments = arguments.iter().map(filled).collect::<Option<Vec<_>>>()?;
    Some((filled(&hook.command)?.into(), arguments))
}

fn ended(finished: &Finished, timeout: Duration) -> Run {
    let text = |output: &CommandOutput| output.render(MAX_ANSWER_CHARS, MORE_IS_NOT_READ);
    let (stdout, stderr) = (text(&finished.output), text(&finished.errors));
    let fault = match (finished.cause, finished.exit) {
        (EndCause::ItsOwn, Some(Exit::Code(code))) => {
            return Run::Ended(HookEnd { code, stdout, stderr });
        }
        (EndCause::ItsOwn, Some(Exit::Signal(signal))) => format!("was ended by signal {signal}"),
        (EndCause::ItsOwn, None) => "ended unobserved".to_owned(),
        (EndCause::TimedOut, _) => format!("took longer than {timeout:?} and was ended"),
        (EndCause::Cancelled | EndCause::Stopped, _) => "was cancelled with the turn".to_owned(),
        (EndCause::TooMuchOutput | EndCause::NoRoomForOutput, _) => {
            "printed without end and was ended".to_owned()
        }
        (EndCause::TooManyProcesses, _) => "started too many processes and was ended".to_owned(),
    };
    // A flood says nothing.
    let said = if finished.cause == EndCause::TooMuchOutput { "" } else { &stderr };
    Run::Failed(answer::with_last_words(fault, said))
}

/// One line for each run. It says what was decided, and nothing of what the hook was told.
fn log(
    hook: &HookSetting,
    label: &str,
    exit: &str,
    took: Duration,
    answer: &HookAnswer,
    fault: Option<&str>,
) {
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let decided = decided(answer);
    let event = hook.event.name();
    match fault {
        None => tracing::info!(hook = label, event, exit, duration_ms, decided, "hook ran"),
        Some(fault) => {
            // What it said last says why, and may be long.
            let fault = shown_line(fault);
            let fault = first_chars(&fault, MAX_LOGGED_CHARS);
            tracing::warn!(hook = label, event, exit, duration_ms, decided, fault, "hook failed");
        }
    }
}

fn decided(answer: &HookAnswer) -> String {
    let decision = match answer.decision {
        HookDecision::None => None,
        HookDecision::Allow => Some("allow"),
        HookDecision::Ask(_) => Some("ask"),
        HookDecision::Deny(_) => Some("deny"),
    };
    let changed = answer.changed_input.is_some().then_some("changed input");
    let context = answer.context.is_some().then_some("context");
    let ends = answer.ends_turn.is_some().then_some("end of turn");
    let all: Vec<&str> = [decision, changed, context, ends].into_iter().flatten().collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}
