//! Locks files by path, and forgets a lock when nobody uses it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::sync;

#[derive(Debug, Default)]
pub(super) struct Locks {
    files: Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>,
}

impl Locks {
    /// Runs `work` while holding the lock of `path`. Blocks.
    pub(super) fn hold<R>(&self, path: &Path, work: impl FnOnce() -> R) -> R {
        // Declared first, so that it is dropped last: it counts the owners of the lock.
        let _forgotten_at_last = Claim { locks: self, path };
        let lock = {
            let mut files = sync::lock(&self.files);
            Arc::clone(files.entry(path.to_owned()).or_default())
        };
        // The lock guards no data that a panic could leave broken.
        let _held = sync::lock(&lock);
        work()
    }
}

/// Removes the lock from the table when its last user drops this.
struct Claim<'a> {
    locks: &'a Locks,
    path: &'a Path,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut files = sync::lock(&self.locks.files);
        if files.get(self.path).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            files.remove(self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn work_on_one_file_never_overlaps_and_leaves_no_entry() {
        let (locks, barrier, busy) = (Locks::default(), Barrier::new(8), Mutex::new(()));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..100 {
                        locks.hold(Path::new("/a"), || drop(busy.try_lock().unwrap()));
                    }
                });
            }
        });
        assert!(locks.files.lock().unwrap().is_empty());
    }
}
