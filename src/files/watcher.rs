//! Watches the directories of known files, for all sessions.
//!
//! A mark only says that a file may have changed; whoever looks compares its contents. Events may
//! come late, or be lost, so the metadata of known files are looked at as well. What a mark adds
//! are changes that leave the metadata as they were, within one tick of the file system's clock.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::sync;

/// Directories that are watched at once. Linux lets a user watch a few thousand at least.
const MAX_DIRECTORIES: usize = 1024;

/// Names of one directory that are marked at once. A build writes more; then all of them are.
const MAX_NAMES: usize = 128;

/// Marks files that may have changed.
pub(crate) trait Marks: fmt::Debug + Send + Sync {
    /// A point in time. It moves on with each event.
    fn now(&self) -> u64;

    /// Marks changes in this directory from now on, if that is possible.
    fn watch(&self, directory: &Path);

    /// Whether the file was marked since then.
    fn marked(&self, path: &Path, since: u64) -> bool;
}

/// The watcher of the server.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    marked: Arc<Marked>,
    /// Started by the first directory.
    system: Mutex<System>,
}

/// What tells of changes.
#[derive(Debug, Default)]
enum System {
    #[default]
    NotStarted,
    Running(RecommendedWatcher),
    /// There is none, or it can watch no more.
    Exhausted,
}

#[derive(Debug, Default)]
struct Marked {
    clock: AtomicU64,
    directories: Mutex<HashMap<PathBuf, Directory>>,
}

/// A watched directory, with the times of the last events in it.
#[derive(Debug, Default)]
struct Directory {
    names: HashMap<OsString, u64>,
    /// Of an event that may be about any name.
    any: u64,
    /// When it was watched last for somebody.
    used: u64,
}

impl Marks for Watcher {
    fn now(&self) -> u64 {
        self.marked.clock.load(Ordering::SeqCst)
    }

    fn watch(&self, directory: &Path) {
        // The system calls back, so the lock of the directories is not held meanwhile.
        let mut system = sync::lock(&self.system);
        let used = self.marked.tick();
        if let Some(known) = sync::lock(&self.marked.directories).get_mut(directory) {
            known.used = used;
            return;
        }
        if let System::NotStarted = *system {
            *system = System::start(&self.marked);
        }
        let System::Running(watcher) = &mut *system else { return };
        if let Some(oldest) = self.marked.oldest_of_too_many() {
            // It may be gone already.
            _ = watcher.unwatch(&oldest);
        }
        // Before the first event can come.
        let known = Directory { used, ..Directory::default() };
        sync::lock(&self.marked.directories).insert(directory.to_owned(), known);
        match watcher.watch(directory, RecursiveMode::NonRecursive) {
            Ok(()) => {}
            Err(error) if matches!(error.kind, notify::ErrorKind::MaxFilesWatch) => {
                tracing::info!("no more directories can be watched: {error}");
                *system = System::Exhausted;
                sync::lock(&self.marked.directories).clear();
            }
            // It is gone, or cannot be watched.
            Err(_) => _ = sync::lock(&self.marked.directories).remove(directory),
        }
    }

    fn marked(&self, path: &Path, since: u64) -> bool {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let directories = sync::lock(&self.marked.directories);
        directories.get(directory).is_some_and(|directory| directory.marked(name, since))
    }
}

impl System {
    fn start(marked: &Arc<Marked>) -> Self {
        let marked = Arc::clone(marked);
        match notify::recommended_watcher(move |event| marked.take(event)) {
            Ok(watcher) => Self::Running(watcher),
            Err(error) => {
                tracing::info!("changes of files cannot be watched: {error}");
                Self::Exhausted
            }
        }
    }
}

impl Marked {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Removes the directory used longest ago, if there is no room for another one.
    fn oldest_of_too_many(&self) -> Option<PathBuf> {
        let mut directories = sync::lock(&self.directories);
        if directories.len() < MAX_DIRECTORIES {
            return None;
        }
        let (oldest, _) = directories.iter().min_by_key(|(_, directory)| directory.used)?;
        let oldest = oldest.clone();
        directories.remove(&oldest);
        Some(oldest)
    }

    fn take(&self, event: notify::Result<Event>) {
        let now = self.tick();
        let mut directories = sync::lock(&self.directories);
        match event {
            Ok(event) if event.need_rescan() => mark_all(&mut directories, now),
            Ok(event) if is_change(event.kind) => {
                for path in &event.paths {
                    if event.kind.is_remove() {
                        directories.remove(path);
                    }
                    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                        continue;
                    };
                    if let Some(directory) = directories.get_mut(parent) {
                        directory.mark(name, now);
                    }
                }
            }
            Ok(_) => {}
            Err(_) => mark_all(&mut directories, now),
        }
    }
}

impl Directory {
    fn mark(&mut self, name: &OsStr, now: u64) {
        if self.names.len() >= MAX_NAMES && !self.names.contains_key(name) {
            self.names.clear();
            self.any = now;
        } else {
            self.names.insert(name.to_owned(), now);
        }
    }

    fn marked(&self, name: &OsStr, since: u64) -> bool {
        since < self.any || self.names.get(name).is_some_and(|marked| since < *marked)
    }
}

fn mark_all(directories: &mut HashMap<PathBuf, Directory>, now: u64) {
    for directory in directories.values_mut() {
        directory.any = now;
    }
}

/// Whether an event tells of more than that a file was opened or read.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Waits, without a bound, until the file is marked.
    fn await_mark(watcher: &Watcher, path: &Path, since: u64) {
        while !watcher.marked(path, since) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_change_is_marked_and_reading_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (changed, read) = (root.join("changed"), root.join("read"));
        fs::write(&changed, "1").unwrap();
        fs::write(&read, "1").unwrap();
        let watcher = Watcher::default();
        watcher.watch(&root);
        let since = watcher.now();
        fs::read(&read).unwrap();
        fs::write(&changed, "2").unwrap();
        await_mark(&watcher, &changed, since);
        assert!(!watcher.marked(&read, since));
        let later = watcher.now();
        fs::rename(&changed, &read).unwrap();
        await_mark(&watcher, &read, later);
    }

    #[test]
    fn too_many_names_mark_all() {
        let mut directory = Directory::default();
        for number in 0..=MAX_NAMES as u64 {
            directory.mark(OsStr::new(&number.to_string()), number + 1);
        }
        assert!(directory.marked(OsStr::new("other"), 5) && directory.names.is_empty());
        assert!(!directory.marked(OsStr::new("other"), MAX_NAMES as u64 + 1));
    }

    #[test]
    fn the_directory_used_longest_ago_makes_room() {
        let root = tempfile::tempdir().unwrap();
        let watcher = Watcher::default();
        let path = |number: usize| root.path().join(number.to_string());
        for number in 0..=MAX_DIRECTORIES {
            fs::create_dir(path(number)).unwrap();
            watcher.watch(&path(number));
        }
        let directories = sync::lock(&watcher.marked.directories);
        assert!(directories.len() == MAX_DIRECTORIES && !directories.contains_key(&path(0)));
    }
}
