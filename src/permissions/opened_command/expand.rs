//! Finds the files that a pattern of the shell means.

use std::fs;
use std::path::{Path, PathBuf};

use crate::permissions::commands::may_mean;

/// How many entries of directories are looked at for one command.
pub(super) const MAX_ENTRIES: usize = 20_000;

/// More entries than are looked at.
#[derive(Debug)]
pub(super) struct TooMany;

/// The paths that an absolute pattern can mean. As in bash, a pattern that means none stands for
/// itself, and `*` does not mean a name that begins with a dot. `left` counts down the entries.
pub(super) fn matching(pattern: &str, left: &mut usize) -> Result<Vec<PathBuf>, TooMany> {
    let mut paths = vec![PathBuf::from("/")];
    for name in pattern.split('/').filter(|name| !name.is_empty()) {
        paths = if let Some(text) = literal(name) {
            paths.into_iter().map(|path| path.join(&text)).collect()
        } else {
            let mut found = Vec::new();
            for path in &paths {
                found.extend(entries(path, name, left)?);
            }
            found
        };
    }
    if paths.is_empty() {
        paths.push(PathBuf::from(unescaped(pattern)));
    }
    Ok(paths)
}

/// The entries of a directory that a pattern means.
fn entries(directory: &Path, pattern: &str, left: &mut usize) -> Result<Vec<PathBuf>, TooMany> {
    let widened = widened(pattern);
    let means_hidden = unescaped(pattern).starts_with(['.', '[']);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        *left = left.checked_sub(1).ok_or(TooMany)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if (means_hidden || !name.starts_with('.')) && may_mean(&widened, &name) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The name without escapes, if it is no pattern.
fn literal(name: &str) -> Option<String> {
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '*' | '?' | '[' => return None,
            _ => {}
        }
    }
    Some(unescaped(name))
}

fn unescaped(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}

/// The pattern with any character in the place of each escaped one.
fn widened(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let is_escaped = c == '\\' && chars.next().is_some();
        text.push(if is_escaped { '?' } else { c });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_the_files_that_the_shell_would_find() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.rs", "b.rs", ".env", "x*y", "c.txt"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/d.rs"), "").unwrap();
        let found = |pattern: &str| {
            let mut left = 100;
            let whole = format!("{}/{pattern}", directory.path().display());
            let mut found: Vec<String> = matching(&whole, &mut left)
                .unwrap()
                .iter()
                .map(|path| path.strip_prefix(directory.path()).unwrap().display().to_string())
                .collect();
            found.sort();
            found.join(" ")
        };
        assert_eq!(found("*.rs"), "a.rs b.rs");
        assert_eq!(found(".e*"), ".env");
        assert_eq!(found("[.]e*"), ".env");
        assert_eq!(found("*env"), "*env");
        assert_eq!(found("*/d.rs"), "a.rs/d.rs b.rs/d.rs c.txt/d.rs sub/d.rs x*y/d.rs");
        assert_eq!(found("s*/*"), "sub/d.rs");
        assert_eq!(found("x\\*?"), "x*y");
        assert_eq!(found("none*"), "none*");
        let mut left = 3;
        assert!(matching(&format!("{}/*", directory.path().display()), &mut left).is_err());
    }
}
