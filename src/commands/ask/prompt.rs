//! Reads the prompt: from the command line, from stdin, or from both.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Read as _};
use std::time::Duration;

use rustix::fs::{FileType, fstat};

use super::error::{AskError, ErrorKind};
use super::output::to_stderr;

/// The argument that stands for stdin.
const STDIN: &str = "-";

/// Twice what a server accepts by default.
const MAX_PROMPT: u64 = 64 << 20;

/// How long stdin may stay open before the user is told what the command waits for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The prompt of the argument, with what is piped into stdin.
pub(super) async fn read(argument: &OsStr) -> Result<String, AskError> {
    let argument = argument.to_str().ok_or_else(|| usage("the prompt is not UTF-8"))?;
    let piped = if argument == STDIN || is_piped() { Some(read_stdin().await?) } else { None };
    joined(argument, piped)
}

/// Joins both parts, with an empty line between them.
fn joined(argument: &str, piped: Option<Vec<u8>>) -> Result<String, AskError> {
    let piped = String::from_utf8(piped.unwrap_or_default()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        usage(format!("stdin is not UTF-8 (at byte {at})"))
    })?;
    let piped = piped.trim_end_matches(['\n', '\r']);
    let prompt = match argument {
        STDIN | "" => piped.to_owned(),
        argument if piped.is_empty() => argument.to_owned(),
        argument => format!("{argument}\n\n{piped}"),
    };
    if prompt.trim().is_empty() { Err(usage("the prompt is empty")) } else { Ok(prompt) }
}

/// Whether stdin has text for us. A terminal and `/dev/null` have none.
fn is_piped() -> bool {
    let kind = fstat(io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
}

async fn read_stdin() -> Result<Vec<u8>, AskError> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_PROMPT + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let note = async {
        tokio::time::sleep(PATIENCE).await;
        to_stderr(waiting(io::stdin().is_terminal()));
        std::future::pending().await
    };
    let bytes = tokio::select! {
        read = reading => read,
        never = note => never,
    };
    let bytes = bytes.unwrap_or_else(|died| Err(io::Error::other(died)));
    let bytes = bytes.map_err(|error| usage(format!("stdin cannot be read: {error}")))?;
    if MAX_PROMPT < bytes.len() as u64 {
        return Err(usage(format!("stdin holds more than {MAX_PROMPT} bytes")));
    }
    Ok(bytes)
}

fn waiting(is_terminal: bool) -> &'static str {
    if is_terminal {
        "reading the prompt from the terminal; Ctrl-D ends it\n"
    } else {
        "waiting for the end of stdin, which is appended to the prompt (</dev/null leaves it out)\n"
    }
}

fn usage(message: impl Into<String>) -> AskError {
    AskError::new(ErrorKind::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_follows_after_an_empty_line() {
        let check = |argument: &str, piped: Option<&[u8]>, expected: &str| {
            let prompt = joined(argument, piped.map(<[u8]>::to_vec));
            assert_eq!(prompt.unwrap_or_else(|error| error.sentence()), expected);
        };
        check("read a", None, "read a");
        check("read a", Some(b""), "read a");
        check("what is this?", Some(b"one\ntwo\n"), "what is this?\n\none\ntwo");
        check("-", Some(b" one\n\n"), " one");
        check("-", Some(b"\n"), "the prompt is empty");
        check(" ", None, "the prompt is empty");
        check("", Some(b"x"), "x");
        check("x", Some(b"ab\xff"), "stdin is not UTF-8 (at byte 2)");
    }
}
