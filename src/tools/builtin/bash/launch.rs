//! Runs a command to its end, or as far as the turn waits for it; then it goes on as a task.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::answer::{self, Call, ExitOne};
use super::masked_paths::MaskedPaths;
use super::output_end::{MAX_CHARACTERS, printed};
use super::pending_look::{IsTold, LeftBehind, PendingLook};
use super::read_file::ReadFile;
use super::repeatable_command::RepeatableCommand;
use super::repository_above;
use super::sandbox_notes::SandboxNotes;
use crate::blocking::FILES;
use crate::permissions::{Lacked, OpenedCommand, Permit, SecondRun};
use crate::processes::confinement::Confinement;
use crate::processes::sandbox::Confined;
use crate::processes::{
    Command, CommandOutput, EndCause, Exit, FinalDirectory, Finished, KeepOutput, LatestOutput,
    Limits, RunError, Runner, Running, StopReason,
};
use crate::tools::call_progress::{CallProgress, ProgressText};
use crate::tools::tasks::{Conclude, NewTask, OutputFile, TaskEnd, TaskPlace};
use crate::tools::tool::{CallContext, ToolError, ToolOutput};
use crate::workspace::Workspace;

/// A command that writes more than this is ended.
const MAX_OUTPUT_BYTES: u64 = 16 << 20;

/// A person sees the output grow, and a frontend redraws the whole of it each time.
const TELLING_INTERVAL: Duration = Duration::from_secs(1);

/// The most of the output that is told at once, in bytes. The last lines are what a person looks
/// for.
const MAX_TOLD: usize = 2_000;

/// How often a command is started under which files of the workspace are exchanged. Nothing of it
/// has run then. The views of later starts are of the files as they are then.
const MAX_STARTS: usize = 5;

/// A command that is ready to start.
pub(super) struct Launch<'a> {
    pub(super) runner: Runner,
    pub(super) command: Command,
    pub(super) confined: Option<Confined>,
    /// Looks for what the command leaves. `None`: it cannot write.
    pub(super) look: Option<PendingLook>,
    pub(super) permitted: &'a OpenedCommand,
    pub(super) context: &'a CallContext,
    pub(super) description: Option<String>,
    pub(super) time: Duration,
    /// Lines for the answer.
    pub(super) notes: Vec<String>,
    /// Whether commands may go to the background.
    pub(super) has_tasks: bool,
    /// Whether the model may ask for a command outside of the sandbox.
    pub(super) may_escape: bool,
    pub(super) permit: &'a Permit,
}

