//! Looks at what a command has left in the workspace when its last process has ended, whether or
//! not anybody waits for that any more.
//!
//! A call whose turn is stopped is dropped, and with it the command. What the command has left is
//! looked at all the same; until then the session counts it as interrupted. Where no look can be
//! made, as in a server that ends, it stays so.

use std::mem;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::processes::KeptAlive;
use crate::processes::sandbox::WorkspaceWatch;
use crate::session_files::{SessionFiles, UnlookedCommand};
use crate::sync;

/// How the person is told of what a command has left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IsTold {
    ByEvent,
    /// By the next turn: no turn need run now.
    Later,
}

/// What a command has left that other programs obey.
#[derive(Default)]
pub(super) struct LeftBehind {
    /// One line for each kind.
    pub(super) lines: Vec<String>,
    /// It is to be said that not all of the workspace was looked at.
    pub(super) says_cut: bool,
}

/// The look at one command that may write. Dropped before the look was made, it notes that the
/// command was interrupted.
pub(super) struct PendingLook {
    shared: Arc<SharedLook>,
    at_the_end: Arc<LookAtTheEnd>,
}

/// Makes the look when it is dropped, if nobody has. It is kept until the last process of the
/// command has ended.
struct LookAtTheEnd(Arc<SharedLook>);

struct SharedLook {
    state: Mutex<LookState>,
    session: Option<NotedCommand>,
}

enum LookState {
    /// Nothing of the command has run.
    Waiting(WorkspaceWatch),
    Started(WorkspaceWatch),
    /// It is made, or is being made.
    Made,
}

/// A command in the notes of its session.
struct NotedCommand {
    files: Arc<SessionFiles>,
    command: UnlookedCommand,
}

impl PendingLook {
    /// Notes in the session that the command is about to start. `None`: it cannot write.
    pub(super) async fn begin(
        watch: Option<WorkspaceWatch>,
        files: Option<Arc<SessionFiles>>,
        line: &str,
    ) -> Option<Self> {
        let watch = watch?;
        let line = line.to_owned();
        let note = move || {
            files.map(|files| {
                let command = files.begin_command(&line);
                NotedCommand { files, command }
            })
        };
        // An error means that the server ends.
        let session = spawn_blocking(note).await.ok().flatten();
        let state = Mutex::new(LookState::Waiting(watch));
        let shared = Arc::new(SharedLook { state, session });
        let at_the_end = Arc::new(LookAtTheEnd(Arc::clone(&shared)));
        Some(Self { shared, at_the_end })
    }

    /// What is kept until the last process of the command has ended.
    pub(super) fn keeping(&self, other: Option<KeptAlive>) -> KeptAlive {
        let look = Arc::clone(&self.at_the_end);
        match other {
            Some(other) => other.with(look),
            None => KeptAlive::new(look),
        }
    }

    /// The command is about to start anew, and nothing of it has run.
    pub(super) fn renew(&self, watch: WorkspaceWatch) {
        *sync::lock(&self.shared.state) = LookState::Waiting(watch);
    }

    /// The command has started.
    pub(super) fn started(&self) {
        let mut state = sync::lock(&self.shared.state);
        *state = match mem::replace(&mut *state, LookState::Made) {
            LookState::Waiting(watch) => LookState::Started(watch),
            other => other,
        };
    }

    /// Makes the look. The command has ended.
    pub(super) async fn make(self, told: IsTold) -> LeftBehind {
        let shared = Arc::clone(&self.shared);
        let Some(watch) = shared.take().into_watch() else { return LeftBehind::default() };
        let looking = Arc::clone(&shared);
        let made = spawn_blocking(move || looking.make(&watch, told)).await;
        made.unwrap_or_else(|error| {
            tracing::error!(%error, "what a command has left was not looked at");
            shared.interrupt();
            LeftBehind::default()
        })
    }
}

impl Drop for PendingLook {
    fn drop(&mut self) {
        if matches!(*sync::lock(&self.shared.state), LookState::Started(_)) {
            self.shared.interrupt();
        }
    }
}

impl Drop for LookAtTheEnd {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.0);
        let state = shared.take();
        if matches!(state, LookState::Made) {
            return;
        }
        if matches!(state, LookState::Started(_)) {
            shared.interrupt();
        }
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn_blocking(move || match state {
            LookState::Started(watch) => _ = shared.make(&watch, IsTold::Later),
            LookState::Waiting(_) | LookState::Made => shared.end(),
        });
    }
}

impl LookState {
    fn into_watch(self) -> Option<WorkspaceWatch> {
        match self {
            Self::Waiting(watch) | Self::Started(watch) => Some(watch),
            Self::Made => None,
        }
    }
}

impl SharedLook {
    /// Whoever gets the watch makes the look.
    fn take(&self) -> LookState {
        mem::replace(&mut *sync::lock(&self.state), LookState::Made)
    }

    /// Reads the disk, and writes what it finds.
    fn make(&self, watch: &WorkspaceWatch, told: IsTold) -> LeftBehind {
        let finds = watch.finds();
        let lines = finds.lines();
        let files = self.session.as_ref().map(|noted| &noted.files);
        if let Some(files) = files.filter(|_| !lines.is_empty()) {
            files.add_finds(&lines, told == IsTold::ByEvent);
        }
        // What it has left is known before the command is no longer noted.
        self.end();
        let says_cut = finds.is_cut && files.is_none_or(|files| files.note_first_cut());
        LeftBehind { lines, says_cut }
    }

    fn interrupt(&self) {
        if let Some(NotedCommand { files, command }) = &self.session {
            files.interrupt_command(command);
        }
    }

    fn end(&self) {
        if let Some(NotedCommand { files, command }) = &self.session {
            files.end_command(command);
        }
    }
}
