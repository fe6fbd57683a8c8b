//! Matches paths by the pattern of a rule, in the syntax of ignore files.

mod spelling;

use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use unicode_normalization::UnicodeNormalization as _;

use super::path_lists::PathList;
use crate::look_alike;

/// What means something else than itself in a pattern. A space does at the end.
const SPECIAL: [char; 9] = ['*', '?', '[', ']', '{', '}', '\\', '!', ' '];

/// A pattern, and the directory that it counts from.
#[derive(Clone, Debug)]
pub(super) struct PathPattern {
    pub(super) anchor: Anchor,
    matcher: Gitignore,
    /// The pattern behind its anchor.
    written: String,
    /// Covers the path alone, and nothing below it.
    is_exact: bool,
}

/// With none of these a pattern stands for one path.
const WILDCARDS: [char; 5] = ['*', '?', '[', '\\', '{'];

/// Where a pattern counts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// `//path`
    FileSystem,
    /// `~/path`
    Home,
    /// `/path`: the workspace.
    Workspace,
    /// `/path` in the user's settings file: the directory that holds its `.claude`.
    Directory(PathBuf),
    /// Anything else: each root.
    Roots,
}

/// The directories that patterns count from, with every link resolved.
#[derive(Clone, Debug)]
pub(super) struct PatternRoots {
    pub(super) home: PathBuf,
    /// The workspace, then the additional directories.
    pub(super) roots: Vec<PathBuf>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("the pattern is empty")]
    Empty,
    #[error("a pattern cannot begin with {0:?}; escape it with a backslash")]
    Beginning(char),
    #[error("a pattern has no \"..\"; write the path that is meant")]
    Parent,
    #[error("the only home a pattern can name is the server's own: ~/")]
    ForeignHome,
    #[error("a pattern has no control characters")]
    Control,
    #[error("a [ is never closed; write \\[ for the character itself")]
    UnclosedClass,
    #[error("[…] takes single characters and ranges only, no /, backslash or [:name:]")]
    Class,
    #[error("{{}} stands for no name; write {{a,b}}, or \\{{ for the character itself")]
    NoAlternative,
    #[error(
        "a backslash stands only before a character that means something else, such as \\*; names are separated by /"
    )]
    Backslash,
    #[error("remove the // or /./ in the pattern")]
    Name,
    #[error(
        "variables are not replaced; write ~/ for the home directory and // for the root, or \\$ for the character itself"
    )]
    Variable,
    #[error("this is a URL or a Windows path; write //path for a path from the root")]
    Foreign,
    #[error("remove the blank at the start of the pattern")]
    Blank,
    #[error("{0}")]
    Syntax(String),
}

impl PatternRoots {
    /// The path below the innermost root that holds it.
    pub(super) fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let below = self.roots.iter().filter_map(|root| path.strip_prefix(root).ok());
        below.min_by_key(|rest| rest.as_os_str().len())
    }
}

impl PathPattern {
    pub(super) fn parse(pattern: &str) -> Result<Self, PatternError> {
        if pattern.chars().any(char::is_control) {
            return Err(PatternError::Control);
        }
        if pattern.split('/').any(|name| name == "..") {
            return Err(PatternError::Parent);
        }
        spelling::check_beginning(pattern)?;
        let (anchor, written) = anchored(pattern)?;
        if written.trim_matches('/').is_empty() {
            return Err(PatternError::Empty);
        }
        spelling::check(written)?;
        let as_written = line(&anchor, written);
        let normal = look_alike::normal_text(&as_written);
        let lines = [as_written.as_str(), &*normal];
        let is_normal = lines[0] == lines[1];
        let matcher = matcher(lines.into_iter().skip(usize::from(is_normal)));
        let matcher = matcher.map_err(|error| PatternError::Syntax(error.to_string()))?;
        Ok(Self { anchor, matcher, written: written.to_owned(), is_exact: false })
    }

    /// Makes it cover no more than the path, whatever is below.
    pub(super) fn make_exact(&mut self) {
        self.is_exact = true;
    }

    /// The pattern as a line of an ignore file in the directory that it counts from.
    pub(super) fn line(&self) -> String {
        line(&self.anchor, &self.written)
    }

    /// The name with which every path begins that the pattern covers, below where it counts
    /// from; `None` if it may be several.
    pub(super) fn first_name(&self) -> Option<&str> {
        let is_plain = !self.written.contains(WILDCARDS) && !self.written.ends_with(' ');
        let written = self.written.trim_start_matches('/');
        let is_anchored =
            self.anchor != Anchor::Roots || self.written.trim_end_matches('/').contains('/');
        let first = written.split('/').next().filter(|first| !["", "."].contains(first))?;
        let is_known = is_plain || !first.contains(WILDCARDS) && written.contains('/');
        (is_anchored && is_known).then_some(first)
    }

