//! Decides whether what is printed may have colours, and adds them.

use std::io::{self, IsTerminal};

use crate::config::environment::Variables;

/// Emphasis for a terminal; none anywhere else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    is_on: bool,
}

impl Style {
    /// No emphasis, for files and pipes.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { is_on: false };
    #[cfg(test)]
    pub(crate) const COLOURED: Self = Self { is_on: true };

    pub(crate) fn for_stdout(variables: &Variables) -> Self {
        Self { is_on: io::stdout().is_terminal() && is_wanted(variables) }
    }

    /// What a reader looks for.
    pub(crate) fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What only explains the rest.
    pub(crate) fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What is to be typed.
    pub(crate) fn command(self, text: &str) -> String {
        self.with("36", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether the user's terminal shows colours, and the user wants them.
fn is_wanted(variables: &Variables) -> bool {
    let no_color = variables.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && variables.get("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_a_dumb_terminal_turn_colours_off() {
        let wanted = |given: &[(&str, &str)]| is_wanted(&given.iter().copied().collect());
        assert!(wanted(&[]) && wanted(&[("TERM", "xterm"), ("NO_COLOR", "")]));
        assert!(!wanted(&[("NO_COLOR", "1")]) && !wanted(&[("TERM", "dumb")]));
    }
}
