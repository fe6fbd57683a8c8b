//! Names the file or directory that a call reaches: as the call names it, and as it really is.

use std::path::Path;

use super::path_lists::PathList;
use super::path_pattern::PatternRoots;

/// A path as rules and lists see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReachedPath<'a> {
    /// As the call names it.
    pub(super) asked: &'a Path,
    /// With every link resolved.
    pub(super) real: &'a Path,
    /// Both below the roots that hold them: the lists do not ask where a root itself lies, unless
    /// it is below `/etc`.
    pub(super) below_roots: [&'a Path; 2],
    pub(super) is_directory: bool,
    /// Whether it lies beneath no root.
    pub(super) is_outside: bool,
}

impl<'a> ReachedPath<'a> {
    /// The pattern of the list that covers the path, be it by the link or by its target.
    pub(super) fn on(&self, list: &PathList) -> Option<&'static str> {
        let [asked, real] = self.below_roots;
        let by_link = || if asked == real { None } else { list.covering(asked) };
        list.covering(real).or_else(by_link).or_else(|| list.covering_settings(self.real))
    }

    /// A file that a search has met, by its real path.
    pub(super) fn met(path: &'a Path, is_directory: bool, roots: &PatternRoots) -> Self {
        let below = roots.below(path);
        let (below_roots, is_outside) = ([below.unwrap_or(path); 2], below.is_none());
        Self { asked: path, real: path, below_roots, is_directory, is_outside }
    }

    #[cfg(test)]
    pub(super) fn for_test(asked: &'a Path, real: &'a Path) -> Self {
        let below = |path: &'a Path| path.strip_prefix("/ws").unwrap_or(path);
        let below_roots = [below(asked), below(real)];
        let is_outside = !real.starts_with("/ws");
        Self { asked, real, below_roots, is_directory: false, is_outside }
    }
}
