//! Starts our own binary once more, to parse a file that could break its parser.
//!
//! The process gets the file as its standard input and answers on its standard output. It
//! inherits no environment, cannot open a file or a connection, and its memory and time are limited. If it
//! loops or crashes, it has done so alone.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, Take};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) use self::confinement::{WorkerLimits, confine_self};

mod confinement;

/// The hidden command that makes our binary a worker.
const COMMAND: &str = "__worker";

/// How long a worker may take. A document of a hundred megabytes takes some seconds.
const MAX_TIME: Duration = Duration::from_secs(30);

/// How long the end of a worker that was killed is waited for.
const MAX_END: Duration = Duration::from_secs(1);

/// The most bytes of an answer that are taken.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Our allocator would reserve as much address space at its start as a worker may have.
const NO_RESERVE: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");

/// Starts workers.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    program: PathBuf,
    time: Duration,
}

/// What a worker has answered before its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Vec<u8>,
    pub(crate) end: WorkerEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerEnd {
    /// It has done its work.
    InOrder,
    /// It was ended at the time limit.
    TimedOut,
    /// It was ended because it answered too much.
    TooMuchOutput,
    /// It crashed, or ran out of memory.
    BrokeDown,
    Cancelled,
}

impl Workers {
    /// `program` is our own binary.
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), time: MAX_TIME }
    }

    #[cfg(all(test, feature = "pdf"))]
    pub(crate) fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Has a worker do `task` with the contents of `file`. It ends with this future.
    pub(crate) async fn run(
        &self,
        task: &str,
        arguments: &[String],
        file: File,
        cancelled: &CancellationToken,
    ) -> io::Result<Answer> {
        let mut child = self.start(task, arguments, file)?;
        let pipe = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
        let mut pipe = pipe.take(MAX_OUTPUT_BYTES as u64 + 1);
        let mut output = Vec::new();
        let end = tokio::select! {
            ended = timeout(self.time, work(&mut child, &mut pipe, &mut output)) => match ended {
                Ok(status) => end_of(status?),
                Err(_) => WorkerEnd::TimedOut,
            },
            () = cancelled.cancelled() => WorkerEnd::Cancelled,
        };
        // It may still run. One that a file system holds is left to the runtime.
        _ = timeout(MAX_END, child.kill()).await;
        if output.len() > MAX_OUTPUT_BYTES {
            return Ok(Answer { output, end: WorkerEnd::TooMuchOutput });
        }
        Ok(Answer { output, end })
    }

    fn start(&self, task: &str, arguments: &[String], file: File) -> io::Result<Child> {
        tokio::process::Command::new(&self.program)
            .arg0("toolhand")
            .arg(COMMAND)
            .arg(task)
            .args(arguments)
            .env_clear()
            .env(NO_RESERVE.0, NO_RESERVE.1)
            .current_dir("/")
            .stdin(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C on a terminal is for the server.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// Takes the worker's answer and waits for its end. Stops at the limit of answers.
async fn work(
    child: &mut Child,
    pipe: &mut Take<ChildStdout>,
    output: &mut Vec<u8>,
) -> io::Result<ExitStatus> {
    pipe.read_to_end(output).await?;
    if output.len() > MAX_OUTPUT_BYTES {
        child.start_kill()?;
    }
    child.wait().await
}

fn end_of(status: ExitStatus) -> WorkerEnd {
    if status.success() { WorkerEnd::InOrder } else { WorkerEnd::BrokeDown }
}

/// The arguments of this process, if it was started as a worker for `task`.
pub(crate) fn asked(task: &str) -> Option<Vec<String>> {
    let mut arguments = std::env::args_os().skip(1);
    let is_asked = arguments.next()? == COMMAND && arguments.next()? == task;
    is_asked.then(|| arguments.map(|argument| argument.to_string_lossy().into_owned()).collect())
}
