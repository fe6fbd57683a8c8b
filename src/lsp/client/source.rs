//! Reads documents from the workspace, through its own handles.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use super::documents::{Document, MAX_DOCUMENT_BYTES};
use crate::workspace::{FileId, FileVersion, Target, Workspace};

/// What has become of an open document.
#[derive(Debug)]
pub(super) enum Now {
    Same,
    Changed(Document),
    /// It is not there, no document any more, or none that may be read.
    Gone,
}

/// The rules of whoever asks a server.
pub(crate) trait ReadRules: fmt::Debug + Send + Sync {
    /// Whether Read may see this file now. All links in `path` are resolved.
    fn may_read(&self, path: &Path, file: FileId) -> bool;
}

/// Which open documents are read again.
#[derive(Clone, Debug)]
pub(super) enum Reread {
    Permitted(Arc<dyn ReadRules>),
    /// Nobody knows the rules: those that are still the files that were permitted once.
    SameFiles,
}

/// Opens a file of the workspace again by its real path. Reads the disk.
pub(super) fn document(workspace: &Workspace, path: &Path) -> Result<Document, String> {
    let target = resolve(workspace, path)?;
    let file = target.open_resolved_file().map_err(|error| error.to_string())?;
    read(path, &file)
}

/// Whether an open document has changed on the disk. Reads the disk.
pub(super) fn now(workspace: &Workspace, path: &Path, known: &FileVersion, reread: &Reread) -> Now {
    let look = || {
        let target = resolve(workspace, path).ok()?;
        let metadata = target.metadata().ok()?;
        let file = FileId::from_metadata(&metadata);
        let is_readable = match reread {
            Reread::Permitted(rules) => rules.may_read(path, file),
            Reread::SameFiles => file == known.file(),
        };
        if !is_readable {
            return None;
        }
        if FileVersion::from_metadata(&metadata) == *known {
            return Some(Now::Same);
        }
        // The file that was judged, even if another one has taken its name since.
        let opened = target.open_resolved_file().ok()?;
        read(path, &opened).ok().map(Now::Changed)
    };
    look().unwrap_or(Now::Gone)
}

/// Follows no link: it was judged where they led, and one that has come since leads elsewhere.
fn resolve(workspace: &Workspace, path: &Path) -> Result<Target, String> {
    let target = workspace.resolve(path).map_err(|error| error.to_string())?;
    if target.real_path() != path {
        return Err(format!("{} has become a link", path.display()));
    }
    Ok(target)
}

/// The text of an open file; an error if it is none, or too long. Reads the disk.
pub(crate) fn read(path: &Path, mut file: &File) -> Result<Document, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    let metadata = file.metadata().map_err(failed)?;
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if MAX_DOCUMENT_BYTES < bytes.len() as u64 {
        let most = MAX_DOCUMENT_BYTES >> 20;
        return Err(format!("{shown} is larger than {most} MiB, the most for a language server"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text"))?;
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    Ok(Document { path: path.to_owned(), text, version: FileVersion::from_metadata(&metadata) })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// Denies the file with this name, and this file.
    #[derive(Debug)]
    struct Denied(&'static str, Option<FileId>);

    impl ReadRules for Denied {
        fn may_read(&self, path: &Path, file: FileId) -> bool {
            !path.ends_with(self.0) && Some(file) != self.1
        }
    }

    struct Ground {
        workspace: Workspace,
        directory: tempfile::TempDir,
    }

    impl Ground {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("in")).unwrap();
            for (name, text) in [("a.py", "a"), ("in/b.py", "b"), ("denied.py", "denied")] {
                fs::write(directory.path().join(name), text).unwrap();
            }
            let workspace = Workspace::open(vec![directory.path().to_owned()]).unwrap();
            Self { workspace, directory }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(name)
        }

        fn version(&self, name: &str) -> FileVersion {
            FileVersion::from_metadata(&fs::metadata(self.path(name)).unwrap())
        }

        fn now(&self, name: &str, known: &FileVersion, reread: &Reread) -> String {
            match now(&self.workspace, &self.path(name), known, reread) {
                Now::Same => "same".to_owned(),
                Now::Changed(document) => document.text,
                Now::Gone => "gone".to_owned(),
            }
        }
    }

    #[test]
    fn a_document_that_has_become_a_link_is_gone() {
        for reread in [Reread::SameFiles, permitted("denied.py", None)] {
            let ground = Ground::new();
            let (a, b) = (ground.version("a.py"), ground.version("in/b.py"));
            assert_eq!(ground.now("a.py", &a, &reread), "same");
            fs::remove_file(ground.path("a.py")).unwrap();
            symlink("denied.py", ground.path("a.py")).unwrap();
            assert_eq!(ground.now("a.py", &a, &reread), "gone");
            assert!(document(&ground.workspace, &ground.path("a.py")).is_err());
            fs::rename(ground.path("in"), ground.path("moved")).unwrap();
            symlink("moved", ground.path("in")).unwrap();
            assert_eq!(ground.now("in/b.py", &b, &reread), "gone");
        }
    }

    #[test]
    fn a_document_that_read_may_not_see_any_more_is_gone() {
        let ground = Ground::new();
        let a = ground.version("a.py");
        let denied = ground.version("denied.py").file();
        assert_eq!(ground.now("a.py", &a, &permitted("a.py", None)), "gone");
        fs::remove_file(ground.path("a.py")).unwrap();
        fs::hard_link(ground.path("denied.py"), ground.path("a.py")).unwrap();
        assert_eq!(ground.now("a.py", &a, &permitted("denied.py", Some(denied))), "gone");
        assert_eq!(ground.now("a.py", &a, &Reread::SameFiles), "gone");
    }

    #[test]
    fn a_document_that_was_written_is_read_again() {
        let ground = Ground::new();
        let a = ground.version("a.py");
        fs::write(ground.path("a.py"), "longer").unwrap();
        assert_eq!(ground.now("a.py", &a, &Reread::SameFiles), "longer");
        fs::write(ground.path("new"), "replaced").unwrap();
        fs::rename(ground.path("new"), ground.path("a.py")).unwrap();
        assert_eq!(ground.now("a.py", &a, &permitted("denied.py", None)), "replaced");
    }

    fn permitted(name: &'static str, file: Option<FileId>) -> Reread {
        Reread::Permitted(Arc::new(Denied(name, file)))
    }
}
