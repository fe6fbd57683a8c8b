//! Does one thread's part of a walk: lists directories, and visits what the filter wants.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use super::entry::{Entry, LeftOut};
use super::{Verdict, Walk, Work};
use crate::tools::walk::ignore_files::Reader;
use crate::tools::walk::io_errors::{is_gone, reason};
use crate::tools::walk::node::Node;
use crate::tools::walk::rules::{Present, Rules};
use crate::workspace::Directory;

/// Entries of a directory that are read at a time.
const BATCH: usize = 4096;

/// Files that a thread visits before it checks whether another thread is idle.
const SHARE: usize = 32;

/// Bytes of the buffer into which the kernel lists a directory.
const LISTING: usize = 32 << 10;

/// One thread's part in a walk.
pub(super) struct Worker<'w, V> {
    walk: &'w Walk,
    visit: V,
    buffer: Vec<u8>,
    path: Vec<u8>,
    /// The directory whose path is at the beginning of `path`, and the length of that path.
    path_of: Option<(Arc<Node>, usize)>,
    /// The directory that was read last. The next one is usually in it.
    last: Option<(Arc<Node>, Arc<Directory>)>,
}

impl<'w, V: FnMut(&Entry<'_>)> Worker<'w, V> {
    pub(super) fn new(walk: &'w Walk, visit: V) -> Self {
        let buffer = Vec::with_capacity(LISTING);
        Self { walk, visit, buffer, path: Vec::new(), path_of: None, last: None }
    }

    pub(super) fn step(&mut self, work: Work) {
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
            // It has vanished, or something else has taken its name.
            Err(error) if is_gone(&error) => return,
            Err(error) => {
                let reason = reason(&error);
                return self.walk.bounds.not_searched(as_path(&self.path), &reason);
            }
        };
        // A bind mount can show a hidden directory under another path.
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
        // The node was opened again by its names. Another directory may have taken one of them
        // since, so check for hidden files again.
        if self.walk.excluded.has(directory.id()?) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(directory)
    }

    /// Reads a directory from its beginning. Its ignore files must be read before any entry is
    /// visited.
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
            // An ignore file may come later in the listing.
            if has_more {
                present = Present::look(directory);
            }
            let reader =
                Reader { bounds: &walk.bounds, rules_left: &walk.rules_left, is_too_deep: false };
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

    /// Visits the files of a batch. Queues its directories and the rest of the listing.
    fn take(
        &mut self,
        node: &Arc<Node>,
        directory: &Arc<Directory>,
        mut entries: Vec<(CString, FileType)>,
        mut has_more: bool,
    ) {
        loop {
            // The rest is queued before the directories, so that they are done first: the
            // queue is a stack. If no more directories may stay open, the listing is read to
            // its end at once.
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
                FileType::Directory if self.visit_directory(node, directory, &name, is_deepest) => {
                    later.push(Work::Directory(Arc::clone(node), name));
                }
                FileType::RegularFile => files.push(name),
                FileType::Symlink => self.visit_link(node, directory, &name, is_deepest),
                _ => {}
            }
        }
        if !self.walk.queue.push(later) {
            self.walk.bounds.note_overflow();
        }
        self.files(node, directory, &files);
    }

    /// Visits a directory. Returns whether the walk should enter it.
    fn visit_directory(
        &mut self,
        node: &Node,
        directory: &Directory,
        name: &CStr,
        is_deepest: bool,
    ) -> bool {
        let end = self.path.len();
        self.append(name);
        let verdict = self.walk.judge(as_path(&self.path), name.to_bytes(), true, node);
        match verdict {
            Verdict::Wanted => self.visit(directory, name, true, None),
            // Nothing that is wanted lies below the deepest level.
            Verdict::LeftOut(why) if !is_deepest => self.visit(directory, name, true, Some(why)),
            Verdict::LeftOut(_) | Verdict::Unwanted => {}
        }
        self.path.truncate(end);
        verdict == Verdict::Wanted && !is_deepest
    }

    /// Shows a link to the visitor, if the walk would look at what it may lead to.
    fn visit_link(&mut self, node: &Node, directory: &Directory, name: &CStr, is_deepest: bool) {
        let end = self.path.len();
        self.append(name);
        let judge = |is_directory| {
            self.walk.judge(as_path(&self.path), name.to_bytes(), is_directory, node)
        };
        let is_wanted_as_directory = !is_deepest && judge(true) == Verdict::Wanted;
        let is_wanted_as_file = judge(false) == Verdict::Wanted;
        if is_wanted_as_directory || is_wanted_as_file {
            let why = LeftOut::Link { is_wanted_as_file };
            self.visit(directory, name, is_wanted_as_directory, Some(why));
        }
        self.path.truncate(end);
    }

    fn files(&mut self, node: &Arc<Node>, directory: &Arc<Directory>, files: &[CString]) {
        let mut files = files;
        while !files.is_empty() {
            let (mine, rest) = files.split_at(files.len().min(SHARE));
            files = rest;
            if self.walk.queue.has_idle() && files.len() > SHARE {
                // An idle thread takes half of the rest, with the open directory.
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
        match self.walk.judge(as_path(&self.path), name.to_bytes(), false, node) {
            Verdict::Wanted => self.visit(directory, name, false, None),
            Verdict::LeftOut(why) => self.visit(directory, name, false, Some(why)),
            Verdict::Unwanted => {}
        }
        self.path.truncate(end);
    }

    fn visit(
        &mut self,
        directory: &Directory,
        name: &CStr,
        is_directory: bool,
        left_out: Option<LeftOut>,
    ) {
        let (path, excluded) = (as_path(&self.path), &self.walk.excluded);
        let relative = self.walk.relative(path);
        (self.visit)(&Entry { path, relative, is_directory, left_out, directory, name, excluded });
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

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
