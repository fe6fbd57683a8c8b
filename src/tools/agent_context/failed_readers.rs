//! Remembers the commands that failed because they were confined to reading.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::sync;

/// The model repeats a command at once, if at all.
const MAX_REMEMBERED: usize = 64;

/// The commands that counted as readers, and failed where nothing can be written. Each is asked
/// about when it comes again.
#[derive(Debug, Default)]
pub(crate) struct FailedReaders(Mutex<VecDeque<FailedReader>>);

/// A command line, and the directory in which it ran.
#[derive(Debug, PartialEq, Eq)]
struct FailedReader {
    line: String,
    directory: PathBuf,
}

impl FailedReaders {
    pub(crate) fn remember(&self, line: &str, directory: &Path) {
        let failed = FailedReader { line: line.to_owned(), directory: directory.to_owned() };
        let mut remembered = sync::lock(&self.0);
        if remembered.contains(&failed) {
            return;
        }
        if remembered.len() == MAX_REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back(failed);
    }

    pub(crate) fn contains(&self, line: &str, directory: &Path) -> bool {
        let remembered = sync::lock(&self.0);
        remembered.iter().any(|failed| failed.line == line && failed.directory == directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered_with_their_directory() {
        let failed = FailedReaders::default();
        let here = Path::new("/w");
        for number in 0..=MAX_REMEMBERED {
            failed.remember(&format!("ls {number}"), here);
        }
        failed.remember("ls 1", here);
        assert!(!failed.contains("ls 0", here));
        assert!(failed.contains("ls 1", here));
        assert!(failed.contains(&format!("ls {MAX_REMEMBERED}"), here));
        assert!(!failed.contains("ls 1", Path::new("/w/sub")));
    }
}
