//! Prints: answers to stdout, everything else to stderr.

use std::io::{self, Write};

/// Writes to stdout. A closed stdout is no failure: its reader wants no more.
pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Writes a line to stderr. Ignores errors: nobody may be reading.
pub(crate) fn say(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Says on stderr why a command failed.
pub(crate) fn print_error(reason: &str) {
    say(&format!("toolhand: {reason}"));
}
