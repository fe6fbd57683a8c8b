//! Generates directory trees: files of many kinds, ignore files, repositories and links.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::encoding::Encoding;
use crate::text::printable;
use crate::tools::tool::test_support::Workspace;

/// Both sides leave out the directories of version control systems.
pub(super) const NO_VCS_DIRECTORIES: [&str; 6] =
    ["!.git", "!.svn", "!.hg", "!.bzr", "!.jj", "!.sl"];

const DIRECTORIES: [&str; 10] =
    ["", "d/", "d/e/", "d/e/d/", "e/", ".h/", "a b/", "-x/", "build/", ".svn/"];

/// Some are also names of directories.
const NAMES: [&[u8]; 20] = [
    b"a",
    b"b",
    b"d",
    b"e",
    b"a.rs",
    b"b.rs",
    b"c.md",
    b"e.txt",
    b"x.py",
    b".dot",
    b"Z",
    b"-l",
    b"--files",
    b"x:1:",
    b"[a]",
    "ä.rs".as_bytes(),
    b"line\nend.rs",
    b"\x1b[2J.md",
    b"\xff.rs",
    b"a.c",
];

/// Names that an answer escapes.
const ESCAPED: [&[u8]; 3] = [b"line\nend.rs", b"\x1b[2J.md", b"\xff.rs"];

const RULES: [&str; 34] = [
    "a",
    "/a",
    "d/",
    "d",
    "!a",
    "d/a",
    "**/b",
    "*.rs",
    "!d/",
    "/d/*",
    "d/**",
    "[ab]",
    "!/e/a",
    "e",
    "*",
    "!b",
    "# no rule",
    "",
    "!*.rs",
    "/*",
    "!/d",
    "**/d/e/**",
    "a/**/b",
    "\\!a",
    "a ",
    "a\\ b",
    "?",
    "*.{rs,md}",
    "[",
    "!*/",
    "./a",
    ".dot",
    "/d/e/",
    "build",
];

const LINES: [&str; 22] = [
    "needle",
    "a needle here",
    "hay",
    "Needle",
    "NEEDLE needle",
    "needle needle needle",
    "",
    "größe Größe GRÖSSE",
    "foo(bar)",
    "\tneedle",
    "  ",
    "no",
    "e",
    "x needle\u{feff}",
    "a:1:b-2-c",
    "ünder\u{2028}needle",
    "\u{1b}[31mneedle",
    "here",
    "needle here",
    "\r",
    "{",
    "word",
];

#[derive(Clone, Debug)]
pub(super) struct Tree {
    files: Vec<Planned>,
    ignores: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    repositories: Vec<(&'static str, Repository)>,
    /// Whether the root lies in a repository.
    is_in_repository: bool,
}

#[derive(Clone, Debug)]
struct Planned {
    directory: &'static str,
    name: &'static [u8],
    kind: Kind,
    lines: Vec<&'static str>,
    /// Seconds. Some files have the same age.
    age: u64,
}

/// How the lines of a file become bytes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    WithoutLastNewline,
    CarriageReturns,
    Marked,
    Utf16LittleEndian,
    Utf16BigEndian,
    /// With bytes that are no UTF-8.
    Latin1,
    NulFirst,
    /// Behind what a searcher reads at once.
    NulLate,
    /// A line that is too long to show, with what the lines hold.
    LongLine,
    /// Longer than what a searcher reads at once.
    Long,
}

#[derive(Clone, Copy, Debug)]
enum Repository {
    Git,
    GitFile,
    Jujutsu,
}

pub(super) fn tree() -> impl Strategy<Value = Tree> {
    let kinds = vec![
        Kind::Text,
        Kind::Text,
        Kind::Text,
        Kind::WithoutLastNewline,
        Kind::CarriageReturns,
        Kind::Marked,
        Kind::Utf16LittleEndian,
        Kind::Utf16BigEndian,
        Kind::Latin1,
        Kind::NulFirst,
        Kind::NulLate,
        Kind::LongLine,
        Kind::Long,
    ];
    let directory = || select(DIRECTORIES.as_slice());
    let file = (
        directory(),
        select(NAMES.as_slice()),
        select(kinds),
        vec(select(LINES.as_slice()), 0..9),
        0_u64..5,
    );
    let file = file.prop_map(|(directory, name, kind, lines, age)| Planned {
        directory,
        name,
        kind,
        lines,
        age,
    });
    let ignore = (
        directory(),
        select(&[".gitignore", ".gitignore", ".ignore", ".rgignore", ".git/info/exclude"][..]),
        vec(select(RULES.as_slice()), 1..4),
    );
    let repositories =
        vec![Repository::Git, Repository::Git, Repository::GitFile, Repository::Jujutsu];
    let repository = (directory(), select(repositories));
    (vec(file, 0..24), vec(ignore, 0..6), vec(repository, 0..3), prop::bool::weighted(0.2))
        .prop_map(|(files, ignores, repositories, is_in_repository)| Tree {
            files,
            ignores,
            repositories,
            is_in_repository,
        })
}

