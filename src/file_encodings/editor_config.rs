//! The `charset` that `.editorconfig` files name for a file.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use crate::encoding::DeclaredEncoding;
use crate::named_file;

/// The largest `.editorconfig` that is read.
const MAX_BYTES: u64 = 64 << 10;

/// The longest pattern of a section. Longer ones fit nothing.
const MAX_PATTERN_BYTES: usize = 1024;

/// The most numbers of a range such as `{1..3}`.
const MAX_NUMBERS: i64 = 1000;

/// What one `.editorconfig` says of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Finding {
    /// The last charset of the sections that fit, as it is written.
    charset: Option<String>,
    /// Whether those of the directories above do not count.
    is_root: bool,
}

/// The encoding that the nearest `.editorconfig` names for a file: of its directory, or of one
/// above it. Reads from disk.
pub(super) fn encoding(path: &Path) -> Option<DeclaredEncoding> {
    for directory in path.ancestors().skip(1) {
        let Ok((bytes, _)) = named_file::read(&directory.join(".editorconfig"), MAX_BYTES) else {
            continue;
        };
        let below = path.strip_prefix(directory).ok()?;
        let finding = Finding::of(&String::from_utf8_lossy(&bytes), below);
        if let Some(charset) = finding.charset {
            // `unset` is the name of no encoding.
            return DeclaredEncoding::parse(&charset);
        }
        if finding.is_root {
            return None;
        }
    }
    None
}

impl Finding {
    /// `below` is the path of the file below the directory of the `.editorconfig`.
    fn of(text: &str, below: &Path) -> Self {
        let mut finding = Self::default();
        let mut is_before_sections = true;
        let mut fits = false;
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                is_before_sections = false;
                let pattern = rest.rfind(']').map(|end| &rest[..end]);
                fits = pattern.is_some_and(|pattern| is_fitting(pattern, below));
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            // Behind a blank, a comment may follow.
            let value = value.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            match key.trim().to_ascii_lowercase().as_str() {
                "root" if is_before_sections => finding.is_root = value == "true",
                "charset" if fits => finding.charset = Some(value),
                _ => {}
            }
        }
        finding
    }
}

fn is_fitting(pattern: &str, below: &Path) -> bool {
    let Some(matcher) = matcher(pattern) else { return false };
    matcher.is_match(below)
}

/// A pattern with a slash counts from the directory of its file, another one for names at any
/// depth.
fn matcher(pattern: &str) -> Option<GlobMatcher> {
    if pattern.is_empty() || MAX_PATTERN_BYTES < pattern.len() {
        return None;
    }
    let pattern = with_numbers(pattern)?;
    let whole = match pattern.strip_prefix('/') {
        Some(anchored) => anchored.to_owned(),
        None if pattern.contains('/') => pattern,
        None => format!("**/{pattern}"),
    };
    let built = GlobBuilder::new(&whole).literal_separator(true).backslash_escape(true).build();
    built.ok().map(|glob| glob.compile_matcher())
}

/// Writes the braces of a pattern as a glob has them: a range of numbers becomes its numbers, and
/// braces without alternatives are characters like others.
fn with_numbers(pattern: &str) -> Option<String> {
    let mut glob = String::new();
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        glob.push_str(&rest[..open]);
        let inner = &rest[open + 1..];
        let Some(close) = inner.find(['{', '}']) else {
            glob.push_str("\\{");
            rest = inner;
            continue;
        };
        let content = &inner[..close];
        if inner[close..].starts_with('{') || content.contains(',') {
            glob.push('{');
            rest = inner;
            continue;
        }
        match content.split_once("..") {
            Some((first, last)) => glob.push_str(&numbers(first, last)?),
            None => glob.extend(["\\{", content, "\\}"]),
        }
        rest = &inner[close + 1..];
    }
    glob.push_str(rest);
    Some(glob)
}

