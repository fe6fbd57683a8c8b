//! Searches a file or a tree on several threads.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use grep::printer::{StandardBuilder, SummaryBuilder, SummaryKind};
use grep::regex::RegexMatcher;
use grep::searcher::{BinaryDetection, Searcher, Sink, SinkFinish, SinkMatch};
use tokio::time::Instant;

use super::file_bytes::{PlainLineEnds, Utf8Bytes};
use super::first_lines::FirstLines;
use super::foreign_text::{
    DecodedText, ForeignText, NamedEncodings, SearchedFile, TextSource, WithNul,
};
use super::found::{Found, Key};
use super::pieces::{FoundInPiece, Piece, Pieces};
use super::query::{GlobReading, Query};
use super::{Grep, GrepInput, OutputMode, render};
use crate::permissions::{Permit, SearchScope};
use crate::sync;
use crate::text;
use crate::tools::session_context::SessionContext;
use crate::tools::tool::{CallContext, ToolError, ToolOutput};
use crate::tools::walk::{
    AMONG_IGNORED, Bounds, Entry, Filter, Job, LeftOut, PassedKind, PassedOver, READ_LITERALLY,
    Walk, reason,
};

/// In mode `content`, a longer line is replaced with the number of its matches.
const MAX_COLUMNS: u64 = 500;

/// What stands for a longer line whose matches were not counted.
const UNCOUNTED: &[u8] = b"[Omitted long matching line]";

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
    encodings: NamedEncodings,
    session: Arc<SessionContext>,
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
    Tree(Box<Tree>),
}

/// A file that the call names.
#[derive(Debug)]
struct NamedFile {
    /// The thread that takes it adds what was found.
    file: Mutex<Option<(Arc<File>, u64)>>,
    shared: Option<(Arc<File>, Pieces)>,
    passed_over: PassedOver,
}

impl NamedFile {
    fn new(file: File, length: u64, query: &Query) -> Self {
        let file = Arc::new(file);
        let pieces = Pieces::of(length).filter(|_| query.works_in_pieces() && !has_mark(&file));
        let shared = pieces.map(|pieces| (Arc::clone(&file), pieces));
        let passed_over = PassedOver::default();
        Self { file: Mutex::new(Some((file, length))), shared, passed_over }
    }
}

/// Whether the text begins with a byte order mark.
fn has_mark(file: &File) -> bool {
    let mut first = [0; 3];
    let read = file.read_at(&mut first, 0).unwrap_or(0);
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
    marks.iter().any(|mark| first[..read].starts_with(mark))
}

/// A directory that the call names.
#[derive(Debug)]
struct Tree {
    scope: SearchScope,
    /// The walks, of which each is made only if those before it have found nothing, and for a
    /// reason that it takes away.
    walks: [OnceLock<Option<Walk>>; 3],
}

/// The walks through a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    AsAsked,
    /// Brackets and braces of the globs are plain characters, since no file fits them otherwise.
    WithLiterals,
    /// Without ignore files, since these empty the directory that the call names.
    AmongIgnored,
}

impl Pass {
    const ALL: [Self; 3] = [Self::AsAsked, Self::WithLiterals, Self::AmongIgnored];
}

impl Tree {
    fn new(scope: SearchScope) -> Self {
        Self { scope, walks: [const { OnceLock::new() }; 3] }
    }

    /// The walk of a pass that is made.
    fn walk(&self, pass: Pass) -> Option<&Walk> {
        self.walks[pass as usize].get().and_then(Option::as_ref)
    }

    /// The last walk that was made.
    fn last_walk(&self) -> Option<&Walk> {
        Pass::ALL.into_iter().rev().find_map(|pass| self.walk(pass))
    }

    fn has_visited(&self, pass: Pass) -> bool {
        self.walk(pass).is_some_and(|walk| walk.passed_over.has_visited())
    }

    /// Whether the globs count as they are written.
    fn reading(&self) -> GlobReading {
        match self.walk(Pass::WithLiterals) {
            Some(_) => GlobReading::WithLiterals,
            None => GlobReading::AsWritten,
        }
    }
}

