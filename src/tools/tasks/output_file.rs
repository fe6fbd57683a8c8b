//! Makes the file of a command's output when it is needed, and only once.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::processes::{KeepOutput, MakeFile};
use crate::session_files::{SessionFile, SessionFiles, unique_stem};
use crate::sync;

/// The file of one command. Clones are the same file.
#[derive(Clone, Debug)]
pub(crate) struct OutputFile(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    files: Arc<SessionFiles>,
    stem: String,
    made: Mutex<Option<SessionFile>>,
}

impl OutputFile {
    pub(crate) fn of_command(files: Arc<SessionFiles>) -> Self {
        let stem = unique_stem("bash");
        Self(Arc::new(Parts { files, stem, made: Mutex::default() }))
    }

    /// What the file is called in the session, which is also the id of a task that writes it.
    pub(crate) fn id(&self) -> &str {
        &self.0.stem
    }

    /// Makes the file, or gives the one that was made before. Reads the disk.
    pub(crate) fn make(&self) -> io::Result<PathBuf> {
        self.with_made(|file| Ok(file.path.clone()))
    }

    /// Where the file is, if it was made. Waits for nobody who makes it now.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let made = self.0.made.try_lock().ok()?;
        made.as_ref().map(|file| file.path.clone())
    }

    /// The file from the moment on when the output is too long to be shown.
    pub(crate) fn when_long(&self) -> KeepOutput {
        KeepOutput::WhenLong(self.maker())
    }

    pub(crate) fn always(&self) -> KeepOutput {
        KeepOutput::Always(self.maker())
    }

    fn maker(&self) -> MakeFile {
        let (this, within) = (self.clone(), self.clone());
        MakeFile::new(move || this.with_made(|file| file.file.try_clone()))
            .within(move |bytes| within.with_made(|file| file.make_room(bytes)))
    }

    fn with_made<T>(&self, use_it: impl FnOnce(&SessionFile) -> io::Result<T>) -> io::Result<T> {
        let mut made = sync::lock(&self.0.made);
        use_it(match &mut *made {
            Some(file) => file,
            none => none.insert(self.0.files.create(&self.0.stem, 0)?),
        })
    }
}
