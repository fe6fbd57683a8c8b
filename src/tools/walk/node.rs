//! Represents a directory of a walk by its name, its parent, its rules and maybe a handle.
//!
//! Each node holds only its own name and links to its parent, so a deep tree takes memory in
//! proportion to its names. Only a limited number of directories stays open. The others are
//! opened again, starting at the nearest open one above.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rules::Rules;
use crate::workspace::Directory;

/// Directories that one walk keeps open while their entries wait.
const MAX_KEPT: usize = 64;

#[derive(Debug)]
pub(super) struct Node {
    parent: Option<Arc<Node>>,
    name: CString,
    pub(super) depth: usize,
    pub(super) rules: Option<Arc<Rules>>,
    kept: Option<Kept>,
}

/// Counts the directories that a walk keeps open.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenDirectories(Arc<AtomicUsize>);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) directory: Arc<Directory>,
    count: OpenDirectories,
}

impl OpenDirectories {
    /// Keeps one more directory open. `None` if the limit is reached.
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
    /// The directory where the walk starts. It stays open, so that every node can be opened.
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

    /// The open directory of this node, opened again if it was not kept.
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

    /// Appends the path from the top, with a slash before each name.
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

/// Drops the parents in a loop. The derived drop would recurse, and overflow the stack in a deep
/// tree.
impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            next = node.parent.take();
        }
    }
}
