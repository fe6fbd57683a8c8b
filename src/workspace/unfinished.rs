//! Notes of the temporary files that stand beside a target for a moment, so that
//! those of a server that was killed are removed when it starts again.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use uuid::Uuid;

const PREFIX: &str = ".toolhand-";
const SUFFIX: &str = ".tmp";

/// Where the notes are kept; nowhere by default. A note is a symbolic link to the
/// temporary file, under its name: one call of the kernel makes it whole.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    notes: Option<PathBuf>,
}

/// Stands as long as this lives.
pub(super) struct Note(PathBuf);

impl Unfinished {
    /// Noted in a directory that is made by [`Self::sweep`].
    pub(crate) fn noted_in(directory: PathBuf) -> Self {
        Self { notes: Some(directory) }
    }

    /// Removes what stands in the notes. Whoever wrote them must be gone.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let Some(directory) = &self.notes else { return Ok(()) };
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        for note in fs::read_dir(directory)? {
            let note = note?.path();
            if let Some(file) = temporary_of(&note) {
                tracing::info!(file = %file.display(), "removing a file that was never finished");
                gone(fs::remove_file(file))?;
            }
            gone(fs::remove_file(note))?;
        }
        Ok(())
    }

    /// Without a note (no directory, a full disk) a file can be written all the same.
    pub(super) fn note(&self, directory: &Path, name: &str) -> Option<Note> {
        let note = self.notes.as_ref()?.join(name);
        symlink(directory.join(name), &note).ok().map(|()| Note(note))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A name that nobody else has.
pub(super) fn random_name() -> String {
    format!("{PREFIX}{}{SUFFIX}", Uuid::new_v4().simple())
}

/// The file that a note speaks of, if it is one of ours.
fn temporary_of(note: &Path) -> Option<PathBuf> {
    let name = note.file_name()?.to_str()?;
    let id = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    Uuid::try_parse(id).ok()?;
    let file = fs::read_link(note).ok()?;
    (file.is_absolute() && file.file_name()? == name).then_some(file)
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| match error.kind() {
        // Its directory may have been replaced by something else since.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(()),
        _ => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let (work, notes) = (home.path().join("work"), home.path().join("notes"));
        fs::create_dir(&work).unwrap();
        let unfinished = Unfinished::noted_in(notes.clone());
        unfinished.sweep().unwrap();
        let (first, other, done) = (random_name(), random_name(), random_name());
        for name in [&first, &other, &"precious".to_owned()] {
            fs::write(work.join(name), "x").unwrap();
        }
        std::mem::forget(unfinished.note(&work, &first));
        std::mem::forget(unfinished.note(&work, &done));
        drop(unfinished.note(&work, &other));
        // Notes that are none of ours.
        symlink(work.join("precious"), notes.join("precious")).unwrap();
        symlink(work.join("precious"), notes.join(random_name())).unwrap();

        unfinished.sweep().unwrap();

        assert!(!work.join(first).exists());
        assert!(work.join(other).exists() && work.join("precious").exists());
        assert_eq!(fs::read_dir(notes).unwrap().count(), 0);
    }
}