impl Launch<'_> {
    /// Waits for the end of the command. One that has had its time goes on as a task, if it may.
    pub(super) async fn in_foreground(mut self) -> Result<ToolOutput, ToolError> {
        let file = self.context.session.files.clone().map(OutputFile::of_command);
        let read = ReadFile::begin(self.permitted).await;
        let keep = file.as_ref().map_or(KeepOutput::Nothing, OutputFile::when_long);
        let cancelled = &self.context.cancelled;
        let mut starts = 1;
        let (mut running, in_time) = loop {
            let mut running = self.spawn(keep.clone())?;
            let output = running.control().output().clone();
            let in_time = ended(&mut running, cancelled);
            let in_time = while_told(in_time, &output, &self.context.progress);
            let in_time = timeout(self.time, in_time).await;
            let is_exchanged = matches!(in_time, Ok(Err(RunError::Exchanged)));
            if !is_exchanged || cancelled.is_cancelled() || MAX_STARTS <= starts {
                break (running, in_time);
            }
            starts += 1;
            self.renew().await?;
        };
        let finished = if let Ok(finished) = in_time {
            finished
        } else {
            if let Some((place, file)) = self.place().zip(file.as_ref()) {
                return Ok(self.go_on(running, place, file).await);
            }
            running.control().stop(StopReason::TimedOut);
            ended(&mut running, cancelled).await
        };
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                self.end().notes(IsTold::Later).await;
                return Err(not_run(&error, self.line(), self.context));
            }
        };
        if let Some(read) = read.filter(|_| finished.has_succeeded() && finished.has_printed()) {
            read.end(Arc::clone(&self.context.agent)).await;
        }
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.failed_reader().and_then(|reader| reader.note(&finished)));
        notes.extend(
            self.sandbox_notes().into_iter().flat_map(|it| it.of(&finished, self.exit_one())),
        );
        notes.extend(repository_above::note(&finished, self.hidden_above()).await);
        notes.extend(follow(&finished, &self.permitted.workspace, self.context));
        let end = self.end();
        let (more, left_behind) = end.notes(IsTold::ByEvent).await;
        notes.extend(more);
        let path = file.and_then(|file| file.path());
        Ok(ToolOutput { left_behind, ..self.call(path).ended(&finished, &notes) })
    }

    /// Starts the command as a task, and answers at once.
    pub(super) async fn in_background(mut self) -> Result<ToolOutput, ToolError> {
        let session = &self.context.session;
        let (Some(tasks), Some(files)) = (&session.tasks, &session.files) else {
            return Err(ToolError::failed("nothing can run in the background here"));
        };
        let place = tasks.reserve().map_err(ToolError::failed)?;
        let file = OutputFile::of_command(files.clone());
        let path = self.made(&file).await;
        let keep = if path.is_some() { file.always() } else { KeepOutput::Nothing };
        let running = self.spawn(keep)?;
        let notes = std::mem::take(&mut self.notes);
        let answer = self.call(path.clone()).started(file.id(), notes);
        self.hand_over(place, (running, path), &file, 0);
        Ok(answer)
    }

    /// Passes the command on to the session.
    async fn go_on(mut self, running: Running, place: TaskPlace, file: &OutputFile) -> ToolOutput {
        let path = self.made(file).await;
        let control = running.control().clone();
        if path.is_some() {
            control.keep_output();
        } else {
            // A file that could be made later would be nobody's.
            control.output().give_up_file("none could be made");
        }
        let (output, seen) = control.output().so_far();
        let notes = std::mem::take(&mut self.notes);
        let answer = self.call(path.clone()).goes_on(file.id(), &output, notes);
        self.hand_over(place, (running, path), file, seen);
        answer
    }

    /// A place for the command in the background, if it may go on there.
    fn place(&self) -> Option<TaskPlace> {
        let may_go_on = self.has_tasks
            && !self.context.cancelled.is_cancelled()
            && self.permitted.may_go_on_alone();
        self.context.session.tasks.as_ref().filter(|_| may_go_on)?.reserve().ok()
    }

    fn spawn(&self, keep: KeepOutput) -> Result<Running, ToolError> {
        let limits = Limits { time: None, output: MAX_OUTPUT_BYTES, shown: self.max_chars() };
        let running = self.runner.spawn(&self.command, limits, keep);
        let running = running.map_err(|error| not_run(&error, self.line(), self.context))?;
        if let Some(look) = &self.look {
            look.started();
        }
        Ok(running)
    }

    /// Confines the command anew, with the files as they are now.
    async fn renew(&mut self) -> Result<(), ToolError> {
        if let Some(confined) = &self.confined {
            let mut renewed = confined.renewed().await.map_err(ToolError::failed)?;
            self.command.confinement = Some(Arc::clone(&renewed.confinement));
            self.command.kept_alive = Some(renewed.guard());
            if let Some((look, watch)) = self.look.as_ref().zip(renewed.watch.take()) {
                look.renew(watch);
                self.command.kept_alive = Some(look.keeping(Some(renewed.guard())));
            }
            self.confined = Some(renewed);
        }
        Ok(())
    }

    /// Makes the file of the output. Notes why there is none.
    async fn made(&mut self, file: &OutputFile) -> Option<PathBuf> {
        let file = file.clone();
        let made = FILES.run(move || file.make()).await.map_err(io::Error::other).flatten();
        match made {
            Ok(path) => Some(path),
            Err(error) => {
                self.notes.push(format!(
                    "(its output cannot be kept in a file: {error}; TaskOutput has the end of it)"
                ));
                None
            }
        }
    }

    /// Makes a task of the command. `seen` are the bytes of its output that the answer tells.
    fn hand_over(
        mut self,
        place: TaskPlace,
        (running, path): (Running, Option<PathBuf>),
        file: &OutputFile,
        seen: u64,
    ) {
        let (agent, command) = (Arc::clone(&self.context.agent), self.line().to_owned());
        let task_end = CommandTaskEnd {
            exit_one: self.exit_one(),
            sandbox: self.sandbox_notes(),
            reader: self.failed_reader(),
            hidden_above: self.hidden_above(),
            end: self.end(),
        };
        let task = place.take_over(NewTask {
            id: file.id().to_owned(),
            description: self.description,
            running,
            path,
            conclude: task_end.conclude(),
            command,
        });
        agent.known_tasks.started(&task, seen);
    }

    fn exit_one(&self) -> ExitOne {
        if self.permitted.exit_one_is_an_answer() {
            ExitOne::IsAnAnswer
        } else {
            ExitOne::IsAFailure
        }
    }

    fn call(&self, path: Option<PathBuf>) -> Call {
        Call {
            exit_one: self.exit_one(),
            time: self.time,
            level: self.command.confinement.as_ref().map(|confinement| confinement.level),
            reads_only: self.reads_only(),
            path,
            max_chars: self.max_chars(),
            has_tasks: self.has_tasks,
        }
    }

    fn reads_only(&self) -> bool {
        self.command.confinement.as_ref().is_some_and(|confinement| confinement.reads_only)
    }

    /// What to remember should the command fail because of it; `None` if it may write.
    fn failed_reader(&self) -> Option<ConfinedReader> {
        let confinement = self.command.confinement.clone().filter(|it| it.reads_only)?;
        Some(ConfinedReader {
            command: self.repeatable(),
            confinement,
            writing: self.permit.second_run(Lacked::Writing),
            secrets: self.permit.second_run(Lacked::Secrets),
        })
    }

    fn repeatable(&self) -> RepeatableCommand {
        let command_line = &self.permitted.command_line;
        RepeatableCommand {
            agent: Arc::clone(&self.context.agent),
            line: command_line.line.clone(),
            directory: command_line.directory.clone(),
        }
    }

    /// What to tell of the sandbox; `None` if there is none, or none in which it may write.
    fn sandbox_notes(&self) -> Option<SandboxNotes> {
        let confinement = self.command.confinement.clone().filter(|_| !self.reads_only())?;
        let (may_escape, connects) = (self.may_escape, self.permitted.connects());
        let directory = self.command.directory.clone();
        let unapproved = self.permit.is_unapproved().then(|| self.repeatable());
        let second = self.permit.second_run(Lacked::Secrets);
        Some(SandboxNotes { confinement, may_escape, connects, directory, unapproved, second })
    }

    /// The directory above which the sandbox shows nothing; `None` without a sandbox.
    fn hidden_above(&self) -> Option<PathBuf> {
        let is_confined = self.command.confinement.is_some();
        is_confined.then(|| self.permitted.workspace.root().to_owned())
    }

    fn end(&mut self) -> CommandEnd {
        CommandEnd { confined: self.confined.take(), look: self.look.take() }
    }

    fn line(&self) -> &str {
        &self.permitted.command_line.line
    }

    fn max_chars(&self) -> usize {
        self.context.max_chars.unwrap_or(MAX_CHARACTERS)
    }
}

