//! A directory of a walk: its way from the top, its rules, and maybe its open handle.
//!
//! Names are linked upwards, so a tree of any depth takes memory in proportion to its
//! names, and only so many directories are kept open. The others are opened anew from
//! the nearest one that is.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rules::Rules;
use crate::workspace::Directory;

/// Directories that one walk keeps open while their own are waiting.
const MAX_KEPT: usize = 64;

#[derive(Debug)]
pub(super) struct Node {
    parent: Option<Arc<Node>>,
    name: CString,
    pub(super) depth: usize,
    pub(super) rules: Option<Arc<Rules>>,
    kept: Option<Kept>,
}

/// How many directories a walk keeps open.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenDirectories(Arc<AtomicUsize>);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) directory: Arc<Directory>,
    count: OpenDirectories,
}

impl OpenDirectories {
    /// Keeps one more open, if there is room.
    pub(super) fn keep(&self, directory: &Arc<Directory>) -> Option<Kept> {
        let grows = |count: usize| (count < MAX_KEPT).then_some(count + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(set, fetch, grows).ok()?;
        Some(Kept { directory: Arc::clone(directory), count: self.clone() })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Node {
    /// The directory that is walked. It stays open.
    pub(super) fn top(kept: Kept, rules: Option<Arc<Rules>>) -> Self {
        Self { parent: None, name: CString::default(), depth: 0, rules, kept: Some(kept) }
    }

    pub(super) fn below(
        parent: Arc<Node>,
        name: CString,
        rules: Option<Arc<Rules>>,
        kept: Option<Kept>,
    ) -> Self {
        let depth = parent.depth + 1;
        Self { parent: Some(parent), name, depth, rules, kept }
    }

    pub(super) fn open(&self) -> io::Result<Arc<Directory>> {
        let mut names: Vec<&CStr> = Vec::new();
        let mut node = self;
        loop {
            match (&node.kept, &node.parent) {
                (Some(kept), _) if names.is_empty() => return Ok(Arc::clone(&kept.directory)),
                (Some(kept), _) => {
                    names.reverse();
                    return kept.directory.open_below(&names).map(Arc::new);
                }
                (None, Some(parent)) => {
                    names.push(&node.name);
                    node = parent;
                }
                (None, None) => return Err(io::ErrorKind::NotFound.into()),
            }
        }
    }

    /// Appends the path from the top, each name behind a slash.
    pub(super) fn append_path(&self, path: &mut Vec<u8>) {
        let mut names: Vec<&CStr> = Vec::with_capacity(self.depth);
        let mut node = self;
        while let Some(parent) = &node.parent {
            names.push(&node.name);
            node = parent;
        }
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name.to_bytes());
        }
    }
}

/// One after the other: by itself, each would drop the next inside its own drop, and a
/// deep tree would overflow the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            next = node.parent.take();
        }
    }
}