/// A tree on the disk.
pub(super) struct Planted {
    pub(super) workspace: Workspace,
    _above: tempfile::TempDir,
}

impl Tree {
    pub(super) fn plant(&self) -> Planted {
        self.plant_with(Planned::bytes)
    }

    /// The same tree with every file in UTF-8, as Read shows it. Line ends lose their carriage
    /// returns, unless the search is about these.
    pub(super) fn plant_as_shown(&self, plain_line_ends: bool) -> Planted {
        self.plant_with(|planned| as_shown(planned.bytes(), plain_line_ends))
    }

    fn plant_with(&self, bytes: impl Fn(&Planned) -> Vec<u8>) -> Planted {
        let above = tempfile::tempdir().unwrap();
        if self.is_in_repository {
            fs::create_dir(above.path().join(".git")).unwrap();
        }
        let root = above.path().join("root");
        for directory in DIRECTORIES {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (directory, kind) in &self.repositories {
            kind.make(&root.join(directory));
        }
        for (directory, name, rules) in &self.ignores {
            let path = root.join(directory).join(name);
            // A `.git` that is a file holds no rules.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                fs::write(path, rules.join("\n")).unwrap();
            }
        }
        let born = SystemTime::now();
        for planned in &self.files {
            planned.write(&root, born, &bytes(planned));
        }
        _ = symlink("a", root.join("link"));
        _ = symlink("d", root.join("link to d"));
        _ = symlink("..", root.join("d/up"));
        Planted { workspace: Workspace::at(&root), _above: above }
    }
}

impl Repository {
    fn make(self, directory: &Path) {
        // A second one at the same place may find the name taken.
        match self {
            Self::Git => _ = fs::create_dir(directory.join(".git")),
            Self::GitFile => _ = File::create_new(directory.join(".git")),
            Self::Jujutsu => _ = fs::create_dir(directory.join(".jj")),
        }
    }
}

impl Planned {
    fn write(&self, root: &Path, born: SystemTime, bytes: &[u8]) {
        let path = root.join(self.directory).join(OsStr::from_bytes(self.name));
        // Some names are those of directories.
        if fs::write(&path, bytes).is_ok() {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(born - Duration::from_secs(self.age)).unwrap();
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let text: String = self.lines.iter().flat_map(|line| [line, "\n"]).collect();
        let utf16 = |bytes: fn(u16) -> [u8; 2]| {
            std::iter::once('\u{feff}')
                .chain(text.chars())
                .collect::<String>()
                .encode_utf16()
                .flat_map(bytes)
                .collect()
        };
        match self.kind {
            Kind::Text => text.into_bytes(),
            Kind::WithoutLastNewline => self.lines.join("\n").into_bytes(),
            Kind::CarriageReturns => text.replace('\n', "\r\n").into_bytes(),
            Kind::Marked => format!("\u{feff}{text}").into_bytes(),
            Kind::Utf16LittleEndian => utf16(u16::to_le_bytes),
            Kind::Utf16BigEndian => utf16(u16::to_be_bytes),
            Kind::Latin1 => text
                .bytes()
                .flat_map(|byte| match byte {
                    b'e' => vec![b'e', 0xff],
                    byte => vec![byte],
                })
                .collect(),
            Kind::NulFirst => [b"\0", text.as_bytes()].concat(),
            Kind::NulLate => {
                [text.as_bytes(), padding().as_bytes(), b"\0\n", text.as_bytes()].concat()
            }
            Kind::LongLine => {
                format!("{text}{}{}\n", "x".repeat(500), self.lines.concat()).into_bytes()
            }
            Kind::Long => format!("{text}{}{text}", padding()).into_bytes(),
        }
    }
}

fn as_shown(bytes: Vec<u8>, plain_line_ends: bool) -> Vec<u8> {
    let recognised = || Encoding::recognise(&bytes, true).ok().filter(|it| !it.is_utf_8());
    let bytes = match Encoding::by_mark(&bytes).or_else(recognised) {
        Some(encoding) => encoding.decode(&bytes).0.into_owned().into_bytes(),
        None => bytes,
    };
    if plain_line_ends { replaced(&bytes, b"\r\n", b"\n") } else { bytes }
}

/// More than a searcher reads at once, in a few lines.
fn padding() -> String {
    format!("{}\n", "-".repeat(400)).repeat(180)
}

impl Planted {
    /// Text of ripgrep's with the names as an answer shows them.
    pub(super) fn shown(output: &[u8]) -> String {
        let mut output = output.to_vec();
        for name in ESCAPED {
            output = replaced(&output, name, printable(name).as_bytes());
        }
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Sorts paths as an answer shows them.
    pub(super) fn newest_first(&self, shown: &str) -> (Reverse<SystemTime>, PathBuf) {
        let mut path = shown.as_bytes().to_vec();
        for name in ESCAPED {
            path = replaced(&path, printable(name).as_bytes(), name);
        }
        let path = PathBuf::from(OsString::from_vec(path));
        let modified = fs::metadata(self.workspace.root().join(&path)).unwrap().modified().unwrap();
        (Reverse(modified), path)
    }
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}
