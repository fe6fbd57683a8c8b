//! Remembers the commands that failed for want of what only an approval gives.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::permissions::Lacked;
use crate::sync;

/// The model repeats a command at once, if at all.
const MAX_REMEMBERED: usize = 64;

/// The commands that nobody had approved, and that failed because of it. Each is asked about when
/// it comes again.
#[derive(Debug, Default)]
pub(crate) struct FailedCommands(Mutex<VecDeque<FailedCommand>>);

/// A command line, the directory in which it ran, and what it lacked there.
#[derive(Debug)]
struct FailedCommand {
    line: String,
    directory: PathBuf,
    lacked: Lacked,
}

impl FailedCommands {
    pub(crate) fn remember(&self, line: &str, directory: &Path, lacked: Lacked) {
        let mut remembered = sync::lock(&self.0);
        remembered.retain(|failed| !failed.is(line, directory));
        if remembered.len() == MAX_REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back(FailedCommand {
            line: line.to_owned(),
            directory: directory.to_owned(),
            lacked,
        });
    }

    /// What the command lacked when it failed last, if it is remembered.
    pub(crate) fn lacked(&self, line: &str, directory: &Path) -> Option<Lacked> {
        let remembered = sync::lock(&self.0);
        remembered.iter().find(|failed| failed.is(line, directory)).map(|failed| failed.lacked)
    }
}

impl FailedCommand {
    fn is(&self, line: &str, directory: &Path) -> bool {
        self.line == line && self.directory == directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered_with_their_directory() {
        let failed = FailedCommands::default();
        let here = Path::new("/w");
        for number in 0..=MAX_REMEMBERED {
            failed.remember(&format!("ls {number}"), here, Lacked::Writing);
        }
        failed.remember("ls 1", here, Lacked::Secrets);
        assert_eq!(failed.lacked("ls 0", here), None);
        assert_eq!(failed.lacked("ls 1", here), Some(Lacked::Secrets));
        assert_eq!(failed.lacked("ls 2", here), Some(Lacked::Writing));
        assert_eq!(failed.lacked("ls 1", Path::new("/w/sub")), None);
    }
}
