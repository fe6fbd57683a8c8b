//! Writes the progress of a turn to stderr: a spinner on a terminal, plain lines elsewhere.

use std::collections::VecDeque;
use std::fmt::Write as _;

use rustix::termios::tcgetwinsize;
use tokio::time::Instant;

use super::answer::{AgentEvent, AgentStep, ToolEnd, ToolOutput, ToolStart};
use super::control_characters::{in_one_line, shown};
use super::output::to_stderr;
use crate::commands::style::are_escapes_wanted;
use crate::config::environment::Variables;
use crate::progress_lines;
use crate::tools::todos::{Todo, checklist};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

const CYAN: &str = "\x1b[36m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const FAINT: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";
/// Clears the line with the cursor, and moves to its start.
const CLEAR_LINE: &str = "\r\x1b[K";

/// The last lines of a running command that are drawn above the spinner.
const DRAWN_LINES: usize = 6;
/// Stands in front of them, and of what belongs to a call elsewhere.
const INDENT: &str = "  ";

/// Of a terminal that does not tell its width.
const USUAL_WIDTH: usize = 80;

/// How progress is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgressStyle {
    Quiet,
    Lines,
    Spinner,
}

#[derive(Debug)]
pub(super) struct Progress {
    style: ProgressStyle,
    /// The calls that run, the oldest first.
    running: Vec<Running>,
    /// When something was shown last.
    last_shown: Instant,
    frame: usize,
    /// How many lines are drawn that the next drawing takes away.
    drawn: usize,
}

#[derive(Debug)]
struct Running {
    id: String,
    label: String,
    since: Instant,
    /// The last lines that it has printed, or the steps of its agent.
    lines: VecDeque<String>,
    /// The line that it has begun, as it is now: a progress bar, or dots.
    unfinished: String,
    /// What its agent does now.
    step: Option<String>,
}

impl ProgressStyle {
    pub(super) fn choose(quiet: bool, is_terminal: bool, variables: &Variables) -> Self {
        match (quiet, is_terminal) {
            (true, _) => Self::Quiet,
            (false, true) if are_escapes_wanted(variables) => Self::Spinner,
            (false, _) => Self::Lines,
        }
    }
}

impl Progress {
    pub(super) fn new(style: ProgressStyle) -> Self {
        Self { style, running: Vec::new(), last_shown: Instant::now(), frame: 0, drawn: 0 }
    }

    pub(super) fn style(&self) -> ProgressStyle {
        self.style
    }

    pub(super) fn started(&mut self, start: &ToolStart) {
        let (tool, argument) = subject(&start.tool, start.argument.as_deref());
        if self.style == ProgressStyle::Lines {
            to_stderr(&progress_lines::started(&tool, &argument));
        }
        let label = format!("{tool} {argument}");
        let since = Instant::now();
        let id = start.id.clone();
        self.running.push(Running {
            id,
            label,
            since,
            lines: VecDeque::new(),
            unfinished: String::new(),
            step: None,
        });
    }

    /// A running command has printed something. The last lines of it stand above the spinner until it
    /// ends; where there is none they are written as they end.
    pub(super) fn printed(&mut self, output: &ToolOutput) {
        for line in shown(&output.text).lines() {
            self.add_line(&output.id, line.to_owned());
        }
        if let Some(running) = self.running_call(&output.id) {
            running.unfinished = in_one_line(&output.unfinished);
        }
    }

    /// An agent of a running call has begun or ended a call of its own.
    pub(super) fn agent(&mut self, event: &AgentEvent) {
        let line = match &event.step {
            AgentStep::ToolStart(start) => {
                let (tool, argument) = subject(&start.tool, start.argument.as_deref());
                if let Some(running) = self.running_call(&event.call_id) {
                    running.step = Some(progress_lines::subject(&tool, &argument));
                }
                progress_lines::started(&tool, &argument)
            }
            AgentStep::ToolEnd(end) => line_of_end(end),
            AgentStep::Other => return,
        };
        self.add_line(&event.call_id, line.trim_end().to_owned());
    }

