//! Notes which commands may write and were not looked at yet, so that neither an interruption nor a
//! kill of the server passes for a look that has found nothing.
//!
//! Each is a file of its own in `sessions/ID/under-way`, there from before the command starts until
//! what it left was looked at. One that a new server finds was interrupted.

use std::io::{self, Write as _};

use rustix::fs::{AtFlags, Dir, OFlags, unlinkat};

use super::directories::open_under_way;
use super::{SessionFiles, read_ours, unique_stem};
use crate::named_file::ours::open_in;
use crate::text;

/// The bytes of a command that are kept and shown.
const MAX_LINE: usize = 120;

/// The most commands that are named. An interrupted turn may have had several.
const MAX_NAMED: usize = 3;

/// More than are under way at once. Of those beyond it is known that there are some.
const MAX_MARKS: usize = 1000;

/// A command that may write, and was not looked at yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnlookedCommand {
    /// The name of its file.
    mark: String,
    /// The command, cut to one short line.
    line: String,
}

impl UnlookedCommand {
    fn new(line: &str) -> Self {
        let line = text::printable(text::one_line(line).as_bytes());
        Self { mark: unique_stem("command"), line: text::shortened(&line, MAX_LINE).into_owned() }
    }

    pub(super) fn mark(&self) -> &str {
        &self.mark
    }
}

impl SessionFiles {
    /// Notes a command that is about to start. Writes the disk.
    pub(crate) fn begin_command(&self, line: &str) -> UnlookedCommand {
        let command = UnlookedCommand::new(line);
        // What earlier servers have left is read before there is a mark of this one.
        self.look_at_finds(|_| ());
        if let Err(error) = self.write_mark(&command) {
            let session = &self.session;
            tracing::warn!(
                %session,
                %error,
                "a command is not noted in its session's directory: should the server be killed \
                 while it runs, nobody looks at what it has left"
            );
        }
        command
    }

    /// The command is over, or will be, and nobody waits for it any more. Until it is looked at, it
    /// may have left anything.
    pub(crate) fn interrupt_command(&self, command: &UnlookedCommand) {
        self.with_finds(|finds| {
            if !finds.interrupted.contains(command) {
                finds.interrupted.push(command.clone());
            }
        });
    }

    /// What the command has left was looked at. Writes the disk.
    pub(crate) fn end_command(&self, command: &UnlookedCommand) {
        self.with_finds(|finds| {
            finds.interrupted.retain(|interrupted| interrupted != command);
            self.remove_mark(command);
        });
    }

    /// The interrupted commands that nobody has looked at, in words. Reads the disk.
    pub(crate) fn interrupted_commands(&self) -> Option<String> {
        self.look_at_finds(|finds| named(&finds.interrupted))
    }

    /// Those that an earlier server, or an earlier use of the session, has left. Reads the disk.
    pub(super) fn read_marks(&self) -> Vec<UnlookedCommand> {
        let read = || {
            let directory = open_under_way(&self.state_dir, &self.session, false)?;
            let mut commands = Vec::new();
            for entry in Dir::read_from(&directory)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if !name.starts_with('.') && commands.len() < MAX_MARKS {
                    let line = read_ours(&directory, &name, 2 * MAX_LINE as u64);
                    let line = String::from_utf8_lossy(&line.unwrap_or_default()).into_owned();
                    commands.push(UnlookedCommand { mark: name, line });
                }
            }
            Ok::<_, io::Error>(commands)
        };
        match read() {
            Ok(commands) => commands,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            // It may have held any.
            Err(_) => vec![UnlookedCommand::new("")],
        }
    }

    /// Without waiting for the disk: a server that is killed leaves what the system knows.
    fn write_mark(&self, command: &UnlookedCommand) -> io::Result<()> {
        let directory = open_under_way(&self.state_dir, &self.session, true)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        open_in(&directory, &command.mark, flags)?.write_all(command.line.as_bytes())
    }

    pub(super) fn remove_mark(&self, command: &UnlookedCommand) {
        let removed = open_under_way(&self.state_dir, &self.session, false)
            .and_then(|directory| Ok(unlinkat(&directory, &*command.mark, AtFlags::empty())?));
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            let session = &self.session;
            tracing::warn!(%session, %error, "after a restart a command asks once more than needed");
        }
    }
}