impl Searching {
    pub(super) fn prepare(
        tool: &Grep,
        input: &GrepInput,
        permit: Permit,
        context: &CallContext,
        bounds: Arc<Bounds>,
    ) -> Result<Self, ToolError> {
        let started = Instant::now();
        let working_dir = context.agent.working_dir();
        let query = Query::compile(input, &working_dir)?;
        let scope =
            permit.into_search().ok_or_else(|| ToolError::failed("nothing was permitted"))?;
        let (path, real_path) = (scope.path().to_owned(), scope.real_path().to_owned());
        let what = open(scope, &query)?;
        let paths = ShownPaths { path, real_path, working_dir };
        let found = Mutex::new(Found::nothing(&query));
        let (files, agent) = (Arc::clone(&tool.files), Arc::clone(&context.agent));
        let encodings = NamedEncodings { files, agent };
        let session = Arc::clone(&context.session);
        let searching = Self { query, encodings, session, paths, what, bounds, started, found };
        if let What::Tree(tree) = &searching.what {
            let walk = searching.open_walk(tree, Pass::AsAsked).map_err(|error| {
                ToolError::Failed(format!("{}: {error}", searching.paths.path.display()))
            })?;
            _ = tree.walks[Pass::AsAsked as usize].set(Some(walk));
        }
        Ok(searching)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        sync::lock(&self.found)
    }

    fn open_walk(&self, tree: &Tree, pass: Pass) -> io::Result<Walk> {
        let scope = &tree.scope;
        let reading = match pass {
            // The other reading is the only one.
            Pass::AsAsked if self.query.fault_of_globs().is_some() => GlobReading::WithLiterals,
            Pass::AsAsked => GlobReading::AsWritten,
            Pass::WithLiterals => GlobReading::WithLiterals,
            Pass::AmongIgnored => tree.reading(),
        };
        let filter = self.query.filter(scope.path(), scope.real_path(), reading);
        let disregards_ignores = pass == Pass::AmongIgnored;
        let filter = Filter { disregards_ignores, ..filter };
        Walk::open(scope, filter, Arc::clone(&self.bounds))
    }

    /// The walk of this pass, if there is a need for it. One thread decides for all.
    fn walk_of<'t>(&self, tree: &'t Tree, pass: Pass) -> Option<&'t Walk> {
        let decide = || {
            let is_needed = match pass {
                Pass::AsAsked => true,
                Pass::WithLiterals => {
                    self.query.has_second_reading()
                        && self.query.fault_of_globs().is_none()
                        && !tree.has_visited(Pass::AsAsked)
                }
                Pass::AmongIgnored => {
                    let is_in_ignored = tree.walk(Pass::AsAsked)?.is_in_ignored;
                    is_in_ignored && self.found().is_empty()
                }
            };
            let is_needed = is_needed && !self.bounds.has_ended();
            is_needed.then(|| self.open_walk(tree, pass).ok()).flatten()
        };
        tree.walks[pass as usize].get_or_init(decide).as_ref()
    }

    /// Adds what was found in a named file. `matches` is known if pieces of it were searched.
    fn conclude(&self, named: &NamedFile, file: &File, length: u64, matches: Option<u64>) {
        let mut worker = Worker::new(self, self.query.searcher(), &named.passed_over);
        let relative = Path::new("");
        if let Some(matches) = matches {
            return worker.add_number(file, relative, matches);
        }
        worker.searcher.set_binary_detection(BinaryDetection::convert(0));
        let (bounds, real_path) = (&*self.bounds, self.paths.real_path.as_path());
        worker.search(&SearchedFile { file, length, bounds, relative, real_path });
    }

    /// What an answer without matches says of what was not looked at.
    fn notes_on_absence(&self) -> Vec<String> {
        let shown = |path: &Path| {
            let is_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
            let slash = if is_directory { "/" } else { "" };
            format!("{}{slash}", self.paths.shown(path))
        };
        let advice = |kind| match kind {
            PassedKind::Guessed => {
                "what is not ASCII may be missed there; the encoding of Edit, or \
                 tools.files.encoding, makes it certain"
            }
            PassedKind::LinkOutside => "nothing there is searched",
            _ => "to search one, set path to it",
        };
        let mut notes = match &self.what {
            What::File(named) => named.passed_over.lines(&shown, advice),
            What::Tree(tree) => tree.last_walk().map_or_else(Vec::new, |walk| {
                // An answer that comes late must not wait for the file system.
                if !self.bounds.is_partial() {
                    walk.follow_links(&self.session.workspace);
                }
                walk.passed_over.lines(&shown, advice)
            }),
        };
        if self.query.has_extended_group() {
            notes.push(
                "(parentheses in glob are plain characters: there are no groups such as !(a|b); \
                 put ! in front of a glob, and use {a,b} for a choice)"
                    .to_owned(),
            );
        }
        notes
    }

    /// What the answer says of how the call was understood.
    fn notes_on_reading(&self) -> Vec<String> {
        let What::Tree(tree) = &self.what else { return Vec::new() };
        let is_literal = tree.has_visited(Pass::WithLiterals)
            || (self.query.fault_of_globs().is_some() && tree.has_visited(Pass::AsAsked));
        let is_among_ignored = tree.has_visited(Pass::AmongIgnored);
        let literally = is_literal.then(|| READ_LITERALLY.to_owned());
        literally.into_iter().chain(is_among_ignored.then(|| AMONG_IGNORED.to_owned())).collect()
    }
}

