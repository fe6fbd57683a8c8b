//! Searches a file or a tree on several threads.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use grep::printer::{StandardBuilder, SummaryBuilder, SummaryKind};
use grep::regex::RegexMatcher;
use grep::searcher::{BinaryDetection, Searcher, Sink, SinkFinish, SinkMatch};
use tokio::time::Instant;

use super::found::{Found, Key};
use super::pieces::{FoundInPiece, Piece, Pieces};
use super::query::Query;
use super::return_ends::ReturnEnds;
use super::{GrepInput, OutputMode, render};
use crate::permissions::{Permit, SearchScope};
use crate::sync;
use crate::text;
use crate::tools::tool::{CallContext, ToolError, ToolOutput};
use crate::tools::walk::{Bounds, Entry, Job, Walk, reason};

/// In mode `content`, a longer line is replaced with the number of its matches.
const MAX_COLUMNS: u64 = 500;

/// Bytes of the results of one file.
const MAX_BYTES: usize = 8 << 20;

/// The paths from which the answer names files.
#[derive(Debug)]
struct ShownPaths {
    path: PathBuf,
    /// The same path with every link resolved.
    real_path: PathBuf,
    working_dir: PathBuf,
}

/// A running call.
#[derive(Debug)]
pub(super) struct Searching {
    query: Query,
    paths: ShownPaths,
    what: What,
    bounds: Arc<Bounds>,
    started: Instant,
    found: Mutex<Found>,
}

#[derive(Debug)]
enum What {
    /// It is searched even if it is binary, and ignore files and globs do not apply.
    File(NamedFile),
    Tree(Box<Walk>),
}

/// A file that the call names.
#[derive(Debug)]
struct NamedFile {
    /// The thread that takes it adds what was found.
    file: Mutex<Option<Arc<File>>>,
    shared: Option<(Arc<File>, Pieces)>,
}

impl NamedFile {
    fn new(file: File, length: u64, query: &Query) -> Self {
        let file = Arc::new(file);
        let pieces = Pieces::of(length).filter(|_| query.works_in_pieces() && !has_mark(&file));
        let shared = pieces.map(|pieces| (Arc::clone(&file), pieces));
        Self { file: Mutex::new(Some(file)), shared }
    }
}

/// Whether the text begins with a byte order mark.
fn has_mark(file: &File) -> bool {
    let mut first = [0; 3];
    let read = file.read_at(&mut first, 0).unwrap_or(0);
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
    marks.iter().any(|mark| first[..read].starts_with(mark))
}

impl Searching {
    pub(super) fn prepare(
        input: &GrepInput,
        permit: Permit,
        context: &CallContext,
        bounds: Arc<Bounds>,
    ) -> Result<Self, ToolError> {
        let started = Instant::now();
        let working_dir = context.agent.working_dir();
        let mut query = Query::compile(input, &working_dir)?;
        let scope =
            permit.into_search().ok_or_else(|| ToolError::failed("nothing was permitted"))?;
        let what = open(&scope, &mut query, &bounds)?;
        let (path, real_path) = (scope.path().to_owned(), scope.real_path().to_owned());
        let paths = ShownPaths { path, real_path, working_dir };
        let found = Mutex::new(Found::nothing(&query));
        Ok(Self { query, paths, what, bounds, started, found })
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        sync::lock(&self.found)
    }

    /// Adds what was found in a named file. `matches` is known if pieces of it were searched.
    fn conclude(&self, file: &File, matches: Option<u64>) {
        let mut worker = Worker::new(self, self.query.searcher());
        let path = Path::new("");
        if let Some(matches) = matches {
            return worker.add_number(file, path, matches);
        }
        worker.searcher.set_binary_detection(BinaryDetection::convert(0));
        worker.search(Interruptible::new(file, 0, &self.bounds), path, &self.paths.real_path);
    }
}

