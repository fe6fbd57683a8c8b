//! Writes the answer for a command. Pure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::output_end::{printed, says, shell_has_complained};
use crate::permissions::SecondRun;
use crate::processes::confinement::Level;
use crate::processes::sandbox::Confined;
use crate::processes::{EndCause, Exit, Finished, HeadAndTail};
use crate::tools::answer::{AnswerText, Kept, Truncation};
use crate::tools::tasks::TaskEnd;
use crate::tools::tool::ToolOutput;

/// What exit code 1 of a command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitOne {
    /// Something such as "nothing found", of the command that has given it.
    IsAnAnswer,
    /// That a command has failed, or that may be so.
    IsAFailure,
}

/// What an answer is made of besides the end of the command.
pub(super) struct Call {
    /// What exit code 1 of the command says.
    pub(super) exit_one: ExitOne,
    pub(super) time: Duration,
    pub(super) level: Option<Level>,
    /// Whether the command was confined to reading.
    pub(super) reads_only: bool,
    /// The file of the output, if one was made.
    pub(super) path: Option<PathBuf>,
    pub(super) max_chars: usize,
    /// Whether commands may go to the background.
    pub(super) has_tasks: bool,
}

impl Call {
    /// For a command that has ended.
    pub(super) fn ended(&self, finished: &Finished, notes: &[String]) -> ToolOutput {
        let mut lines: Vec<String> = Vec::new();
        lines.extend(how_it_ended(self.time, self.level, finished));
        lines.extend(after_its_end(finished, self.has_tasks));
        lines.extend_from_slice(notes);
        let body = self.body(&finished.output.so_far().0, finished.output.file_fault());
        let structured = json!({
            "stdout": body.to_string(),
            "interrupted": finished.cause == EndCause::Cancelled,
            "exit_code": exit_code(finished),
            "task_id": null,
            "raw_output_path": self.path,
            "sandbox": self.sandbox(),
            "reads_only": self.reads_only,
        });
        let is_error = is_error(self.exit_one, finished);
        ToolOutput { is_error, ..ToolOutput::text(body.closed_by(lines)).with(structured) }
    }

    /// For a command that has had its time, and goes on as a task.
    pub(super) fn goes_on(&self, id: &str, output: &HeadAndTail, notes: Vec<String>) -> ToolOutput {
        let time = seconds(self.time);
        let went = format!("Still running after {time}: it goes on as background task {id}");
        let lines = [went].into_iter().chain(place(self.path.as_deref())).chain(notes);
        let body = self.body(output, None);
        let structured = self.running(id, &body.to_string());
        ToolOutput::text(body.closed_by(lines)).with(structured)
    }

    /// For a command that was started in the background.
    pub(super) fn started(&self, id: &str, notes: Vec<String>) -> ToolOutput {
        let started = format!("Background task started: {id}");
        let lines = place(self.path.as_deref()).into_iter().chain(notes);
        let text = AnswerText::default().closed_by([started].into_iter().chain(lines));
        ToolOutput::text(text).with(self.running(id, ""))
    }

    fn running(&self, id: &str, stdout: &str) -> serde_json::Value {
        json!({
            "stdout": stdout,
            "interrupted": false,
            "exit_code": null,
            "task_id": id,
            "raw_output_path": self.path,
            "sandbox": self.sandbox(),
            "reads_only": self.reads_only,
        })
    }

    /// `fault` says why the file does not have the whole output.
    fn body(&self, output: &HeadAndTail, fault: Option<String>) -> AnswerText {
        let kept = match (fault, &self.path) {
            (Some(fault), _) => Kept::Not(fault),
            (None, Some(path)) => Kept::At(path.clone()),
            (None, None) => Kept::Nowhere,
        };
        let shown = output.shown(self.max_chars);
        let tail = shown.tail.trim_end_matches('\n').to_owned();
        if shown.left_out == 0 {
            let whole = shown.head.trim_end_matches('\n');
            return AnswerText::from(whole).cut_by(Truncation::HeadAndTail);
        }
        AnswerText::with_gap(shown.head, shown.left_out, kept, tail)
    }

    fn sandbox(&self) -> &'static str {
        self.level.map_or("off", Level::name)
    }
}

/// What is told of a task that has ended.
pub(super) fn task_end(exit_one: ExitOne, finished: &Finished, notes: Vec<String>) -> TaskEnd {
    let reason = match (finished.cause, finished.exit) {
        (EndCause::ItsOwn, Some(Exit::Code(_))) | (EndCause::Stopped | EndCause::Cancelled, _) => {
            None
        }
        (EndCause::ItsOwn, Some(Exit::Signal(signal))) => {
            Some(format!("signal {}", signal_name(signal)))
        }
        (EndCause::ItsOwn, None) => Some("the process that looked after it was killed".to_owned()),
        (EndCause::TimedOut, _) => Some("time limit".to_owned()),
        (EndCause::TooMuchOutput, _) => Some("output limit: more than 16 MiB".to_owned()),
        (EndCause::NoRoomForOutput, _) => Some(
            "output limit: the outputs of running commands fill what may be kept of this session, \
             tools.spill_bytes"
                .to_owned(),
        ),
        (EndCause::TooManyProcesses, _) => Some("process limit: more than 512 at once".to_owned()),
    };
    let is_success = |code| code == 0 || code == 1 && is_answer(exit_one, finished);
    let notes = after_its_end(finished, true).into_iter().chain(notes).collect();
    TaskEnd::new(finished, reason, is_success, notes)
}

/// Follows the output of a command that could not do more than read.
pub(super) fn confined_to_reading(second: SecondRun) -> String {
    format!(
        "(it ran confined to reading, as a command that only reads: nothing can be written then, \
         there is no network, and files that may hold secrets cannot be read. If it has to do more, \
         {})",
        second.advice()
    )
}