fn open(scope: SearchScope, query: &Query) -> Result<What, ToolError> {
    let path = scope.path().display().to_string();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ToolError::Failed(format!("{path} does not exist")),
        _ => ToolError::Failed(format!("{path}: {error}")),
    };
    let kind = scope.metadata().map_err(failed)?;
    if kind.is_dir() {
        return Ok(What::Tree(Box::new(Tree::new(scope))));
    }
    if let Some(fault) = query.fault_of_globs() {
        return Err(fault);
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
                    let searcher = self.query.searcher_of_pieces();
                    let mut worker = Worker::new(self, searcher, &named.passed_over);
                    pieces.search(file, &self.bounds, |piece| worker.piece(piece));
                }
                // The lock is held until the file is searched. Otherwise another thread would
                // find no file, and answer too early.
                let mut file = sync::lock(&named.file);
                if let Some((file, length)) = file.take().filter(|_| !self.bounds.is_over()) {
                    let matches = named.shared.as_ref().and_then(|(_, p)| p.matches());
                    self.conclude(named, &file, length, matches);
                }
            }
            What::Tree(tree) => {
                for pass in Pass::ALL {
                    let Some(walk) = self.walk_of(tree, pass) else { continue };
                    let mut worker = Worker::new(self, self.query.searcher(), &walk.passed_over);
                    worker.searcher.set_binary_detection(BinaryDetection::quit(0));
                    walk.work(|entry| worker.consider(entry));
                }
            }
        }
    }

    fn answer(&self) -> Result<ToolOutput, ToolError> {
        let found = std::mem::replace(&mut *self.found(), Found::nothing(&self.query));
        let is_empty = found.is_empty();
        if let (Some(fault), What::Tree(tree)) = (self.query.fault_of_globs(), &self.what)
            && !tree.has_visited(Pass::AsAsked)
        {
            return Err(fault);
        }
        let name = |relative: &Path| self.paths.shown(relative);
        let output = render::answer(&self.query, found, name, &self.bounds, self.started.elapsed());
        let mut notes = self.notes_on_reading();
        if is_empty {
            notes.extend(self.notes_on_absence());
        }
        Ok(ToolOutput { text: output.text.closed_by(notes), ..output })
    }
}

/// What a search of one file has found.
enum FileFindings {
    Lines { lines: FirstLines, is_binary: bool },
    Number(Number),
}

impl FileFindings {
    fn is_binary(&self) -> bool {
        match self {
            Self::Lines { is_binary, .. } => *is_binary,
            Self::Number(number) => number.is_binary,
        }
    }
}

/// What a file is, as far as an answer has to tell of it.
#[derive(Clone, Copy, Debug)]
enum Nature {
    Plain,
    /// It was searched in an encoding that is a guess.
    Guessed,
    TooLarge,
    TextWithNul,
    Binary,
}

/// The search state of one thread, reused for all its files.
struct Worker<'a> {
    call: &'a Searching,
    /// A clone for each thread. The cache of a shared matcher would become a bottleneck.
    matcher: RegexMatcher,
    searcher: Searcher,
    lines: StandardBuilder,
    summary: SummaryBuilder,
    passed_over: &'a PassedOver,
    /// Whether the matches in lines that are too long to show are counted.
    counts_matches: bool,
}

