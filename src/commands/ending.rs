//! Says on stderr how a server ends, in plain lines that no log setting can hide.

use std::io::{self, IsTerminal};
use std::time::Duration;

use super::output::say;

/// Says that the server has stopped when it is dropped, even if a second signal drops it.
#[derive(Debug)]
pub(crate) struct StoppedLine;

impl Drop for StoppedLine {
    fn drop(&mut self) {
        say("stopped");
    }
}

/// Says what a server that was told to stop waits for.
pub(crate) fn say_waiting(turns: usize, grace: Duration) {
    if turns > 0 {
        say(&waiting(turns, grace, io::stderr().is_terminal()));
    }
}

fn waiting(turns: usize, grace: Duration, is_terminal: bool) -> String {
    let again = if is_terminal { "Ctrl-C again" } else { "a second signal" };
    let (turns, them) = match turns {
        1 => ("1 turn".to_owned(), "it"),
        turns => (format!("{turns} turns"), "them"),
    };
    format!("waiting up to {} for {turns}; {again} ends {them} now", shown(grace))
}

fn shown(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (0, milliseconds) => format!("{milliseconds} ms"),
        (seconds, _) if seconds >= 60 && seconds.is_multiple_of(60) => {
            format!("{} min", seconds / 60)
        }
        (seconds, _) => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(turns: usize, grace: Duration, is_terminal: bool, expected: &str) {
        assert_eq!(waiting(turns, grace, is_terminal), expected);
    }

    #[test]
    fn names_the_number_of_turns_the_time_and_the_way_to_end_them_now() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        check(1, 30 * second, true, "waiting up to 30 s for 1 turn; Ctrl-C again ends it now");
        check(
            3,
            2 * minute,
            false,
            "waiting up to 2 min for 3 turns; a second signal ends them now",
        );
        check(2, 90 * second, true, "waiting up to 90 s for 2 turns; Ctrl-C again ends them now");
        check(1, second / 2, true, "waiting up to 500 ms for 1 turn; Ctrl-C again ends it now");
    }
}
