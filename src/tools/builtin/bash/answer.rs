//! Writes the answer for a finished command. Pure.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::last_command;
use crate::processes::confinement::Level;
use crate::processes::sandbox::Confined;
use crate::processes::{EndCause, Exit, Finished};
use crate::text::printable;
use crate::tools::answer::{AnswerText, Truncation};
use crate::tools::tool::ToolOutput;

/// Characters of a command's output that reach the model.
pub(super) const MAX_CHARACTERS: usize = 30_000;

const HOW_TO_SEE_MORE: &str =
    "pipe the command through head, tail or grep, or send its output to a file and Read that";

pub(super) fn answer(
    command: &str,
    time: Duration,
    level: Option<Level>,
    (finished, max_chars): (&Finished, usize),
    notes: &[String],
) -> ToolOutput {
    let text_of = |shown: &str| {
        let text = AnswerText::from(shown.trim_end_matches('\n'));
        text.cut_by(Truncation::HeadAndTail).closed_by(closing_lines(time, finished, notes))
    };
    let room = text_of("").room_for_body(max_chars);
    let shown = finished.output.render(room, HOW_TO_SEE_MORE);
    let shown = shown.trim_end_matches('\n');
    ToolOutput {
        text: text_of(shown),
        pictures: Vec::new(),
        hooks_only: &[],
        structured: json!({
            "stdout": shown,
            "interrupted": finished.cause == EndCause::Cancelled,
            "exit_code": exit_code(finished),
            "sandbox": level.map_or("off", Level::name),
        }),
        is_error: is_error(command, finished),
    }
}

/// The most control files that are named. A checkout changes many.
const MAX_NAMED: usize = 5;

/// Names the control files that a command has changed where nothing protects them.
pub(super) fn unprotected(changed: &[PathBuf]) -> Option<String> {
    if changed.is_empty() {
        return None;
    }
    let named: Vec<String> =
        changed.iter().take(MAX_NAMED).map(|path| printable(path.as_os_str().as_bytes())).collect();
    let more = match changed.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "(control files changed, which the sandbox here cannot protect: {}{more})",
        named.join(", ")
    ))
}

/// Says that rules with wildcards may deny more than the sandbox has held.
pub(super) fn cut_short(confined: &Confined) -> Option<String> {
    let note = "(there are more files here than the sandbox looks through for what \
        permissions.deny names by wildcards)";
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

fn is_error(text: &str, finished: &Finished) -> bool {
    let is_answer = match finished.exit {
        Some(Exit::Code(0)) => true,
        Some(Exit::Code(1)) => last_command::exit_code_one_is_an_answer(text),
        _ => false,
    };
    finished.cause != EndCause::ItsOwn || !is_answer
}

/// The lines after the output: how the command ended, and notes.
fn closing_lines(time: Duration, finished: &Finished, notes: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(how_it_ended(time, finished));
    lines.extend(leftovers(finished.leftovers));
    if 0 < finished.stuck {
        lines.push("(some of its processes could not be ended and may still run)".to_owned());
    }
    if finished.output.is_malformed() {
        lines.push("(bytes that are not UTF-8 are shown as \u{fffd})".to_owned());
    }
    lines.extend_from_slice(notes);
    lines
}

fn how_it_ended(time: Duration, finished: &Finished) -> Option<String> {
    match (finished.cause, finished.exit) {
        (EndCause::TimedOut, _) => Some(format!(
            "Command timed out after {} and was ended; if it needs more time, give a larger \
             timeout",
            seconds(time)
        )),
        (EndCause::TooMuchOutput, _) => {
            Some("output limit: the command was ended because it wrote more than 16 MiB".to_owned())
        }
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
        (EndCause::ItsOwn, None) => Some(
            "The command ended the process that looks after it, and was ended itself".to_owned(),
        ),
    }
}

fn leftovers(count: usize) -> Option<String> {
    let (what, were) = match count {
        0 => return None,
        1 => ("1 process".to_owned(), "was"),
        _ => (format!("{count} processes"), "were"),
    };
    Some(format!(
        "({what} that the command had left running {were} ended with it: nothing can go on in \
         the background)"
    ))
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
