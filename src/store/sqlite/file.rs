//! Opens the database file: checks whose it is, sets a damaged one aside, makes a new one.

use std::ffi::CString;
use std::fmt::Display;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::rows::TurnStatus;
use super::columns::number_of;
use super::schema::{self, APPLICATION_ID, VERSION};
use crate::ownership::Ownership;

const NAME: &str = "toolhand.db";
/// Holds a new database until it has its tables.
const NEW_NAME: &str = ".toolhand.db.new";
/// Asks the next start to check the whole database, because damage was met.
const SUSPECT_NAME: &str = "toolhand.db.suspect";

/// A database up to this size is checked whole at each start, which takes milliseconds.
const MAX_CHECKED: u64 = 8 << 20;

/// Only this process uses the database, so a lock is never held for long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// No version of ours is so high: its field is damaged.
const MAX_PLAUSIBLE_VERSION: i32 = 1000;

/// Where the database is.
#[derive(Clone, Debug)]
pub(super) struct DatabaseFile {
    directory: PathBuf,
    vfs: Option<CString>,
}

/// Why the database cannot be used, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub(crate) struct OpenError {
    path: PathBuf,
    reason: String,
}

impl OpenError {
    pub(super) fn new(path: &Path, reason: &dyn Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// What the first bytes of the file say.
enum Header {
    Ours,
    Damaged(&'static str),
    Newer(i32),
}

impl DatabaseFile {
    pub(super) fn in_directory(directory: &Path) -> Result<Self, OpenError> {
        // SQLite refuses a path with links, so that nobody leads it elsewhere.
        let found = directory.canonicalize();
        let directory = found.map_err(|error| OpenError::new(directory, &error))?;
        Ok(Self { directory, vfs: None })
    }

    #[cfg(test)]
    pub(super) fn with_vfs(self, vfs: &str) -> Self {
        Self { vfs: CString::new(vfs).ok(), ..self }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{NAME}{suffix}"))
    }

    /// Opens the database for writing. Makes a new one where there is none, or one that is
    /// damaged.
    pub(super) fn open(&self) -> Result<Connection, OpenError> {
        let refuse = |reason: &dyn Display| OpenError::new(&self.path(), reason);
        let mut damage = None;
        if let Some(length) = self.length_if_ours()? {
            match self.open_existing(length) {
                Ok(connection) => return Ok(connection),
                Err(Unusable::Refused(reason)) => return Err(refuse(&reason)),
                Err(Unusable::Damaged(reason)) => damage = Some(reason),
            }
        }
        let set_aside = self.set_aside();
        let kept = set_aside.map_err(|error| refuse(&format!("cannot be set aside: {error}")))?;
        if let (Some(reason), Some(kept)) = (damage, kept) {
            tracing::warn!(
                %reason,
                path = %self.path().display(),
                kept = %kept.display(),
                "the database is damaged: it is set aside, and the server begins with a new one, \
                 without the sessions of the old"
            );
        }
        self.make().map_err(|error| refuse(&format!("cannot be made: {error}")))?;
        let opened = self.connect_writer().and_then(|connection| {
            prepare(&connection)?;
            Ok(connection)
        });
        opened.map_err(|error| refuse(&error))
    }

    /// The length of the file, if it is there. Refuses one that is not ours alone.
    fn length_if_ours(&self) -> Result<Option<u64>, OpenError> {
        let mut length = None;
        for suffix in ["", "-wal", "-shm"] {
            let path = self.beside(suffix);
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(OpenError::new(&path, &error)),
            };
            expect_ours(&metadata).map_err(|reason| OpenError::new(&path, &reason))?;
            if suffix.is_empty() {
                length = Some(metadata.len());
            }
        }
        Ok(length)
    }

    fn open_existing(&self, length: u64) -> Result<Connection, Unusable> {
        match read_header(&self.path())? {
            Header::Ours => {}
            Header::Damaged(reason) => return Err(Unusable::Damaged(reason.to_owned())),
            Header::Newer(version) => return Err(newer(version)),
        }
        let connection = self.connect_writer()?;
        // A newer server that was killed may have left its version in the log.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let version = schema::version(&connection)?;
        if VERSION < version {
            return Err(newer(version));
        }
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        let suspect = self.directory.join(SUSPECT_NAME);
        if length <= MAX_CHECKED || suspect.exists() {
            check(&connection)?;
        }
        prepare(&connection)?;
        // Its database is whole: the damage was elsewhere, or is gone with the last one.
        _ = fs::remove_file(suspect);
        Ok(connection)
    }

    /// Opens the database again, after a failure that has made the last connection doubtful.
    /// Nobody else may have it open: SQLite then reads its log anew and believes only what its
    /// checksums hold, and all of that is written into the database and synced again.
    pub(super) fn reopen(&self) -> rusqlite::Result<Connection> {
        let connection = self.connect_writer()?;
        checkpoint(&connection, "TRUNCATE")?;
        Ok(connection)
    }

    fn connect_writer(&self) -> rusqlite::Result<Connection> {
        let connection = self.connect(&self.path())?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = NORMAL;
             PRAGMA foreign_keys = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 4194304;
             PRAGMA cache_size = -512;",
        )?;
        connection.set_prepared_statement_cache_capacity(48);
        Ok(connection)
    }

    pub(super) fn connect_reader(&self) -> rusqlite::Result<Connection> {
        let connection = self.connect(&self.path())?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -256;")?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(connection)
    }

    fn connect(&self, path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let connection = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_c_str())?,
            None => Connection::open_with_flags(path, flags)?,
        };
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // Otherwise SQLite compares parameters with the conditions of partial indices, and
        // prepares such a statement again for each other value.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(
            "PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
        )?;
        Ok(connection)
    }

    /// Moves the database and what belongs to it out of the way. Returns where the database is
    /// now.
    fn set_aside(&self) -> io::Result<Option<PathBuf>> {
        let mut kept = None;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for suffix in ["", "-wal", "-shm"] {
            let from = self.beside(suffix);
            // Two may be set aside within a second.
            for again in 0..100 {
                let time = if again == 0 { now.to_string() } else { format!("{now}.{again}") };
                let to = self.beside(&format!(".corrupt-{time}{suffix}"));
                match renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
                    Err(rustix::io::Errno::EXIST) => {}
                    Ok(()) => {
                        _ = kept.get_or_insert(to);
                        break;
                    }
                    Err(rustix::io::Errno::NOENT) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        _ = fs::remove_file(self.directory.join(SUSPECT_NAME));
        Ok(kept)
    }

    /// Makes an empty database under another name first: one that was killed half-way has not
    /// happened.
    fn make(&self) -> io::Result<()> {
        let new = self.directory.join(NEW_NAME);
        for suffix in ["", "-wal", "-shm", "-journal"] {
            match fs::remove_file(self.directory.join(format!("{NEW_NAME}{suffix}"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        // SQLite gives the files beside it the same mode.
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let fill = || -> rusqlite::Result<()> {
            let connection = self.connect(&new)?;
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
            schema::migrate(&connection)?;
            connection.execute_batch("PRAGMA journal_mode = WAL;")?;
            connection.close().map_err(|(_, error)| error)
        };
        fill().map_err(io::Error::other)?;
        fs::rename(&new, self.path())?;
        File::open(&self.directory)?.sync_all()
    }

    /// Notes damage that was met, so that the next start checks the whole database.
    pub(super) fn note(&self, error: &rusqlite::Error) {
        if is_damage(error) {
            tracing::error!(
                path = %self.path().display(),
                "the database is damaged: the next start checks it, and sets it aside if it \
                 cannot be used"
            );
            let path = self.directory.join(SUSPECT_NAME);
            _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        }
    }
}

/// Why an existing file is not used.
enum Unusable {
    Refused(String),
    Damaged(String),
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Self {
        // What the machine refuses is no fault of the file, and passes.
        match error.sqlite_error_code() {
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::PermissionDenied
                | ErrorCode::ReadOnly,
            ) => Self::Refused(error.to_string()),
            _ => Self::Damaged(error.to_string()),
        }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

fn newer(version: i32) -> Unusable {
    Unusable::Refused(format!(
        "was written by a newer toolhand (version {version} of the database, and this one knows \
         {VERSION}); start that one, or move the file away"
    ))
}

fn expect_ours(metadata: &Metadata) -> Result<(), String> {
    if metadata.is_symlink() {
        return Err("is a symbolic link; move it away".into());
    }
    if !metadata.is_file() {
        return Err("is not a regular file; move it away".into());
    }
    let ownership = Ownership::from_metadata(metadata);
    ownership.expect_ours()?;
    ownership.refuse_other_readers("chmod 600 it")
}

/// Reads SQLite's header, before SQLite may change anything.
/// Its layout: <https://www.sqlite.org/fileformat.html#the_database_header>.
fn read_header(path: &Path) -> io::Result<Header> {
    let mut header = Vec::new();
    File::open(path)?.take(100).read_to_end(&mut header)?;
    let number = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i32::from_be_bytes)
    };
    let version = number(60);
    Ok(if header.is_empty() {
        Header::Damaged("it is empty")
    } else if header.len() < 100 || !header.starts_with(b"SQLite format 3\0") {
        Header::Damaged("it is no database")
    } else if number(68) != APPLICATION_ID {
        Header::Damaged("it is another program's database")
    } else if header[18..20] != [2, 2] || !(1..=MAX_PLAUSIBLE_VERSION).contains(&version) {
        Header::Damaged("its header is damaged")
    } else if VERSION < version {
        Header::Newer(version)
    } else {
        Header::Ours
    })
}

fn check(connection: &Connection) -> Result<(), Unusable> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(Unusable::Damaged(found)) }
}

/// Brings the tables to our version, and marks the turns that a killed server has left.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    schema::migrate(connection)?;
    let [running, crashed] = [TurnStatus::Running, TurnStatus::Crashed].map(number_of);
    // The number itself stands in the statement, so that SQLite takes the index of it.
    let mark = format!("UPDATE turns SET status = ?1 WHERE status = {running}");
    connection.execute(&mark, [crashed])?;
    checkpoint(connection, "PASSIVE").map(drop)
}

/// Copies the log into the database. Returns whether all of it was copied.
pub(super) fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<bool> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let (busy, logged, copied): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && logged == copied)
    })
}

/// Closes a connection that is doubtful: without a last checkpoint, whose sync could succeed
/// only because the kernel has reported the failure once, and which would remove the log.
pub(super) fn give_up(connection: Connection) {
    _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    drop(connection);
}

/// Whether the error says that the database itself is damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || matches!(error, rusqlite::Error::FromSqlConversionFailure(..))
}