    /// The model has written its todo list.
    pub(super) fn todos(&mut self, todos: &[Todo]) {
        if self.style == ProgressStyle::Quiet {
            return;
        }
        self.clear();
        for line in shown(&checklist(todos)).lines() {
            to_stderr(&format!("{INDENT}{line}\n"));
        }
    }

    /// The person is told of something that stands in no line of a call.
    pub(super) fn notice(&mut self, line: &str) {
        if self.style == ProgressStyle::Quiet {
            return;
        }
        self.clear();
        to_stderr(&shown(line));
    }

    fn add_line(&mut self, id: &str, line: String) {
        if self.style == ProgressStyle::Lines {
            to_stderr(&format!("{INDENT}{line}\n"));
        }
        if let Some(running) = self.running_call(id) {
            running.lines.push_back(line);
            if DRAWN_LINES < running.lines.len() {
                running.lines.pop_front();
            }
        }
    }

    fn running_call(&mut self, id: &str) -> Option<&mut Running> {
        self.running.iter_mut().find(|running| running.id == id)
    }

    pub(super) fn ended(&mut self, end: &ToolEnd) {
        self.running.retain(|running| running.id != end.id);
        self.last_shown = Instant::now();
        let line = line_of_end(end);
        match self.style {
            ProgressStyle::Quiet => {}
            ProgressStyle::Lines => to_stderr(&line),
            ProgressStyle::Spinner => {
                self.clear();
                to_stderr(&coloured(&line, if end.error.is_some() { RED } else { GREEN }));
            }
        }
    }

    /// Text of the answer was shown.
    pub(super) fn spoke(&mut self) {
        self.last_shown = Instant::now();
    }