fn open(scope: &SearchScope, query: &mut Query, bounds: &Arc<Bounds>) -> Result<What, ToolError> {
    let path = scope.path().display();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ToolError::Failed(format!("{path} does not exist")),
        _ => ToolError::Failed(format!("{path}: {error}")),
    };
    let kind = scope.metadata().map_err(failed)?;
    if kind.is_dir() {
        let filter = query.filter(scope.path(), scope.real_path());
        let walk = Walk::open(scope, filter, Arc::clone(bounds)).map_err(failed)?;
        return Ok(What::Tree(Box::new(walk)));
    }
    if !kind.is_file() {
        return Err(ToolError::Failed(format!("{path} is not a regular file or directory")));
    }
    let file = scope.open_file().map_err(failed)?;
    Ok(What::File(NamedFile::new(file, kind.len(), query)))
}

impl Job for Searching {
    fn work(&self) {
        match &self.what {
            What::File(named) => {
                if let Some((file, pieces)) = &named.shared {
                    let mut worker = Worker::new(self, self.query.searcher_of_pieces());
                    pieces.search(file, &self.bounds, |piece| worker.piece(piece));
                }
                // The lock is held until the file is searched. Otherwise another thread would
                // find no file, and answer too early.
                let mut file = sync::lock(&named.file);
                if let Some(file) = file.take().filter(|_| !self.bounds.is_over()) {
                    self.conclude(&file, named.shared.as_ref().and_then(|(_, p)| p.matches()));
                }
            }
            What::Tree(walk) => {
                let mut worker = Worker::new(self, self.query.searcher());
                worker.searcher.set_binary_detection(BinaryDetection::quit(0));
                walk.work(|entry| worker.consider(entry));
            }
        }
    }

    fn answer(&self) -> ToolOutput {
        let found = std::mem::replace(&mut *self.found(), Found::nothing(&self.query));
        let name = |relative: &Path| self.paths.shown(relative);
        render::answer(&self.query, found, name, &self.bounds, self.started.elapsed())
    }
}

/// The search state of one thread, reused for all its files.
struct Worker<'a> {
    call: &'a Searching,
    /// A clone for each thread. The cache of a shared matcher would become a bottleneck.
    matcher: RegexMatcher,
    searcher: Searcher,
    lines: StandardBuilder,
    summary: SummaryBuilder,
}

impl<'a> Worker<'a> {
    fn new(call: &'a Searching, searcher: Searcher) -> Self {
        let query = &call.query;
        let matcher = query.matcher.clone();
        let mut lines = StandardBuilder::new();
        lines.only_matching(query.only_matching).max_columns(Some(MAX_COLUMNS));
        let mut summary = SummaryBuilder::new();
        let kind = if query.only_matching { SummaryKind::CountMatches } else { SummaryKind::Count };
        summary.kind(kind).path(false).stats(kind == SummaryKind::CountMatches);
        Self { call, matcher, searcher, lines, summary }
    }

    /// Searches one piece of a named file for its part of the matches.
    fn piece(&mut self, piece: Piece<'_>) -> FoundInPiece {
        match self.number(piece) {
            Ok(Number { is_binary: false, matches }) => match self.call.query.mode {
                OutputMode::FilesWithMatches if matches > 0 => FoundInPiece::Enough,
                _ => FoundInPiece::Matches(matches),
            },
            _ => FoundInPiece::Irregular,
        }
    }

    fn consider(&mut self, entry: &Entry<'_>) {
        if entry.is_directory || self.is_beyond(entry.relative) {
            return;
        }
        if entry.keeps_secret() {
            return self.call.bounds.passed_over();
        }
        match entry.open_file() {
            Ok(Some(opened)) => {
                let file = Interruptible::new(&opened.file, opened.length, &self.call.bounds);
                self.search(file, entry.relative, entry.path);
            }
            Ok(None) => {}
            Err(error) => self.call.bounds.not_searched(entry.path, &reason(&error)),
        }
    }

