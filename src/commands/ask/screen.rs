//! Shows the answer on stdout and the progress on stderr, which may be the same terminal.

use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::time::Duration;

use super::answer::Shown;
use super::control_characters::shown;
use super::output::{Stdout, to_stderr};
use super::progress::{Progress, ProgressStyle};
use crate::config::environment::Variables;

/// The time between two frames of the spinner.
const FRAME: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Screen {
    stdout: Stdout,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    /// Whether the answer ends with a line break so far.
    at_line_start: bool,
    /// The same for the question on stderr.
    stderr_at_line_start: bool,
    /// Whether the next text begins a further part of the answer.
    is_next_part: bool,
    has_text: bool,
    progress: Progress,
}

impl Screen {
    pub(super) fn open(quiet: bool, variables: &Variables) -> io::Result<Self> {
        let stderr_is_terminal = io::stderr().is_terminal();
        Ok(Self {
            stdout: Stdout::open()?,
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal,
            at_line_start: true,
            stderr_at_line_start: true,
            is_next_part: false,
            has_text: false,
            progress: Progress::new(ProgressStyle::choose(quiet, stderr_is_terminal, variables)),
        })
    }

    /// A screen without progress.
    #[cfg(test)]
    pub(super) fn silent() -> Self {
        Self::open(true, &Variables::default()).expect("stdout is open")
    }

    /// Whether the cursor of the user's terminal may stand in the middle of a line.
    pub(super) fn is_on_terminal(&self) -> bool {
        self.stderr_is_terminal && (self.stdout_is_terminal || self.has_spinner())
    }

    /// Waits, with the spinner turning.
    pub(super) async fn during<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        if !self.has_spinner() {
            return wait.await;
        }
        loop {
            tokio::select! {
                biased;
                done = &mut wait => return done,
                () = tokio::time::sleep(FRAME) => self.draw(),
            }
        }
    }

    pub(super) fn show(&mut self, what: &Shown) -> io::Result<()> {
        match what {
            Shown::Text(text) => {
                self.progress.spoke();
                if std::mem::take(&mut self.is_next_part) && self.has_text {
                    self.write("\n\n")?;
                }
                self.has_text = true;
                self.write(text)?;
            }
            Shown::Question(text) => self.question(text),
            Shown::ToolStarted(start) => {
                self.begin_line();
                self.progress.started(start);
            }
            Shown::ToolEnded(end) => {
                self.begin_line();
                self.progress.ended(end);
            }
        }
        Ok(())
    }

    /// Shows a question to the person, on stderr.
    pub(super) fn question(&mut self, text: &str) {
        self.progress.clear();
        self.progress.spoke();
        if self.is_on_terminal() && self.stdout_is_terminal && !self.at_line_start {
            to_stderr("\n");
        }
        self.at_line_start = true;
        if !text.is_empty() {
            self.stderr_at_line_start = text.ends_with('\n');
        }
        to_stderr(&shown(text));
    }

    /// Ends the question's last line.
    pub(super) fn end_question(&mut self) {
        self.progress.clear();
        if !std::mem::replace(&mut self.stderr_at_line_start, true) {
            to_stderr("\n");
        }
    }

    /// Whether a person can be asked: at a terminal from which the reply can be read.
    pub(super) fn can_ask(&self) -> bool {
        self.stderr_is_terminal && io::stdin().is_terminal()
    }

    /// A further answer follows, to the person's reply.
    pub(super) fn next_part(&mut self) {
        self.is_next_part = true;
    }

    /// Prints a whole answer, or an error object.
    pub(super) fn print(&mut self, json: &[u8]) -> io::Result<()> {
        if self.stdout_is_terminal {
            return self.write(&String::from_utf8_lossy(json));
        }
        self.stdout.write_all(json)
    }

    /// Leaves the cursor at the start of a line.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.progress.clear();
        if self.stdout_is_terminal && !self.at_line_start {
            self.at_line_start = true;
            self.stdout.write_all(b"\n")?;
        }
        Ok(())
    }

    fn has_spinner(&self) -> bool {
        self.progress.style() == ProgressStyle::Spinner
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if !self.stdout_is_terminal {
            return self.stdout.write_all(text.as_bytes());
        }
        if self.stderr_is_terminal {
            self.progress.clear();
        }
        if !text.is_empty() {
            self.at_line_start = text.ends_with('\n');
        }
        self.stdout.write_all(shown(text).as_bytes())
    }

    fn draw(&mut self) {
        // The answer's last line must not be overwritten.
        if (!self.stdout_is_terminal || self.at_line_start) && self.stderr_at_line_start {
            self.progress.draw();
        }
    }

    /// Progress does not continue a line of the answer.
    fn begin_line(&mut self) {
        let is_shown = self.progress.style() != ProgressStyle::Quiet;
        if is_shown && self.is_on_terminal() && self.stdout_is_terminal && !self.at_line_start {
            self.at_line_start = true;
            to_stderr("\n");
        }
    }
}
