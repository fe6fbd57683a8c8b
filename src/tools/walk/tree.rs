//! Walks a directory tree as ripgrep does, from an open directory, on several threads.
//!
//! Every name is opened in the directory that it was listed in, and no link is followed,
//! so nothing that changes meanwhile leads out of the tree. Entries are judged here: a
//! visitor never meets one that is hidden.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use ignore::overrides::Override;
use ignore::types::Types;
use rustix::fs::FileType;

use super::Bounds;
use super::io_errors::{is_gone, reason};
use super::node::{Kept, Node, OpenDirectories};
use super::queue::Queue;
use super::rules::{Present, Reader, Rules, rules_of_a_walk};
use crate::permissions::{HiddenFiles, SearchScope};
use crate::workspace::{Directory, FileId};

/// Their contents are the tools' own, never what a person would look for.
const VCS_DIRECTORIES: [&[u8]; 6] = [b".git", b".svn", b".hg", b".bzr", b".jj", b".sl"];

/// Entries of a directory that are read at a time.
const BATCH: usize = 4096;

/// Files that are given away at a time, where a thread has nothing to do.
const SHARE: usize = 32;

/// Bytes of a directory's entries that the kernel writes at a time.
const LISTING: usize = 32 << 10;

/// Which entries of a tree a search wants.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// Whether ignore files count in a directory that they leave out itself.
    pub(crate) enters_ignored: bool,
    pub(crate) disregards_ignores: bool,
    /// Beats ignore files.
    pub(crate) globs: Option<Override>,
    pub(crate) types: Option<Types>,
    /// Names of the only directories to go into, level by level.
    pub(crate) inside: Vec<String>,
    pub(crate) max_depth: Option<usize>,
}

/// A walk that is under way; each thread that works on it calls [`Walk::work`].
#[derive(Debug)]
pub(crate) struct Walk {
    bounds: Arc<Bounds>,
    filter: Filter,
    excluded: HiddenFiles,
    /// The path of the top, without a slash at its end.
    top: Vec<u8>,
    queue: Queue<Work>,
    open: OpenDirectories,
    rules_left: AtomicUsize,
}

#[derive(Debug)]
enum Work {
    Top(Kept, Option<Arc<Rules>>),
    Directory(Arc<Node>, CString),
    /// The rest of a directory that has been read in part.
    Rest(Arc<Node>, Kept),
    Files(Arc<Node>, Arc<Directory>, Vec<CString>),
}

/// A file or directory that the walk came upon.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// With every link resolved.
    pub(crate) path: &'a Path,
    /// Below what is searched.
    pub(crate) relative: &'a Path,
    pub(crate) is_directory: bool,
    directory: &'a Directory,
    name: &'a CStr,
    excluded: &'a HiddenFiles,
}

/// One thread's part in a walk.
struct Worker<'w, V> {
    walk: &'w Walk,
    visit: V,
    buffer: Vec<u8>,
    path: Vec<u8>,
    /// The directory whose path `path` begins with, and where that ends.
    path_of: Option<(Arc<Node>, usize)>,
    /// The directory it has read last: the next one is most often in that.
    last: Option<(Arc<Node>, Arc<Directory>)>,
}

impl Walk {
    /// Reads the ignore files from the root that holds the scope down to the scope.
    pub(crate) fn open(
        scope: &SearchScope,
        mut filter: Filter,
        bounds: Arc<Bounds>,
    ) -> io::Result<Self> {
        let (directory, (root_path, root), excluded) = scope.open()?;
        let rules_left = rules_of_a_walk();
        let mut rules = None;
        if !filter.disregards_ignores {
            let reader = Reader { bounds: &bounds, rules_left: &rules_left };
            let above = above(root_path, root, scope.real_path(), &reader);
            rules = above.rules;
            filter.disregards_ignores = above.leaves_out && !filter.enters_ignored;
        }
        let open = OpenDirectories::default();
        let kept = open.keep(&Arc::new(directory)).ok_or(io::ErrorKind::Other)?;
        let top = scope.real_path().as_os_str().as_bytes();
        let top = top.strip_suffix(b"/").unwrap_or(top).to_owned();
        let queue = Queue::new(Work::Top(kept, rules));
        Ok(Self { bounds, filter, excluded, top, queue, open, rules_left })
    }