/// The alternatives of a range of numbers, such as `{1,2,3}`.
fn numbers(first: &str, last: &str) -> Option<String> {
    let one: i64 = first.parse().ok()?;
    let other: i64 = last.parse().ok()?;
    let smallest = one.min(other);
    let largest = one.max(other);
    if MAX_NUMBERS < largest.checked_sub(smallest)? {
        return None;
    }
    let numbers: Vec<String> = (smallest..=largest).map(|number| number.to_string()).collect();
    Some(format!("{{{}}}", numbers.join(",")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn charset(text: &str, below: &str) -> Option<String> {
        Finding::of(text, Path::new(below)).charset
    }

    #[test]
    fn files_1_sections_fit_as_in_editors() {
        for (pattern, fitting, other) in [
            ("*", "a/b/c.txt", None),
            ("*.c", "a/b/c.c", Some("a/b/c.h")),
            ("*.{c,h}", "c.h", Some("c.rs")),
            ("{*.c,Makefile}", "x/Makefile", Some("x/Makefile.am")),
            ("/*.c", "c.c", Some("a/c.c")),
            ("src/*.c", "src/c.c", Some("src/a/c.c")),
            ("src/**.c", "src/c.c", Some("lib/c.c")),
            ("src/**/c.c", "src/a/b/c.c", Some("a/c.c")),
            ("{src,lib}/**", "lib/a/b", Some("bin/a")),
            ("v{1..3}.txt", "v2.txt", Some("v4.txt")),
            ("v{-1..1}.txt", "v-1.txt", Some("v2.txt")),
            ("[abc].txt", "b.txt", Some("d.txt")),
            ("[!abc].txt", "d.txt", Some("b.txt")),
            ("?.txt", "a.txt", Some("ab.txt")),
            ("{single}.txt", "{single}.txt", Some("single.txt")),
            ("a{b.txt", "a{b.txt", Some("ab.txt")),
            ("{a,{b,c}}.txt", "c.txt", Some("d.txt")),
        ] {
            let text = format!("[{pattern}]\ncharset = latin1\n");
            assert_eq!(charset(&text, fitting).as_deref(), Some("latin1"), "{pattern}");
            let found = other.and_then(|other| charset(&text, other));
            assert_eq!(found, None, "{pattern} {other:?}");
        }
        for pattern in ["{1..9999999999}", "{-9223372036854775808..9223372036854775807}", "[", ""] {
            assert_eq!(charset(&format!("[{pattern}]\ncharset = latin1"), "1"), None, "{pattern}");
        }
    }

    #[test]
    fn files_1_the_last_section_that_fits_counts_and_lines_may_be_odd() {
        let text = "\u{feff}# x\r\nno line\r\nROOT = True\r\n[*]\r\nCharset = GBK ; why\r\n\
                    [*.h]\r\ncharset=big5\r\nroot = false\r\n; end";
        let finding = Finding::of(text, Path::new("a.c"));
        assert_eq!((finding.charset.as_deref(), finding.is_root), (Some("gbk"), true));
        assert_eq!(charset(text, "a.h").as_deref(), Some("big5"));
        assert_eq!(charset("charset = gbk\n", "a"), None);
    }

    #[test]
    fn files_1_the_nearest_file_counts_up_to_a_root() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let named = || encoding(&deep.join("x.c")).map(DeclaredEncoding::name);
        let put = |directory: &str, text: &str| {
            fs::write(home.path().join(directory).join(".editorconfig"), text).unwrap();
        };

        put("", "[*.c]\ncharset = gbk\n");
        assert_eq!(named(), Some("GBK"));
        put("a", "[*]\nindent_size = 4\n");
        assert_eq!(named(), Some("GBK"));
        put("a", "[b/*.c]\ncharset = big5\n");
        assert_eq!(named(), Some("Big5"));
        put("a/b", "[*.c]\ncharset = unset\n");
        assert_eq!(named(), None);
        put("a/b", "root = true\n");
        assert_eq!(named(), None);
    }

    #[test]
    fn files_1_what_is_no_regular_file_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(home.path().join(".editorconfig"), "[*]\ncharset = gbk\n").unwrap();
        let own = inner.join(".editorconfig");
        let named = || encoding(&inner.join("x.c")).map(DeclaredEncoding::name);

        mkfifoat(CWD, &own, Mode::RUSR).unwrap();
        assert_eq!(named(), Some("GBK"));
        fs::remove_file(&own).unwrap();
        symlink("/dev/zero", &own).unwrap();
        assert_eq!(named(), Some("GBK"));
        fs::remove_file(&own).unwrap();
        let long = format!("[*]\ncharset = big5\n{}", "# x\n".repeat(1 << 16));
        fs::write(&own, long).unwrap();
        assert_eq!(named(), Some("GBK"));
    }
}
