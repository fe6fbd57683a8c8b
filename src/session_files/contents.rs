//! Keeps the contents of files that the model has seen, so that a later turn can show what has
//! changed in them since, also after a restart.
//!
//! Each is a file of its own in `sessions/ID/contents`, called by the hash of what it holds: the same
//! contents are kept once, and what was cut or exchanged is not taken for them.

use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::{AtFlags, OFlags, unlinkat};

use super::directories::open_contents;
use super::{SessionFiles, quota, read_ours};
use crate::ids::SessionId;
use crate::named_file::ours::open_in;

/// The most bytes of one content.
const MAX_CONTENT_BYTES: u64 = 1 << 20;

/// The most contents of a session, and their bytes together.
const MOST: (usize, u64) = (4096, 16 << 20);

impl SessionFiles {
    /// Keeps contents under their hashes; those that were kept longest ago go first. Writes the
    /// disk.
    pub(crate) fn keep_contents<'a>(
        &self,
        contents: impl Iterator<Item = (blake3::Hash, &'a [u8])>,
    ) -> io::Result<()> {
        let mut contents = contents.peekable();
        if contents.peek().is_none() {
            return Ok(());
        }
        let directory = open_contents(&self.state_dir, &self.session, true)?;
        for (hash, bytes) in contents {
            write_new(&directory, hash.to_hex().as_str(), bytes)?;
        }
        quota::keep_newest(&directory, MOST)
    }

    /// The contents with this hash, as this session or one of `others` has kept them. Reads the
    /// disk.
    pub(crate) fn kept_contents(
        &self,
        hash: blake3::Hash,
        others: &[SessionId],
    ) -> Option<Vec<u8>> {
        let sessions = [&self.session].into_iter().chain(others);
        sessions.into_iter().find_map(|session| {
            let directory = open_contents(&self.state_dir, session, false).ok()?;
            let bytes = read_ours(&directory, hash.to_hex().as_str(), MAX_CONTENT_BYTES).ok()?;
            (blake3::hash(&bytes) == hash).then_some(bytes)
        })
    }

    /// The session that the files belong to.
    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }
}

/// Writes a file that is not there yet.
fn write_new(directory: &File, name: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = match open_in(directory, name, flags) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        opened => opened?,
    };
    file.write_all(bytes).inspect_err(|_| {
        // Else what is there of it would be in the way of the whole.
        _ = unlinkat(directory, name, AtFlags::empty());
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::session_files::SessionDirectories;

    fn keep(files: &SessionFiles, contents: &[&[u8]]) {
        let hashed = contents.iter().map(|bytes| (blake3::hash(bytes), *bytes));
        files.keep_contents(hashed).unwrap();
    }

    #[test]
    fn life_6_contents_are_kept_over_a_restart_and_found_by_a_fork() {
        let state_dir = tempfile::tempdir().unwrap();
        let session = SessionId::random();
        let restarted = || SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&session);
        keep(&restarted(), &[b"one\n", b"two\n"]);
        keep(&restarted(), &[b"one\n"]);
        let kept = |text: &[u8]| restarted().kept_contents(blake3::hash(text), &[]);
        assert_eq!(kept(b"one\n"), Some(b"one\n".to_vec()));
        assert_eq!(kept(b"three\n"), None);

        let directories = SessionDirectories::new(state_dir.path(), 1 << 20);
        let fork = directories.files_of(&SessionId::random());
        assert_eq!(fork.kept_contents(blake3::hash(b"two\n"), &[]), None);
        let found = fork.kept_contents(blake3::hash(b"two\n"), std::slice::from_ref(&session));
        assert_eq!(found, Some(b"two\n".to_vec()));
    }

    #[test]
    fn life_6_what_was_cut_or_exchanged_is_not_taken_for_what_was_kept() {
        let state_dir = tempfile::tempdir().unwrap();
        let files =
            SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&SessionId::random());
        keep(&files, &[b"one\ntwo\n"]);
        let hash = blake3::hash(b"one\ntwo\n");
        let sessions = files.of_all_sessions().join(files.session().as_str());
        fs::write(sessions.join("contents").join(hash.to_hex().as_str()), "one\n").unwrap();
        assert_eq!(files.kept_contents(hash, &[]), None);
    }

    #[test]
    fn life_6_only_so_much_is_kept() {
        let state_dir = tempfile::tempdir().unwrap();
        let files =
            SessionDirectories::new(state_dir.path(), 1 << 20).files_of(&SessionId::random());
        let contents: Vec<Vec<u8>> = (0..20_u8).map(|byte| vec![byte; 1 << 20]).collect();
        for content in &contents {
            keep(&files, &[content]);
        }
        let is_kept = |content: &Vec<u8>| files.kept_contents(blake3::hash(content), &[]).is_some();
        let kept: Vec<bool> = contents.iter().map(is_kept).collect();
        assert_eq!(kept.iter().filter(|kept| **kept).count(), 16, "{kept:?}");
        assert_eq!(kept.last(), Some(&true));
    }
}
