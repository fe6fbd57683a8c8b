//! Locks the state directory for one server: the directory itself, which keeps its lock whatever
//! becomes of the files in it, and a file that names the process.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::Pid;

use super::state_dir::open_in;
use crate::processes;

const NAME: &str = "lock";

/// A process that the dead server had just forked has the server's files open until it executes
/// its program.
const PATIENCE: Duration = Duration::from_secs(2);

const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Both locks. The kernel releases them when this process ends, even by a signal.
#[derive(Debug)]
pub(super) struct StateLock {
    _directory: File,
    _file: File,
}

/// Takes the locks, and writes our process id into the file for servers that come later. What a
/// dead server seems to hold is tried again for a moment.
pub(super) fn lock(directory: &File) -> Result<StateLock, String> {
    let mut waited = Duration::ZERO;
    lock_while(directory, || {
        thread::sleep(AGAIN_AFTER);
        waited += AGAIN_AFTER;
        waited < PATIENCE
    })
}

/// `waits` waits before another try, and says whether there is one.
fn lock_while(directory: &File, mut waits: impl FnMut() -> bool) -> Result<StateLock, String> {
    loop {
        if let Some(locked) = try_lock(directory)? {
            return Ok(locked);
        }
        let holder = holder(directory);
        let may_pass = holder.is_none_or(|holder| processes::start_time(holder).is_none());
        if !may_pass || !waits() {
            return Err(in_use(holder));
        }
    }
}

fn try_lock(directory: &File) -> Result<Option<StateLock>, String> {
    // Opened anew: a copy of the handle would share its lock.
    let own = open_in(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(|error| format!("cannot be opened: {error}"))?;
    match own.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Some network file systems lock files alone.
        Err(TryLockError::Error(error)) => {
            tracing::debug!(%error, "the state directory itself cannot be locked");
        }
    }
    let mut file = open_in(directory, NAME, OFlags::RDWR | OFlags::CREATE)
        .map_err(|error| format!("cannot be written: {error}"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(format!("cannot be locked: {error}")),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|error| format!("cannot be written: {error}"))?;
    Ok(Some(StateLock { _directory: own, _file: file }))
}

/// The process that the file names, if it names one.
fn holder(directory: &File) -> Option<Pid> {
    let file = open_in(directory, NAME, OFlags::RDONLY).ok()?;
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    // `Pid` panics at a negative number.
    let number: u32 = text.trim().parse().ok()?;
    Pid::from_raw(i32::try_from(number).ok()?)
}

fn in_use(holder: Option<Pid>) -> String {
    match holder {
        Some(holder) => {
            format!("in use by another server, process {}", holder.as_raw_nonzero())
        }
        None => "in use by another server".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::named_file::ours::open_directory;

    fn try_once(directory: &File) -> Result<StateLock, String> {
        lock_while(directory, || false)
    }

    /// The id of a process that has ended.
    fn ended() -> u32 {
        let mut child = Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn opened(path: &Path) -> File {
        open_directory(path).unwrap()
    }

    #[test]
    fn d8_what_becomes_of_the_lock_file_lets_no_second_server_in() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let directory = opened(&path);
        let held = try_once(&directory).unwrap();
        let own = format!("in use by another server, process {}", std::process::id());
        assert_eq!(try_once(&directory).unwrap_err(), own);

        fs::remove_file(path.join(NAME)).unwrap();
        assert_eq!(try_once(&opened(&path)).unwrap_err(), "in use by another server");
        fs::write(path.join(NAME), "").unwrap();
        assert_eq!(try_once(&opened(&path)).unwrap_err(), "in use by another server");
        let dead = ended();
        fs::write(path.join(NAME), format!("{dead}\n")).unwrap();
        let told = format!("in use by another server, process {dead}");
        assert_eq!(try_once(&opened(&path)).unwrap_err(), told);

        // Under another name it is the same directory, and another one in its place is free.
        let moved = home.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        assert!(try_once(&opened(&moved)).is_err());
        assert!(try_once(&opened(&path)).is_ok());
        drop(held);
        assert!(try_once(&opened(&moved)).is_ok());
    }

    #[test]
    fn a_dead_servers_lock_is_tried_again_and_a_living_ones_is_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let directory = opened(&path);
        let mut held = Some(try_once(&directory).unwrap());
        assert!(lock_while(&directory, || unreachable!("the holder lives")).is_err());

        // As a child that was forked before the kill holds it, until it executes.
        fs::write(path.join(NAME), format!("{}\n", ended())).unwrap();
        let mut tries = 0;
        let locked = lock_while(&directory, || {
            tries += 1;
            if tries == 3 {
                held = None;
            }
            true
        });
        assert!(locked.is_ok() && tries == 3, "{tries}");
    }
}