    /// Draws the next frame of the spinner.
    pub(super) fn draw(&mut self) {
        if self.style != ProgressStyle::Spinner {
            return;
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let width = width();
        let mut drawing = cleared(self.drawn.max(1));
        let shown = self.running.iter().map(|running| running.shown(width));
        let lines = shown.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default();
        self.drawn = 1 + lines.len();
        for line in lines {
            _ = writeln!(drawing, "{INDENT}{FAINT}{line}{RESET}");
        }
        let line = spinner_line(FRAMES[self.frame], &self.label(), width);
        to_stderr(&format!("{drawing}{}", coloured(&line, CYAN)));
    }

    pub(super) fn clear(&mut self) {
        let drawn = std::mem::take(&mut self.drawn);
        if 0 < drawn {
            to_stderr(&cleared(drawn));
        }
    }

    fn label(&self) -> String {
        let (label, since) = match &self.running[..] {
            [] => ("waiting for the model".to_owned(), self.last_shown),
            [one] => match &one.step {
                Some(step) => (format!("{} · {step}", one.label), one.since),
                None => (one.label.clone(), one.since),
            },
            [first, others @ ..] => {
                (format!("{} and {} more", first.label, others.len()), first.since)
            }
        };
        format!("{:.1} s  {label}", since.elapsed().as_secs_f64())
    }
}

impl Running {
    /// The last lines, as they fit above the spinner.
    fn shown(&self, width: usize) -> Vec<String> {
        let columns = width.saturating_sub(INDENT.len() + 1);
        let mut lines: Vec<String> = self.lines.iter().map(|line| fitting(line, columns)).collect();
        if !self.unfinished.is_empty() {
            // What changes of it is at its end.
            lines.push(fitting_end(&self.unfinished, columns));
        }
        lines.split_off(lines.len().saturating_sub(DRAWN_LINES))
    }
}

/// The name and argument as they may be shown.
fn subject(tool: &str, argument: Option<&str>) -> (String, String) {
    (in_one_line(tool), in_one_line(argument.unwrap_or_default()))
}

fn line_of_end(end: &ToolEnd) -> String {
    let (tool, argument) = subject(&end.tool, end.argument.as_deref());
    let error = end.error.as_deref().map(in_one_line);
    progress_lines::ended(&tool, &argument, (end.duration(), end.chars), error.as_deref())
}

/// Colours the first character of a line.
fn coloured(line: &str, colour: &str) -> String {
    let rest = line.char_indices().nth(1).map_or(line.len(), |(at, _)| at);
    format!("{colour}{}{RESET}{}", &line[..rest], &line[rest..])
}

/// The spinner's line. A line that wraps could not be cleared, so it is cut to the width.
fn spinner_line(frame: char, label: &str, width: usize) -> String {
    format!("{frame} {}", fitting(label, width.saturating_sub(3)))
}

/// The beginning of a text that fits into so many columns.
fn fitting(text: &str, columns: usize) -> String {
    fitting_chars(text.chars(), columns).into_iter().collect()
}

/// The end of a text that fits into so many columns.
fn fitting_end(text: &str, columns: usize) -> String {
    fitting_chars(text.chars().rev(), columns).into_iter().rev().collect()
}

/// As many of the characters as fit into so many columns.
fn fitting_chars(chars: impl Iterator<Item = char>, mut columns: usize) -> Vec<char> {
    let mut fitting = Vec::new();
    for c in chars {
        // The terminal may show a character beyond ASCII two columns wide.
        let wide = match c {
            '\t' => 8,
            c if c.is_ascii() => 1,
            _ => 2,
        };
        if columns < wide {
            break;
        }
        columns -= wide;
        fitting.push(c);
    }
    fitting
}

/// Clears so many lines, and leaves the cursor at the start of the first. It stands on the last.
fn cleared(lines: usize) -> String {
    let above = format!("\x1b[A{CLEAR_LINE}").repeat(lines - 1);
    format!("{CLEAR_LINE}{above}")
}

fn width() -> usize {
    let size = tcgetwinsize(std::io::stderr());
    size.map_or(USUAL_WIDTH, |size| match size.ws_col {
        0 => USUAL_WIDTH,
        columns => columns.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_for_terminals_that_want_them() {
        let check = |quiet: bool,
                     is_terminal: bool,
                     variables: &[(&str, &str)],
                     expected: ProgressStyle| {
            let variables = variables.iter().copied().collect();
            assert_eq!(ProgressStyle::choose(quiet, is_terminal, &variables), expected);
        };
        let xterm = ("TERM", "xterm");
        check(false, true, &[xterm], ProgressStyle::Spinner);
        check(false, true, &[xterm, ("NO_COLOR", "")], ProgressStyle::Spinner);
        check(false, true, &[xterm, ("NO_COLOR", "1")], ProgressStyle::Lines);
        check(false, true, &[("TERM", "dumb")], ProgressStyle::Lines);
        check(false, true, &[], ProgressStyle::Lines);
        check(false, false, &[xterm], ProgressStyle::Lines);
        check(true, true, &[xterm], ProgressStyle::Quiet);
    }

    #[test]
    fn the_spinners_line_never_wraps() {
        assert_eq!(spinner_line('⠋', "0.1 s  Read a", 80), "⠋ 0.1 s  Read a");
        assert_eq!(spinner_line('⠋', "abcdef", 7), "⠋ abcd");
        assert_eq!(spinner_line('⠋', "東京東京", 7), "⠋ 東京");
        assert_eq!(spinner_line('⠋', "abc", 1), "⠋ ");
    }

    #[test]
    fn of_a_line_that_has_not_ended_the_end_is_drawn() {
        let mut progress = Progress::new(ProgressStyle::Quiet);
        let start = ToolStart { id: "c1".into(), tool: "Bash".into(), argument: None };
        progress.started(&start);
        let mut print = |text: &str, unfinished: &str| {
            let (text, unfinished) = (text.to_owned(), unfinished.to_owned());
            progress.printed(&ToolOutput { id: "c1".to_owned(), text, unfinished });
            progress.running[0].shown(10)
        };
        assert_eq!(print("", "10%"), ["10%"]);
        assert_eq!(print("1\n2\n3\n4\n5\n", "20%"), ["1", "2", "3", "4", "5", "20%"]);
        assert_eq!(print("6\n", "123456789"), ["2", "3", "4", "5", "6", "3456789"]);
        assert_eq!(print("7\n", ""), ["2", "3", "4", "5", "6", "7"]);
        assert_eq!(print("", "a\u{1b}[31mb"), ["3", "4", "5", "6", "7", "1b[31mb"]);
    }

    #[test]
    fn only_the_sign_is_coloured() {
        assert_eq!(coloured("✓ Read a\n", GREEN), "\x1b[32m✓\x1b[0m Read a\n");
    }
}