    /// Whether results of this file cannot be on the page any more. Only mode `content` sorts
    /// by path alone, which is known before the search.
    fn is_beyond(&self, relative: &Path) -> bool {
        self.call.query.mode == OutputMode::Content
            && self.call.found().page.is_closed_to(&(None, relative.to_owned()))
    }

    fn search(&mut self, mut reader: Interruptible<'_>, relative: &Path, real_path: &Path) {
        let outcome = match self.call.query.mode {
            // Most files have no match, and then nobody asks for the path to show.
            OutputMode::Content => {
                let shown = self.call.paths.shown(relative);
                self.lines(reader, &shown, real_path)
                    .map(|lines| self.add_lines(relative.to_owned(), lines))
            }
            OutputMode::Count | OutputMode::FilesWithMatches => self
                .number(&mut reader)
                .map(|found| self.add_number(reader.file, relative, found.matches)),
        };
        if let Err(error) = outcome {
            self.note(&error, real_path);
        }
    }

    fn lines(
        &mut self,
        reader: Interruptible<'_>,
        shown: &str,
        real_path: &Path,
    ) -> io::Result<FirstLines> {
        let query = &self.call.query;
        let mut out = match &self.call.what {
            // Which lines are on the page is known at once.
            What::File(_) => FirstLines::new(query.offset, query.lines_wanted() - query.offset),
            What::Tree(_) => FirstLines::new(0, query.lines_wanted()),
        };
        let mut printer = self.lines.build_no_color(&mut out);
        let sink = printer.sink_with_path(&self.matcher, shown);
        let outcome = self.searcher.search_reader(&self.matcher, reader, sink);
        drop(printer);
        match outcome {
            Err(error) if !out.is_full && out.text.is_empty() => Err(error),
            Err(error) if !out.is_full => {
                // The results before the line that failed are valid.
                self.note(&error, real_path);
                Ok(out)
            }
            _ => Ok(out),
        }
    }

    /// Counts the matches, or stops at the first where the call does not ask for their number.
    fn number(&mut self, reader: impl Read) -> io::Result<Number> {
        if self.call.query.mode == OutputMode::Count {
            return self.count(reader);
        }
        let mut first = FirstMatch { number: Number { matches: 0, is_binary: false } };
        self.searcher.search_reader(&self.matcher, reader, &mut first)?;
        Ok(first.number)
    }

    fn count(&mut self, reader: impl Read) -> io::Result<Number> {
        let mut out = Vec::new();
        let mut printer = self.summary.build_no_color(&mut out);
        let mut sink = printer.sink(&self.matcher);
        self.searcher.search_reader(&self.matcher, reader, &mut sink)?;
        let is_binary = sink.binary_byte_offset().is_some();
        drop(printer);
        // Without a path, the printer writes the bare number.
        let count = str::from_utf8(&out).ok().and_then(|text| text.trim_end().parse().ok());
        Ok(Number { matches: count.unwrap_or(0), is_binary })
    }

    /// Adds a file with its number of matches, if it has any.
    fn add_number(&self, file: &File, relative: &Path, matches: u64) {
        if matches == 0 {
            return;
        }
        let shown = self.call.paths.shown(relative);
        if self.call.query.mode == OutputMode::Count {
            let line = format!("{shown}:{matches}\n");
            return self.add((None, relative.to_owned()), line.into_bytes(), matches);
        }
        let modified = file.metadata().and_then(|about| about.modified()).ok();
        let line = format!("{shown}\n");
        self.add((modified.map(Reverse), relative.to_owned()), line.into_bytes(), 0);
    }

    /// Records a file that was not searched, or not to its end.
    fn note(&self, error: &io::Error, path: &Path) {
        if self.call.bounds.is_over() {
            return;
        }
        // The searcher reports its heap limit as an error without a system error code.
        let is_too_large = error.kind() == io::ErrorKind::Other && error.raw_os_error().is_none();
        let reason =
            if is_too_large { self.call.query.too_large().to_owned() } else { reason(error) };
        self.call.bounds.not_searched(path, &reason);
    }

