//! Tells quickly that no pattern of a list covers a path. Most calls reach what no rule is about,
//! and there may be a thousand rules.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use ignore::gitignore::Gitignore;

use super::path_pattern::{self, Anchor, PathPattern, PatternRoots};
use super::reached::ReachedPath;

/// All patterns of a list, by where they count from.
#[derive(Clone, Debug)]
pub(super) struct PathIndex(Vec<Group>);

#[derive(Clone, Debug)]
struct Group {
    anchor: Anchor,
    /// Patterns that cover only what begins with a certain name.
    first_names: HashSet<OsString>,
    /// The others. `None`: together they are more than a matcher takes.
    others: Option<Gitignore>,
}

impl PathIndex {
    pub(super) fn new<'a>(patterns: impl IntoIterator<Item = &'a PathPattern>) -> Self {
        let mut groups: Vec<(Group, Vec<String>)> = Vec::new();
        for pattern in patterns {
            let at = groups.iter().position(|(group, _)| group.anchor == pattern.anchor);
            let at = at.unwrap_or_else(|| {
                let (anchor, first_names) = (pattern.anchor.clone(), HashSet::new());
                groups.push((Group { anchor, first_names, others: None }, Vec::new()));
                groups.len() - 1
            });
            let (group, lines) = &mut groups[at];
            match pattern.first_name() {
                Some(name) => _ = group.first_names.insert(name.into()),
                None => lines.push(pattern.line()),
            }
        }
        let with_others = groups.into_iter().map(|(group, lines)| {
            let others = path_pattern::matcher(lines.iter().map(String::as_str)).ok();
            Group { others, ..group }
        });
        Self(with_others.collect())
    }

    /// Whether a pattern may cover the path, as it is named or as it really is. `false` is
    /// certain.
    pub(super) fn may_cover(&self, reached: ReachedPath<'_>, roots: &PatternRoots) -> bool {
        let ReachedPath { asked, real, is_directory, .. } = reached;
        let may_cover =
            |path| self.0.iter().any(|group| group.may_cover(path, is_directory, roots));
        may_cover(real) || (asked != real && may_cover(asked))
    }
}

impl Group {
    fn may_cover(&self, path: &Path, is_directory: bool, roots: &PatternRoots) -> bool {
        let mut below = self.anchor.bases(roots).filter_map(|base| path.strip_prefix(base).ok());
        below.any(|rest| {
            // A name may be written in several ways, and only the pattern itself knows them.
            if !rest.as_os_str().is_ascii() {
                return true;
            }
            let first = rest.components().next();
            first.is_some_and(|first| self.first_names.contains(first.as_os_str()))
                || self
                    .others
                    .as_ref()
                    .is_none_or(|others| path_pattern::covers(others, rest, is_directory))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Many names are alike, so that patterns often meet paths.
        #[test]
        fn what_a_pattern_covers_is_never_missed(
            patterns in prop::collection::vec("(//|~/|/|\\./|)([ab*?. ]{1,3}/){0,3}(a|b|\\*|\\*\\*|[ab] |\\.)/?", 1..8),
            path in "/(ws|home|else)(/[ab. ]{1,3}){0,4}",
            is_directory: bool,
        ) {
            let roots = PatternRoots { home: "/home".into(), roots: vec!["/ws".into(), "/else".into()] };
            let patterns: Vec<PathPattern> =
                patterns.iter().filter_map(|pattern| PathPattern::parse(pattern).ok()).collect();
            let path = Path::new(&path);
            let reached = ReachedPath { is_directory, ..ReachedPath::for_test(path, path) };
            let covers = patterns.iter().any(|it| it.covers(path, is_directory, &roots));
            let index = PathIndex::new(&patterns);
            prop_assert!(!covers || index.may_cover(reached, &roots));
        }
    }

    #[test]
    fn files_4_a_name_in_another_normal_form_is_not_missed() {
        let roots = PatternRoots { home: "/home".into(), roots: vec!["/ws".into()] };
        let index = PathIndex::new(&[PathPattern::parse("/caf\u{e9}/**").unwrap()]);
        let path = Path::new("/ws/cafe\u{301}/x");
        assert!(index.may_cover(ReachedPath::for_test(path, path), &roots));
    }

    #[test]
    fn most_paths_are_known_to_be_covered_by_none() {
        let roots = PatternRoots { home: "/home".into(), roots: vec!["/ws".into()] };
        let patterns = ["private/**", "/a/b", "*.key", "~/notes", "//etc/x", "docs/"];
        let patterns = patterns.map(|pattern| PathPattern::parse(pattern).unwrap());
        let index = PathIndex::new(&patterns);
        let may = |path: &str| {
            let path = Path::new(path);
            index.may_cover(ReachedPath::for_test(path, path), &roots)
        };
        for path in ["/ws/private/x", "/ws/a/b/c", "/ws/x/y.key", "/home/notes", "/etc/x"] {
            assert!(may(path), "{path}");
        }
        for path in ["/ws/src/private/x", "/ws/b/a", "/ws/key", "/home/x", "/usr/x", "/ws"] {
            assert!(!may(path), "{path}");
        }
    }
}