/// Says which commands were interrupted; `None` if none was.
fn named(commands: &[UnlookedCommand]) -> Option<String> {
    let (subject, were) = match commands.len() {
        0 => return None,
        1 => ("an earlier command", "was"),
        _ => ("earlier commands", "were"),
    };
    let lines = commands.iter().map(|command| &*command.line).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.take(MAX_NAMED).map(|line| format!("`{line}`")).collect();
    let which = match (lines.join(", "), commands.len().saturating_sub(lines.len())) {
        (lines, _) if lines.is_empty() => String::new(),
        (lines, 0) => format!(" ({lines})"),
        (lines, more) => format!(" ({lines} and {more} more)"),
    };
    Some(format!("{subject} {were} interrupted before what was left was looked at{which}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;
    use crate::session_files::SessionDirectories;

    #[test]
    fn g9_a_command_that_was_under_way_at_a_restart_was_interrupted() {
        let state_dir = tempfile::tempdir().unwrap();
        let session = SessionId::random();
        let restarted = || SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&session);
        let first = restarted();
        assert_eq!(first.interrupted_commands(), None);
        let looked_at = first.begin_command("make");
        first.begin_command("make -j4 \\\n  all");
        assert_eq!(first.interrupted_commands(), None, "they run");
        first.end_command(&looked_at);

        let second = restarted();
        let told = second.interrupted_commands().unwrap();
        assert_eq!(
            told,
            r"an earlier command was interrupted before what was left was looked at (`make -j4 \ all`)"
        );
        second.answer_finds("call");
        assert!(second.interrupted_commands().is_some(), "nobody was shown it");
        second.show_finds("call");
        let late = second.begin_command("late");
        second.interrupt_command(&late);
        second.answer_finds("call");
        assert!(restarted().interrupted_commands().is_some(), "nobody was shown the last one");
        second.show_finds("call");
        second.answer_finds("call");
        assert_eq!(second.interrupted_commands(), None);
        assert_eq!(restarted().interrupted_commands(), None);
    }

    #[test]
    fn g9_a_question_from_before_a_kill_does_not_answer_what_the_kill_has_interrupted() {
        let state_dir = tempfile::tempdir().unwrap();
        let session = SessionId::random();
        let restarted = || SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&session);
        let first = restarted();
        first.add_finds(&["a hook".to_owned()], true);
        first.show_finds("call");
        first.begin_command("make");

        let second = restarted();
        second.answer_finds("call");
        assert!(second.interrupted_commands().is_some(), "nobody was shown it");
        assert!(restarted().interrupted_commands().is_some());

        // A question since then shows it, whichever use of the session takes the answer.
        restarted().show_finds("next");
        restarted().answer_finds("next");
        assert_eq!(restarted().interrupted_commands(), None);
    }

    #[test]
    fn g9_a_look_that_comes_late_ends_the_pause() {
        let state_dir = tempfile::tempdir().unwrap();
        let files =
            SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&SessionId::random());
        let command = files.begin_command("make");
        files.interrupt_command(&command);
        files.interrupt_command(&command);
        assert!(files.interrupted_commands().unwrap().ends_with("looked at (`make`)"));
        files.end_command(&command);
        assert_eq!(files.interrupted_commands(), None);
    }

    #[test]
    fn many_interrupted_commands_are_counted() {
        let commands = |count: usize| -> Vec<UnlookedCommand> {
            (0..count).map(|number| UnlookedCommand::new(&format!("make {number}"))).collect()
        };
        let told = named(&commands(5)).unwrap();
        assert!(told.starts_with("earlier commands were interrupted"), "{told}");
        assert!(told.ends_with("(`make 0`, `make 1`, `make 2` and 2 more)"), "{told}");
        let long = UnlookedCommand::new(&"x".repeat(10_000));
        assert!(named(&[long]).unwrap().len() < 2 * MAX_LINE);
    }
}
