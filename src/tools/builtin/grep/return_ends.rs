//! Lets the searcher find the lines of a file that has no `\n`: they end at `\r`, as in Read.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use memchr::memchr;

use crate::encoding::Encoding;
use crate::tools::walk::Bounds;

/// Bytes that are looked at once.
const PIECE: usize = 64 << 10;

/// Whether the lines of a file end at `\r` alone, as far as it was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReturnEnds {
    /// `None`: no line has ended yet.
    is_so: Option<bool>,
    /// Bytes that were read.
    at: u64,
}

impl ReturnEnds {
    /// Changes nothing.
    pub(super) fn left_alone() -> Self {
        Self { is_so: Some(false), at: 0 }
    }

    /// Puts `\n` at the ends of lines, in the next bytes of the file. Most files have one soon,
    /// and nothing more is looked at.
    pub(super) fn replace(&mut self, read: &mut [u8], file: &File, bounds: &Bounds) {
        if self.is_so.is_none() {
            // In UTF-16 a `\r` is no byte of its own.
            let is_wide = self.at == 0 && Encoding::by_mark(read).is_some_and(|it| !it.is_utf_8());
            self.at += read.len() as u64;
            self.is_so = match () {
                () if is_wide || memchr(b'\n', read).is_some() => Some(false),
                () if memchr(b'\r', read).is_some() => Some(has_no_feed(file, self.at, bounds)),
                () => None,
            };
        }
        if self.is_so == Some(true) {
            read.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
    }
}

/// Whether there is no `\n` from here on.
fn has_no_feed(file: &File, mut at: u64, bounds: &Bounds) -> bool {
    let mut piece = vec![0; PIECE];
    while !bounds.is_over() {
        match file.read_at(&mut piece, at) {
            Ok(0) => return true,
            Ok(read) if memchr(b'\n', &piece[..read]).is_none() => at += read as u64,
            Ok(_) | Err(_) => return false,
        }
    }
    false
}
