//! Shows the answer on stdout and the progress on stderr, which may be the same terminal.

use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::answer::Shown;
use super::control_characters::shown;
use super::markdown::MarkdownText;
use super::output::{Stdout, to_stderr};
use super::progress::{Progress, ProgressStyle};
use crate::commands::style::are_escapes_wanted;
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
    part: Part,
    question: QuestionText,
    /// Whether a reply is awaited: then no turn runs.
    awaits_reply: Arc<AtomicBool>,
    progress: Progress,
    /// The answer and the question, where Markdown is rendered. Elsewhere they go as they are.
    answer: Option<MarkdownText>,
    asking: Option<MarkdownText>,
}

/// Where the next text of the answer belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Nothing was said yet.
    First,
    /// Behind the text before it.
    Same,
    /// Behind a person's reply.
    Next,
}

/// How the question on stderr ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuestionText {
    /// With a line break, or there is none.
    Line,
    Open,
}

impl Screen {
    pub(super) fn open(quiet: bool, variables: &Variables) -> io::Result<Self> {
        let stderr_is_terminal = io::stderr().is_terminal();
        let stdout_is_terminal = io::stdout().is_terminal();
        let escapes = are_escapes_wanted(variables);
        Ok(Self {
            stdout: Stdout::open()?,
            stdout_is_terminal,
            stderr_is_terminal,
            at_line_start: true,
            part: Part::First,
            question: QuestionText::Line,
            awaits_reply: Arc::default(),
            progress: Progress::new(ProgressStyle::choose(quiet, stderr_is_terminal, variables)),
            answer: (escapes && stdout_is_terminal).then(MarkdownText::default),
            asking: (escapes && stderr_is_terminal).then(MarkdownText::default),
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
                if std::mem::replace(&mut self.part, Part::Same) == Part::Next {
                    self.write_answer("\n\n")?;
                }
                self.write_answer(text)?;
            }
            Shown::Question(text) => self.question(text),
            Shown::ToolStarted(start) => {
                self.begin_line()?;
                self.progress.started(start);
            }
            Shown::ToolOutput(output) => {
                self.begin_line()?;
                self.progress.printed(output);
            }
            Shown::Agent(event) => {
                self.begin_line()?;
                self.progress.agent(event);
            }
            Shown::Todos(todos) => {
                self.begin_line()?;
                self.progress.todos(todos);
            }
            Shown::Notice(line) => {
                self.begin_line()?;
                self.progress.notice(line);
            }
            Shown::ToolEnded(end) => {
                self.begin_line()?;
                self.progress.ended(end);
            }
        }
        Ok(())
    }

    /// Shows a question to the person, on stderr.
    pub(super) fn question(&mut self, text: &str) {
        // What stdout does not take, the end of the answer will report.
        _ = self.flush_answer();
        self.progress.clear();
        self.progress.spoke();
        if self.is_on_terminal() && self.stdout_is_terminal && !self.at_line_start {
            to_stderr("\n");
        }
        if self.stdout_is_terminal {
            self.at_line_start = true;
        }
        if !text.is_empty() {
            let ends_line = text.ends_with('\n');
            self.question = if ends_line { QuestionText::Line } else { QuestionText::Open };
        }
        match &mut self.asking {
            Some(markdown) => to_stderr(&markdown.push(text)),
            None => to_stderr(&shown(text)),
        }
    }

    /// Ends the question's last line.
    pub(super) fn end_question(&mut self) {
        self.progress.clear();
        if let Some(markdown) = &mut self.asking {
            to_stderr(&std::mem::take(markdown).flush());
        }
        if std::mem::replace(&mut self.question, QuestionText::Line) == QuestionText::Open {
            to_stderr("\n");
        }
    }

    /// Whether a person can be asked: at a terminal from which the reply can be read.
    pub(super) fn can_ask(&self) -> bool {
        self.stderr_is_terminal && io::stdin().is_terminal()
    }

    /// Whether a reply is awaited, for one who may interrupt that.
    pub(super) fn awaits_reply(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.awaits_reply)
    }

    /// A further answer follows, to the person's reply.
    pub(super) fn next_part(&mut self) {
        if self.part == Part::Same {
            self.part = Part::Next;
        }
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
        self.flush_answer()?;
        self.answer = self.answer.take().map(|_| MarkdownText::default());
        self.part = Part::First;
        self.progress.clear();
        if self.stdout_is_terminal && !self.at_line_start {
            self.at_line_start = true;
            self.stdout.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Ends the screen of an answer that another one may follow: its last line ends, in a pipe too.
    pub(super) fn end_answer(&mut self) -> io::Result<()> {
        self.end()?;
        if !self.at_line_start {
            self.write("\n")?;
        }
        Ok(())
    }

    fn has_spinner(&self) -> bool {
        self.progress.style() == ProgressStyle::Spinner
    }

    /// Writes a piece of the answer.
    fn write_answer(&mut self, text: &str) -> io::Result<()> {
        match &mut self.answer {
            Some(markdown) => {
                let rendered = markdown.push(text);
                self.write_safe(&rendered)
            }
            None => self.write(text),
        }
    }

    /// Writes what the rendering of the answer has held back.
    fn flush_answer(&mut self) -> io::Result<()> {
        match &mut self.answer {
            Some(markdown) => {
                let held = markdown.flush();
                self.write_safe(&held)
            }
            None => Ok(()),
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if !self.stdout_is_terminal {
            if !text.is_empty() {
                self.at_line_start = text.ends_with('\n');
            }
            return self.stdout.write_all(text.as_bytes());
        }
        self.write_safe(&shown(text))
    }

    /// Writes text that may go to a terminal as it is.
    fn write_safe(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.stderr_is_terminal {
            self.progress.clear();
        }
        self.at_line_start = text.ends_with('\n');
        self.stdout.write_all(text.as_bytes())
    }

    fn draw(&mut self) {
        // The answer's last line must not be overwritten.
        if (!self.stdout_is_terminal || self.at_line_start) && self.question == QuestionText::Line {
            self.progress.draw();
        }
    }

    /// Progress does not continue a line of the answer.
    fn begin_line(&mut self) -> io::Result<()> {
        self.flush_answer()?;
        let is_shown = self.progress.style() != ProgressStyle::Quiet;
        if is_shown && self.is_on_terminal() && self.stdout_is_terminal && !self.at_line_start {
            self.at_line_start = true;
            to_stderr("\n");
        }
        Ok(())
    }
}
