//! Reads ignore files from open directories, and compiles their rules, within bounds.
//!
//! Ignore files are untrusted. Only regular files are read, and links are not followed: the
//! effect of a link would reveal the contents of the file that it leads to. The `ignore` crate
//! opens no files. It only matches the lines that it gets here.

use std::ffi::CStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;

use crate::sync;
use crate::text::BYTE_ORDER_MARK;
use crate::tools::walk::Bounds;
use crate::tools::walk::io_errors::reason;
use crate::tools::walk::pattern::is_too_large;
use crate::workspace::Directory;

/// Bytes of one ignore file that are read.
const MAX_BYTES: usize = 1 << 20;

/// Rules of one file, and of all files of one walk. When compiled, 10,000 rules can take 80 MB.
const MAX_RULES: usize = 10_000;
const MAX_RULES_OF_A_WALK: usize = 20_000;

/// Compiling more rules than this is slow, and takes much memory meanwhile.
const MANY_RULES: usize = 500;

/// Only one thread at a time compiles many rules. Otherwise clients that start searches and
/// leave could fill the memory with half-compiled rules.
static COMPILING: Mutex<()> = Mutex::new(());

/// Reads the ignore files of one walk, and counts their rules.
#[derive(Debug)]
pub(in crate::tools::walk) struct Reader<'a> {
    pub(in crate::tools::walk) bounds: &'a Bounds,
    pub(in crate::tools::walk) rules_left: &'a AtomicUsize,
}

pub(in crate::tools::walk) fn rules_of_a_walk() -> AtomicUsize {
    AtomicUsize::new(MAX_RULES_OF_A_WALK)
}

impl Reader<'_> {
    pub(super) fn read_exclude(&self, directory: &Directory, path: &Path) -> Option<Gitignore> {
        let info = directory.open_directory(c".git").ok()?.open_directory(c"info").ok()?;
        let (_, stat) = info.stat(c"exclude").ok()?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        self.read(&info, c"exclude", kind, &path.join(".git/info"), path)
    }

    /// Reads one file in `directory`, which is at `place`. Its rules are relative to `path`.
    pub(super) fn read(
        &self,
        directory: &Directory,
        name: &CStr,
        kind: FileType,
        place: &Path,
        path: &Path,
    ) -> Option<Gitignore> {
        let note = |what: &str| {
            let name = name.to_str().unwrap_or_default();
            self.bounds.note_ignore_file(&place.join(name), what);
        };
        match kind {
            FileType::RegularFile | FileType::Unknown => {}
            FileType::Directory => return None,
            FileType::Symlink => {
                note("it is a link, and links are not followed");
                return None;
            }
            _ => {
                note("it is no regular file");
                return None;
            }
        }
        let (bytes, is_whole) = match read_bounded(directory, name) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                note(&reason(&error));
                return None;
            }
        };
        if !is_whole {
            note("only its first MiB counts");
        }
        self.compile(&bytes, path, note)
    }

    fn compile(&self, bytes: &[u8], path: &Path, note: impl Fn(&str)) -> Option<Gitignore> {
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                note("what follows a line that is no UTF-8 does not count");
                let valid = &bytes[..error.valid_up_to()];
                let end = valid.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
                str::from_utf8(&valid[..end]).unwrap_or_default()
            }
        };
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        let rules: Vec<&str> = text.lines().filter(|line| is_rule(line)).collect();
        let taken = self.take(rules.len().min(MAX_RULES));
        if taken < rules.len() {
            note(&format!("only {taken} of its {} rules count", rules.len()));
        }
        if taken == 0 {
            return None;
        }
        // Held until the rules are compiled. Time may run out while waiting for it.
        let _turn = (taken > MANY_RULES).then(|| sync::lock(&COMPILING));
        if self.bounds.is_over() {
            return None;
        }
        let mut builder = GitignoreBuilder::new(path);
        let mut left_out = 0;
        for rule in &rules[..taken] {
            left_out += usize::from(is_too_large(rule) || builder.add_line(None, rule).is_err());
        }
        if left_out > 0 {
            note(&format!("{left_out} of its rules are too long, nested too deep, or no globs"));
        }
        let compiled = builder.build().inspect_err(|_| note("its rules are too large together"));
        compiled.ok().filter(|rules| !rules.is_empty())
    }

    /// Takes up to `wanted` rules from those that the walk has left.
    fn take(&self, wanted: usize) -> usize {
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let less = |left: usize| Some(left.saturating_sub(wanted));
        let left = self.rules_left.fetch_update(set, fetch, less).unwrap_or(0);
        left.min(wanted)
    }
}

fn is_rule(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

/// The beginning of a file in whole lines, and whether that is the whole file.
fn read_bounded(directory: &Directory, name: &CStr) -> io::Result<(Vec<u8>, bool)> {
    // Listings may give no kind, and another file may have taken the name since.
    let file = directory.open_file_of_unknown_kind(name)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= MAX_BYTES {
        return Ok((bytes, true));
    }
    let end = bytes[..MAX_BYTES].iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    bytes.truncate(end);
    Ok((bytes, false))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_files_of_a_walk_share_its_rules() {
        let bounds = Bounds::new(Duration::ZERO);
        let rules_left = rules_of_a_walk();
        let reader = Reader { bounds: &bounds, rules_left: &rules_left };
        assert_eq!([8000, 8000, 8000, 1].map(|wanted| reader.take(wanted)), [8000, 8000, 4000, 0]);
    }
}