    /// The pattern for this path. `None`: no pattern can name it.
    pub(super) fn exact(path: &Path) -> Option<String> {
        let mut pattern = String::from("/");
        for letter in path.to_str()?.chars() {
            if SPECIAL.contains(&letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        Self::parse(&pattern).is_ok().then_some(pattern)
    }

    /// Whether the pattern covers the path, or a directory above it. Names that are one in Unicode's
    /// normal form count as the same: file tools take the one for the other.
    pub(super) fn covers(&self, path: &Path, is_directory: bool, roots: &PatternRoots) -> bool {
        let mut below = self.anchor.bases(roots).filter_map(|base| path.strip_prefix(base).ok());
        below.any(|rest| {
            if self.matches(rest, is_directory) {
                return true;
            }
            if rest.as_os_str().is_ascii() {
                return false;
            }
            self.matches(&look_alike::normal_path(rest), is_directory)
        })
    }

    fn matches(&self, below: &Path, is_directory: bool) -> bool {
        if self.is_exact {
            self.matcher.matched(below, is_directory).is_ignore()
        } else {
            covers(&self.matcher, below, is_directory)
        }
    }

    /// Makes a `/` in front mean this directory instead of the workspace.
    pub(super) fn count_from(&mut self, directory: &Path) {
        if self.anchor == Anchor::Workspace {
            self.anchor = Anchor::Directory(directory.to_owned());
        }
    }

    /// Whether the pattern counts from a directory that need not be in the workspace.
    pub(super) fn is_absolute(&self) -> bool {
        matches!(self.anchor, Anchor::FileSystem | Anchor::Home)
    }

    /// Whether the pattern, read as a path, is itself on the list.
    pub(super) fn names(&self, list: &PathList) -> bool {
        list.covering(Path::new(&self.written)).is_some()
    }

    /// The paths that can be protected as a whole where the pattern denies to change them: those
    /// that it names, and the directories of which it covers all. `None` for another pattern.
    pub(super) fn whole_paths(&self, roots: &PatternRoots) -> Option<Vec<PathBuf>> {
        let whole = self.written.strip_suffix("/**").unwrap_or(&self.written);
        if whole.contains(WILDCARDS) || whole.trim_matches('/').is_empty() {
            return None;
        }
        let rest = whole.trim_matches('/');
        Some(self.anchor.bases(roots).map(|base| base.join(rest)).collect())
    }

    /// The paths that the pattern names, if it has no wildcard, in each of Unicode's normal forms.
    pub(super) fn literal_paths(&self, roots: &PatternRoots) -> Vec<PathBuf> {
        if self.written.contains(WILDCARDS) {
            return Vec::new();
        }
        let rest = self.written.trim_matches('/');
        let mut spellings = vec![rest.to_owned()];
        for spelling in [rest.nfc().collect::<String>(), rest.nfd().collect()] {
            if !spellings.contains(&spelling) {
                spellings.push(spelling);
            }
        }
        let bases = self.anchor.bases(roots);
        bases.flat_map(|base| spellings.iter().map(move |rest| base.join(rest))).collect()
    }
}

impl Anchor {
    /// The directories that patterns count from.
    pub(super) fn bases<'a>(&'a self, roots: &'a PatternRoots) -> impl Iterator<Item = &'a Path> {
        let (one, several): (Option<&Path>, &[PathBuf]) = match self {
            Self::FileSystem => (Some(Path::new("/")), &[]),
            Self::Home => (Some(&roots.home), &[]),
            Self::Directory(directory) => (Some(directory), &[]),
            Self::Workspace => (roots.roots.first().map(PathBuf::as_path), &[]),
            Self::Roots => (None, &roots.roots),
        };
        one.into_iter().chain(several.iter().map(PathBuf::as_path))
    }
}

fn line(anchor: &Anchor, written: &str) -> String {
    match anchor {
        Anchor::Roots => written.to_owned(),
        _ => format!("/{}", written.trim_start_matches('/')),
    }
}

/// Matches what any of the lines covers.
pub(super) fn matcher<'a>(
    lines: impl IntoIterator<Item = &'a str>,
) -> Result<Gitignore, ignore::Error> {
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        builder.add_line(None, line)?;
    }
    builder.build()
}

/// Whether the matcher covers the path, or a directory above it.
pub(super) fn covers(matcher: &Gitignore, path: &Path, is_directory: bool) -> bool {
    matcher.matched_path_or_any_parents(path, is_directory).is_ignore()
}

