//! Collects what a card shows while its call runs: the end of what a command prints, and the steps
//! of an agent.

use std::sync::Arc;

use crate::agent::agent_event::AgentStep;
use crate::progress_lines;
use crate::text;
use crate::tools::call_progress::ProgressText;

/// The most that is shown, in bytes. Each update sends all of it.
const MAX_BYTES: usize = 4_000;

/// Stands where the beginning was left out.
const LEFT_OUT: &str = "…\n";

/// A clone is cheap: the encoder clones all cards with each piece that it sends.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningText {
    text: Arc<str>,
    /// A line behind it that has not ended, and may be redrawn.
    unfinished: Option<Arc<str>>,
    /// What an agent does now, in a line.
    step: Option<Arc<str>>,
}

impl RunningText {
    /// Nothing has been printed yet where there is none.
    pub(super) fn text(&self) -> Option<String> {
        let text = match &self.unfinished {
            Some(unfinished) => shortened(&[&*self.text, &**unfinished].concat()),
            None => self.text.to_string(),
        };
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn step(&self) -> Option<&str> {
        self.step.as_deref()
    }

    /// Adds what a command has printed, or a line that tells how far a call is.
    pub(super) fn tell(&mut self, told: &ProgressText) {
        if !told.lines.is_empty() {
            self.push(&told.lines);
        }
        let unfinished = Some(told.unfinished.as_str()).filter(|line| !line.is_empty());
        self.unfinished = unfinished.map(Arc::from);
    }

    /// Adds whole lines.
    fn push(&mut self, lines: &str) {
        let mut text = [&*self.text, lines].concat();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        self.text = shortened(&text).into();
    }

    /// Adds what an agent does. Returns whether there is something to show.
    pub(super) fn push_step(&mut self, step: &AgentStep) -> bool {
        match step {
            AgentStep::ToolStarted { tool, headline, .. } => {
                self.push(&progress_lines::started(tool, headline));
                self.step = Some(progress_lines::subject(tool, headline).into());
            }
            AgentStep::ToolEnded { tool, headline, duration, chars, error, .. } => {
                let cost = (*duration, *chars);
                let line = progress_lines::ended(tool, headline, cost, error.as_deref());
                self.replace(&progress_lines::started(tool, headline), &line);
            }
            AgentStep::LeftBehind(line) => self.push(&progress_lines::left_behind(line)),
            AgentStep::Started { .. } | AgentStep::Ended { .. } => return false,
        }
        true
    }

    /// Puts the line that tells of an end in the place of the one that told of the start.
    fn replace(&mut self, started: &str, ended: &str) {
        let text = match self.text.rfind(started) {
            Some(at) => [&self.text[..at], &self.text[at + started.len()..], ended].concat(),
            None => [&self.text, ended].concat(),
        };
        self.text = shortened(&text).into();
    }
}

/// The last lines, as many as fit.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_BYTES {
        return text.to_owned();
    }
    let end = text::suffix(text, MAX_BYTES - LEFT_OUT.len());
    format!("{LEFT_OUT}{}", text::whole_lines_of_tail(end))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let mut running = RunningText::default();
        assert_eq!(running.text(), None);
        for number in 0..1_000 {
            running.push(&format!("line {number}"));
        }
        let text = running.text().unwrap();
        assert!(text.len() <= MAX_BYTES && text.starts_with("…\nline "), "{text}");
        assert!(text.ends_with("line 998\nline 999\n"), "{text}");
        running.push(&"é".repeat(MAX_BYTES));
        let text = running.text().unwrap();
        assert!(text.len() <= MAX_BYTES && text.starts_with("…\né"), "{text}");
    }

    #[test]
    fn a_line_that_has_not_ended_is_shown_until_another_takes_its_place() {
        let mut running = RunningText::default();
        let mut check = |lines: &str, unfinished: &str, shown: Option<&str>| {
            let (lines, unfinished) = (lines.to_owned(), unfinished.to_owned());
            running.tell(&ProgressText { lines, unfinished });
            assert_eq!(running.text().as_deref(), shown);
        };
        check("", "", None);
        check("", "10%", Some("10%"));
        check("", "20%", Some("20%"));
        check("first\n", "..", Some("first\n.."));
        check("...\n", "", Some("first\n...\n"));
        let long = "é".repeat(MAX_BYTES);
        running.tell(&ProgressText { lines: String::new(), unfinished: long });
        let text = running.text().unwrap();
        assert!(text.len() <= MAX_BYTES && text.ends_with("éé"), "{text}");
    }

    #[test]
    fn a_step_that_has_ended_stands_once() {
        let step = |tool: &str| AgentStep::ToolStarted {
            call_id: "c".to_owned(),
            tool: tool.to_owned(),
            headline: "a.rs".to_owned(),
        };
        let mut running = RunningText::default();
        assert!(running.push_step(&step("Read")) && running.push_step(&step("Grep")));
        running.push_step(&AgentStep::ToolEnded {
            call_id: "c".to_owned(),
            tool: "Read".to_owned(),
            headline: "a.rs".to_owned(),
            duration: Duration::from_millis(2),
            chars: 7,
            error: None,
        });
        assert_eq!(running.step(), Some("Grep a.rs"));
        let expected = "→ Grep a.rs\n✓ Read a.rs (2 ms, 7 characters)\n";
        assert_eq!(running.text().as_deref(), Some(expected));
        assert!(!running.push_step(&AgentStep::Started { description: "d".to_owned() }));
    }
}
