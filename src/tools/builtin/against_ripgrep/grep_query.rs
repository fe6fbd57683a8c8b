//! Generates the arguments of Grep, and the flags of ripgrep that mean the same.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::tree::NO_VCS_DIRECTORIES;

const PATTERNS: [&str; 41] = [
    "needle",
    "Needle",
    "NEEDLE",
    "needle|hay",
    "^needle",
    "needle$",
    r"\bneedle\b",
    "n.*e",
    "größe",
    "GRÖSSE",
    r"\w+",
    r"\w+\s+needle",
    r"foo\(bar\)",
    "zzz",
    "",
    "^",
    "$",
    "^$",
    r"^\s*$",
    r"\s",
    "(?i)needle",
    "e",
    "[^e]needle",
    r"\r",
    r"needle\r?$",
    r"[^a]",
    r"\xff",
    r"\x00",
    r"(?-u)\xff",
    r"\p{Lu}",
    ".",
    "needle\n",
    r"here\s+needle",
    r"a\n",
    r"\n\n",
    "(?s)a.*e",
    r"hay$\s^needle",
    r"\Aneedle",
    r"needle\z",
    "(",
    "a{,",
];

const GLOBS: [&str; 18] = [
    "*.rs",
    "*.{rs,md}",
    "*.rs, *.txt",
    "*.rs !a.rs",
    "!*.rs",
    "!d",
    "!d/",
    "d/**",
    "/d/*",
    "d/e",
    "**/e/*",
    "a",
    "[ab]",
    "?",
    ".dot",
    "*",
    "{a,d/{e,x}/*}",
    "{a",
];

const TYPES: [&str; 5] = ["rust", "py", "md", "txt", "rusty"];

/// Directories, files, links, and one place that may not be there.
const PATHS: [&str; 13] =
    [".", "d", "d/", "d/e", "./d", "e", "build", ".h", "a", "d/a", "a.rs", "link", "link to d"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Content,
    Files,
    Count,
}

#[derive(Clone, Debug)]
pub(super) struct GrepQuery {
    pattern: &'static str,
    path: Option<&'static str>,
    glob: Option<&'static str>,
    file_type: Option<&'static str>,
    pub(super) mode: Mode,
    after: Option<usize>,
    before: Option<usize>,
    around: Option<usize>,
    line_numbers: Option<bool>,
    ignore_case: bool,
    only_matching: bool,
    multiline: bool,
    /// Lines of a page, where the answer is read in pages.
    pub(super) page: usize,
}

pub(super) fn query() -> impl Strategy<Value = GrepQuery> {
    let context = || option::weighted(0.3, 0_usize..4);
    let mode = select(vec![Mode::Content, Mode::Content, Mode::Files, Mode::Count]);
    let filters = (
        select(PATTERNS.as_slice()),
        option::weighted(0.3, select(PATHS.as_slice())),
        option::weighted(0.3, select(GLOBS.as_slice())),
        option::weighted(0.15, select(TYPES.as_slice())),
    );
    let form = (mode, context(), context(), context(), option::weighted(0.3, any::<bool>()));
    let flags = (any::<bool>(), prop::bool::weighted(0.25), prop::bool::weighted(0.3), 1_usize..40);
    (filters, form, flags).prop_map(|(filters, form, flags)| {
        let (pattern, path, glob, file_type) = filters;
        let (mode, after, before, around, line_numbers) = form;
        let (ignore_case, only_matching, multiline, page) = flags;
        GrepQuery {
            pattern,
            path,
            glob,
            file_type,
            mode,
            after,
            before,
            around,
            line_numbers,
            ignore_case,
            only_matching,
            multiline,
            page,
        }
    })
}

impl GrepQuery {
    pub(super) fn arguments(&self, offset: usize, limit: usize) -> Value {
        json!({
            "pattern": self.pattern,
            "path": self.path,
            "glob": self.glob,
            "type": self.file_type,
            "output_mode": match self.mode {
                Mode::Content => "content",
                Mode::Files => "files_with_matches",
                Mode::Count => "count",
            },
            "-A": self.after,
            "-B": self.before,
            "-C": self.around,
            "-n": self.line_numbers,
            "-i": self.ignore_case,
            "-o": self.only_matching,
            "multiline": self.multiline,
            "head_limit": limit,
            "offset": offset,
        })
    }

    /// Whether the search is about carriage returns, which Read does not show.
    pub(super) fn is_of_carriage_returns(&self) -> bool {
        self.pattern == r"\r"
    }

    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = vec!["--sort=path".to_owned()];
        let mut flag = |flag: &str| flags.push(flag.to_owned());
        match self.mode {
            Mode::Content if self.line_numbers.unwrap_or(true) => flag("-n"),
            Mode::Content => flag("-N"),
            Mode::Files => flag("-l"),
            Mode::Count => flag("-c"),
        }
        for (name, lines) in [("-A", self.after), ("-B", self.before), ("-C", self.around)] {
            // Beside `-l` and `-c`, ripgrep has no use for context either.
            if let Some(lines) = lines {
                flag(&format!("{name}{lines}"));
            }
        }
        if self.ignore_case {
            flag("-i");
        }
        if self.only_matching {
            flag("-o");
        }
        if self.multiline {
            flag("-U");
            flag("--multiline-dotall");
        }
        if let Some(name) = self.file_type {
            flag(&format!("--type={name}"));
        }
        let globs = self.glob.iter().flat_map(|globs| globs.split([' ']));
        for glob in globs.map(|glob| glob.trim_end_matches(',')).chain(NO_VCS_DIRECTORIES) {
            flag(&format!("--glob={glob}"));
        }
        flag("-e");
        flag(self.pattern);
        flag("--");
        flag(self.path.unwrap_or("."));
        flags
    }
}
