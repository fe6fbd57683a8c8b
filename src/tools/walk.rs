//! Runs a search of Glob or Grep on several threads, within a time limit.
//!
//! The call gets its answer at the time limit even when a thread hangs in the file system.
//! The results so far are shared, so that the caller can take them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::tool::{ToolError, ToolOutput};
use crate::blocking::{GiveUpOnDrop, MAX_THREADS_OF_A_SEARCH, Pool, SEARCHES, STUCK_AFTER, Slot};
use crate::sync;
use crate::text::{printable_path, shortened};

pub(crate) use io_errors::reason;
pub(crate) use passed_over::{PassedKind, PassedOver, below};
pub(crate) use pattern::{PathGlob, check_pattern};
pub(crate) use queue::Queue;
pub(crate) use readings::{READ_LITERALLY, has_extended_group, with_literal_brackets};
pub(crate) use tree::{Entry, Filter, FilterGlobs, LeftOut, Walk};

mod above;
mod ignore_files;
mod io_errors;
mod node;
mod passed_over;
mod pattern;
mod queue;
mod readings;
mod rules;
#[cfg(test)]
mod tests;
mod tree;

/// After this time a search ends, and the answer asks the model to narrow it.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Time that the threads get to notice the time limit and answer. After it, all of them hang,
/// and the caller answers itself.
const GRACE: Duration = Duration::from_millis(250);

/// Said where a search disregards ignore files, since they would leave nothing to search.
pub(crate) const AMONG_IGNORED: &str =
    "(ignore files leave out this directory, so they do not count in it)";

/// Files that an answer names as not searched. Further files are only counted.
const MAX_NAMED: usize = 5;

/// The settings with which a tool searches.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) pool: &'static Pool,
    pub(crate) time_limit: Duration,
}

/// A running search, shared by its threads.
pub(crate) trait Job: Send + Sync + 'static {
    /// Searches until the work is done or time is up. Each thread calls this once.
    fn work(&self);

    /// The answer from the results so far. Called once.
    fn answer(&self) -> Result<ToolOutput, ToolError>;
}

/// When a search must stop, and what it has not searched.
#[derive(Debug)]
pub(crate) struct Bounds {
    deadline: Instant,
    /// Set when the call is dropped. Asking its cancellation token for each file would make
    /// the token's lock a bottleneck.
    stopped: AtomicBool,
    timed_out: AtomicBool,
    /// Set when the queue had no room for further directories.
    overflowed: AtomicBool,
    /// Counts the times that any thread has come back from the file system.
    steps: AtomicUsize,
    not_searched: Mutex<Named>,
    /// Files that may hold secrets, and were passed over.
    secret: AtomicUsize,
    ignore_files: Mutex<Named>,
}

/// Bytes of a path in a note. Deep directories have paths of any length, and an answer should
/// not consist of them.
const MAX_PATH_SHOWN: usize = 300;

/// The first notes on files in the order of their paths, and the number of all notes.
#[derive(Debug, Default)]
struct Named {
    first: BTreeSet<String>,
    total: usize,
}

/// Stops the threads when the waiting call is dropped.
struct StopOnDrop(Arc<Bounds>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }
}

impl Default for Search {
    fn default() -> Self {
        Self { pool: &SEARCHES, time_limit: TIME_LIMIT }
    }
}

impl Search {
    /// Prepares a job and runs it, both in threads of the pool.
    pub(crate) async fn run<J: Job>(
        &self,
        cancelled: &CancellationToken,
        prepare: impl FnOnce(Arc<Bounds>) -> Result<J, ToolError> + Send + 'static,
    ) -> Result<ToolOutput, ToolError> {
        // Biased, here and below: a cancelled call must not answer.
        let slot = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Err(ToolError::Cancelled),
            slot = self.pool.enter() => slot.map_err(ToolError::failed)?,
        };
        let _give_up = GiveUpOnDrop(Arc::clone(&slot));
        let bounds = Arc::new(Bounds::new(self.time_limit));
        let _stop = StopOnDrop(Arc::clone(&bounds));
        let job = Arc::new(OnceLock::new());
        let mut worker = slot.spawn({
            let (slot, bounds, job) = (Arc::clone(&slot), Arc::clone(&bounds), Arc::clone(&job));
            move || work(&slot, prepare(bounds)?, &job)
        });
        // No thread is joined: one that hangs must not hold up the answer.
        let latest = bounds.deadline + GRACE;
        let mut steps = 0;
        loop {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(ToolError::Cancelled),
                done = &mut worker => return done.map_err(ToolError::failed)?,
                () = sleep_until(latest) => return late(&bounds, job.get()),
                () = sleep(STUCK_AFTER) => steps = bounds.release_if_stuck(&slot, steps),
            }
        }
    }
}