/// Waits, and tells meanwhile what the command prints.
async fn while_told<T>(
    wait: impl Future<Output = T>,
    output: &CommandOutput,
    progress: &CallProgress,
) -> T {
    let mut wait = pin!(wait);
    let mut told = LatestOutput::default();
    loop {
        tokio::select! {
            biased;
            done = &mut wait => return done,
            () = sleep(TELLING_INTERVAL) => {}
        }
        let latest = output.latest_since(told.end, MAX_TOLD);
        if !latest.lines.is_empty() || latest.unfinished != told.unfinished {
            let (lines, unfinished) = (latest.lines.clone(), latest.unfinished.clone());
            progress.tell(ProgressText { lines, unfinished });
        }
        told = latest;
    }
}

/// Waits for the end of a command, which a cancelled turn brings about.
async fn ended(running: &mut Running, cancelled: &CancellationToken) -> Result<Finished, RunError> {
    tokio::select! {
        biased;
        finished = running.ended() => return finished,
        () = cancelled.cancelled() => running.control().stop(StopReason::Cancelled),
    }
    running.ended().await
}

/// A command that is confined to reading.
struct ConfinedReader {
    command: RepeatableCommand,
    confinement: Arc<Confinement>,
    /// What becomes of it when it comes again to write.
    writing: SecondRun,
    /// The same for reading a file that may hold secrets.
    secrets: SecondRun,
}

