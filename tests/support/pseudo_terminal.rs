//! Runs the program on a pseudo-terminal that is its controlling one.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command as StdCommand, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::process::{Child, Command};
use tokio::sync::watch as notice;

use super::{sync, watch};

pub(crate) struct PseudoTerminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    grown: notice::Receiver<()>,
}

impl PseudoTerminal {
    /// Starts the command with stdin, stdout and stderr on the terminal. `setsid` makes it
    /// the controlling one, so that Ctrl-C is a signal.
    pub(crate) fn start(given: &StdCommand) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
        let master = master.expect("a pseudo-terminal");
        grantpt(&master).expect("ours");
        unlockpt(&master).expect("ours");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let terminal = || {
            let mut options = OpenOptions::new();
            let flags = OFlags::NOCTTY.bits().cast_signed();
            options.read(true).write(true).custom_flags(flags);
            let path = std::ffi::OsStr::from_bytes(name.to_bytes());
            Stdio::from(options.open(path).expect("the terminal"))
        };
        // Whoever runs the tests may ignore signals, as `nohup` and a shell's `&` do.
        let mut command = Command::new("env");
        command
            .args(["--default-signal", "setsid", "--ctty"])
            .arg(given.get_program())
            .args(given.get_args())
            .env_clear()
            .env("TERM", "xterm")
            .envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal())
            .kill_on_drop(true);
        if let Some(directory) = given.get_current_dir() {
            command.current_dir(directory);
        }
        let child = command.spawn().expect("env and setsid");
        let master = File::from(master);
        let keyboard = master.try_clone().expect("a second handle");
        let screen = Arc::default();
        let grown = read(master, Arc::clone(&screen));
        Self { child, keyboard, screen, grown }
    }

    /// The process that leads the terminal's session.
    pub(crate) fn pid(&self) -> Pid {
        let number = self.child.id().and_then(|id| i32::try_from(id).ok());
        number.and_then(Pid::from_raw).expect("it was not waited for")
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes it");
    }

    /// Waits until these words were written.
    pub(crate) async fn written(&mut self, words: &str) {
        watch(&format!("the terminal to show {words:?}"), self.written_at_last(words)).await;
    }

    /// The same for a program that may take minutes.
    pub(crate) async fn written_at_last(&mut self, words: &str) {
        while !sync::lock(&self.screen).contains(words) {
            let grown = self.grown.changed().await;
            assert!(grown.is_ok(), "it ended without writing {words:?}: {}", self.screen());
        }
    }

    /// Everything that was written so far.
    pub(crate) fn screen(&self) -> String {
        sync::lock(&self.screen).clone()
    }

    /// Waits for its end. Returns the exit status and everything that it wrote.
    pub(crate) async fn end(mut self) -> (Option<i32>, String) {
        let status = watch("the program to end", self.child.wait()).await.expect("our child");
        // The last terminal handle is closed, so the reader ends.
        while watch("the rest of the screen", self.grown.changed()).await.is_ok() {}
        (status.code(), sync::lock(&self.screen).clone())
    }
}

/// Reads in a thread until every other handle of the terminal is closed.
fn read(mut master: File, screen: Arc<Mutex<String>>) -> notice::Receiver<()> {
    let (grown, growing) = notice::channel(());
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut read = [0; 4096];
        while let Ok(count @ 1..) = master.read(&mut read) {
            bytes.extend_from_slice(&read[..count]);
            *sync::lock(&screen) = String::from_utf8_lossy(&bytes).into_owned();
            grown.send_replace(());
        }
    });
    growing
}
