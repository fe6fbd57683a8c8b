//! Writes a file that cannot be replaced through its own handle, and keeps its old contents until
//! the new ones are on the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use super::attributes::{drop_privileges, has_privileges};
use super::half_written::write_over;
use super::handles::{open_directory, version_of};
use super::kept_contents::{FileInPlace, open_for_update, read_whole};
use super::target::Target;
use super::temp_files::TempFiles;
use super::write_outcome::ReplaceError;
use crate::file_id::{FileId, FileVersion};

impl Target {
    /// Writes `contents` over those of the file, if it is still in the state `before`. The file
    /// stays the same one, with its links, owner, mode and attributes, except those that grant
    /// privileges. `refused` is the error that kept it from being replaced.
    ///
    /// Only the very file that was judged is written, and only if it got no further hard link
    /// since: unlike a new file in its place, the change shows wherever the file has a name.
    pub(super) fn write_in_place(
        &self,
        contents: &[u8],
        before: FileVersion,
        refused: io::Error,
        temp_files: &TempFiles,
    ) -> Result<FileVersion, ReplaceError> {
        let (directory, name) = self.leaf(open_directory)?;
        // A file that may not be read as well cannot be put back.
        let file = open_for_update(&directory, name).map_err(|_| refused)?;
        let metadata = file.metadata()?;
        let id = FileId::from_metadata(&metadata);
        let _held = temp_files.lock_in_place(id);

        let judged = FileId::from_metadata(&self.metadata()?);
        if judged != id || self.names() < metadata.nlink() {
            return Err(ReplaceError::Changed);
        }
        let old = read_whole(&file, metadata.len())?;
        let it = FileInPlace { path: self.real_path(), file: &file, old: &old, new: contents };
        let kept = temp_files.keep(it).map_err(|error| not_kept(&error))?;
        let is_unchanged = FileVersion::from_metadata(&file.metadata()?) == before
            && version_of(&directory, name)? == Some(before);
        if !is_unchanged {
            kept.discard();
            return Err(ReplaceError::Changed);
        }
        if let Err(error) = write(&file, &old, contents) {
            let Err(left) = kept.put_back() else { return Err(error.into()) };
            let error = not_put_back(&error, &left.error);
            temp_files.leave(id, left);
            return Err(error.into());
        }
        kept.discard();
        temp_files.forget_left(id);
        Ok(FileVersion::from_metadata(&file.metadata()?))
    }
}

/// Writes the file, and syncs it. What grants privileges goes first, as it was meant for the old
/// contents.
fn write(file: &File, old: &[u8], new: &[u8]) -> io::Result<()> {
    drop_privileges(file)?;
    write_over(&mut &*file, old, new)?;
    // The kernel drops them where we have no right to.
    if has_privileges(&file.metadata()?) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the file is setuid or setgid, and does not let that be dropped",
        ));
    }
    Ok(())
}

fn not_kept(error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "it can only be written in place, and its old contents could not be kept in the state \
             directory meanwhile: {error}"
        ),
    )
}