/// What programs say where nothing may be written, in lower case.
const NOT_WRITTEN: [&str; 5] =
    ["read-only file system", "permission denied", "operation not permitted", "erofs", "eacces"];

/// Whether a command that could only read failed because of that.
pub(super) fn failed_to_write(finished: &Finished) -> bool {
    let has_failed = finished.cause == EndCause::ItsOwn && finished.exit != Some(Exit::Code(0));
    if !has_failed {
        return false;
    }
    says(&printed(finished), &NOT_WRITTEN)
}

/// Says where the output of a task is.
fn place(path: Option<&Path>) -> Option<String> {
    path.map(|path| format!("Its output: {}", path.display()))
}

/// Says what a command has left that other programs obey.
pub(super) fn left_behind(line: &str) -> String {
    format!("(left behind: {line})")
}

/// Says that a command may have left more than was found.
pub(super) const NOT_ALL_LOOKED_AT: &str = "(not all of the workspace was looked at for what other \
    programs obey: it is too large)";

/// Says that rules with wildcards may deny more than the sandbox has held.
pub(super) fn cut_short(confined: &Confined) -> Option<String> {
    let note = "(there are more files here than are looked through for secrets, and for what the \
        wildcards of permissions.deny cover: the sandbox does not close all of them)";
    confined.is_cut.then(|| note.to_owned())
}

/// Writes a time as `2 s` or `1.5 s`.
pub(super) fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

fn exit_code(finished: &Finished) -> Option<i32> {
    match finished.exit {
        Some(Exit::Code(code)) => Some(code),
        Some(Exit::Signal(_)) | None => None,
    }
}

/// Whether the command ended by itself, and neither well nor with an answer.
pub(super) fn has_failed(exit_one: ExitOne, finished: &Finished) -> bool {
    finished.cause == EndCause::ItsOwn && is_error(exit_one, finished)
}

fn is_error(exit_one: ExitOne, finished: &Finished) -> bool {
    let is_answer = match finished.exit {
        Some(Exit::Code(0)) => true,
        Some(Exit::Code(1)) => is_answer(exit_one, finished),
        _ => false,
    };
    finished.cause != EndCause::ItsOwn || !is_answer
}

/// Whether exit code 1 is an answer: no program can have given it that has failed then, and the
/// shell says nothing of a redirect or a directory of its own.
fn is_answer(exit_one: ExitOne, finished: &Finished) -> bool {
    exit_one == ExitOne::IsAnAnswer && !shell_has_complained(finished)
}

/// What else is to be said of a command that has ended.
fn after_its_end(finished: &Finished, has_tasks: bool) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(leftovers(finished.leftovers, has_tasks));
    if 0 < finished.stuck {
        lines.push("(some of its processes could not be ended and may still run)".to_owned());
    }
    if finished.output.is_malformed() {
        lines.push("(bytes that are not UTF-8 are shown as \u{fffd})".to_owned());
    }
    lines
}

fn how_it_ended(time: Duration, level: Option<Level>, finished: &Finished) -> Option<String> {
    match (finished.cause, finished.exit) {
        (EndCause::TimedOut, _) => Some(format!(
            "Command timed out after {} and was ended; if it needs more time, give a larger \
             timeout",
            seconds(time)
        )),
        (EndCause::TooMuchOutput, _) => {
            Some("output limit: the command was ended because it wrote more than 16 MiB".to_owned())
        }
        (EndCause::NoRoomForOutput, _) => Some(
            "output limit: the command was ended because the outputs of running commands fill \
             what may be kept of this session, tools.spill_bytes"
                .to_owned(),
        ),
        (EndCause::TooManyProcesses, _) => Some(
            "process limit: the command was ended because it had more than 512 processes at once"
                .to_owned(),
        ),
        (EndCause::Cancelled, _) => Some("interrupted".to_owned()),
        (EndCause::Stopped, _) => Some("The command was stopped".to_owned()),
        (EndCause::ItsOwn, Some(Exit::Code(0))) => None,
        (EndCause::ItsOwn, Some(Exit::Code(code))) => Some(format!("Exit code {code}")),
        (EndCause::ItsOwn, Some(Exit::Signal(signal))) => {
            Some(format!("Killed by signal {}", signal_name(signal)))
        }
        (EndCause::ItsOwn, None) => Some(supervisor_killed(level).to_owned()),
    }
}

/// Says that a command has lost its supervisor. Nobody can see who has killed it; out of a sandbox
/// no signal comes.
fn supervisor_killed(level: Option<Level>) -> &'static str {
    match level {
        Some(_) => {
            "The process that looks after the command was killed from outside of the sandbox, so \
             the command was ended and its exit code is not known. The command cannot be the \
             cause: the system ran out of memory, or somebody killed it. Look at what the command \
             has done so far before you run it again"
        }
        None => {
            "The process that looks after the command was killed, so the command was ended and its \
             exit code is not known. A command that ends processes by a name or all at once (pkill, \
             killall, kill -9 -1) can do that: if this one does, end processes by their ids \
             instead. If not, the system ran out of memory, or somebody killed it: look at what \
             the command has done so far before you run it again"
        }
    }
}

fn leftovers(count: usize, has_tasks: bool) -> Option<String> {
    let (what, were) = match count {
        0 => return None,
        1 => ("1 process".to_owned(), "was"),
        _ => (format!("{count} processes"), "were"),
    };
    let instead = if has_tasks {
        "use run_in_background for what must keep running"
    } else {
        "nothing can keep running in the background here"
    };
    Some(format!("({what} that the command left running {were} ended; {instead})"))
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGSYS => "SIGSYS",
        _ => return signal.to_string(),
    };
    format!("{signal} ({name})")
}