/// The anchor of a pattern, and what stands behind it.
fn anchored(pattern: &str) -> Result<(Anchor, &str), PatternError> {
    if let Some(beginning) = pattern.chars().next().filter(|c| ['!', '#'].contains(c)) {
        return Err(PatternError::Beginning(beginning));
    }
    if let Some(rest) = pattern.strip_prefix("//") {
        return Ok((Anchor::FileSystem, rest));
    }
    if let Some(rest) = pattern.strip_prefix('~') {
        let rest = rest.strip_prefix('/').ok_or(PatternError::ForeignHome)?;
        return Ok((Anchor::Home, rest));
    }
    if let Some(rest) = pattern.strip_prefix("./") {
        return Ok((Anchor::Workspace, rest));
    }
    match pattern.strip_prefix('/') {
        Some(rest) => Ok((Anchor::Workspace, rest)),
        None => Ok((Anchor::Roots, pattern)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::path_lists::{PROTECTED, SENSITIVE};
    use super::*;

    fn roots() -> PatternRoots {
        PatternRoots { home: "/home/u".into(), roots: vec!["/ws".into(), "/data".into()] }
    }

    #[test]
    fn files_4_a_pattern_covers_a_name_in_each_normal_form() {
        let composed = "/ws/caf\u{e9}/\u{d55c}.txt";
        let decomposed = "/ws/cafe\u{301}/\u{1112}\u{1161}\u{11ab}.txt";
        for pattern in [
            "caf\u{e9}/\u{d55c}.txt",
            "cafe\u{301}/\u{1112}\u{1161}\u{11ab}.txt",
            "/caf\u{e9}/**",
            "cafe\u{301}/*",
            "\u{d55c}.txt",
        ] {
            check(pattern, &[composed, decomposed], &["/ws/cafe/x.txt"]);
        }
    }

    #[track_caller]
    fn check(pattern: &str, covered: &[&str], free: &[&str]) {
        let pattern = PathPattern::parse(pattern).unwrap();
        for path in covered {
            assert!(pattern.covers(Path::new(path), false, &roots()), "{path}");
        }
        for path in free {
            assert!(!pattern.covers(Path::new(path), false, &roots()), "{path}");
        }
    }

    #[test]
    fn a_pattern_counts_from_its_anchor() {
        check("//etc/*.conf", &["/etc/a.conf"], &["/ws/etc/a.conf", "/etc/a/b.conf"]);
        check("~/notes/**", &["/home/u/notes/a/b"], &["/ws/notes/a", "/home/u/notes2"]);
        check("/src/*.rs", &["/ws/src/a.rs"], &["/data/src/a.rs", "/ws/src/a/b.rs", "/src/a.rs"]);
        check("./src", &["/ws/src/a/b"], &["/data/src/a"]);
        check("*.rs", &["/ws/a.rs", "/ws/a/b.rs", "/data/a.rs"], &["/else/a.rs", "/ws/a.rst"]);
        check("src/*.rs", &["/ws/src/a.rs", "/data/src/a.rs"], &["/ws/a/src/b.rs"]);
        check("**", &["/ws/a", "/data/a/b"], &["/else"]);
        check(".env", &["/ws/.env", "/ws/a/.env", "/ws/.env/x"], &["/ws/.env2", "/home/u/.env"]);
    }

    #[test]
    fn a_neighbour_with_the_same_beginning_is_not_covered() {
        check("/src", &["/ws/src", "/ws/src/x"], &["/ws/srcs", "/ws-evil/src", "/ws/a/src"]);
    }

    #[test]
    fn a_pattern_may_name_what_a_list_covers() {
        let names =
            |pattern: &str, list: &PathList| PathPattern::parse(pattern).unwrap().names(list);
        assert!(names(".env", &SENSITIVE) && names("**/.env", &SENSITIVE));
        assert!(names("/config/secrets/**", &SENSITIVE) && names("~/.ssh/*", &SENSITIVE));
        assert!(names(".github/workflows/**", &PROTECTED));
        assert!(
            !names("**", &SENSITIVE) && !names("*", &SENSITIVE) && !names("src/**", &PROTECTED)
        );
    }

    #[test]
    fn what_could_be_misread_is_no_pattern() {
        let error = |pattern: &str| PathPattern::parse(pattern).unwrap_err().to_string();
        assert_eq!(error(""), "the pattern is empty");
        assert_eq!(error("//"), "the pattern is empty");
        assert!(error("!x").contains("'!'") && error("#x").contains("'#'"));
        assert!(error("a/../b").contains("\"..\""));
        assert!(error("~root/x").contains("~/"));
        assert!(error("a\nb").contains("control"));
        assert!(error("src/[a").contains("never closed") && error("//x/{a").contains("unclosed"));
        assert!(error("[z-a]").contains("range") && error("~/a//b").contains("remove the //"));
        assert!(error("a}").contains("unopened"));
    }

    #[test]
    fn a_pattern_of_brackets_and_stars_is_an_error_or_quick() {
        let path = format!("/ws/{}b", "a".repeat(4000));
        for piece in ["{", "[", "*", "*a", "**/", "{a,", "?", "\\"] {
            let pattern = piece.repeat(990 / piece.len());
            if let Ok(pattern) = PathPattern::parse(&pattern) {
                pattern.covers(Path::new(&path), false, &roots());
            }
        }
    }

    #[test]
    fn a_literal_pattern_gives_its_paths() {
        let paths = |pattern: &str| PathPattern::parse(pattern).unwrap().literal_paths(&roots());
        assert_eq!(paths(".env"), [PathBuf::from("/ws/.env"), "/data/.env".into()]);
        assert_eq!(paths("//etc/x"), [PathBuf::from("/etc/x")]);
        assert_eq!(paths("/a/b"), [PathBuf::from("/ws/a/b")]);
        let both = [PathBuf::from("/ws/caf\u{e9}"), "/ws/cafe\u{301}".into()];
        assert_eq!(paths("/caf\u{e9}"), both);
        assert!(paths("*.env").is_empty());
    }
}
