//! Gives a server a disk whose writes fail, hang or kill it, and a wall clock of its own: by a
//! library that is loaded into it. Only its database is touched, or its workspace, or what it keeps
//! of unfinished files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::server::Builder;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/disk.c");

/// The faults of one server, and of those that are started over its files.
#[derive(Debug)]
pub(crate) struct Disk {
    home: tempfile::TempDir,
    generation: AtomicU64,
    /// What the paths have in common of which the writes fail.
    part: &'static str,
}

/// What a write does from some write on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fails with this number of an error.
    Error(i32),
    /// Waits until the disk is mended.
    Hang,
    /// Kills the server before the write.
    Kill,
    /// Writes half, and kills the server.
    Tear,
}

pub(crate) const NO_SPACE: Fault = Fault::Error(28);
pub(crate) const BROKEN: Fault = Fault::Error(5);

impl Disk {
    pub(crate) fn new() -> Self {
        Self::with("/toolhand.db")
    }

    /// A disk where the writes into the workspace fail.
    pub(crate) fn of_workspace() -> Self {
        Self::with("/workspace/")
    }

    /// A disk where the writes fail of what is kept of files that are being written.
    pub(crate) fn of_unfinished() -> Self {
        Self::with("/unfinished")
    }

    fn with(part: &'static str) -> Self {
        let home = tempfile::Builder::new().prefix("toolhand-disk-").tempdir().expect("a place");
        fs::copy(compiled(), library(home.path())).expect("a copy of the library");
        Self { home, generation: AtomicU64::new(0), part }
    }

    /// The server that is built writes to this disk.
    pub(crate) fn under(&self, builder: Builder) -> Builder {
        builder.environment("LD_PRELOAD", &library(self.home.path()).display().to_string())
    }

    /// After so many writes that succeed, all do this until the disk is mended.
    pub(crate) fn plan(&self, fault: Fault, after: u32) {
        self.plan_some(fault, after, 0);
    }

    /// The same for one write alone.
    pub(crate) fn plan_once(&self, fault: Fault, after: u32) {
        self.plan_some(fault, after, 1);
    }

    fn plan_some(&self, fault: Fault, after: u32, count: u32) {
        _ = fs::remove_file(self.beside(".hit"));
        let (what, code) = match fault {
            Fault::Error(code) => ("fail", code),
            Fault::Hang => ("hang", 0),
            Fault::Kill => ("kill", 0),
            Fault::Tear => ("tear", 0),
        };
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let part = self.part;
        self.write(".plan", &format!("{generation} {what} {code} {after} {count} {part}"));
    }

    pub(crate) fn mend(&self) {
        _ = fs::remove_file(self.beside(".plan"));
    }

    /// Whether something has happened since the last plan.
    pub(crate) fn was_hit(&self) -> bool {
        self.beside(".hit").exists()
    }

    /// Servers that start from now on have a clock that is so many seconds ahead.
    pub(crate) fn set_clock(&self, ahead: i64) {
        self.write(".clock", &ahead.to_string());
    }

    fn write(&self, suffix: &str, text: &str) {
        let new = self.beside(".new");
        fs::write(&new, text).expect("a new file");
        fs::rename(new, self.beside(suffix)).expect("our own directory");
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = library(self.home.path()).into_os_string();
        path.push(suffix);
        path.into()
    }
}

fn library(home: &Path) -> PathBuf {
    home.join("disk.so")
}

/// The library, compiled once in each run of the tests. The database needs a C compiler as well.
fn compiled() -> &'static Path {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("disk-{}.so", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&to).arg(SOURCE);
        let status = compiler.args(["-ldl", "-lpthread"]).status().expect("a C compiler");
        assert!(status.success(), "{status}");
        to
    })
}