/// Runs in the first thread: starts the others, takes part in the work, and answers.
fn work<J: Job>(
    slot: &Arc<Slot>,
    job: J,
    shared: &OnceLock<Arc<J>>,
) -> Result<ToolOutput, ToolError> {
    let job = Arc::clone(shared.get_or_init(|| Arc::new(job)));
    let threads = available_parallelism().map_or(1, usize::from).min(MAX_THREADS_OF_A_SEARCH);
    for _ in 1..threads {
        let job = Arc::clone(&job);
        slot.spawn(move || job.work());
    }
    job.work();
    job.answer()
}

/// The answer if no thread has given one in time.
fn late<J: Job>(bounds: &Bounds, job: Option<&Arc<J>>) -> Result<ToolOutput, ToolError> {
    bounds.timed_out.store(true, Ordering::Relaxed);
    let hangs = "the search ran out of time before it began: the file system does not answer";
    job.map_or_else(|| Err(ToolError::failed(hangs)), |job| job.answer())
}

impl Bounds {
    pub(crate) fn new(time_limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + time_limit,
            stopped: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            overflowed: AtomicBool::new(false),
            steps: AtomicUsize::new(0),
            not_searched: Mutex::default(),
            secret: AtomicUsize::new(0),
            ignore_files: Mutex::default(),
        }
    }

    /// Whether to stop. Called by threads that have just come back from the file system, which
    /// shows that the search is not stuck.
    pub(crate) fn is_over(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.has_ended()
    }

    /// Whether to stop. Records that time has run out.
    pub(crate) fn has_ended(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let late = Instant::now() >= self.deadline;
        if late {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        late
    }

    /// Gives up the slot, so that another search may begin, if no thread has come back since
    /// the count was `before`. Returns the new count.
    fn release_if_stuck(&self, slot: &Slot, before: usize) -> usize {
        let steps = self.steps.load(Ordering::Relaxed);
        if steps == before {
            slot.give_up();
        }
        steps
    }

    /// Records a file or directory that could not be searched, and the reason.
    pub(crate) fn not_searched(&self, path: &Path, reason: &str) {
        sync::lock(&self.not_searched).add(path, reason);
    }

    /// Counts a file that was passed over because it may hold secrets.
    pub(crate) fn passed_over(&self) {
        self.secret.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that an ignore file is not used, or only in part.
    fn note_ignore_file(&self, path: &Path, what: &str) {
        sync::lock(&self.ignore_files).add(path, what);
    }

    fn note_overflow(&self) {
        self.overflowed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed) || self.overflowed.load(Ordering::Relaxed)
    }

    pub(crate) fn has_searched_all(&self) -> bool {
        !self.is_partial() && sync::lock(&self.not_searched).total == 0
    }

    /// The notes that the answer must add to its results.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.timed_out.load(Ordering::Relaxed) {
            notes.push(
                "(incomplete: the search ran out of time; narrow the path or the pattern)"
                    .to_owned(),
            );
        }
        if self.overflowed.load(Ordering::Relaxed) {
            notes.push("(incomplete: there are too many directories; narrow the path)".to_owned());
        }
        sync::lock(&self.not_searched).tell("not searched", &mut notes);
        let secret = self.secret.load(Ordering::Relaxed);
        if secret > 0 {
            let files = if secret == 1 { "file" } else { "files" };
            notes.push(format!(
                "(not searched: {secret} {files} that may hold secrets; give the path of such a \
                 file to ask for it)"
            ));
        }
        sync::lock(&self.ignore_files).tell("ignore file not used in full", &mut notes);
        notes
    }
}

impl Named {
    fn add(&mut self, path: &Path, what: &str) {
        let path = printable_path(path);
        if !self.first.insert(format!("{}: {what}", shortened(&path, MAX_PATH_SHOWN))) {
            return;
        }
        self.total += 1;
        if self.first.len() > MAX_NAMED {
            self.first.pop_last();
        }
    }

    fn tell(&self, what: &str, notes: &mut Vec<String>) {
        notes.extend(self.first.iter().map(|file| format!("({what}: {file})")));
        let rest = self.total - self.first.len();
        if rest > 0 {
            notes.push(format!("({what}: {rest} more)"));
        }
    }
}
