//! Configures the log on stderr: its format and its level.

use std::io::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// The MCP library writes what servers say, and with which arguments tools are called. An operator
/// who wants that names it.
const SILENT: &str = "rmcp=off";

/// `[log]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSettings {
    pub(crate) format: LogFormat,
    pub(crate) level: LogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The log filter, in the syntax of `tracing`: `info`, `warn,toolhand=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLevel(String);

impl Default for LogLevel {
    fn default() -> Self {
        Self("info".into())
    }
}

impl FromStr for LogLevel {
    type Err = String;

    /// A word without `=` must be a level. The syntax would take `inof` for a module's name,
    /// and log nothing.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_level = |word: &str| !word.is_empty() && LevelFilter::from_str(word).is_ok();
        let bare = text.split(',').map(str::trim).filter(|word| !word.contains(['=', '[', ']']));
        if let Some(word) = bare.clone().find(|word| !is_level(word)) {
            return Err(format!(
                "{word:?} is no level: write off, error, warn, info, debug, trace, or MODULE=LEVEL"
            ));
        }
        EnvFilter::builder()
            .parse(text)
            .map_err(|error| format!("{text:?} is no filter: {error}"))?;
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for LogLevel {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Starts the log. A second call has no effect.
pub(crate) fn start(settings: &LogSettings) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("{SILENT},{}", settings.level.0)))
        .with_writer(|| OneLine(io::stderr()))
        .with_ansi(false);
    // An error means that the log was started already, which only tests do.
    drop(match settings.format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    });
}

/// Writes each event as one line and escapes what is not printable, so that foreign text cannot
/// control the terminal. A log that cannot be written does not stop the server.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        drop(self.0.write_all(escape(&String::from_utf8_lossy(event)).as_bytes()));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        drop(self.0.flush());
        Ok(())
    }
}

/// Escapes characters as JSON does, so that both formats remain valid.
fn escape(event: &str) -> String {
    let line = event.strip_suffix('\n').unwrap_or(event);
    let mut escaped = String::with_capacity(event.len());
    for character in line.chars() {
        if character.is_control() || is_reordering(character) {
            escaped.push_str(&json_escape(character));
        } else {
            escaped.push(character);
        }
    }
    escaped + "\n"
}

fn json_escape(character: char) -> String {
    format!("\\u{:04x}", u32::from(character))
}

/// Characters that make a terminal show text in a different order.
fn is_reordering(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        assert_eq!(escape("plain, äöü\n"), "plain, äöü\n");
        assert_eq!(escape("a\x1b]0;title\x07b\n"), "a\\u001b]0;title\\u0007b\n");
        assert_eq!(escape("one\nforged line\r\n"), "one\\u000aforged line\\u000d\n");
        assert_eq!(escape("\u{9b}31m\u{202e}\n"), "\\u009b31m\\u202e\n");
    }

    #[test]
    fn a_filter_that_would_log_nothing_is_refused() {
        for good in ["info", "off", "warn,toolhand=debug", "toolhand[turn]=trace", "DEBUG"] {
            assert!(good.parse::<LogLevel>().is_ok(), "{good}");
        }
        for bad in ["inof", "", "info,hyper", "toolhand=loud"] {
            assert!(bad.parse::<LogLevel>().is_err(), "{bad}");
        }
    }
}
