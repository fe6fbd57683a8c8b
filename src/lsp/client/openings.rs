//! Opens files at their servers in the background, each of them once.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio::task::{Id, JoinSet};

/// Files that are being opened. A model that reads more has no use for them.
const MAX_OPENING: usize = 16;

/// The files that are being opened. Dropping it gives them up.
#[derive(Debug, Default)]
pub(super) struct Openings {
    tasks: JoinSet<()>,
    files: HashMap<Id, OpeningFile>,
}

/// A file of a workspace, by its path and the workspace's.
pub(super) type OpeningFile = (PathBuf, PathBuf);

impl Openings {
    /// Opens the file, unless it is being opened already: whoever waits for a server that still
    /// starts reads the file when it runs.
    pub(super) fn open<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        file: OpeningFile,
        open: impl FnOnce() -> F,
    ) {
        self.forget_opened();
        if self.files.len() < MAX_OPENING && !self.files.values().any(|other| *other == file) {
            let id = self.tasks.spawn(open()).id();
            self.files.insert(id, file);
        }
    }

    pub(super) fn give_up(&mut self) {
        self.tasks.abort_all();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    fn forget_opened(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
            self.files.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;
    use tokio::task::yield_now;

    use super::*;

    fn file(name: &str) -> OpeningFile {
        ("/w".into(), format!("/w/{name}").into())
    }

    #[tokio::test]
    async fn a_file_is_opened_once_at_a_time_and_few_are_at_once() {
        let mut openings = Openings::default();
        let ready = Arc::new(Notify::new());
        let mut open = |name: &str| {
            let ready = Arc::clone(&ready);
            openings.open(file(name), || async move { ready.notified().await });
            openings.len()
        };
        assert_eq!([open("a"), open("a"), open("b")], [1, 1, 2]);
        let many: Vec<usize> = (0..20).map(|number| open(&number.to_string())).collect();
        assert_eq!(many.last(), Some(&MAX_OPENING));

        yield_now().await;
        ready.notify_waiters();
        yield_now().await;

        assert_eq!(open("a"), 1);
    }

    #[tokio::test]
    async fn an_opening_that_crashes_is_no_longer_under_way() {
        let mut openings = Openings::default();
        openings.open(file("a"), || async { panic!("a mistake") });
        yield_now().await;
        openings.open(file("b"), || async {});
        assert_eq!(openings.len(), 1);
    }
}