impl ConfinedReader {
    /// Says that the command failed because it could only read, and remembers it: when it comes
    /// again it is no reader.
    fn note(&self, finished: &Finished) -> Option<String> {
        if !answer::failed_to_write(finished) {
            return None;
        }
        let met = MaskedPaths::met(&printed(finished), &self.confinement, &self.command.directory);
        let (lacked, second) = match met.closed {
            Some(_) => (Lacked::Secrets, self.secrets),
            None => (Lacked::Writing, self.writing),
        };
        self.command.remember(lacked);
        Some(answer::confined_to_reading(second))
    }
}

/// What is needed when a command that went to the background has ended.
struct CommandTaskEnd {
    exit_one: ExitOne,
    sandbox: Option<SandboxNotes>,
    reader: Option<ConfinedReader>,
    hidden_above: Option<PathBuf>,
    end: CommandEnd,
}

impl CommandTaskEnd {
    fn conclude(self) -> Conclude {
        let Self { exit_one, sandbox, reader, hidden_above, end } = self;
        Box::new(move |finished| {
            let concluded = async move {
                let (mut notes, _) = end.notes(IsTold::Later).await;
                let finished = match finished {
                    Ok(finished) => finished,
                    Err(error) => return TaskEnd::not_run(&error),
                };
                notes.extend(sandbox.into_iter().flat_map(|it| it.of(&finished, exit_one)));
                notes.extend(reader.and_then(|reader| reader.note(&finished)));
                notes.extend(repository_above::note(&finished, hidden_above).await);
                answer::task_end(exit_one, &finished, notes)
            };
            concluded.boxed()
        })
    }
}

/// What is needed when a command has ended.
struct CommandEnd {
    confined: Option<Confined>,
    look: Option<PendingLook>,
}

impl CommandEnd {
    /// What the sandbox has to say in the answer, and what the command has left that other
    /// programs obey, a line for each kind.
    async fn notes(self, told: IsTold) -> (Vec<String>, Vec<String>) {
        let Self { confined, look } = self;
        let mut notes: Vec<String> =
            confined.as_ref().and_then(answer::cut_short).into_iter().collect();
        let Some(look) = look else { return (notes, Vec::new()) };
        let LeftBehind { lines, says_cut } = look.make(told).await;
        notes.extend(lines.iter().map(|line| answer::left_behind(line)));
        notes.extend(says_cut.then(|| answer::NOT_ALL_LOOKED_AT.to_owned()));
        (notes, lines)
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
                context.agent.set_working_dir(directory.to_owned());
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

fn reset(context: &CallContext, why: &str) -> String {
    let root = context.session.workspace.root();
    context.agent.set_working_dir(root.to_owned());
    format!("(the working directory is {} again: {why})", root.display())
}