fn not_put_back(error: &io::Error, second: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "{error}. The file may hold a part of the new contents, since the old ones could not be \
             put back ({second}); they are kept, and the server's next start tries it again"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::{Path, PathBuf};

    use rustix::io::Errno;

    use super::*;
    use crate::workspace::Workspace;

    struct Ground {
        home: tempfile::TempDir,
        temp_files: TempFiles,
    }

    /// What is done to a half written file, and what its name leads to then.
    type Change<'a> = (&'a str, &'a dyn Fn(&Ground));

    impl Ground {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join("ws")).unwrap();
            let temp_files = TempFiles::noted_in(home.path().join("unfinished"));
            temp_files.sweep().unwrap();
            let ground = Self { home, temp_files };
            ground.set("one two three");
            ground
        }

        fn path(&self, name: &str) -> PathBuf {
            self.home.path().canonicalize().unwrap().join(name)
        }

        fn file(&self) -> PathBuf {
            self.path("ws/a.txt")
        }

        fn set(&self, contents: &str) {
            fs::write(self.file(), contents).unwrap();
        }

        fn holds(&self) -> String {
            fs::read_to_string(self.file()).unwrap()
        }

        fn target(&self, name: &str) -> Target {
            let workspace = Workspace::open(vec![self.path("ws")]).unwrap();
            workspace.resolve(&self.path("ws").join(name)).unwrap()
        }

        fn version(&self) -> FileVersion {
            FileVersion::from_metadata(&fs::metadata(self.file()).unwrap())
        }

        fn write(&self, target: &Target, contents: &str) -> Result<FileVersion, ReplaceError> {
            let refused = Errno::BUSY.into();
            target.write_in_place(contents.as_bytes(), self.version(), refused, &self.temp_files)
        }

        /// What a server leaves that is killed when it is about to write the file.
        fn killed(&self, new: &str) {
            let (path, old) = (self.file(), self.holds());
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let (old, new) = (old.as_bytes(), new.as_bytes());
            let it = FileInPlace { path: &path, file: &file, old, new };
            std::mem::forget(self.temp_files.keep(it).unwrap());
        }

        /// The contents that were kept aside.
        fn kept(&self) -> Vec<String> {
            let Some((kept, count)) = self.temp_files.kept_aside() else { return Vec::new() };
            let entries: Vec<_> = fs::read_dir(kept).unwrap().flatten().collect();
            assert_eq!(entries.len(), count);
            for entry in &entries {
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
                assert!(entry.file_name().to_str().unwrap().ends_with("-a.txt"), "{entry:?}");
            }
            entries.iter().map(|entry| fs::read_to_string(entry.path()).unwrap()).collect()
        }

        /// The records that are left.
        fn records(&self) -> usize {
            let entries = fs::read_dir(self.path("unfinished")).unwrap().flatten();
            entries.filter(|entry| entry.file_name() != "kept").count()
        }
    }

    #[test]
    fn t12_links_and_mode_stay_and_privileges_go() {
        let ground = Ground::new();
        let inode = fs::metadata(ground.file()).unwrap().ino();
        fs::set_permissions(ground.file(), fs::Permissions::from_mode(0o6751)).unwrap();
        fs::hard_link(ground.file(), ground.path("twin")).unwrap();
        symlink("a.txt", ground.path("ws/link")).unwrap();
        for contents in ["longer than it was before", "short", "", "again"] {
            let version = ground.write(&ground.target("link"), contents).unwrap();
            assert_eq!((version, ground.holds()), (ground.version(), contents.to_owned()));
        }
        let metadata = fs::metadata(ground.file()).unwrap();
        assert_eq!((metadata.ino(), metadata.mode() & 0o7777), (inode, 0o751));
        assert_eq!(fs::read_to_string(ground.path("twin")).unwrap(), "again");
        assert!(fs::symlink_metadata(ground.path("ws/link")).unwrap().is_symlink());
        assert_eq!(ground.records(), 0);
    }

    #[test]
    fn t12_only_the_judged_file_is_written() {
        let ground = Ground::new();
        let changed = |target: &Target| {
            assert!(matches!(ground.write(target, "new"), Err(ReplaceError::Changed)));
            assert_eq!(ground.records(), 0);
        };
        // It gets another name after it was judged.
        let target = ground.target("a.txt");
        assert_eq!(target.names(), 1);
        fs::hard_link(ground.file(), ground.path("twin")).unwrap();
        changed(&target);
        // Its name becomes that of another file.
        let target = ground.target("a.txt");
        assert_eq!(target.names(), 2);
        fs::write(ground.path("secret"), "secret").unwrap();
        fs::remove_file(ground.file()).unwrap();
        fs::hard_link(ground.path("secret"), ground.file()).unwrap();
        changed(&target);
        // A link to it comes into its place.
        fs::remove_file(ground.file()).unwrap();
        symlink(ground.path("secret"), ground.file()).unwrap();
        assert!(ground.write(&target, "new").is_err());
        assert_eq!(fs::read_to_string(ground.path("secret")).unwrap(), "secret");
        // Another program writes it after it was read.
        fs::remove_file(ground.file()).unwrap();
        ground.set("one");
        let (target, before) = (ground.target("a.txt"), ground.version());
        ground.set("from elsewhere");
        let written = target.write_in_place(b"x", before, Errno::BUSY.into(), &ground.temp_files);
        assert!(matches!(written, Err(ReplaceError::Changed)));
        assert_eq!((ground.holds(), ground.records()), ("from elsewhere".to_owned(), 0));
    }

    #[test]
    fn nothing_is_written_where_the_old_contents_cannot_be_kept() {
        let ground = Ground::new();
        fs::remove_dir(ground.path("unfinished")).unwrap();
        let error = ground.write(&ground.target("a.txt"), "new").unwrap_err().to_string();
        assert!(error.contains("could not be kept in the state directory"), "{error}");
        let none = TempFiles::default();
        let target = ground.target("a.txt");
        let written = target.write_in_place(b"x", ground.version(), Errno::BUSY.into(), &none);
        assert!(written.is_err());
        assert_eq!(ground.holds(), "one two three");
    }

    #[test]
    fn files_12_what_is_half_written_is_put_back_and_what_is_whole_stays() {
        let ground = Ground::new();
        for (left, then) in [
            ("one two three", "one two three"),
            ("ONE 2 three!", "ONE 2 three!"),
            ("ONE two three", "one two three"),
            ("ONE 2 three! three", "ONE 2 three! three"),
        ] {
            ground.set("one two three");
            ground.killed("ONE 2 three!");
            ground.set(left);
            ground.temp_files.sweep().unwrap();
            assert_eq!(ground.holds(), then);
            assert_eq!(ground.records(), 0);
        }
        assert_eq!(ground.kept(), ["one two three"], "of the last one");
    }

    #[test]
    fn files_12_what_was_changed_since_is_kept_and_so_are_the_old_contents() {
        let half = "ONE two three";
        let changes: [Change<'_>; 5] = [
            ("someone else's", &|ground| ground.set("someone else's")),
            (half, &|ground| {
                fs::write(ground.path("other"), half).unwrap();
                fs::rename(ground.path("other"), ground.file()).unwrap();
            }),
            ("secret", &|ground| {
                fs::write(ground.path("secret"), "secret").unwrap();
                fs::remove_file(ground.file()).unwrap();
                symlink(ground.path("secret"), ground.file()).unwrap();
            }),
            (half, &|ground| {
                fs::rename(ground.path("ws"), ground.path("moved")).unwrap();
                symlink(ground.path("moved"), ground.path("ws")).unwrap();
            }),
            ("", &|ground| {
                fs::remove_file(ground.file()).unwrap();
                fs::create_dir(ground.file()).unwrap();
            }),
        ];
        for (then, change) in changes {
            let ground = Ground::new();
            ground.killed("ONE 2 three");
            ground.set(half);
            change(&ground);
            ground.temp_files.sweep().unwrap();
            assert_eq!(fs::read_to_string(ground.file()).unwrap_or_default(), then);
            assert_eq!((ground.kept(), ground.records()), (vec!["one two three".to_owned()], 0));
        }
        let ground = Ground::new();
        ground.killed("ONE 2 three");
        fs::remove_dir_all(ground.path("ws")).unwrap();
        ground.temp_files.sweep().unwrap();
        assert_eq!((ground.kept(), ground.records()), (vec!["one two three".to_owned()], 0));
    }

    /// A server may be killed while it puts contents back, and the next one goes on.
    #[test]
    fn files_12_putting_back_can_be_interrupted_as_well() {
        let ground = Ground::new();
        ground.killed("ONE TWO THREE");
        let notes = ground.path("unfinished");
        let record = fs::read_dir(&notes).unwrap().next().unwrap().unwrap().path();
        fs::rename(&record, record.with_extension("put-back")).unwrap();
        ground.set("one TWO three");
        ground.temp_files.sweep().unwrap();
        assert_eq!((ground.holds(), ground.records()), ("one two three".to_owned(), 0));
    }

    #[test]
    fn a_record_that_is_not_whole_or_not_ours_writes_nothing() {
        let ground = Ground::new();
        let notes = ground.path("unfinished");
        let name = |suffix: &str| format!(".toolhand-{}.{suffix}", "a".repeat(32));
        fs::write(notes.join(name("part")), "{").unwrap();
        ground.temp_files.sweep().unwrap();
        assert_eq!(ground.records(), 0, "its file was not touched");
        ground.killed("ONE 2 three");
        let record = fs::read_dir(&notes).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read(&record).unwrap();
        for length in [0, 1, 20, whole.len() - 1] {
            fs::write(&record, &whole[..length]).unwrap();
            ground.set("ONE two three");
            assert!(ground.temp_files.sweep().is_err(), "{length}");
            assert_eq!((ground.holds(), ground.records()), ("ONE two three".to_owned(), 1));
        }
        fs::remove_file(&record).unwrap();
        // A link does not stand for a record.
        fs::write(ground.path("elsewhere"), &whole).unwrap();
        symlink(ground.path("elsewhere"), &record).unwrap();
        assert!(ground.temp_files.sweep().is_err());
        assert_eq!(ground.holds(), "ONE two three");
        assert!(Path::new(&record).symlink_metadata().is_ok());
    }
}
