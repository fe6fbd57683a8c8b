//! Runs a query over a file or a tree, on all processors.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use grep::printer::{StandardBuilder, SummaryBuilder, SummaryKind};
use grep::regex::RegexMatcher;
use grep::searcher::{BinaryDetection, Searcher, Sink, SinkFinish, SinkMatch};
use ignore::{DirEntry, WalkState};

use super::OutputMode;
use super::query::Query;
use crate::text;
use crate::tools::page::Page;
use crate::tools::tool::ToolError;
use crate::tools::walk::{self, Bounds, Ignores};
use crate::workspace::Target;

/// Longer lines are left out of `content`, with a word on how many matches they have.
const MAX_COLUMNS: u64 = 500;

/// Bytes of one file's part of an answer.
const MAX_BYTES: usize = 8 << 20;

/// What is searched, and from where its paths are told.
pub(super) struct Place<'a> {
    pub(super) target: &'a Target,
    pub(super) working_dir: &'a Path,
}

/// Newest first where time counts, then by path below what is searched.
type Key = (Option<Reverse<SystemTime>>, PathBuf);

pub(super) struct Found {
    /// The beginning of the answer, in order.
    pub(super) page: Page<Key>,
    pub(super) files: u64,
    /// Matching lines in all files; in mode `count` only.
    pub(super) matches: u64,
}

pub(super) fn search(
    query: &Query,
    place: &Place<'_>,
    bounds: &Bounds,
) -> Result<Found, ToolError> {
    let page = Page::new(query.lines_wanted());
    let found = Mutex::new(Found { page, files: 0, matches: 0 });
    let path = place.target.path().display();
    let kind = place.target.metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ToolError::Failed(format!("{path} does not exist")),
        _ => ToolError::Failed(format!("{path}: {error}")),
    })?;
    if kind.is_dir() {
        search_tree(query, place, bounds, &found);
    } else if kind.is_file() {
        search_one(query, place, bounds, &found)?;
    } else {
        return Err(ToolError::Failed(format!("{path} is not a regular file or directory")));
    }
    Ok(found.into_inner().expect("no searcher panics"))
}

/// A file that was named is searched whatever ignore files and globs say, also when
/// it is binary.
fn search_one(
    query: &Query,
    place: &Place<'_>,
    bounds: &Bounds,
    found: &Mutex<Found>,
) -> Result<(), ToolError> {
    let mut worker = Worker::new(query, bounds, found);
    worker.searcher.set_binary_detection(BinaryDetection::convert(0));
    let file = place.target.open_file().map_err(ToolError::failed)?;
    worker.search(file, Path::new(""), place);
    Ok(())
}

fn search_tree(query: &Query, place: &Place<'_>, bounds: &Bounds, found: &Mutex<Found>) {
    let root = place.target.real_path();
    let mut walk = walk::tree(root, Ignores::Honoured, bounds, |_| true);
    walk.overrides(query.globs.clone()).types(query.types.clone());
    walk.build_parallel().run(|| {
        let mut worker = Worker::new(query, bounds, found);
        worker.searcher.set_binary_detection(BinaryDetection::quit(0));
        Box::new(move |entry| {
            if bounds.is_over() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) => worker.consider(&entry, place),
                Err(_) => bounds.note_unreadable(),
            }
            WalkState::Continue
        })
    });
}

/// One thread's tools. They are reused from file to file.
struct Worker<'a> {
    query: &'a Query,
    bounds: &'a Bounds,
    found: &'a Mutex<Found>,
    /// A copy for each thread: they share a cache that would become a bottleneck.
    matcher: RegexMatcher,
    searcher: Searcher,
    lines: StandardBuilder,
    summary: SummaryBuilder,
}

impl<'a> Worker<'a> {
    fn new(query: &'a Query, bounds: &'a Bounds, found: &'a Mutex<Found>) -> Self {
        let (matcher, searcher) = (query.matcher.clone(), query.searcher());
        let mut lines = StandardBuilder::new();
        lines.only_matching(query.only_matching).max_columns(Some(MAX_COLUMNS));
        let mut summary = SummaryBuilder::new();
        let kind = if query.only_matching { SummaryKind::CountMatches } else { SummaryKind::Count };
        summary.kind(kind).path(false).stats(kind == SummaryKind::CountMatches);
        Self { query, bounds, found, matcher, searcher, lines, summary }
    }