impl<'a> Worker<'a> {
    fn new(call: &'a Searching, searcher: Searcher, passed_over: &'a PassedOver) -> Self {
        let query = &call.query;
        let matcher = query.matcher.clone();
        let mut lines = StandardBuilder::new();
        lines.only_matching(query.only_matching).max_columns(Some(MAX_COLUMNS));
        let mut summary = SummaryBuilder::new();
        let kind = if query.only_matching { SummaryKind::CountMatches } else { SummaryKind::Count };
        summary.kind(kind).path(false).stats(kind == SummaryKind::CountMatches);
        // Each match is a line of its own.
        let counts_matches = query.only_matching;
        Self { call, matcher, searcher, lines, summary, passed_over, counts_matches }
    }

    /// Searches one piece of a named file for its part of the matches.
    fn piece(&mut self, piece: Piece<'_>) -> FoundInPiece {
        let mut bytes = Utf8Bytes::of_lines(piece);
        match self.number(&mut bytes) {
            Ok(Number { is_binary: false, matches }) => match self.call.query.mode {
                OutputMode::FilesWithMatches if matches > 0 => FoundInPiece::Enough,
                _ => FoundInPiece::Matches(matches),
            },
            _ => FoundInPiece::Irregular,
        }
    }

    fn consider(&mut self, entry: &Entry<'_>) {
        if let Some(why) = entry.left_out {
            return self.pass_over(entry, why);
        }
        if entry.is_directory || self.is_beyond(entry.relative) {
            return;
        }
        self.passed_over.visited();
        if entry.keeps_secret() {
            return self.call.bounds.passed_over();
        }
        match entry.open_file() {
            Ok(Some(opened)) => self.search(&SearchedFile {
                file: &opened.file,
                length: opened.length,
                bounds: &self.call.bounds,
                relative: entry.relative,
                real_path: entry.path,
            }),
            Ok(None) => {}
            Err(error) => self.call.bounds.not_searched(entry.path, &reason(&error)),
        }
    }

    fn pass_over(&self, entry: &Entry<'_>, why: LeftOut) {
        let passed = self.passed_over;
        match why {
            LeftOut::Ignored if entry.is_directory => {
                passed.note(PassedKind::Ignored, &entry.relative.join(""));
            }
            LeftOut::Ignored if entry.keeps_secret() => {}
            LeftOut::Ignored => passed.note(PassedKind::Ignored, entry.relative),
            LeftOut::VersionControl => passed.note(PassedKind::VersionControl, entry.relative),
            LeftOut::Link { is_wanted_as_file } => {
                passed.note_link(entry.relative, is_wanted_as_file);
            }
        }
    }

    /// Whether results of this file cannot be on the page any more. Only mode `content` sorts
    /// by path alone, which is known before the search.
    fn is_beyond(&self, relative: &Path) -> bool {
        self.call.query.mode == OutputMode::Content
            && self.call.found().page.is_closed_to(&(None, relative.to_owned()))
    }

    /// Searches a file, and adds what it finds.
    fn search(&mut self, searched: &SearchedFile<'_>) {
        let mut outcome = self.outcome(searched);
        if self.leaves_matches_uncounted(&outcome) {
            // It takes longer, so only from the first line on that is too long to show.
            self.lines.stats(true);
            self.counts_matches = true;
            outcome = self.outcome(searched);
        }
        match outcome {
            Ok((findings, nature)) => {
                self.note_nature(searched, nature);
                self.add_findings(searched, findings);
            }
            Err(error) => self.note(&error, searched.real_path),
        }
    }

    /// Searches a file in UTF-8 as it is, any other one in the encoding that Read shows it in.
    fn outcome(&mut self, searched: &SearchedFile<'_>) -> io::Result<(FileFindings, Nature)> {
        let mut bytes = Utf8Bytes::of_file(searched.bytes());
        let outcome = self.findings(&mut bytes, searched);
        if bytes.is_foreign() {
            return self.foreign(searched);
        }
        let findings = outcome?;
        if !findings.is_binary() {
            return Ok((findings, Nature::Plain));
        }
        match searched.with_nul() {
            WithNul::Utf16 => self.foreign(searched),
            WithNul::Text => Ok((findings, Nature::TextWithNul)),
            WithNul::Binary => Ok((findings, Nature::Binary)),
        }
    }

