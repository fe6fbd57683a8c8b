//! Keeps what commands of a session have left in the workspace that other programs obey, until a
//! person has answered about it.
//!
//! It is `sessions/ID/finds.json`, so that neither a restart nor a kill makes the server forget it.

use std::io;

use rustix::fs::{AtFlags, unlinkat};
use serde::{Deserialize, Serialize};

use super::directories::open_session;
use super::{SessionFiles, UnlookedCommand, read_ours};
use crate::named_file::ours::replace;
use crate::sync;

const NAME: &str = "finds.json";

/// The most lines that are kept. What is beyond them is one line.
const MAX_LINES: usize = 16;

/// Larger than what is written.
const MAX_BYTES: u64 = 1 << 20;

/// What stands for lines beyond the most that are kept.
const MORE: &str = "and more than can be listed";

/// What is kept for one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptFinds {
    /// What nobody has answered yet, a line for each kind.
    unanswered: Vec<String>,
    /// The calls whose approval shows all of these lines.
    shown: Vec<ShownFinds>,
    /// What no event has told the person: it was found when no turn ran.
    untold: Vec<String>,
    /// The model was told that not all of the workspace is looked at.
    has_said_cut: bool,
}

/// The finds that a person is shown who is asked about one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ShownFinds {
    call: String,
    /// The marks of the interrupted commands among them.
    interrupted: Vec<String>,
}

/// All that is known of one session.
#[derive(Debug, Default)]
pub(super) struct SessionFinds {
    pub(super) kept: KeptFinds,
    /// The commands that were interrupted before anybody had looked at what they left.
    pub(super) interrupted: Vec<UnlookedCommand>,
}

impl SessionFiles {
    /// Keeps what a command has left. Writes the disk.
    pub(crate) fn add_finds(&self, lines: &[String], is_told: bool) {
        self.change_finds(|SessionFinds { kept, .. }| {
            add_lines(&mut kept.unanswered, lines);
            // Who was asked before has not seen them.
            kept.shown.clear();
            if !is_told {
                add_lines(&mut kept.untold, lines);
            }
        });
    }

    /// What nobody has answered yet. Reads the disk.
    pub(crate) fn unanswered_finds(&self) -> Vec<String> {
        self.look_at_finds(|finds| finds.kept.unanswered.clone())
    }

    /// Notes that a person is shown the finds when asked about this call. Writes the disk.
    pub(crate) fn show_finds(&self, call: &str) {
        self.change_finds(|SessionFinds { kept, interrupted }| {
            let is_new = !kept.shown.iter().any(|shown| shown.call == call);
            if is_new && !(kept.unanswered.is_empty() && interrupted.is_empty()) {
                let marks = interrupted.iter().map(|command| command.mark().to_owned());
                let interrupted = marks.collect();
                kept.shown.push(ShownFinds { call: call.to_owned(), interrupted });
            }
        });
    }

    /// A person has answered about this call. What was shown with it is answered, and nothing that
    /// was found or interrupted since. Writes the disk.
    pub(crate) fn answer_finds(&self, call: &str) {
        let answered = self.change_finds(|SessionFinds { kept, interrupted }| {
            let Some(shown) = kept.shown.iter().find(|shown| shown.call == call).cloned() else {
                return Vec::new();
            };
            kept.unanswered.clear();
            kept.shown.clear();
            let is_shown = |command: &mut UnlookedCommand| {
                shown.interrupted.iter().any(|mark| mark == command.mark())
            };
            interrupted.extract_if(.., is_shown).collect()
        });
        for command in &answered {
            self.remove_mark(command);
        }
    }

    /// Takes what no event has told yet. Writes the disk.
    pub(crate) fn take_untold_finds(&self) -> Vec<String> {
        self.change_finds(|finds| std::mem::take(&mut finds.kept.untold))
    }

    /// Notes that it is said that not all of the workspace is looked at. Returns whether it is to
    /// be said now: once in a session. Writes the disk.
    pub(crate) fn note_first_cut(&self) -> bool {
        self.change_finds(|finds| !std::mem::replace(&mut finds.kept.has_said_cut, true))
    }

    pub(super) fn look_at_finds<T>(&self, look: impl FnOnce(&SessionFinds) -> T) -> T {
        self.with_finds(|finds| look(finds))
    }

