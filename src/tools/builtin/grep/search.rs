//! Searches a file or a tree on several threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use grep::searcher::BinaryDetection;
use tokio::time::Instant;

use self::worker::Worker;
use super::foreign_text::{NamedEncodings, SearchedFile};
use super::found::Found;
use super::pieces::Pieces;
use super::query::{GlobReading, Query};
use super::{Grep, GrepInput, render};
use crate::encoding::Encoding;
use crate::permissions::{Permit, SearchScope};
use crate::sync;
use crate::text;
use crate::tools::session_context::SessionContext;
use crate::tools::tool::{CallContext, ToolError, ToolOutput};
use crate::tools::walk::{AMONG_IGNORED, Bounds, Filter, Job, PassedKind, PassedOver, Walk};

mod worker;

/// Said of files in an encoding that is a guess.
const ADVICE_ON_GUESSES: &str = "what is not ASCII may be missed there, or be shown wrongly; the \
    encoding of Edit, or tools.files.encoding, makes it certain";

/// Says why an ignored file was searched.
const NAMED_IGNORED: &str =
    "(ignore files leave out what glob names; it was searched all the same)";

/// Bytes in which the first line of a file that is searched in pieces has to end.
const BEGINNING: usize = 64 << 10;

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
    /// Whether the pattern has characters that a wrong encoding would hide.
    names_foreign: bool,
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
        let pieces = Pieces::of(length).filter(|_| query.works_in_pieces() && has_feeds(&file));
        let shared = pieces.map(|pieces| (Arc::clone(&file), pieces));
        let passed_over = PassedOver::default();
        Self { file: Mutex::new(Some((file, length))), shared, passed_over }
    }
}

/// Whether the lines of a file end at bytes that are `\n`. Those of UTF-16 do not, and without any
/// they may end at `\r`.
fn has_feeds(file: &File) -> bool {
    let mut first = vec![0; BEGINNING];
    let read = file.read_at(&mut first, 0).unwrap_or(0);
    let first = &first[..read];
    Encoding::by_mark(first).is_none() && memchr::memchr(b'\n', first).is_some()
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
        let names_foreign = !input.pattern.is_ascii();
        let searching =
            Self { query, encodings, names_foreign, session, paths, what, bounds, started, found };
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
                    let is_named = || {
                        self.query.names_paths()
                            && !tree.has_visited(Pass::AsAsked)
                            && !tree.has_visited(Pass::WithLiterals)
                    };
                    (is_in_ignored || is_named()) && self.found().is_empty()
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
        let keeps_returns = self.query.keeps_returns();
        worker.search(&SearchedFile { file, length, bounds, relative, real_path, keeps_returns });
    }

    /// Names the files that were searched in an encoding that is a guess, if there are any.
    fn note_on_guesses(&self) -> Option<String> {
        let shown = |path: &Path| self.paths.shown(path);
        let passed_over = match &self.what {
            What::File(named) => &named.passed_over,
            What::Tree(tree) => &tree.last_walk()?.passed_over,
        };
        passed_over.line(PassedKind::Guessed, &shown, ADVICE_ON_GUESSES)
    }

    /// What an answer without matches says of what was not looked at.
    fn notes_on_absence(&self) -> Vec<String> {
        let shown = |path: &Path| {
            let is_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
            let slash = if is_directory { "/" } else { "" };
            format!("{}{slash}", self.paths.shown(path))
        };
        let advice = |kind| match kind {
            PassedKind::Guessed => ADVICE_ON_GUESSES,
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
        let literally = is_literal.then(|| self.query.note_on_second_reading().to_owned());
        let is_in_ignored = tree.walk(Pass::AsAsked).is_some_and(|walk| walk.is_in_ignored);
        let why = if is_in_ignored { AMONG_IGNORED } else { NAMED_IGNORED };
        literally.into_iter().chain(is_among_ignored.then(|| why.to_owned())).collect()
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
        let is_doubtful = found.shows_guess || self.names_foreign;
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
        } else if is_doubtful {
            notes.extend(self.note_on_guesses());
        }
        Ok(ToolOutput { text: output.text.closed_by(notes), ..output })
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