    /// Searches a file that is not UTF-8.
    fn foreign(&mut self, searched: &SearchedFile<'_>) -> io::Result<(FileFindings, Nature)> {
        let (encoding, source) = match searched.foreign_text(&self.call.encodings)? {
            ForeignText::Text(encoding, source) => (encoding, source),
            ForeignText::Bytes => {
                let bytes = &mut Utf8Bytes::unchecked(searched.bytes());
                let findings = self.findings(bytes, searched)?;
                let nature = if findings.is_binary() { Nature::Binary } else { Nature::Plain };
                return Ok((findings, nature));
            }
            ForeignText::TooLarge => {
                let bytes = &mut Utf8Bytes::unchecked(searched.bytes());
                return Ok((self.findings(bytes, searched)?, Nature::TooLarge));
            }
        };
        let findings = match source {
            TextSource::Whole { bytes, .. } => {
                self.findings(&mut DecodedText::new(&bytes[..], encoding), searched)
            }
            TextSource::File(file) => {
                self.findings(&mut DecodedText::new(file, encoding), searched)
            }
        };
        let nature = if encoding.is_guess() { Nature::Guessed } else { Nature::Plain };
        Ok((findings?, nature))
    }

    /// Records what an answer has to tell of a file beside its matches.
    fn note_nature(&self, searched: &SearchedFile<'_>, nature: Nature) {
        let is_named = matches!(self.call.what, What::File(_));
        match nature {
            Nature::Plain => {}
            Nature::Guessed => self.passed_over.note(PassedKind::Guessed, searched.relative),
            Nature::TooLarge => {
                let why = "only its ASCII text was searched: it is not UTF-8, and over 64 MiB";
                self.call.bounds.not_searched(searched.real_path, why);
            }
            // Of a file that the call names, the answer shows that it is binary.
            Nature::TextWithNul | Nature::Binary if is_named => {}
            Nature::TextWithNul => {
                let why = "it has NUL bytes; set path to it to search it";
                self.call.bounds.not_searched(searched.real_path, why);
            }
            Nature::Binary => self.passed_over.note(PassedKind::Binary, searched.relative),
        }
    }

    fn add_findings(&self, searched: &SearchedFile<'_>, findings: FileFindings) {
        match findings {
            FileFindings::Lines { lines, .. } => {
                self.add_lines(searched.relative.to_owned(), lines);
            }
            FileFindings::Number(number) => {
                self.add_number(searched.file, searched.relative, number.matches);
            }
        }
    }

    /// Whether a line is left out without the number of its matches.
    fn leaves_matches_uncounted(&self, outcome: &io::Result<(FileFindings, Nature)>) -> bool {
        let Ok((FileFindings::Lines { lines, .. }, _)) = outcome else { return false };
        !self.counts_matches && memchr::memmem::find(&lines.text, UNCOUNTED).is_some()
    }

    fn findings(
        &mut self,
        reader: &mut impl Read,
        searched: &SearchedFile<'_>,
    ) -> io::Result<FileFindings> {
        match self.call.query.mode {
            OutputMode::Content => self.content(reader, searched),
            OutputMode::Count | OutputMode::FilesWithMatches => {
                self.number(reader).map(FileFindings::Number)
            }
        }
    }

    fn content(
        &mut self,
        reader: &mut impl Read,
        searched: &SearchedFile<'_>,
    ) -> io::Result<FileFindings> {
        let query = &self.call.query;
        // Most files have no match, and then nobody asks for the path to show.
        let shown = self.call.paths.shown(searched.relative);
        let mut lines = match &self.call.what {
            // Which lines are on the page is known at once.
            What::File(_) => FirstLines::new(query.offset, query.lines_wanted() - query.offset),
            What::Tree(_) => FirstLines::new(0, query.lines_wanted()),
        };
        let mut printer = self.lines.build_no_color(&mut lines);
        let mut sink = printer.sink_with_path(&self.matcher, &shown);
        let reader = PlainLineEnds::new(reader, query.line_ends);
        let outcome = self.searcher.search_reader(&self.matcher, reader, &mut sink);
        let is_binary = sink.binary_byte_offset().is_some();
        drop(printer);
        match outcome {
            Err(error) if !lines.is_full && lines.text.is_empty() => Err(error),
            // It is searched again.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
            Err(error) if !lines.is_full => {
                // The results before the line that failed are valid.
                self.note(&error, searched.real_path);
                Ok(FileFindings::Lines { lines, is_binary })
            }
            _ => Ok(FileFindings::Lines { lines, is_binary }),
        }
    }

    /// Counts the matches, or stops at the first where the call does not ask for their number.
    fn number(&mut self, reader: &mut impl Read) -> io::Result<Number> {
        let reader = PlainLineEnds::new(reader, self.call.query.line_ends);
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