    fn add_lines(&self, path: PathBuf, lines: FirstLines) {
        let mut found = self.call.found();
        // A tree skips nothing, and a file that is named is the only one.
        found.skipped = lines.skipped;
        found.is_of_one_file = matches!(self.call.what, What::File(_));
        let (is_cut, text) = (lines.is_cut(), lines.into_whole_lines());
        if is_cut {
            found.page.insert_cut((None, path), text);
        } else if !text.is_empty() {
            found.add((None, path), text, 0);
        }
    }

    fn add(&self, key: Key, text: Vec<u8>, matches: u64) {
        self.call.found().add(key, text, matches);
    }
}

impl ShownPaths {
    /// The path as the answer names it: relative to the working directory if it lies inside.
    fn shown(&self, relative: &Path) -> String {
        let mut path = self.path.clone();
        if !relative.as_os_str().is_empty() {
            path.push(relative);
        }
        let path = path.strip_prefix(&self.working_dir).unwrap_or(&path);
        text::printable_path(path)
    }
}

/// The matches in a file or in a piece of one.
#[derive(Clone, Copy, Debug)]
struct Number {
    matches: u64,
    is_binary: bool,
}

/// Finds out whether a file matches at all. As in ripgrep, matches in a binary file do not
/// count.
struct FirstMatch {
    number: Number,
}

impl Sink for FirstMatch {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.number.matches = 1;
        Ok(false)
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.number.is_binary = finish.binary_byte_offset().is_some();
        if self.number.is_binary && searcher.binary_detection().quit_byte().is_some() {
            self.number.matches = 0;
        }
        Ok(())
    }
}

/// Reads a file, and fails when time is up. This ends the search of a very long file.
struct Interruptible<'a> {
    file: &'a File,
    bounds: &'a Bounds,
    /// What is left of the length that the file had when it was opened. That it has come to its
    /// end then needs no call of the kernel, of which most files otherwise need two.
    left: Option<u64>,
    /// Not before the first read: whoever opened the file has just looked at the time.
    looks_at_time: bool,
    return_ends: ReturnEnds,
}

impl<'a> Interruptible<'a> {
    /// A length of zero means that it is not known.
    fn new(file: &'a File, length: u64, bounds: &'a Bounds) -> Self {
        let left = Some(length).filter(|length| *length > 0);
        let return_ends = ReturnEnds::default();
        Self { file, bounds, left, looks_at_time: false, return_ends }
    }
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == Some(0) {
            return Ok(0);
        }
        if self.looks_at_time && self.bounds.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.looks_at_time = true;
        let read = self.file.read(buffer)?;
        self.left = self.left.map(|left| left.saturating_sub(read as u64));
        self.return_ends.replace(&mut buffer[..read], self.file, self.bounds);
        Ok(read)
    }
}

/// Collects lines. When there are enough, it fails, which ends the search.
struct FirstLines {
    text: Vec<u8>,
    /// Lines that are still to be left out at the beginning.
    to_skip: usize,
    skipped: usize,
    lines_left: usize,
    is_full: bool,
}

impl FirstLines {
    fn new(to_skip: usize, lines: usize) -> Self {
        Self { text: Vec::new(), to_skip, skipped: 0, lines_left: lines, is_full: false }
    }

    /// Whether there were lines that it had no room for, though they are wanted.
    fn is_cut(&self) -> bool {
        self.is_full && self.lines_left > 0
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
        let mut kept = bytes;
        while self.to_skip > 0 {
            let Some(end) = memchr::memchr(b'\n', kept) else { return Ok(bytes.len()) };
            kept = &kept[end + 1..];
            self.to_skip -= 1;
            self.skipped += 1;
        }
        let lines = kept.iter().filter(|byte| **byte == b'\n').count();
        self.lines_left = self.lines_left.saturating_sub(lines);
        self.text.extend_from_slice(kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