    /// Walks until nothing is left to do, here or in another thread, or time is up.
    pub(crate) fn work(&self, visit: impl FnMut(&Entry<'_>)) {
        let buffer = Vec::with_capacity(LISTING);
        let path = Vec::new();
        let mut worker = Worker { walk: self, visit, buffer, path, path_of: None, last: None };
        self.queue.serve(|| self.bounds.has_ended(), |work| worker.step(work));
    }

    fn leaves_out(&self, path: &Path, name: &[u8], is_directory: bool, node: &Node) -> bool {
        VCS_DIRECTORIES.contains(&name)
            || !self.leads_on(name, node.depth)
            || self.filtered(path, is_directory, node.rules.as_deref())
            || self.excluded.covers(path)
    }

    /// Whether an entry at this level is, or lies below, a directory to go into.
    fn leads_on(&self, name: &[u8], level: usize) -> bool {
        self.filter.inside.get(level).is_none_or(|expected| expected.as_bytes() == name)
    }

    /// In ripgrep's order: globs, then ignore files, then types.
    fn filtered(&self, path: &Path, is_directory: bool, rules: Option<&Rules>) -> bool {
        if let Some(globs) = &self.filter.globs {
            let found = globs.matched(path, is_directory);
            if !found.is_none() {
                return found.is_ignore();
            }
        }
        if rules.is_some_and(|rules| rules.leave_out(path, is_directory)) {
            return true;
        }
        self.filter
            .types
            .as_ref()
            .is_some_and(|types| types.matched(path, is_directory).is_ignore())
    }
}

impl<V: FnMut(&Entry<'_>)> Worker<'_, V> {
    fn step(&mut self, work: Work) {
        if self.walk.bounds.is_over() {
            return;
        }
        match work {
            Work::Top(kept, rules) => {
                let directory = Arc::clone(&kept.directory);
                self.path.clone_from(&self.walk.top);
                self.read_new(&directory, |rules| Node::top(kept, rules), rules.as_ref());
            }
            Work::Directory(parent, name) => self.enter(parent, name),
            Work::Rest(node, kept) => {
                let directory = Arc::clone(&kept.directory);
                drop(kept);
                self.read_on(&node, &directory);
            }
            Work::Files(node, directory, files) => self.files(&node, &directory, &files),
        }
    }

    fn enter(&mut self, parent: Arc<Node>, name: CString) {
        let opened = self.open(&parent).and_then(|above| above.open_directory(&name));
        self.set_path(&parent, Some(&name));
        let directory = match opened {
            Ok(directory) => Arc::new(directory),
            // It went, or is something else by now.
            Err(error) if is_gone(&error) => return,
            Err(error) => {
                let reason = reason(&error);
                return self.walk.bounds.not_searched(as_path(&self.path), &reason);
            }
        };
        if directory.id().map_or(true, |id| self.walk.excluded.has(id)) {
            return;
        }
        let rules = parent.rules.clone();
        let kept = self.walk.open.keep(&directory);
        let node = |rules| Node::below(parent, name, rules, kept);
        self.read_new(&directory, node, rules.as_ref());
    }

    fn open(&self, node: &Arc<Node>) -> io::Result<Arc<Directory>> {
        if let Some((last, directory)) = &self.last
            && Arc::ptr_eq(last, node)
        {
            return Ok(Arc::clone(directory));
        }
        let directory = node.open()?;
        // By a path of several names: what has the name now was not judged yet.
        if self.walk.excluded.has(directory.id()?) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(directory)
    }

    /// Reads a directory from its beginning: what its ignore files say must be known
    /// before any entry is looked at.
    fn read_new(
        &mut self,
        directory: &Arc<Directory>,
        node: impl FnOnce(Option<Arc<Rules>>) -> Node,
        above: Option<&Arc<Rules>>,
    ) {
        let mut present = Present::default();
        let (entries, has_more) = self.list(directory, |name, kind| present.note(name, kind));
        let walk = self.walk;
        let mut rules = None;
        if !walk.filter.disregards_ignores {
            if has_more {
                present = Present::look(directory);
            }
            let reader = Reader { bounds: &walk.bounds, rules_left: &walk.rules_left };
            let path = as_path(if self.path.is_empty() { b"/" } else { &self.path });
            rules = Rules::within(above, directory, path, present, &reader);
        }
        let node = Arc::new(node(rules));
        self.path_of = Some((Arc::clone(&node), self.path.len()));
        self.take(&node, directory, entries, has_more);
    }

    fn read_on(&mut self, node: &Arc<Node>, directory: &Arc<Directory>) {
        self.set_path(node, None);
        let (entries, has_more) = self.list(directory, |_, _| {});
        self.take(node, directory, entries, has_more);
    }

    fn list(
        &mut self,
        directory: &Directory,
        mut see: impl FnMut(&CStr, FileType),
    ) -> (Vec<(CString, FileType)>, bool) {
        let mut entries = Vec::new();
        let buffer: &mut [MaybeUninit<u8>] = self.buffer.spare_capacity_mut();
        let has_more = directory.list(buffer, BATCH, |name, kind| {
            see(name, kind);
            entries.push((name.to_owned(), kind));
        });
        let has_more = has_more.unwrap_or_else(|error| {
            self.walk.bounds.not_searched(as_path(&self.path), &reason(&error));
            false
        });
        (entries, has_more)
    }

    /// Visits the files of a batch, and leaves its directories and the rest of the
    /// directory for later.
    fn take(
        &mut self,
        node: &Arc<Node>,
        directory: &Arc<Directory>,
        mut entries: Vec<(CString, FileType)>,
        mut has_more: bool,
    ) {
        loop {
            // Below its directories, so that those are done first. Where no more may be
            // kept open, it is read to its end at once.
            let kept = if has_more { self.walk.open.keep(directory) } else { None };
            let goes_on = has_more && kept.is_none();
            let rest = kept.map(|kept| Work::Rest(Arc::clone(node), kept));
            self.take_batch(node, directory, entries, rest);
            if !goes_on || self.walk.bounds.is_over() {
                break;
            }
            self.set_path(node, None);
            (entries, has_more) = self.list(directory, |_, _| {});
        }
        self.last = Some((Arc::clone(node), Arc::clone(directory)));
    }

    fn take_batch(
        &mut self,
        node: &Arc<Node>,
        directory: &Arc<Directory>,
        entries: Vec<(CString, FileType)>,
        rest: Option<Work>,
    ) {
        let (mut later, mut files) = (Vec::from_iter(rest), Vec::new());
        let is_deepest = self.walk.filter.max_depth.is_some_and(|depth| node.depth + 1 >= depth);
        self.set_path(node, None);
        for (name, mut kind) in entries {
            if kind == FileType::Unknown {
                let Ok((_, stat)) = directory.stat(&name) else { continue };
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            match kind {
                FileType::Directory
                    if self.visit_directory(node, directory, &name) && !is_deepest =>
                {
                    later.push(Work::Directory(Arc::clone(node), name));
                }
                FileType::RegularFile => files.push(name),
                _ => {}
            }
        }
        if !self.walk.queue.push(later) {
            self.walk.bounds.note_overflow();
        }
        self.files(node, directory, &files);
    }

    /// Whether the walk goes into it.
    fn visit_directory(&mut self, node: &Node, directory: &Directory, name: &CStr) -> bool {
        let end = self.path.len();
        self.append(name);
        let path = as_path(&self.path);
        let is_wanted = !self.walk.leaves_out(path, name.to_bytes(), true, node);
        if is_wanted {
            self.visit(directory, name, true);
        }
        self.path.truncate(end);
        is_wanted
    }

    fn files(&mut self, node: &Arc<Node>, directory: &Arc<Directory>, files: &[CString]) {
        let mut files = files;
        while !files.is_empty() {
            let (mine, rest) = files.split_at(files.len().min(SHARE));
            files = rest;
            if self.walk.queue.has_idle() && files.len() > SHARE {
                let (theirs, rest) = files.split_at(files.len() / 2);
                let work = Work::Files(Arc::clone(node), Arc::clone(directory), theirs.to_vec());
                if self.walk.queue.push([work]) {
                    files = rest;
                }
            }
            self.set_path(node, None);
            for name in mine {
                if self.walk.bounds.is_over() {
                    return;
                }
                self.file(node, directory, name);
            }
        }
    }

    fn file(&mut self, node: &Node, directory: &Directory, name: &CStr) {
        let end = self.path.len();
        self.append(name);
        if !self.walk.leaves_out(as_path(&self.path), name.to_bytes(), false, node) {
            self.visit(directory, name, false);
        }
        self.path.truncate(end);
    }

    fn visit(&mut self, directory: &Directory, name: &CStr, is_directory: bool) {
        let relative = as_path(&self.path[self.walk.top.len() + 1..]);
        let (path, excluded) = (as_path(&self.path), &self.walk.excluded);
        (self.visit)(&Entry { path, relative, is_directory, directory, name, excluded });
    }

    fn set_path(&mut self, node: &Arc<Node>, name: Option<&CStr>) {
        match &self.path_of {
            Some((at, end)) if Arc::ptr_eq(at, node) => self.path.truncate(*end),
            _ => {
                self.path.clear();
                self.path.extend_from_slice(&self.walk.top);
                node.append_path(&mut self.path);
                self.path_of = Some((Arc::clone(node), self.path.len()));
            }
        }
        if let Some(name) = name {
            self.append(name);
        }
    }

    fn append(&mut self, name: &CStr) {
        self.path.push(b'/');
        self.path.extend_from_slice(name.to_bytes());
    }
}

impl Entry<'_> {
    /// Opens the file for reading. `None` where it went meanwhile, or is hidden under
    /// another name.
    pub(crate) fn open_file(&self) -> io::Result<Option<File>> {
        let file = match self.directory.open_file(self.name) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_hidden = self.excluded.has(FileId::from_metadata(&file.metadata()?));
        Ok((!is_hidden).then_some(file))
    }

    /// When it was last changed. `None` as for [`Entry::open_file`].
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let (id, stat) = self.directory.stat(self.name).ok()?;
        if self.excluded.has(id) || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let nanos = Duration::from_nanos(stat.st_mtime_nsec);
        let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        let whole =
            if stat.st_mtime < 0 { epoch.checked_sub(seconds) } else { epoch.checked_add(seconds) };
        whole?.checked_add(nanos)
    }
}

/// What the ignore files above a directory say.
struct Above {
    rules: Option<Arc<Rules>>,
    /// Whether they leave out the directory itself, or one that it is in.
    leaves_out: bool,
}

/// Goes down from the root, which is open, to the directory at `to`.
fn above(root_path: &Path, root: Directory, to: &Path, reader: &Reader<'_>) -> Above {
    let mut above = Above { rules: Rules::above(root_path), leaves_out: false };
    let (mut here, mut path) = (root, root_path.to_owned());
    for part in to.strip_prefix(root_path).unwrap_or(Path::new("")).components() {
        let Component::Normal(name) = part else { break };
        let present = Present::look(&here);
        above.rules = Rules::within(above.rules.as_ref(), &here, &path, present, reader);
        path.push(name);
        let rules = above.rules.as_deref();
        above.leaves_out |= rules.is_some_and(|rules| rules.leave_out(&path, true));
        let Ok(name) = CString::new(name.as_bytes()) else { break };
        // What is searched may have moved since it was permitted; it is open already.
        let Ok(next) = here.open_directory(&name) else { break };
        here = next;
    }
    above
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
