//! Removes the placeholders of a server that was killed.
//!
//! What is made is noted in a list first. A process of its own waits until the server and all
//! supervisors have ended, and removes what the list still names. If that one is killed too, the
//! next server does it.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use super::Made;
use crate::processes::confinement::Place;
use crate::processes::masks::Placeholder;
use crate::processes::protocol;
use crate::sync;

/// The hidden command that makes our binary wait and sweep.
const COMMAND: &str = "__sweep";

/// The list of this process. It has one: the first that is asked for.
static NOTES: Mutex<Option<Notes>> = Mutex::new(None);

/// A placeholder that may be there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftBehind {
    pub(super) path: Place,
    pub(super) placeholder: Placeholder,
}

/// Notes placeholders. Without a list it does nothing.
#[derive(Clone, Debug, Default)]
pub(in crate::processes) struct Sweeper(Option<Arc<Parts>>);

#[derive(Debug)]
struct Parts {
    list: PathBuf,
    program: PathBuf,
}

#[derive(Debug)]
struct Notes {
    /// Locked, so that nobody else takes its placeholders for left behind.
    list: File,
    /// Every supervisor inherits it. Whoever waits at the other end sees the end of the last one.
    _alive: OwnedFd,
}

/// Whether what this process starts now inherits the pipe by which the sweeper sees the end of
/// the last supervisor.
pub(in crate::processes) fn is_watched() -> bool {
    sync::lock(&NOTES).is_some()
}

impl Sweeper {
    /// Removes what an earlier server has left. `program` is our own binary.
    pub(in crate::processes) fn new(list: Option<PathBuf>, program: &Path) -> Self {
        let Some(list) = list else { return Self::default() };
        _ = open(&list, false).map(|mut list| sweep(&mut list));
        Self(Some(Arc::new(Parts { list, program: program.to_owned() })))
    }

    /// A list that cannot be written keeps no command from running.
    pub(super) fn note(&self, left: &LeftBehind) {
        let Some(parts) = self.0.as_deref() else { return };
        let mut notes = sync::lock(&NOTES);
        if notes.is_none() {
            *notes = Notes::begin(parts).ok();
        }
        if let Some(notes) = notes.as_mut() {
            _ = notes.list.write_all(&protocol::line(left));
        }
    }

    /// Empties the list: none of them is there any more.
    pub(super) fn forget(&self) {
        if self.0.is_some()
            && let Some(notes) = sync::lock(&NOTES).as_mut()
        {
            _ = notes.list.set_len(0);
        }
    }
}

impl Notes {
    fn begin(parts: &Parts) -> io::Result<Self> {
        let mut list = open(&parts.list, true)?;
        sweep(&mut list);
        let (waiting, alive) = pipe_with(PipeFlags::CLOEXEC)?;
        Command::new(&parts.program)
            .arg0("toolhand")
            .arg(COMMAND)
            .arg(&parts.list)
            .env_clear()
            .current_dir("/")
            .stdin(waiting)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends the server's group does not end it.
            .process_group(0)
            .spawn()?;
        // Only now: the one that waits must not have it.
        fcntl_setfd(&alive, FdFlags::empty())?;
        Ok(Self { list, _alive: alive })
    }
}

/// Opens and locks a list. Fails where another process has it.
fn open(list: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let list = options.read(true).append(true).create(create).mode(0o600).open(list)?;
    flock(&list, FlockOperation::NonBlockingLockExclusive)?;
    Ok(list)
}

/// Removes what a list names, the last first: the others may be around it.
fn sweep(list: &mut File) {
    let mut text = Vec::new();
    if list.rewind().and_then(|()| list.read_to_end(&mut text)).is_err() || text.is_empty() {
        return;
    }
    let lines = text.split(|byte| *byte == b'\n').rev();
    for left in lines.filter_map(|line| protocol::parse::<LeftBehind>(line).ok()) {
        if let Some(made) = Made::there(left.path.path(), left.placeholder) {
            // An error means that it is gone, or is used.
            _ = made.remove();
        }
    }
    _ = list.set_len(0);
}

/// Waits and sweeps, if this process was started for that.
pub fn sweep_if_asked() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let is_asked = arguments.next()? == COMMAND;
    let list = PathBuf::from(arguments.next().filter(|_| is_asked)?);
    // Nobody writes: it ends with the last of those that could.
    _ = io::stdin().read_to_end(&mut Vec::new());
    _ = open(&list, false).map(|mut list| sweep(&mut list));
    Some(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::processes::test_support::program;

    #[test]
    fn p21_a_process_of_its_own_sweeps_when_all_others_have_ended() {
        let ground = tempfile::tempdir().unwrap();
        let base = ground.path().canonicalize().unwrap();
        fs::create_dir(base.join(".claude")).unwrap();
        let list = base.join("list");
        let left =
            LeftBehind { path: base.join(".claude").into(), placeholder: Placeholder::Directory };
        fs::write(&list, protocol::line(&left)).unwrap();
        let mut waiting = Command::new(program());
        let mut waiting = waiting.arg(COMMAND).arg(&list).stdin(Stdio::piped()).spawn().unwrap();
        assert!(base.join(".claude").exists());
        // This end of the pipe is what the server and its supervisors hold.
        drop(waiting.stdin.take());
        assert!(waiting.wait().unwrap().success());
        assert!(!base.join(".claude").exists());
    }

    #[test]
    fn what_is_as_it_was_made_is_swept_and_what_is_in_use_is_not() {
        let ground = tempfile::tempdir().unwrap();
        let base = ground.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("info")).unwrap();
        fs::create_dir_all(base.join("used/by")).unwrap();
        fs::write(base.join("info/attributes"), "").unwrap();
        fs::write(base.join("written"), "text").unwrap();
        let list = base.join("list");
        let mut notes = open(&list, true).unwrap();
        for (name, placeholder) in [
            ("info", Placeholder::Directory),
            ("info/attributes", Placeholder::EmptyFile),
            ("used", Placeholder::Directory),
            ("written", Placeholder::EmptyFile),
            ("missing", Placeholder::Directory),
        ] {
            let left = LeftBehind { path: base.join(name).into(), placeholder };
            notes.write_all(&protocol::line(&left)).unwrap();
        }
        // The one that holds the list still has its placeholders.
        Sweeper::new(Some(list.clone()), Path::new("/bin/false"));
        assert!(base.join("info/attributes").exists());
        drop(notes);
        Sweeper::new(Some(list.clone()), Path::new("/bin/false"));
        assert!(!base.join("info").exists());
        assert!(base.join("used/by").exists() && base.join("written").exists());
        assert_eq!(fs::read(&list).unwrap(), b"");
    }
}
