//! Writes the logs of what `up` starts: files in the state directory, readable by us
//! alone.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::UpError;

/// Enough for the end of a Python traceback, which has the reason.
const TAIL_LINES: usize = 15;

pub(super) fn create(path: &Path) -> Result<File, UpError> {
    // The old file may have another mode.
    _ = fs::remove_file(path);
    open(path)
}

pub(super) fn append(path: &Path) -> Result<File, UpError> {
    open(path)
}

fn open(path: &Path) -> Result<File, UpError> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options.open(path).map_err(|error| UpError::file(path, error))
}

pub(super) fn line(path: &Path, text: &str) -> Result<(), UpError> {
    writeln!(append(path)?, "{text}").map_err(|error| UpError::file(path, error))
}

/// All of it, as text; empty if it cannot be read.
pub(super) fn text(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text.unwrap_or_default()
}

/// The last lines, indented to follow an error message.
pub(super) fn tail(path: &Path) -> String {
    let text = text(path);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    last.iter().flat_map(|line| ["\n  ", line]).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_log_is_ours_alone_and_its_tail_is_its_last_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, "of last time").unwrap();

        drop(create(&path).unwrap());
        (0..40).for_each(|number| line(&path, &format!("line {number}\n")).unwrap());

        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(tail(&path).starts_with("\n  line 25\n"), "{}", tail(&path));
        assert!(tail(&path).ends_with("\n  line 39"), "{}", tail(&path));
        assert_eq!(tail(Path::new("/nowhere/log")), "");
    }
}