    fn change_finds<T>(&self, change: impl FnOnce(&mut SessionFinds) -> T) -> T {
        self.with_finds(|finds| {
            let before = finds.kept.clone();
            let outcome = change(finds);
            let kept = &finds.kept;
            if before != *kept
                && let Err(error) = self.write_finds(kept)
            {
                // They count until the server ends.
                let session = &self.session;
                tracing::error!(
                    %session,
                    %error,
                    "finds of the session cannot be written to finds.json, so a restart forgets \
                     them: make room on the disk, or correct its owner"
                );
            }
            outcome
        })
    }

    /// Whatever changes is not written.
    pub(super) fn with_finds<T>(&self, with: impl FnOnce(&mut SessionFinds) -> T) -> T {
        let mut finds = sync::lock(&self.finds);
        let read = || SessionFinds { kept: self.read_kept(), interrupted: self.read_marks() };
        with(finds.get_or_insert_with(read))
    }

    /// What cannot be read may have been anything, so a person is asked.
    fn read_kept(&self) -> KeptFinds {
        let read = || {
            let directory = open_session(&self.state_dir, &self.session, false)?;
            let bytes = read_ours(&directory, NAME, MAX_BYTES)?;
            serde_json::from_slice(&bytes).map_err(io::Error::other)
        };
        match read() {
            Ok(kept) => kept,
            Err(error) if error.kind() == io::ErrorKind::NotFound => KeptFinds::default(),
            Err(error) => {
                let line = format!(
                    "something that cannot be read any more ({NAME}: {error}); look at the \
                     workspace before you approve"
                );
                KeptFinds { unanswered: vec![line], ..KeptFinds::default() }
            }
        }
    }

    fn write_finds(&self, kept: &KeptFinds) -> io::Result<()> {
        let directory = open_session(&self.state_dir, &self.session, true)?;
        if *kept == KeptFinds::default() {
            return Ok(unlinkat(&directory, NAME, AtFlags::empty())?);
        }
        replace(&directory, NAME, &serde_json::to_string(kept)?)
    }
}

fn add_lines(kept: &mut Vec<String>, lines: &[String]) {
    for line in lines {
        if kept.contains(line) {
            continue;
        }
        match kept.len() {
            0..MAX_LINES => kept.push(line.clone()),
            MAX_LINES => kept.push(MORE.to_owned()),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ids::SessionId;
    use crate::session_files::SessionDirectories;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn g9_a_find_is_kept_over_a_restart_until_what_shows_it_is_answered() {
        let state_dir = tempfile::tempdir().unwrap();
        let session = SessionId::random();
        let restarted = || SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&session);
        assert_eq!(restarted().unanswered_finds(), lines(&[]));
        restarted().add_finds(&lines(&["a", "b"]), true);
        restarted().add_finds(&lines(&["b", "c"]), false);
        assert_eq!(restarted().unanswered_finds(), lines(&["a", "b", "c"]));
        assert_eq!(restarted().take_untold_finds(), lines(&["b", "c"]));
        assert_eq!(restarted().take_untold_finds(), lines(&[]));

        restarted().answer_finds("other");
        restarted().show_finds("call");
        restarted().add_finds(&lines(&["d"]), true);
        restarted().answer_finds("call");
        assert_eq!(restarted().unanswered_finds().len(), 4, "nobody was shown the last one");
        restarted().show_finds("call");
        restarted().answer_finds("call");
        assert_eq!(restarted().unanswered_finds(), lines(&[]));
        let files = restarted();
        let path = files.plan_path().with_file_name(NAME);
        assert!(!path.exists(), "nothing is kept of nothing");
        assert!(files.note_first_cut() && !restarted().note_first_cut());
    }

    #[test]
    fn g9_what_cannot_be_read_is_asked_about() {
        let state_dir = tempfile::tempdir().unwrap();
        let session = SessionId::random();
        let restarted = || SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&session);
        restarted().add_finds(&lines(&["a"]), true);
        let path = restarted().plan_path().with_file_name(NAME);
        fs::write(&path, "{").unwrap();
        let kept = restarted().unanswered_finds();
        assert!(
            kept[0].starts_with("something that cannot be read any more (finds.json: "),
            "{kept:?}"
        );
        restarted().show_finds("call");
        restarted().answer_finds("call");
        // What was asked about once is not asked about again.
        assert_eq!(restarted().unanswered_finds().len(), 0);
    }

    #[test]
    fn only_so_many_lines_are_kept() {
        let state_dir = tempfile::tempdir().unwrap();
        let session = SessionId::random();
        let files = SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&session);
        let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        files.add_finds(&many, true);
        let kept = files.unanswered_finds();
        assert_eq!((kept.len(), kept.last().map(String::as_str)), (MAX_LINES + 1, Some(MORE)));
    }
}