    fn consider(&mut self, entry: &DirEntry, place: &Place<'_>) {
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            return;
        }
        let Some(relative) = place.relative(entry.path()) else { return };
        if self.is_beyond(relative) {
            return;
        }
        match place.target.open_beneath(relative) {
            Ok(file) => self.search(file, relative, place),
            // It vanished while we walked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => self.bounds.note_unreadable(),
        }
    }

    /// In path order, nothing behind a full page can be on it.
    fn is_beyond(&self, relative: &Path) -> bool {
        self.query.mode == OutputMode::Content
            && self.found().page.is_closed_to(&(None, relative.to_owned()))
    }

    fn search(&mut self, file: File, relative: &Path, place: &Place<'_>) {
        let mut reader = Interruptible { file, bounds: self.bounds };
        match self.query.mode {
            OutputMode::Content => {
                let text = self.lines(reader, &place.shown(relative));
                if !text.is_empty() {
                    self.add((None, relative.to_owned()), text, 0);
                }
            }
            OutputMode::Count => {
                let count = self.count(reader);
                if count > 0 {
                    let line = format!("{}:{count}\n", place.shown(relative));
                    self.add((None, relative.to_owned()), line.into_bytes(), count);
                }
            }
            OutputMode::FilesWithMatches => {
                if self.has_match(&mut reader) {
                    let modified = reader.file.metadata().and_then(|about| about.modified()).ok();
                    let line = format!("{}\n", place.shown(relative));
                    self.add((modified.map(Reverse), relative.to_owned()), line.into_bytes(), 0);
                }
            }
        }
    }

    fn lines(&mut self, reader: Interruptible<'_>, shown: &str) -> Vec<u8> {
        let mut out = FirstLines::new(self.query.lines_wanted());
        let mut printer = self.lines.build_no_color(&mut out);
        let sink = printer.sink_with_path(&self.matcher, shown);
        let outcome = self.searcher.search_reader(&self.matcher, reader, sink);
        drop(printer);
        if !out.is_full {
            self.note(&outcome);
        }
        out.into_whole_lines()
    }

    fn count(&mut self, reader: Interruptible<'_>) -> u64 {
        let mut out = Vec::new();
        let mut printer = self.summary.build_no_color(&mut out);
        let sink = printer.sink(&self.matcher);
        let outcome = self.searcher.search_reader(&self.matcher, reader, sink);
        drop(printer);
        self.note(&outcome);
        // Without a path, the printer writes the bare number.
        str::from_utf8(&out).ok().and_then(|text| text.trim_end().parse().ok()).unwrap_or(0)
    }

    fn has_match(&mut self, reader: &mut Interruptible<'_>) -> bool {
        let mut first = FirstMatch { found: false };
        let outcome = self.searcher.search_reader(&self.matcher, reader, &mut first);
        self.note(&outcome);
        first.found
    }

    fn note(&self, outcome: &io::Result<()>) {
        if outcome.is_err() && !self.bounds.is_over() {
            self.bounds.note_unreadable();
        }
    }

    fn add(&self, key: Key, text: Vec<u8>, matches: u64) {
        let mut found = self.found();
        found.files += 1;
        found.matches += matches;
        found.page.insert(key, text);
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().expect("no searcher panics")
    }
}

impl Place<'_> {
    /// `path`, which the walk came upon, below what is searched. Only bytes are
    /// compared: this is done for every file.
    fn relative<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let root = self.target.real_path().as_os_str().as_bytes();
        let below = path.as_os_str().as_bytes().strip_prefix(root)?;
        let below = below.strip_prefix(b"/").unwrap_or(below);
        Some(Path::new(OsStr::from_bytes(below)))
    }

    /// Relative to the working directory where it lies inside.
    fn shown(&self, relative: &Path) -> String {
        let mut path = self.target.path().to_owned();
        if !relative.as_os_str().is_empty() {
            path.push(relative);
        }
        let path = path.strip_prefix(self.working_dir).unwrap_or(&path);
        text::printable(path.as_os_str().as_encoded_bytes())
    }
}

/// Whether a file matches at all. Like ripgrep's printers, it believes nothing of a
/// file that turns out to be binary.
struct FirstMatch {
    found: bool,
}

impl Sink for FirstMatch {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.found = true;
        Ok(false)
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        let quits = searcher.binary_detection().quit_byte().is_some();
        self.found &= !(quits && finish.binary_byte_offset().is_some());
        Ok(())
    }
}

/// A file that ends with an error when time is up, however long it is.
struct Interruptible<'a> {
    file: File,
    bounds: &'a Bounds,
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bounds.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

/// Takes lines until there are enough, then refuses, which ends the search.
struct FirstLines {
    text: Vec<u8>,
    lines_left: usize,
    is_full: bool,
}

impl FirstLines {
    fn new(lines: usize) -> Self {
        Self { text: Vec::new(), lines_left: lines, is_full: false }
    }

    fn into_whole_lines(mut self) -> Vec<u8> {
        let end = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.text.truncate(end);
        self.text
    }
}

impl Write for FirstLines {
    #[expect(clippy::naive_bytecount, reason = "a piece of a line at a time")]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full = self.lines_left == 0 || self.text.len() > MAX_BYTES;
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.lines_left = self.lines_left.saturating_sub(lines);
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
